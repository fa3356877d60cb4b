"""The step `index_shards`: the same bytes whoever works, however often it is ended half-way."""

import gzip
import hashlib
import io
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from PIL import Image
from pydantic import ValidationError

from mispair.core import files
from mispair.core.files import UserError
from mispair.core.reuse import tidy
from mispair.pairs.index import index as shard_index
from mispair.pairs.index import index_parts, parts
from mispair.pairs.index.faults import ImageLimits
from mispair.pairs.index.image_list import ImageList, by_name
from mispair.pairs.index.index import ShardIndex, index_shard
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards import shard_writer
from mispair.pairs.steps import index_shards, read_captions
from tests.pairs.indexing import index_group, list_and_index, list_group

ROOT = Path(__file__).parents[2]
READ_LOG = "INDEX_TEST_READ_LOG"


def jpeg(seed: int, side: int = 24) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "JPEG")
    return buffer.getvalue()


def write_shards(folder: Path, shards: int, pairs: int = 6) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for shard in range(shards):
        rows = []
        for sample in range(pairs):
            key = shard_writer.key_of(shard, sample, 1000)
            content = jpeg(shard * pairs + sample)
            url = f"http://example.org/{key}"
            row = shard_writer.img2dataset_row(key, content, f"caption of {key}", url, 24, 24)
            rows.append((content, row))
        shard_writer.write_shard(folder, shard, rows)
    return sorted(folder.glob("*.tar"))


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Nine shards, five of which are not what they seem."""
    found = write_shards(tmp_path_factory.mktemp("shards"), 9)
    found[1].write_bytes(found[1].read_bytes()[:7000])
    found[2].write_bytes(b"")
    found[3].write_bytes(gzip.compress(found[3].read_bytes()))
    found[4].write_text("<!doctype html><html><body>404 Not Found</body></html>")
    found[5].write_bytes(np.random.default_rng(0).bytes(20_000))
    return found


def run(
    shards: list[Path],
    folder: Path,
    workers: int = 1,
    captions: Path | None = None,
    sources: Sequence[str] = (),
    **settings: Any,
) -> tuple[Path, Path]:
    outputs = list_and_index(shards, folder, workers, captions, sources, **settings)
    names = [f"0000.{kind}parquet" for kind in ("images.", "", "rejected.", "unusable.")]
    assert sorted(path.name for path in folder.iterdir()) == [*names, "reuse"]
    return outputs


def tables(outputs: tuple[Path, Path]) -> tuple[Any, Any, dict[str, str]]:
    kept, metadata = files.read_parquet(outputs[0])
    rejected, same = files.read_parquet(outputs[1])
    assert metadata == same
    assert int(metadata["kept"]) == len(kept)
    assert int(metadata["rejected"]) == len(rejected)
    assert int(metadata["read"]) == len(kept) + len(rejected)
    return kept, rejected, metadata


def digests(outputs: tuple[Path, Path]) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in outputs]


def reading(
    shard: Path, policy: Policy, lookup: Any, alive: Callable[[], None], images: ImageList
) -> ShardIndex:
    """Read as always, and note it."""
    if READ_LOG in os.environ:
        with open(os.environ[READ_LOG], "a") as notes:
            notes.write(f"{shard.name}\n")
    return index_shard(shard, policy, lookup, alive, images)


def reading_slowly(*arguments: Any) -> ShardIndex:
    result = reading(*arguments)
    time.sleep(0.5)
    return result


def failing(
    shard: Path, policy: Policy, lookup: Any, alive: Callable[[], None], images: ImageList
) -> ShardIndex:
    """Fail on some shards as a decoder written in C may."""
    number = int(shard.stem)
    if number == 1:
        time.sleep(600)
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        os._exit(7)
    if number == 6:
        raise ValueError("unforeseen")
    return index_shard(shard, policy, lookup, alive, images)


def test_the_tables_of_good_and_damaged_shards(shards, tmp_path):
    outputs = run(shards, tmp_path)
    kept, rejected, metadata = tables(outputs)
    assert pq.read_schema(outputs[0]).equals(index_parts.KEPT)
    assert pq.read_schema(outputs[1]).equals(index_parts.REJECTED)
    whole = [0, 6, 7, 8]
    expected = [f"{shard:05d}{sample:03d}" for shard in whole for sample in range(6)]
    own = kept[kept["shard"] != "00001.tar"]  # what stands before a cut is whole
    assert list(own["key"]) == expected
    assert set(kept["caption"]) == {f"caption of {key}" for key in kept["key"]}
    damaged = rejected[rejected["reason"] == "damaged-shard"]
    assert sorted(damaged["shard"]) == [f"0000{n}.tar" for n in range(1, 6)]
    for _, row in kept.iterrows():
        shard = next(shard for shard in shards if shard.name == row["shard"])
        content = shard.read_bytes()[row["image_offset"] :][: row["image_bytes"]]
        assert hashlib.sha256(content).hexdigest() == row["sha256"]
    assert json.loads(metadata["downloads"]) == {"success": 9 * 6}
    written = json.loads(metadata["written"])
    assert written == {"expected": 9 * 6, "missing": 9 * 6 - len(kept), "surplus": 0}
    assert metadata["ignored"] == "0"


def test_one_row_group_for_each_shard_in_order_however_many_workers(shards, tmp_path):
    seen = []
    for workers in (1, 3):
        (tmp_path / str(workers)).mkdir()
        seen.append(run(shards[::-1], tmp_path / str(workers), workers))
    assert digests(seen[0]) == digests(seen[1])
    with pq.ParquetFile(seen[0][0]) as opened:
        groups = [
            opened.read_row_group(number).column("shard").unique().to_pylist()
            for number in range(opened.num_row_groups)
        ]
    names = [name for group in groups for name in group]
    assert all(len(group) == 1 for group in groups)
    assert names == sorted(set(names))
    assert names[0] == "00000.tar"
    assert names[-1] == "00008.tar"


@pytest.mark.usefixtures("without_workers")
def test_no_pair_at_all_makes_the_same_columns(shards, tmp_path):
    outputs = run(shards[2:3], tmp_path)
    assert pq.read_schema(outputs[0]).equals(index_parts.KEPT)
    kept, rejected, _ = tables(outputs)
    assert kept.empty
    assert len(rejected) == 1


@pytest.mark.usefixtures("without_workers")
def test_names_and_texts_that_no_table_holds(tmp_path):
    names = [b"good", b"\xff\xfe", b"../up", b"/root", b"x" * 200, b"line\nend"]
    shard = tmp_path / "in" / "00000.tar"
    shard.parent.mkdir()
    with tarfile.open(shard, "w", format=tarfile.GNU_FORMAT) as tar:
        for number, name in enumerate(names):
            stem = name.decode("utf-8", "surrogateescape")
            sidecar = b'{"url": "\\ud800", "status": "\\u0000", "sha256": 3}'
            for end, content in ((".jpg", jpeg(number)), (".txt", b"text"), (".json", sidecar)):
                shard_writer.add_member(tar, stem + end, content)
    (tmp_path / "out").mkdir()
    kept, rejected, metadata = tables(run([shard], tmp_path / "out"))
    assert metadata["read"] == str(len(names))
    assert {"good", "x" * 200} <= set(kept["key"])
    assert list(rejected["reason"]) == ["undecodable-key"]
    assert rejected["key"][0].isprintable()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_a_shard_that_no_worker_survives(tmp_path, monkeypatch, caplog):
    shards = write_shards(tmp_path / "in", 8)
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(shard_index, "index_shard", failing)
    list_group(shards, tmp_path / "out")
    with caplog.at_level(logging.INFO):
        outputs = index_group(shards, tmp_path / "out", 3, stall_seconds=3)
    kept, rejected, metadata = tables(outputs)
    assert sorted(set(kept["shard"])) == [f"0000{n}.tar" for n in (0, 2, 4, 7)]
    assert not kept["key"].duplicated().any()
    assert len(kept) == 4 * 6
    assert list(rejected["shard"]) == [f"0000{n}.tar" for n in (1, 3, 5, 6)]
    assert set(rejected["reason"]) == {"lost-worker"}
    for detail, words in zip(
        rejected["detail"],
        ("no sign of life for 3 seconds", "SIGKILL", "exit code 7", "ValueError: unforeseen"),
        strict=True,
    ):
        assert words in detail
    assert metadata["read"] == "28"
    assert "00000.tar: read 6, kept 6, rejected 0, " in caplog.text
    assert "8 shards: read 28, kept 24, rejected 4\n  lost-worker                  4   14.29 %" in (
        caplog.text
    )


def end_half_way(
    shards: list[Path], folder: Path, workers: int, log: Path, how: signal.Signals
) -> None:
    """Run the step in a process group of its own, and end it once it is half done."""
    code = (
        # As at a terminal: a shell has jobs in its background ignore Ctrl-C.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from pathlib import Path; from tests.pairs import test_step_index_shards as t;"
        "t.shard_index.index_shard = t.reading_slowly;"
        f"t.run([Path(p) for p in {[str(shard) for shard in shards]}], Path({str(folder)!r}),"
        f"{workers})"
    )
    path = os.pathsep.join([str(ROOT / "workflow"), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": path, READ_LOG: str(log)}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    ) as parent:
        deadline = time.monotonic() + 120
        while len(log.read_text().split()) < len(shards) // 2 + workers:
            assert time.monotonic() < deadline
            assert parent.poll() is None
            time.sleep(0.02)
        children = psutil.Process(parent.pid).children(recursive=True)
        if how is signal.SIGINT:  # as Ctrl-C, which reaches the workers too
            os.killpg(parent.pid, how)
        else:
            parent.send_signal(how)
    psutil.wait_procs(children, timeout=10)
    assert not any(child.is_running() and child.status() != "zombie" for child in children)


@pytest.mark.usefixtures("without_workers")
@pytest.mark.parametrize(
    ("workers", "how"), [(1, signal.SIGKILL), (2, signal.SIGINT), (2, signal.SIGTERM)]
)
def test_a_killed_job_goes_on_where_it_was(workers, how, tmp_path, monkeypatch, caplog):
    shards = write_shards(tmp_path / "in", 8)
    for folder in ("out", "undisturbed"):
        (tmp_path / folder).mkdir()
    log = tmp_path / "log"
    log.touch()
    end_half_way(shards, tmp_path / "out", workers, log, how)
    before = log.read_text().split()
    assert len(before) == len(set(before))
    written = {path.name for path in (tmp_path / "out").iterdir()}
    written.discard("0000.parquet.parts")  # the lock of a job that was killed
    assert written == {"0000.images.parquet", "0000.unusable.parquet", "reuse"}

    monkeypatch.setenv(READ_LOG, str(log))
    monkeypatch.setattr(shard_index, "index_shard", reading)
    with caplog.at_level(logging.INFO):
        resumed = run(shards, tmp_path / "out")
    times = Counter(log.read_text().split())
    assert set(times) == {shard.name for shard in shards}
    assert times.total() <= len(shards) + workers
    assert f"of {len(shards)} shards were read before" in caplog.text
    assert digests(resumed) == digests(run(shards, tmp_path / "undisturbed"))


@pytest.fixture
def after_a_failure(tmp_path, monkeypatch, without_workers) -> tuple[list[Path], Path, Path]:
    """All shards but the last are read, then the disk of the output was full."""
    shards = write_shards(tmp_path / "in", 4)
    out, log = tmp_path / "out", tmp_path / "log"
    out.mkdir()
    monkeypatch.setenv(READ_LOG, str(log))
    monkeypatch.setattr(shard_index, "index_shard", reading)

    def fail(*_: Any, **__: Any) -> None:
        raise UserError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(index_parts, "gather", fail)
        with pytest.raises(UserError, match="disk is full"):
            run(shards, out)
    assert sorted(log.read_text().split()) == [shard.name for shard in shards]
    log.write_text("")
    return shards, out, log


def test_a_changed_shard_is_read_again(after_a_failure):
    shards, out, log = after_a_failure
    state = shards[2].stat()
    os.utime(shards[2], ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    run(shards, out)
    assert log.read_text().split() == ["00002.tar"]


def test_a_changed_policy_reads_all_again(after_a_failure):
    shards, out, log = after_a_failure
    _, rejected, _ = tables(run(shards, out, max_words=2))
    assert len(log.read_text().split()) == 4
    assert set(rejected["reason"]) == {"caption-length"}


@pytest.mark.usefixtures("without_workers")
def test_other_groups_of_the_same_shards_read_the_new_ones_alone(tmp_path, monkeypatch):
    shards = write_shards(tmp_path / "in", 4)
    read: list[str] = []

    def noting(real: Callable[..., Any]) -> Callable[..., Any]:
        def noted(shard: Path, *rest: Any, **more: Any) -> Any:
            read.append(shard.name)
            return real(shard, *rest, **more)

        return noted

    for module, name in ((parts, "list_images"), (shard_index, "index_shard")):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    (tmp_path / "out").mkdir()
    run(shards[:3], tmp_path / "out")
    assert sorted(read) == sorted(2 * [shard.name for shard in shards[:3]])
    read.clear()
    regrouped = run(shards[1:], tmp_path / "out")
    assert read == 2 * [shards[3].name]
    (tmp_path / "afresh").mkdir()
    assert digests(regrouped) == digests(run(shards[1:], tmp_path / "afresh"))
    tidy(tmp_path / "out")
    read.clear()
    run(shards, tmp_path / "out")
    assert read == 2 * [shards[0].name]


def test_a_half_written_part_is_no_part(after_a_failure):
    shards, out, log = after_a_failure
    parts = out / "reuse"
    indexed = (p for p in parts.glob("00001.*.parquet") if "row" in pq.read_schema(p).names)
    (whole,) = indexed
    whole.rename(parts / f".{whole.name}.0123abcd.part")
    kept, _, _ = tables(run(shards, out))
    assert log.read_text().split() == ["00001.tar"]
    assert len(kept) == 24


def test_a_shard_that_is_missing_or_named_alike(tmp_path):
    shards = write_shards(tmp_path / "a", 1) + write_shards(tmp_path / "b", 1)
    with pytest.raises(UserError, match="b/00000.tar and .*a/00000.tar have the same file name"):
        run(shards, tmp_path)
    with pytest.raises(UserError, match="c.tar: cannot be read .No such file"):
        run([tmp_path / "c.tar"], tmp_path)


@pytest.mark.usefixtures("without_workers")
def test_which_groups_have_rows_of_a_reason(shards, tmp_path):
    rejected = []
    for name, some, settings in (
        ("a", shards[:1], {}),
        ("b", shards[2:4], {}),
        ("c", shards[6:], {"min_words": 9}),
    ):
        (tmp_path / name).mkdir()
        rejected.append(run(some, tmp_path / name, **settings)[1])
    found = index_parts.groups_rejected_for
    assert found(["damaged-shard"], rejected) == rejected[1:2]
    assert found(["caption-length", "damaged-shard"], rejected) == rejected[1:]
    assert found(["lost-worker"], rejected) == []
    with pytest.raises(UserError, match="damaged: no such reason. The reasons are ambiguous-key"):
        found(["damaged"], rejected)
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        found(["lost-worker"], [shards[0]])


def permuted(shards: list[Path], folder: Path, drop: float) -> tuple[list[Path], set[str]]:
    """Rewrite shards with some images left out, and samples and shards in another order."""
    rng = random.Random(0)
    samples: dict[str, list[tuple[str, bytes]]] = {}
    for shard in shards:
        with tarfile.open(shard) as opened:
            for member in opened:
                content = opened.extractfile(member)
                assert content is not None
                samples.setdefault(member.name.split(".")[0], []).append(
                    (member.name, content.read())
                )
    keys = sorted(samples)
    survivors = rng.sample(keys, round(len(keys) * (1 - drop)))
    folder.mkdir()
    for number in range(3):
        with tarfile.open(folder / f"{number:05d}.tar", "w") as tar:
            for key in survivors[number::3]:
                for name, content in rng.sample(samples[key], len(samples[key])):
                    shard_writer.add_member(tar, name, content)
    return sorted(folder.glob("*.tar")), set(survivors)


@pytest.mark.usefixtures("without_workers")
@pytest.mark.parametrize("table_captions", ["replace", "augment"])
def test_captions_travel_by_key(table_captions, tmp_path):
    shards = write_shards(tmp_path / "in", 5, pairs=10)
    texts = {
        f"{shard:05d}{sample:03d}": f"rewritten\tcaption “{shard}·{sample}” "
        for shard in range(5)
        for sample in range(10)
        if (shard, sample) != (2, 2)
    }
    rows = [json.dumps({"key": key, "caption": [text, "b"]}) for key, text in texts.items()]
    random.Random(1).shuffle(rows)
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    captions = tmp_path / "captions.parquet"
    read_captions.run(
        read_captions.Settings(), table=[tmp_path / "t.jsonl"], key_list=[], captions=captions
    )
    fewer, survivors = permuted(shards, tmp_path / "fewer", drop=0.3)
    found = {}
    for name, some in (("all", shards), ("some", fewer)):
        (tmp_path / name).mkdir()
        outputs = run(some, tmp_path / name, 2, captions, table_captions=table_captions)
        kept, rejected, _ = tables(outputs)
        found[name] = {
            row["key"]: (row["caption"].encode(), tuple(row["more_captions"]))
            for _, row in kept.iterrows()
        }
        lacking = [] if table_captions == "augment" else ["00002002"]
        assert list(rejected["key"]) == [
            key for key in lacking if name == "all" or key in survivors
        ]
        assert set(rejected["reason"]) <= {"not-in-caption-table"}
    assert len(survivors) == 35
    assert set(found["some"]) == survivors & set(found["all"])
    for key, (caption, more) in found["some"].items():
        assert found["all"][key] == (caption, more)
        shown = [caption.decode(), *more]
        own = [f"caption of {key}"] if table_captions == "augment" else []
        written = [texts[key].strip(), "b"] if key in texts else []
        assert [text.strip() for text in shown] == own + written


MEASURE = """
import json, sys, threading, time
from pathlib import Path
import psutil
from tests.pairs.indexing import index_group, list_group

def tree():
    total = 0
    for process in [me, *me.children(recursive=True)]:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            pass
    return total

def watch():
    while not done:
        parts = sum(not path.name.startswith(".") for path in folder.glob("*.rejected.parquet"))
        parts -= 30 * (sys.argv[3] == "index")  # those of the list
        peaks[parts] = max(peaks.get(parts, 0), tree())
        time.sleep(0.02)

me, done, peaks = psutil.Process(), False, {}
shards, out = sorted(Path(sys.argv[1]).glob("*.tar")), Path(sys.argv[2])
step = {"list": list_group, "index": index_group}[sys.argv[3]]
folder = out / "reuse"
watcher = threading.Thread(target=watch)
watcher.start()
try:
    step(shards, out, 2)
finally:
    done = True
    watcher.join()
print(json.dumps(peaks))
"""


def test_memory_is_flat_over_thirty_shards(tmp_path):
    content = jpeg(0, side=128)
    (tmp_path / "in").mkdir()
    for shard in range(30):
        rows = []
        for sample in range(100):
            key = shard_writer.key_of(shard, sample, 1000)
            caption = f"{key} " + "word " * 5000
            rows.append((content, shard_writer.img2dataset_row(key, content, caption, "u", 1, 1)))
        shard_writer.write_shard(tmp_path / "in", shard, rows)
    size = sum(path.stat().st_size for path in (tmp_path / "in").glob("*.tar"))
    assert size > 80e6  # to hold them, or only their captions, would be seen
    (tmp_path / "out").mkdir()
    for step in ("list", "index"):
        told = subprocess.run(
            [sys.executable, "-c", MEASURE, tmp_path / "in", tmp_path / "out", step],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "workflow"), str(ROOT)])},
            capture_output=True,
            text=True,
            check=True,
        )
        peaks = {int(parts): peak for parts, peak in json.loads(told.stdout).items()}
        early = max(peak for parts, peak in peaks.items() if 5 <= parts <= 10)
        late = max(peak for parts, peak in peaks.items() if parts >= 25)
        assert late == pytest.approx(early, rel=0.1)
    assert pq.read_metadata(tmp_path / "out/0000.parquet").num_rows == 3000


def test_a_row_with_a_column_too_many_or_too_few_is_a_fault():
    row = {"key": "k", "shard": "s", "reason": "no-image", "detail": ""}
    for wrong in (row | {"more": 1}, {"key": "k", "shard": "s", "reason": "no-image"}):
        with pytest.raises(ValueError, match="a row has columns"):
            parts.table_of([wrong], index_parts.REJECTED)


@pytest.mark.parametrize("wrong", [
    {"empty_captions": "drop"},
    {"caption_from": ""},
    {"caption_from": "json:"},
    {"caption_from": "a b"},
    {"min_words": 5, "max_words": 4},
    {"stall_seconds": 0},
    {"max_image_pixels": 0},
    {"table_captions": "none"},
])  # fmt: skip
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(ValidationError):
        index_shards.Settings(**wrong)


@pytest.mark.usefixtures("without_workers")
def test_every_setting_of_taste_reaches_the_reader(shards, tmp_path, monkeypatch):
    seen: list[Any] = []
    original = parts.plan

    def spy(shards: Any, folder: Path, shared: list[str], *rest: Any) -> Any:
        seen.append(shared[0])
        return original(shards, folder, shared, *rest)

    monkeypatch.setattr(parts, "plan", spy)
    taste: dict[str, Any] = {
        "caption_from": "json:caption", "empty_captions": "keep", "control_characters": "keep",
        "min_words": 2, "max_words": 3, "max_characters": 5, "max_image_pixels": 7,
        "min_image_side": 11, "max_aspect_ratio": 13,
    }  # fmt: skip
    run(shards[:1], tmp_path, **taste)
    limits = {name: taste[name] for name in ImageLimits.model_fields}
    policy = Policy(**taste, table="none", join="key")
    assert seen == [repr(ImageLimits(**limits)), repr(policy)]
    assert policy != Policy()


@pytest.mark.usefixtures("without_workers")
def test_the_name_of_a_source_begins_its_keys(tmp_path):
    sources = ["cc3m", "cc3m", "mine"]
    shards = [*write_shards(tmp_path / "x", 2, 3), *write_shards(tmp_path / "y", 1, 3)]
    (tmp_path / "y/00000.tar").write_bytes((tmp_path / "y/00000.tar").read_bytes()[:-9_000])
    (tmp_path / "names").mkdir()
    kept, rejected, _ = tables(run(shards, tmp_path / "names", sources=sources))
    (tmp_path / "plain").mkdir()
    plain, _, _ = tables(run(shards[:2], tmp_path / "plain"))
    same = kept[kept["shard"].str.startswith("cc3m/")]
    assert same["key"].tolist() == ["cc3m/" + key for key in plain["key"]]
    assert same["shard"].tolist() == ["cc3m/" + name for name in plain["shard"]]
    assert kept["key"].is_unique
    assert {*rejected["shard"]} == {"mine/00000.tar"}
    assert all(key == "" or key.startswith("mine/") for key in rejected["key"])


@pytest.mark.usefixtures("without_workers")
def test_a_caption_table_has_the_keys_of_named_sources(tmp_path):
    shards = [*write_shards(tmp_path / "x", 1, 2), *write_shards(tmp_path / "y", 1, 2)]
    key = shard_writer.key_of(0, 0, 1000)
    (tmp_path / "t.csv").write_text(f"key,caption\nx/{key},a cup\ny/{key},a jug\n{key},no\n")
    table = tmp_path / "t.parquet"
    read_captions.run(
        read_captions.Settings(), table=[tmp_path / "t.csv"], key_list=[], captions=table
    )
    (tmp_path / "out").mkdir()
    kept, rejected, _ = tables(run(shards, tmp_path / "out", captions=table, sources=["x", "y"]))
    assert dict(zip(kept["key"], kept["caption"], strict=True)) == {
        f"x/{key}": "a cup", f"y/{key}": "a jug",
    }  # fmt: skip
    assert {*rejected["reason"]} == {"not-in-caption-table"}


def test_two_groups_of_equal_names_are_encoded(tmp_path):
    shards = [*write_shards(tmp_path / "x", 1, 2), *write_shards(tmp_path / "y", 1, 2)]
    assert by_name(shards, ["x", "y"]) == {
        "x/00000.tar": shards[0], "y/00000.tar": shards[1],
    }  # fmt: skip
    with pytest.raises(UserError, match="have the same file name"):
        by_name(shards, [])
