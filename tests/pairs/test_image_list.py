"""Images of shards are listed without captions, and every pair has a listed image."""

import itertools
from pathlib import Path

import pytest

from mispair.core import files
from mispair.core.files import UserError
from mispair.core.provenance import code_version
from mispair.pairs.captions import sorted_captions
from mispair.pairs.index import index_parts, parts
from mispair.pairs.index.faults import Fault, ImageLimits
from mispair.pairs.index.image_list import list_images
from mispair.pairs.index.index import index_shard
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards.shards import AdjacentMembers, image_candidates, split_run
from mispair.pairs.shards.tar_members import Member
from tests.pairs.indexing import index_group, list_group
from tests.pairs.test_caption_joins import prepared
from tests.pairs.test_index import jpeg, whole, write_tar

NAMES = (
    "k.jpg", "k.txt", "k.json", "k.llava.txt", "k.seg.png", "k.seg.txt", "k.seg.llava.txt",
    "k.a.b.jpg", "k.a.b.json", "k.a.png",
)  # fmt: skip


@pytest.mark.parametrize("damage", ["", "cut off"])
def test_every_pair_has_a_listed_image(damage):
    for size in range(1, len(NAMES) + 1):
        for names in itertools.combinations(NAMES, size):
            run = AdjacentMembers("k", [Member(name, n, 1) for n, name in enumerate(names)], damage)
            listed, extra = image_candidates(run)
            keys = {candidate.key for candidate in listed}
            assert not keys & extra
            assert "k" not in extra
            for extension, tabled in itertools.product(("txt", "json", "llava.txt"), (True, False)):
                has_text = (lambda key: key not in extra) if tabled else (lambda key: False)  # noqa: B023
                for candidate in split_run(run, extension, has_text):
                    if candidate.image and (candidate.caption or has_text(candidate.key)):
                        assert candidate.key in keys, (names, extension)


def test_an_extra_member_is_not_listed_whatever_the_captions(tmp_path):
    members = [*whole("a"), ("a.seg.png", jpeg()), ("b.jpg", jpeg()), ("b.left.jpg", jpeg())]
    shard = write_tar(tmp_path / "a.tar", members)
    listed = [row["key"] for row in list_images(shard, ImageLimits()).usable.values()]
    assert listed == ["a", "b", "b.left"]
    texts = {key: ["text"] for key in ("a", "a.seg", "b", "b.left")}
    result = index_shard(shard, Policy(table="replace"), lambda keys: texts)
    assert [(row["key"], row["row"]) for row in result.kept] == [("a", 0), ("b", 1), ("b.left", 2)]
    assert result.rejected == []


@pytest.mark.parametrize("mode", ["replace", "augment"])
def test_no_table_of_captions_asks_for_an_image_that_is_not_listed(tmp_path, mode):
    picture = jpeg((8, 6))
    for names in itertools.chain(*(itertools.combinations(NAMES, size) for size in (1, 2, 3))):
        pictured = [(n, picture if n.endswith(("jpg", "png")) else b"{}") for n in names]
        shard = write_tar(tmp_path / "k.tar", pictured)
        listed = {row["key"] for row in list_images(shard, ImageLimits()).usable.values()}
        keys = sorted({name.rsplit(".", 1)[0] for name in names})
        for size in range(len(keys) + 1):
            for tabled in itertools.combinations(keys, size):
                texts = {key: ["a text"] for key in tabled}
                result = index_shard(shard, Policy(table=mode), lambda asked: texts)  # noqa: B023
                kept = {row["key"] for row in result.kept}
                assert {*tabled} & listed <= kept <= listed, (names, tabled)


def test_no_code_that_reads_captions_is_code_of_image_features():
    for step in ("list_images", "encode_features"):
        modules = {line.split()[0] for line in code_version(step)}
        assert "mispair.pairs.index.image_list" in modules
        assert not {name for name in modules if name.startswith("mispair.pairs.captions")}
        assert not {"mispair.pairs.index.index", "mispair.pairs.index.policy"} & modules


def test_a_shard_that_breaks_off_while_it_is_listed_is_damaged(tmp_path):
    """Its other images were not seen, so none of them is called undecodable."""
    shard = write_tar(tmp_path / "a.tar", [m for n in range(6) for m in whole(f"{n}")])
    content = shard.read_bytes()
    for cut in (content.index(b"caption 2") + 600, 700, 0):
        shard.write_bytes(content[:cut])
        images = list_images(shard, ImageLimits())
        shard.write_bytes(content)
        result = index_shard(shard, Policy(), images=images)
        assert [row["key"] for row in result.kept] == [r["key"] for r in images.usable.values()]
        assert len(result.kept) < 6
        assert [row["reason"] for row in result.rejected] == [Fault.DAMAGED_SHARD]
    images = list_images(shard, ImageLimits())
    shard.write_bytes(content[: content.index(b"caption 2") + 600])  # and the other way round
    result = index_shard(shard, Policy(), images=images)
    assert len(result.kept) < len(images.usable) == 6
    assert [row["reason"] for row in result.rejected] == [Fault.DAMAGED_SHARD]


def test_a_shard_that_changed_after_it_was_listed_stops_the_job(tmp_path):
    shard = write_tar(tmp_path / "a.tar", whole("a"))
    images = list_images(shard, ImageLimits())
    write_tar(shard, [("0.json", b"{}"), *whole("a")])
    with pytest.raises(UserError, match=r"a\.tar: 'a.jpg' is not in the list"):
        index_shard(shard, Policy(), images=images)


@pytest.mark.usefixtures("without_workers")
def test_a_shard_that_was_lost_while_it_was_listed_is_lost(tmp_path):
    shards = [write_tar(tmp_path / f"{n}.tar", [*whole(f"{n}0"), *whole(f"{n}1")]) for n in "abc"]
    (tmp_path / "out").mkdir()
    images, unusable = list_group(shards, tmp_path / "out")
    limits = ImageLimits()
    folder = tmp_path / "parts"
    folder.mkdir()
    planned = parts.plan({path.name: path for path in shards}, folder, [])
    for part in planned:
        parts.write_part(part, lambda: None, limits=limits)
    lost = {planned[1]: "its worker was ended by SIGKILL, 2 times"}
    parts.gather(planned, lost, images=images, unusable=unusable)
    index, rejected = index_group(shards, tmp_path / "out")
    kept, listed = files.read_parquet(index)[0], files.read_parquet(images)[0]
    assert list(kept["key"]) == ["a0", "a1", "c0", "c1"]
    assert list(listed["key"].iloc[kept["row"]]) == list(kept["key"])
    (row,) = files.read_parquet(rejected)[0].to_dict("records")
    assert (row["shard"], row["reason"]) == ("b.tar", Fault.LOST_WORKER)
    assert row["detail"] == lost[planned[1]]


@pytest.mark.usefixtures("without_workers")
def test_a_process_opens_a_caption_table_once(tmp_path, monkeypatch):
    shards = [write_tar(tmp_path / f"{n}.tar", whole(n)) for n in "abc"]
    table = prepared(tmp_path, [(key, f"text of {key}") for key in "abc"], "key")
    opened: list[Path] = []
    lookup = sorted_captions.lookup
    monkeypatch.setattr(sorted_captions, "lookup", lambda path: opened.append(path) or lookup(path))
    lists = parts.read_lists(*list_group(shards, tmp_path))
    planned = parts.plan({path.name: path for path in shards}, tmp_path, [], lists)
    for part in planned:
        policy = Policy(table="replace")
        index_parts.write_part(part, lambda: None, read=index_shard, policy=policy, table=table)
    assert opened == [table]
    assert index_parts.total(planned, {}).kept == 3
