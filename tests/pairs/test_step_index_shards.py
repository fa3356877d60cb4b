"""The step `index_shards`: the same bytes whoever works, however often it is ended half-way."""

import gzip
import hashlib
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
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from mispair.core import files
from mispair.core.files import UserError
from mispair.core.reuse import tidy
from mispair.pairs.index import index as shard_index
from mispair.pairs.index import index_parts, parts
from mispair.pairs.index.faults import ImageLimits
from mispair.pairs.index.index import ShardIndex, index_shard
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards import shard_writer
from mispair.pairs.steps import index_shards, read_captions
from tests.pairs.indexing import index_group, list_and_index, list_group, noise

ROOT = Path(__file__).parents[2]
READ_LOG = "INDEX_TEST_READ_LOG"


def write_shards(folder: Path, shards: int, pairs: int = 6) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for shard in range(shards):
        rows = []
        for sample in range(pairs):
            key = shard_writer.key_of(shard, sample, 1000)
            content = noise(shard * pairs + sample)
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


def run(shards: list[Path], folder: Path, *how: Any, **settings: Any) -> tuple[Path, Path]:
    outputs = list_and_index(shards, folder, *how, **settings)
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


def reading(shard: Path, *rest: Any) -> ShardIndex:
    """Read as always, and note it."""
    if READ_LOG in os.environ:
        with open(os.environ[READ_LOG], "a") as notes:
            notes.write(f"{shard.name}\n")
    return index_shard(shard, *rest)


def reading_slowly(*arguments: Any) -> ShardIndex:
    result = reading(*arguments)
    time.sleep(0.5)
    return result


def failing(shard: Path, *rest: Any) -> ShardIndex:
    """Fail on some shards as a decoder written in C may."""
    faults: dict[int, Callable[[], object]] = {
        1: lambda: time.sleep(600), 3: lambda: os.kill(os.getpid(), signal.SIGKILL),
        5: lambda: os._exit(7), 6: lambda: 1 / 0,
    }  # fmt: skip
    faults.get(int(shard.stem), lambda: None)()
    return index_shard(shard, *rest)


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
        groups = [opened.read_row_group(number)["shard"].unique().to_pylist()
                  for number in range(opened.num_row_groups)]  # fmt: skip
    assert all(len(group) == 1 for group in groups)
    names = [name for (name,) in groups]
    assert names == sorted(set(names))
    assert (names[0], names[-1]) == ("00000.tar", "00008.tar")


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
            for end, content in ((".jpg", noise(number)), (".txt", b"text"), (".json", sidecar)):
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
    causes = ("no sign of life for 3 seconds", "SIGKILL", "exit code 7", "ZeroDivisionError: div")
    assert all(words in told for words, told in zip(causes, rejected["detail"], strict=True))
    assert metadata["read"] == "28"
    assert "00000.tar: read 6, kept 6, rejected 0, " in caplog.text
    in_all = "8 shards: read 28, kept 24, rejected 4\n  lost-worker                  4   14.29 %"
    assert in_all in caplog.text


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
        [sys.executable, "-c", code], env=environment, start_new_session=True,
        stderr=subprocess.DEVNULL,
    ) as parent:  # fmt: skip
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


@pytest.mark.usefixtures("without_workers")
def test_what_was_read_before_a_failure_is_read_again_only_if_it_changed(tmp_path, monkeypatch):
    """The disk of the output is full; then a shard changes, a part is cut, and the policy."""
    shards = write_shards(tmp_path / "in", 4)
    out, log = tmp_path / "out", tmp_path / "log"
    out.mkdir()
    monkeypatch.setenv(READ_LOG, str(log))
    monkeypatch.setattr(shard_index, "index_shard", reading)
    with monkeypatch.context() as patch:
        patch.setattr(index_parts, "gather", Mock(side_effect=UserError("the disk is full")))
        with pytest.raises(UserError, match="disk is full"):
            run(shards, out)
    names = [shard.name for shard in shards]
    assert sorted(log.read_text().split()) == names

    def again(**settings: Any) -> tuple[list[str], Any, Any]:
        log.write_text("")
        kept, rejected, _ = tables(run(shards, out, **settings))
        return log.read_text().split(), kept, rejected

    state = shards[2].stat()
    os.utime(shards[2], ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert again()[0] == ["00002.tar"]
    found = (out / "reuse").glob("00001.*.parquet")
    (whole,) = (path for path in found if "row" in pq.read_schema(path).names)
    whole.rename(whole.with_name(f".{whole.name}.0123abcd.part"))
    read, kept, _ = again()
    assert (read, len(kept)) == (["00001.tar"], 24)
    read, _, rejected = again(max_words=2)
    assert (sorted(read), {*rejected["reason"]}) == (names, {"caption-length"})


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


@pytest.mark.usefixtures("without_workers")
@pytest.mark.parametrize("table_captions", ["replace", "augment"])
def test_captions_travel_by_key(table_captions, tmp_path):
    """Whatever the order of the table, and byte for byte."""
    shards = write_shards(tmp_path / "in", 5, pairs=10)
    keys = [shard_writer.key_of(shard, sample, 1000) for shard in range(5) for sample in range(10)]
    texts = {key: f"rewritten\tcaption “{key}” " for key in keys if key != "00002002"}
    rows = [json.dumps({"key": key, "caption": [text, "b"]}) for key, text in texts.items()]
    random.Random(1).shuffle(rows)
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    captions, out = tmp_path / "captions.parquet", tmp_path / "out"
    settings = read_captions.Settings()
    read_captions.run(settings, table=[tmp_path / "t.jsonl"], key_list=[], captions=captions)
    out.mkdir()
    kept, rejected, _ = tables(run(shards, out, 2, captions, table_captions=table_captions))
    found = {row["key"]: [row["caption"], *row["more_captions"]] for _, row in kept.iterrows()}
    own = {key: [f"caption of {key}"] * (table_captions == "augment") for key in keys}
    expected = {key: own[key] + [texts[key].strip(), "b"] for key in texts}
    assert found == expected | ({"00002002": own["00002002"]} if own["00002002"] else {})
    lacking = [] if table_captions == "augment" else [("00002002", "not-in-caption-table")]
    assert [*zip(rejected["key"], rejected["reason"], strict=True)] == lacking


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
    content = noise(0, side=128)
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
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        peaks = {int(parts): peak for parts, peak in json.loads(told.stdout).items()}
        early = max(peak for parts, peak in peaks.items() if 5 <= parts <= 10)
        late = max(peak for parts, peak in peaks.items() if parts >= 25)
        assert late == pytest.approx(early, rel=0.1)
    assert pq.read_metadata(tmp_path / "out/0000.parquet").num_rows == 3000


@pytest.mark.parametrize("wrong", [
    {"empty_captions": "drop"}, {"caption_from": ""}, {"caption_from": "json:"},
    {"caption_from": "a b"}, {"min_words": 5, "max_words": 4}, {"stall_seconds": 0},
    {"max_image_pixels": 0}, {"table_captions": "none"},
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
    settings = read_captions.Settings()
    read_captions.run(settings, table=[tmp_path / "t.csv"], key_list=[], captions=table)
    (tmp_path / "out").mkdir()
    kept, rejected, _ = tables(run(shards, tmp_path / "out", captions=table, sources=["x", "y"]))
    assert dict(zip(kept["key"], kept["caption"], strict=True)) == {
        f"x/{key}": "a cup", f"y/{key}": "a jug",
    }  # fmt: skip
    assert {*rejected["reason"]} == {"not-in-caption-table"}
