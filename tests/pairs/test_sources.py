"""Shard paths by list, glob, brace pattern and folder; and a source that matches nothing."""

import json
import logging
import math
import os
from pathlib import Path
from typing import Any

import pytest

from mispair.core.files import UserError
from mispair.pairs.shards.sources import (
    MOST_JOBS,
    compare_counts,
    describe,
    downloads,
    expand_braces,
    expected_samples,
    resolve_named,
    resolve_shards,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(12):
        (tmp_path / f"{number:05d}.tar").touch()
    (tmp_path / "notes.txt").touch()
    return tmp_path


@pytest.mark.parametrize(("pattern", "names"), [
    ("", [f"{n:05d}.tar" for n in range(12)]),
    ("0000?.tar", [f"{n:05d}.tar" for n in range(10)]),
    ("{00009..00011}.tar", ["00009.tar", "00010.tar", "00011.tar"]),
    ("000{01,11}.tar", ["00001.tar", "00011.tar"]),
    ("00003.tar", ["00003.tar"]),
    ("00003.*", ["00003.tar"]),
    ("{00003,0001?}.tar", ["00003.tar", "00010.tar", "00011.tar"]),
    ("**/0000[12].tar", ["00001.tar", "00002.tar"]),
])  # fmt: skip
def test_every_form_of_source(folder, pattern, names):
    assert [shard.name for shard in resolve_shards(str(folder / pattern))] == names


def test_a_list_in_any_order_is_the_same(folder):
    shards = [str(folder / f"{n:05d}.tar") for n in (5, 1, 3)]
    assert resolve_shards(shards) == resolve_shards(sorted(shards))


@pytest.mark.parametrize(("pattern", "words"), [
    ("nothing*.tar", "matches no file"),
    ("a.tar::b.tar", "as a list"),
    ("{00000..00020}.tar", "21 shards, but 9 do not exist, the first .*00012.tar"),
    ("{00000-00002}.tar", "neither"),
    ("{00003}.tar", "neither"),
    ("{00000..00010..2}.tar", "neither"),
    ("{00003..00003}.tar", "names one file only, .*00003.tar.* name the file itself"),
    ("{00003,x}.tar", "but 1 do not exist, the first .*x.tar"),
    ("{00005..00003}.tar", "has to rise"),
    ("{0..99999999999999}.tar", "at most"),
    ("{a,{b,c}}.tar", "nested braces"),
    ("{00000..00003.tar", "do not exist"),
    ("*", "12 .tar files, but .*notes.txt too"),
])  # fmt: skip
def test_what_matches_nothing_is_an_error(folder, pattern, words):
    with pytest.raises(UserError, match=words):
        resolve_shards(str(folder / pattern))


def test_a_shard_named_twice(folder):
    with pytest.raises(UserError, match="more than once"):
        resolve_shards([str(folder), str(folder / "00003.tar")])


def test_a_name_with_braces_in_it_is_a_name(tmp_path):
    odd = tmp_path / "run {a,b} [1].tar"
    odd.touch()
    assert resolve_shards(str(odd)) == [odd]


def test_ranges_are_padded_as_in_a_shell():
    # Checked with bash: echo {8..10} {08..10} {00..100} {1..010}
    assert expand_braces("{8..10}") == ["8", "9", "10"]
    assert expand_braces("{08..10}") == ["08", "09", "10"]
    assert expand_braces("{00..100}")[:2] == ["000", "001"]
    assert expand_braces("{1..010}")[0] == "001"


ELSEWHERE = (
    "https://example.org/{00000..00331}.tar", "s3://bucket/cc3m/*.tar", "gs://bucket/cc3m",
    "hf://datasets/pixparse/cc3m-wds/cc3m-train-0000.tar", "hf:pixparse/cc3m-wds",
    "pipe:curl -s https://example.org/00000.tar",
)  # fmt: skip


@pytest.mark.parametrize(("source", "words"), [
    *((source, "names nothing") for source in ("", " ", "a\0.tar")),
    *((source, "is not on this machine.* Fetch them first") for source in ELSEWHERE),
    (".", "holds no .tar file"),
    ([], "list is empty"),
    ("a" * 5_000, "cannot be read .File name too long"),
])  # fmt: skip
def test_a_source_without_shards_is_refused(source, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=words):
        resolve_shards(source)


def test_two_shards_of_one_name(folder):
    other = folder / "more" / "00003.tar"
    other.parent.mkdir()
    other.touch()
    with pytest.raises(UserError, match="00003.tar and .*more/00003.tar have the same file name"):
        resolve_shards([str(folder), str(other)])


def test_named_sources_may_have_equal_file_names(folder):
    other = folder / "more"
    other.mkdir()
    for number in (3, 4):
        (other / f"{number:05d}.tar").touch()
    given = [str(other / f"0000{number}.tar") for number in (4, 3)]
    named = resolve_named({"b": str(folder), "a": given})
    assert [(path.name, source) for path, source in named.items()] == [
        ("00003.tar", "a"), ("00004.tar", "a"), *((f"{n:05d}.tar", "b") for n in range(12)),
    ]  # fmt: skip
    with pytest.raises(UserError, match="00003.tar is in source a and in b"):
        resolve_named({"a": str(other), "b": str(other / "00003.tar")})
    with pytest.raises(UserError, match="no source is named"):
        resolve_named({})


def test_a_name_that_is_not_text(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.tar")).touch()
    with pytest.raises(UserError, match=r"xff|udcff"):
        resolve_shards(str(tmp_path))


def test_what_is_not_taken_is_printed(folder, caplog):
    for name in ("00012.TAR", "00013.tar.gz", "00014.tgz", "._00000.tar"):
        (folder / name).touch()
    (folder / "unpacked.tar").mkdir()
    os.mkfifo(folder / "pipe.tar")
    assert len(resolve_shards(str(folder))) == 12
    assert "notes.txt" not in caplog.text
    for name in ("00012.TAR", "00013.tar.gz", "00014.tgz", "unpacked.tar", "pipe.tar"):
        assert name in caplog.text
    caplog.clear()
    assert len(resolve_shards(str(folder / "*.tar"))) == 12
    assert "unpacked.tar" in caplog.text
    assert "pipe.tar" in caplog.text
    assert "00012.TAR" not in caplog.text
    caplog.clear()
    assert resolve_shards(str(folder / "{00000..00003}.tar"))
    assert caplog.text == ""


@pytest.mark.parametrize("target", ["/nowhere/00012.tar", "00012.tar"])
@pytest.mark.parametrize("source", ["", "*.tar", "00012.tar", "{00000..00012}.tar"])
def test_a_link_that_leads_nowhere_is_an_error(folder, source, target):
    (folder / "00012.tar").symlink_to(target)
    with pytest.raises(UserError, match=rf"00012\.tar is a link to {target}, which leads to no"):
        resolve_shards(str(folder / source))


def test_a_link_to_a_shard_is_a_shard(folder):
    (folder / "00012.tar").symlink_to("00000.tar")
    assert len(resolve_shards(str(folder))) == 13


def statistics(folder: Path, number: int, content: Any) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / f"{number:05d}_stats.json").write_text(text)


def test_expected_samples_are_known_if_all_shards_tell(folder):
    shards = resolve_shards(str(folder))
    for number in range(11):
        statistics(folder, number, {"successes": 600 + number})
    assert expected_samples(shards) is None
    assert describe(shards, 3) == "matched 12 shards, samples are counted by index_shards"
    statistics(folder, 11, {"successes": 611})
    assert expected_samples(shards) == sum(range(600, 612))
    assert describe(shards, 3) == "matched 12 shards, 7,266 samples expected"
    for broken in ("{", "[]", '{"successes": "many"}', '{"successes": -1}', "\udc80", "[" * 10**5):
        (folder / "00011_stats.json").write_text(broken, errors="surrogateescape")
        assert expected_samples(shards) is None
        assert downloads(shards) == {}


@pytest.mark.parametrize("count", [151, 331, 1100, 2200, 15_000])
def test_the_hint_keeps_its_word(count):
    shards = [Path(f"{number:05d}.tar") for number in range(count)]
    line = describe(shards, count)
    size = int(line.split("shards_per_job = ")[1].split()[0])
    assert math.ceil(count / size) <= MOST_JOBS
    assert math.ceil(count / (size - 1 or 1)) > MOST_JOBS
    assert "jobs" not in describe(shards, math.ceil(count / size))


def test_what_was_written_is_compared_with_what_was_found(folder, caplog):
    shards = resolve_shards(str(folder))[:4]
    for number, successes in enumerate((10, 10, 10)):
        statistics(folder, number, {"successes": successes})
    counts = compare_counts(dict(zip(shards, (10, 7, 12, 5), strict=True)))
    assert counts == {"expected": 30, "missing": 3, "surplus": 2}
    assert [f"0000{n}.tar: holds" in caplog.text for n in range(4)] == [False, True, True, False]


def test_downloads_are_summed_and_broken_ones_named(folder, caplog):
    statistics(folder, 0, {"status_dict": {"success": 5, "HTTP Error 404: Not Found": 2}})
    statistics(folder, 1, {"status_dict": {"success": 7, "\ud800": 1}})
    statistics(folder, 2, '{"status_dict": {"success"')
    statistics(folder, 3, {"status_dict": {"success": "5"}})
    statistics(folder, 4, {"successes": 5})
    with caplog.at_level(logging.WARNING):
        counts = downloads(resolve_shards(str(folder)))
    assert counts == {"HTTP Error 404: Not Found": 2, "\\ud800": 1, "success": 12}
    assert [n for n in range(6) if f"0000{n}_stats.json" in caplog.text] == [2, 3, 4]


@pytest.mark.parametrize(("names", "source", "words"), [
    (["a.jpg", "a.txt"], "", ["pictures", "'a.jpg'", "key pairs"]),
    (["a.JPG", "b.png"], "*", ["pictures"]),
    (["0/a.webp", "0_stats.json"], "", ["pictures", "'a.webp'"]),
    (["0/a.jpeg"], "*/*.jpeg", ["pictures"]),
    (["a.jpg"], "a.jpg", ["pictures"]),
    (["a.parquet", "b.parquet"], "", ["tables", ".parquet", "captions"]),
    (["a.csv"], "*.csv", ["tables", ".csv"]),
    (["a.md"], "", ["holds no .tar file"]),
])  # fmt: skip
def test_pictures_and_tables_are_named_as_such(tmp_path, names, source, words):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(UserError) as error:
        resolve_shards(str(tmp_path / source))
    assert all(word in str(error.value) for word in ["shards: ", *words]), error.value


@pytest.mark.parametrize("name", ["~t", "$x"])
def test_a_folder_whose_name_begins_like_that_of_a_home(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    shard = Path(name) / "a.tar"
    shard.parent.mkdir()
    shard.touch()
    assert resolve_shards(name) == resolve_shards(f"{name}/*.tar") == [shard]
