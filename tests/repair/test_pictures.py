"""Captions of pictures in shards, by captioners that fail in every way."""

import io
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from mispair.core import files, metrics
from mispair.core.files import UserError
from mispair.core.resume import Checkpoints, Interrupted
from mispair.pairs.index.image_list import by_name, locations
from mispair.pairs.index.index import index_shard
from mispair.pairs.index.policy import Policy
from mispair.repair.captioners import faults, functions
from mispair.repair.captioners.faults import Caption
from mispair.repair.captioners.functions import load_function, refuse_missing_function
from mispair.repair.captioners.pictures import Captioning, caption_shards
from mispair.repair.captioners.recaption_settings import Settings
from mispair.repair.steps import draw_examples
from tests.pairs.test_index import write_tar
from tests.repair import made_up

MADE_UP = "tests.repair.made_up"
REDS = (0, 30, 50, 70, 90, 110, 130, 150, 170, 200)
PER_SHARD = 10
NO_CAPTIONERS = (
    "caption = 3", "caption = -3", "caption = None", "caption = 'text'", "caption = [max]",
    "caption: int = 3", "one = caption = f'{3}'", "class caption: ...",
    "def caption(): ...", "def caption(images): ...", "def caption(images, *, seeds): ...",
    "def caption(images, seeds, device): ...", "def caption(images, seeds, *, device): ...",
    "caption = lambda images: images", "async def caption(images, seeds): ...",
)  # fmt: skip
MAY_BE_CAPTIONERS = (
    "def caption(images, seeds): ...", "def caption(images, seeds, device='cpu'): ...",
    "def caption(*all): ...", "def caption(images, *more, **options): ...",
    "def caption(images, seeds=None, *, device='cpu'): ...", "caption = lambda images, seeds: 1",
    "caption = None\ndef caption(images, seeds): ...",
    "caption = None\nif True:\n    from json import loads as caption",
    "from functools import partial\ndef blip(images): ...\ncaption = partial(blip, 1)",
    "class Blip:\n    def __call__(self, images, seeds): ...\ncaption = Blip()",
    "class caption(list): ...", "if True:\n    caption = 3",
    "from json import decorated\n@decorated\ndef caption(images): ...",
    "caption = 3\ndef later():\n    global caption\n    caption = max\nlater()",
    "caption = 3\nfor caption in (max,): ...", "caption, other = max, 3", "caption = caption",
    "def caption(images, seeds):\n    def inner():\n        yield 3\n    return [*inner()]",
)  # fmt: skip


def shards(folder: Path, reds: tuple[int, ...] = REDS, number: int = 2) -> pd.DataFrame:
    """Write shards whose pictures are red to several degrees; return their index."""
    tables = []
    for shard in range(number):
        members = []
        for place, red in enumerate(reds):
            name = f"{shard}{place:02d}"
            members += [(f"{name}.jpg", jpeg(red)), (f"{name}.txt", b"some caption")]
        path = write_tar(folder / f"{shard}.tar", members)
        tables += index_shard(path, Policy()).kept
    return pd.DataFrame(tables)


def jpeg(red: int) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (24, 24), (red, 10, 10)).save(target, "JPEG", quality=95)
    return target.getvalue()


def caption(
    folder: Path,
    index: pd.DataFrame,
    function: str,
    batch_size: int = 1,
    share: float = 1.0,
    stall: float = 30.0,
    states: Checkpoints | None = None,
) -> tuple[list[Caption], int]:
    name = f"{MADE_UP}:{function}"
    settings = Settings(
        captioner=name, max_words=10, batch_size=batch_size,
        stall_seconds=stall, max_failed_share=share,
    )  # fmt: skip
    given = by_name(sorted(folder.glob("*.tar")), [])
    captioning = Captioning(partial(load_function, name), given, locations(index), settings)
    rows = {name: [*map(int, of)] for name, of in index.groupby("shard").indices.items()}
    states = states or Checkpoints(folder / "states", "job")
    return caption_shards(captioning, rows, states)


def test_each_picture_has_its_caption(tmp_path: Path) -> None:
    index = shards(tmp_path)
    index = index.sample(frac=1, random_state=0, ignore_index=True)  # nothing relies on its order
    captions, resumed = caption(tmp_path, index, "colours", 4)
    assert resumed == 0
    for key, written in zip(index["key"], captions, strict=True):
        _, red, _, _ = written.text.split()
        assert abs(int(red) - REDS[int(key[1:])]) < 4
        assert written.reason is None
    seeds = [written.text.split()[-1] for written in captions]
    assert len(set(seeds)) == len(index)
    # A picture's seed depends on its key, not on the batch.
    (tmp_path / "again").mkdir()
    again, _ = caption(tmp_path, index, "colours", 3, states=Checkpoints(tmp_path / "again", "job"))
    assert again == captions


@pytest.mark.slow
def test_a_batch_that_fails_costs_its_own_captions_only(tmp_path: Path) -> None:
    index = shards(tmp_path, number=1)
    captions, _ = caption(tmp_path, index, "fails", stall=3.0)
    reasons = [written.reason for written in captions]
    assert reasons == [faults.FAILED] * 6 + [None] * 4
    assert {written.text for written in captions[:6]} == {""}


def test_many_failures_stop_the_job_and_nothing_finished_is_lost(tmp_path, monkeypatch) -> None:
    index = shards(tmp_path, (130, 150, 0, 0), 2)
    monkeypatch.setenv(made_up.CALLS, str(tmp_path / "calls"))
    states = Checkpoints(tmp_path / "states", "job")
    with pytest.raises(UserError, match="max_failed_share") as error:
        caption(tmp_path, index, "fails", 2, share=0.4, states=states)
    assert "no caption for so little red" in str(error.value)
    captions, _ = caption(tmp_path, index, "fails", 2, share=0.5, states=states)
    assert [written.reason for written in captions] == ([None] * 2 + [faults.FAILED] * 2) * 2
    # What failed is tried again by another job, and what did not is not.
    monkeypatch.setenv(made_up.CALLS, str(tmp_path / "more"))
    captions, resumed = caption(tmp_path, index, "colours", 2, states=states)
    assert [written.reason for written in captions] == [None] * 8
    assert resumed == 4
    assert (tmp_path / "more").read_text() == "2\n2\n"


def test_a_job_goes_on_at_the_shard_where_it_was_ended(tmp_path, monkeypatch) -> None:
    index = shards(tmp_path)
    expected, _ = caption(tmp_path, index, "colours", 5)
    calls = tmp_path / "calls"
    monkeypatch.setenv(made_up.CALLS, str(calls))

    def ending() -> bool:
        return calls.exists() and calls.read_text().count("\n") >= 2

    with pytest.raises(Interrupted):
        caption(tmp_path, index, "colours", 5, states=Checkpoints(tmp_path / "new", "job", ending))
    calls.unlink()
    states = Checkpoints(tmp_path / "new", "job")
    captions, resumed = caption(tmp_path, index, "colours", 5, states=states)
    assert captions == expected
    assert resumed >= PER_SHARD
    assert calls.read_text() == "5\n" * ((len(index) - resumed) // 5)
    # Other pictures of the same keys are captioned.
    (tmp_path / "0.tar").unlink()
    other = shards(tmp_path, REDS[::-1])
    captions, resumed = caption(tmp_path, other, "colours", 5, states=states)
    assert resumed == 0
    assert captions != expected


def test_unusable_captions_have_a_reason_and_others_are_cleaned(tmp_path: Path) -> None:
    index = shards(tmp_path, (50, 200), 1)
    captions, _ = caption(tmp_path, index, "poor", 2)
    assert captions == [Caption("no no no", faults.REPEATS_ITSELF), Caption("a red star")]
    captions, _ = caption(
        tmp_path, index, "nothing", 2, states=Checkpoints(tmp_path / "other", "nothing")
    )
    assert captions == [Caption("", faults.EMPTY)] * 2


@pytest.mark.parametrize("name", ["no_such_module:caption", f"{MADE_UP}:no", f"{MADE_UP}:number"])
def test_a_function_that_is_not_there(name: str) -> None:
    with pytest.raises(UserError, match="captioner"):
        load_function(name)


@pytest.mark.parametrize("name", ["json:loads", "os:PathLike", "string:digits", "sys:flags"])
def test_what_takes_no_pictures_and_seeds_is_refused_before_the_first_picture(name: str) -> None:
    """Also what only running its module shows."""
    with pytest.raises(UserError, match="function of two arguments"):
        load_function(name)


@pytest.mark.parametrize("statement", ["raise SystemExit", "1 / 0", "import no_such_package"])
def test_a_module_that_ends_when_it_is_loaded_is_refused(statement, tmp_path, monkeypatch) -> None:
    """As one that reads arguments of a command line."""
    monkeypatch.chdir(tmp_path)
    name = f"ends_{len(statement)}"
    (tmp_path / f"{name}.py").write_text(f"{statement}\ndef caption(images, seeds): ...\n")
    with pytest.raises(UserError, match=f"{name}:caption cannot be loaded.*Correct the module"):
        load_function(f"{name}:caption")


@pytest.mark.parametrize("configured_in", ["of configuration", "2024:01, {v2}"])
def test_a_module_next_to_a_configuration_is_found_by_dry_run_and_job(
    configured_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever folder the run is; it replaces no installed module, and may import others."""
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    monkeypatch.setenv(functions.FOLDERS, "")
    monkeypatch.setattr("sys.path", [*sys.path])
    folder = tmp_path / configured_in
    folder.mkdir()
    (folder / "beside_it.py").write_text(
        "def caption(images, seeds):\n    from also_beside_it import TEXT\n"
        "    return [[TEXT]] * len(images)\n"
    )
    (folder / "also_beside_it.py").write_text("TEXT = 'a red star'\n")
    (folder / "pyarrow.py").write_text("raise SystemExit\n")
    with pytest.raises(UserError, match=re.escape(str(tmp_path / "run"))):
        refuse_missing_function("beside_it:caption")
    functions.look_beside([folder / "mine.yaml"])
    refuse_missing_function("beside_it:caption")
    command = (
        "from mispair.repair.captioners.functions import load_function as load; import pyarrow;"
        "print(load('beside_it:caption').caption([None], [0])[0][0].text)"
    )
    job = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert job.stdout == "a red star\n", job.stderr


def test_a_changed_shard_stops_the_job(tmp_path: Path) -> None:
    index = shards(tmp_path, (130, 150), 1)
    shards(tmp_path, (150, 130), 1)
    with pytest.raises(UserError, match="changed"):
        caption(tmp_path, index, "colours", 2)


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (None, "nowhere_captions:caption", "no module nowhere_captions"),
        (None, "no.such.package:caption", "No module named 'no'"),
        ("def caption(a, b): ...", "mine_captions.py:caption", "write mine_captions:caption"),
        ("def other(): ...", "mine_captions:caption", "no function caption"),
        ("print(caption)", "mine_captions:caption", "no function caption"),
        ("def inner():\n    def caption(): ...", "mine_captions:caption", "no function caption"),
        ("def caption(:", "mine_captions:caption", "SyntaxError"),
        ("import no_blip\ndef caption(a, b): ...", "mine_captions:caption", "it imports no_blip"),
        ("from no_blip.x import y as caption", "mine_captions:caption", "it imports no_blip"),
        ("import sys\nsys.path.append('x')\nimport no_blip\ndef caption(a, b): ...",
         "mine_captions:caption", None),
        ("if 0:\n    import no_blip\nimport mine_captions\ndef caption(a, b): ...",
         "mine_captions:caption", None),
        ("raise SystemExit\ndef caption(a, b): ...", "mine_captions:caption", None),
        ("from json import loads as caption", "mine_captions:caption", None),
        ("if True:\n    caption = max", "mine_captions:caption", None),
        ("try:\n    import x\nexcept OSError:\n    def caption(a, b): ...", "mine_captions:caption",
         None),
        ("from json import *", "mine_captions:caption", None),
        ("caption = max", "mine_captions:caption", None),
        *((of, "mine_captions:caption", "function of two arguments") for of in NO_CAPTIONERS),
        *((of, "mine_captions:caption", None) for of in MAY_BE_CAPTIONERS),
    ],
)  # fmt: skip
def test_a_function_is_looked_up_before_the_first_job(source, name, message, tmp_path, monkeypatch):
    """Beside Snakemake's folder, and without running the user's module."""
    monkeypatch.chdir(tmp_path)
    if source is not None:
        (tmp_path / "mine_captions.py").write_text(source)
    if message is None:
        refuse_missing_function(name)
        return
    with pytest.raises(UserError) as raised:
        refuse_missing_function(name)
    assert message in str(raised.value)
    assert "recaption_pairs: captioner" in str(raised.value)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_examples_have_their_pictures_also_when_there_are_none(count: int, tmp_path: Path) -> None:
    """Not one new caption may be usable; then the piece is there, and the run goes on."""
    index = shards(tmp_path, number=1)
    files.write_parquet(tmp_path / "index.parquet", index)
    examples = [
        {"sample": "pairs", "key": key, "old": "a", "new": "b", "action": "replaced"}
        for key in index["key"][:count]
    ]
    provenance = {"repair": "factor", "nominal": "0.0", "examples": examples}
    metrics.write_metrics(tmp_path / "ledger.json", [], provenance)
    draw_examples.run(
        draw_examples.Settings(), ledgers=[tmp_path / "ledger.json"],
        index=[tmp_path / "index.parquet"], shards=[tmp_path / "0.tar"], sources=[],
        examples=tmp_path / "examples.html",
    )  # fmt: skip
    assert (tmp_path / "examples.html").read_text().count("<img") == count
