"""Tar shards from anywhere: every sample whole or said to be missing, in constant memory."""

import gzip
import io
import os
import subprocess
import sys
import tarfile

import pytest

from mispair.pairs.shards import shards
from mispair.pairs.shards.shards import (
    AdjacentMembers,
    ShardReader,
    TruncatedShardError,
    damaged_key,
    read_samples,
    split_run,
)
from mispair.pairs.shards.tar_members import (
    MAX_EXTENDED_HEADER,
    MAX_PADDING,
    BrokenTarError,
    Member,
    read_members,
)

Content = list[tuple[str, bytes]]

NAMES = [
    "000.jpg", "./001.jpg", "/data/002.JPG", "../003.jpeg", "a/b.c/004.png", "n" * 99 + ".jpg",
    "n" * 196 + ".jpg", "folder/" * 20 + "long.txt", "h/" + "n" * 190 + ".txt",
    "caf\u00e9.txt", "\u732b" * 60 + ".jpg", "last.json",
]  # fmt: skip
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def pack(members: Content, tar_format: int = tarfile.GNU_FORMAT, **options: object) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tar_format, **options) as archive:  # type: ignore[call-overload]
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def runs_of(content: bytes) -> tuple[list[AdjacentMembers], int]:
    reader = ShardReader(io.BytesIO(content))
    return list(reader.runs()), reader.ignored


def summary(content: bytes) -> tuple[list[tuple[str, int]], int]:
    """Key and number of members of each run, and how many members were ignored."""
    runs, ignored = runs_of(content)
    return [(run.key, len(run.members)) for run in runs], ignored


def pair(key: str) -> Content:
    return [(f"{key}.jpg", b"image " + key.encode()), (f"{key}.txt", b"text " + key.encode())]


@pytest.mark.parametrize("name", FORMATS)
def test_names_and_places_are_those_of_the_standard_library(name):
    members = [(n, os.urandom(17 * i + (i == 3) * 600)) for i, n in enumerate(NAMES)]
    if name == "ustar":
        members = [m for m in members if len(m[0].rpartition("/")[2].encode()) < 100]
    packed = pack(members, FORMATS[name])
    with tarfile.open(fileobj=io.BytesIO(packed), encoding="utf-8") as archive:
        expected = [(m.name, m.offset_data, m.size) for m in archive]
    found = list(read_members(io.BytesIO(packed)))
    assert [(m.name, m.offset, m.size) for m in found] == expected
    assert [m.name for m in found] == [n for n, _ in members]
    assert [packed[m.offset : m.offset + m.size] for m in found] == [c for _, c in members]
    assert all(m.is_file for m in found)


def test_global_pax_headers_and_binary_sizes_are_understood():
    packed = pack(pair("a"), tarfile.PAX_FORMAT, pax_headers={"comment": "made by a test"})
    assert summary(packed) == ([("a", 2)], 0)
    binary = bytearray(header("b.jpg"))
    binary[124:136] = b"\x80" + (5).to_bytes(11, "big")
    binary[148:156] = b" " * 8
    binary[148:156] = b"%06o\0 " % sum(binary)
    [member] = read_members(io.BytesIO(bytes(binary) + padded(b"image") + bytes(1024)))
    assert member.size == 5


@pytest.mark.parametrize("name", [
    ".DS_Store", "a/.DS_Store", "._000.jpg", "a/._000.txt", "__MACOSX/000.jpg",
    "a/__MACOSX/._000.jpg", "__meta__", "__wds.json__", "README", "a.b/LICENSE",
])  # fmt: skip
def test_what_belongs_to_no_sample_is_ignored_and_splits_none(name):
    first, second = pair("000")
    packed = pack([(name, b"x"), first, (name, b"x"), second, (name, b"x")])
    assert summary(packed) == ([("000", 2)], 3)


def test_directories_are_ignored():
    first, second = pair("d/000")
    parts = [header("d/", kind=tarfile.DIRTYPE), header(first[0], 3), padded(b"jpg"),
             header("d.e/", kind=tarfile.AREGTYPE), header(second[0], 3), padded(b"txt"),
             bytes(1024)]  # fmt: skip
    assert summary(b"".join(parts)) == ([("d/000", 2)], 2)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(tarfile.SYMTYPE, "a symbolic link"), (tarfile.LNKTYPE, "a hard link"),
     (tarfile.CHRTYPE, "a device"), (tarfile.FIFOTYPE, "a pipe"), (b"Z", "of an unknown type"),
     (tarfile.GNUTYPE_SPARSE, "a sparse file")],
)  # fmt: skip
def test_links_and_devices_are_no_files(kind, words):
    content = header("a.jpg", kind=kind) + header("a.txt", 1) + padded(b"x") + bytes(1024)
    [run], _ = runs_of(content)
    assert [member.kind for member in run.members] == [words, ""]
    [candidate] = split_run(run, "txt", lambda key: False)
    assert candidate.image is None
    assert str(candidate) == f"members: jpg ({words}), txt"


def test_sparse_files_of_every_kind_are_passed_over(tmp_path):
    # Old GNU form: 30 sparse maps, which need two more header blocks, and a size of 8 TB.
    sparse = bytearray(header("a.jpg", 512, tarfile.GNUTYPE_SPARSE))
    sparse[482] = 1
    sparse[148:156] = b" " * 8
    sparse[148:156] = b"%06o\0 " % sum(sparse)
    more = bytearray(512)
    more[504] = 1
    old = bytes(sparse) + bytes(more) + bytes(512) + b"x" * 512
    # Form 1.0: pax records before an ordinary member.
    records = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "b.jpg",
               "GNU.sparse.realsize": "8000000000000"}  # fmt: skip
    info = tarfile.TarInfo("GNUSparseFile.0/b.jpg")
    info.pax_headers, info.size = records, 512
    new = info.tobuf(tarfile.PAX_FORMAT) + b"0\n" + bytes(510)
    runs, _ = runs_of(old + new + header("c.jpg", 1) + padded(b"x") + bytes(1024))
    assert [run.key for run in runs] == ["a", "b", "c"]
    assert [run.members[0].kind for run in runs] == ["a sparse file", "a sparse file", ""]
    assert not any(run.damage for run in runs)


@pytest.mark.parametrize(("content", "words"), [
    (b"", "is empty"),
    (gzip.compress(pack(pair("a")), mtime=0), "gunzip"),
    (b"BZh9" + bytes(600), "bunzip2"),
    (b"\xfd7zXZ\0" + bytes(600), "unxz"),
    (b"\x28\xb5\x2f\xfd" + bytes(600), "unzstd"),
    (b"PK\x03\x04" + bytes(600), "zip"),
    (b"PAR1" + bytes(600), "Parquet"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    (b"\n <!DOCTYPE html><title>403</title>" + b" " * 600, "HTML"),
    (b"\xef\xbb\xbf<html>", "HTML"),
    (b"<?xml version='1.0'?><Error/>", "XML"),
    (b'{"error": "not found"}', "JSON"),
    (b"hello", "5 bytes"),
    (os.urandom(0) + b"\x07\x95" * 5_000, "not a tar file"),
])  # fmt: skip
def test_what_is_no_tar_says_what_it_is(tmp_path, content, words):
    [run], _ = runs_of(content)
    assert run.key == ""
    assert run.members == []
    assert words in run.damage
    path = tmp_path / "0.tar"
    path.write_bytes(content)
    with pytest.raises(TruncatedShardError, match=words) as caught:
        list(read_samples(path))
    assert caught.value.key is None


def test_an_archive_without_members_is_whole():
    assert runs_of(pack([])) == ([], 0)
    assert runs_of(bytes(512)) == ([], 0)


def test_truncation_at_every_offset_never_gives_a_half_sample():
    packed = pack([m for n in range(3) for m in pair(str(n))])
    end = 6 * 1024
    for cut in range(0, end + 512, 64):
        runs, _ = runs_of(packed[:cut])
        assert runs[-1].damage
        whole = [run for run in runs if not run.damage]
        # A sample counts as whole once the header of the next one has been read.
        assert [run.key for run in whole] == ["0", "1", "2"][: max(0, cut - 512) // 2048]
        for run in runs:
            judged = split_run(run, "txt", lambda key: False)
            assert [c.key for c in judged] == ([] if run.damage else [run.key])
            assert all(m.offset + m.size <= cut for c in judged for _, m in c.members)
        broke_in = "" if cut < 512 else str(min(2, (cut - 512) // 2048))
        assert runs[-1].key == broke_in
    assert [run.damage for run in runs_of(packed[: end + 512])[0]] == ["", "", ""]


def test_a_broken_header_is_not_taken_for_the_end():
    packed = bytearray(pack([m for n in range(3) for m in pair(str(n))]))
    for position in range(2048, 2048 + 512, 8):
        broken = bytearray(packed)
        broken[position] ^= 4
        runs, _ = runs_of(bytes(broken))
        assert [run.key for run in runs] == ["0"]
        assert "byte 2048 is broken" in runs[0].damage


def test_what_follows_the_end_marker_is_not_lost_in_silence():
    one, two = pack(pair("1")), pack(pair("2"))
    runs, _ = runs_of(one + two)
    # The last sample before the mark is whole; what follows is a damage of its own.
    assert [(run.key, len(run.members), bool(run.damage)) for run in runs] == [
        ("1", 2, False), ("", 0, True),
    ]  # fmt: skip
    assert "joined by cat" in runs[1].damage
    zeroed = bytearray(pack([m for n in range(3) for m in pair(str(n))]))
    zeroed[2048:4096] = bytes(2048)
    assert "zeros" in runs_of(bytes(zeroed))[0][-1].damage
    reserved = one + bytes(MAX_PADDING + 1024)
    assert "unfinished download" in runs_of(reserved)[0][-1].damage
    assert not runs_of(one + bytes(MAX_PADDING // 2))[0][-1].damage


def test_a_declared_size_beyond_the_file_is_damage():
    for size in (600, 8**11 - 1):
        runs, _ = runs_of(pack(pair("0"))[:2048] + header("1.jpg", size) + b"x" * 512)
        assert [(run.key, bool(run.damage)) for run in runs] == [("0", False), ("1", True)]
        assert f"should have {size} bytes" in runs[1].damage


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_extended_headers_are_bounded(kind):
    size = MAX_EXTENDED_HEADER + 1
    content = header("x", size, kind) + padded(b"a" * size) + header("a.jpg") + bytes(1024)
    with pytest.raises(BrokenTarError, match="over the limit"):
        list(read_members(io.BytesIO(content)))


@pytest.mark.parametrize("records", [
    b"no number path=a.jpg\n", b"99 path=a.jpg\n", b"14 path a.jpg\n", b"13 path=a.jpgx",
    b"0 path=a.jpg\n", b"14 size=-5555\n", b"9" * 30 + b" path=a\n",
])  # fmt: skip
def test_broken_pax_records_are_damage(records):
    content = header("x", len(records), tarfile.XHDTYPE) + padded(records)
    with pytest.raises(BrokenTarError):
        list(read_members(io.BytesIO(content + header("a.jpg") + bytes(1024))))


def test_an_extended_header_without_its_member_is_damage():
    for rest in (b"", bytes(1024)):
        content = header("x", 5, tarfile.GNUTYPE_LONGNAME) + padded(b"a.jpg") + rest
        with pytest.raises(BrokenTarError):
            list(read_members(io.BytesIO(content)))


def test_names_that_are_not_utf8_keep_their_bytes():
    for tar_format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        name = b"caf\xe9" * 30 + b".jpg"
        packed = pack([(os.fsdecode(name), b"x")], tar_format, encoding="utf-8")
        [member] = read_members(io.BytesIO(packed))
        assert member.name.encode("utf-8", "surrogateescape") == name


def keys(run_key: str, *names: str, table: tuple[str, ...] = (), damage: str = "") -> list[str]:
    run = AdjacentMembers(run_key, [Member(name, 0, 1) for name in names], damage)
    return [c.key for c in split_run(run, "txt", table.__contains__)]


def test_dots_in_names_are_not_lost():
    assert keys("photo", "photo.final.jpg", "photo.final.txt") == ["photo.final"]
    assert keys("v1", "v1.1.jpg", "v1.1.txt", "v1.2.jpg", "v1.2.txt") == ["v1.1", "v1.2"]
    assert keys("v1", "v1.1.jpg", "v1.2.jpg", "v1.1.txt", "v1.2.txt") == ["v1.1", "v1.2"]
    assert keys("0", "0.jpg", "0.seg.png", "0.txt") == ["0"]
    assert keys("0", "0.jpg", "0.txt", "0.b.jpg", "0.b.txt") == ["0", "0.b"]
    assert keys("0", "0.b.jpg", "0.b.txt", "0.c.jpg") == ["0.b", "0.c"]
    assert keys("0", "0.jpg", "0.seg.png") == ["0", "0.seg"]
    assert keys("0", "0.json", "0.a.npy") == ["0"]


def test_a_table_s_caption_makes_an_image_a_pair():
    assert keys("0", "0.jpg", "0.seg.png", table=("0",)) == ["0"]
    assert keys("0", "0.a.jpg", "0.json", table=("0.a",)) == ["0.a"]


def test_captions_may_have_an_extension_with_a_dot():
    run = AdjacentMembers("0", [Member(n, 0, 1) for n in ("0.jpg", "0.txt", "0.llava.TXT")])
    [candidate] = split_run(run, "llava.txt", lambda key: False)
    assert candidate.key == "0"
    assert candidate.caption == run.members[2]


def test_damage_spoils_the_last_stem_and_the_run_s_own_key():
    assert keys("v", "v.1.jpg", "v.1.txt", "v.2.jpg", "v.2.txt", damage="cut") == ["v.1"]
    assert keys("v", "v.jpg", "v.txt", "v.2.jpg", damage="cut") == []
    assert keys("v", damage="cut") == []
    run = AdjacentMembers("v", [Member(n, 0, 1) for n in ("v.1.jpg", "v.2.jpg")], "cut")
    assert damaged_key(run, "txt") == "v.2"
    run.members.insert(0, Member("v.jpg", 0, 1))
    assert damaged_key(run, "txt") == "v"


@pytest.mark.parametrize(
    ("names", "words"),
    [(["0.jpg", "0.JPG"], "more than one jpg"), (["0.jpg", "0.png"], "several images: jpg, png"),
     (["0.jpg", "0.txt", "0.txt"], "more than one txt"), (["0.jpg", "0.txt", "0.seg.png"], "")],
)  # fmt: skip
def test_what_stands_there_twice_is_said(names, words):
    run = AdjacentMembers("0", [Member(n, 0, 1) for n in names])
    [candidate] = split_run(run, "txt", lambda key: False)
    assert words in candidate.ambiguity
    assert bool(words) == bool(candidate.ambiguity)


def test_read_samples_yields_whole_samples_and_then_says_where_it_broke(tmp_path):
    path = tmp_path / "0.tar"
    path.write_bytes(pack([*pair("0"), *pair("1")])[: 3 * 1024 + 100])
    found = []
    with pytest.raises(TruncatedShardError) as caught:
        for sample in read_samples(path):
            found.append((sample.key, sample.image, sample.caption))
    assert found == [("0", b"image 0", b"text 0")]
    assert caught.value.key == "1"


def test_read_samples_leaves_out_members_that_are_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "MAX_MEMBER_BYTES", 99)
    path = tmp_path / "0.tar"
    path.write_bytes(pack([("0.jpg", b"x" * 100), ("0.cls", b"1")]))
    [sample] = read_samples(path, "cls")
    assert sample.members == {"cls": b"1"}


def test_a_shard_that_cannot_be_opened_is_damaged(tmp_path):
    with pytest.raises(TruncatedShardError, match="No such file"):
        list(read_samples(tmp_path / "none.tar"))
    with pytest.raises(TruncatedShardError, match="directory"):
        list(read_samples(tmp_path))


PEAK = """
import resource, sys
from pathlib import Path
from mispair.pairs.index.index import Policy, index_shard
index_shard(Path(sys.argv[1]), Policy())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = index_shard(Path(sys.argv[2]), Policy())
print(result.read, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_content(tmp_path):
    small, large = tmp_path / "small.tar", tmp_path / "large.tar"
    small.write_bytes(pack(pair("0")))
    with large.open("wb") as stream:
        # One run of many members (v.0, v.1, ...), and a member of 1 GB made of a hole.
        for number in range(200):
            stream.write(header(f"v.{number}.jpg", 1 << 20) + bytes(1 << 20))
            stream.write(header(f"v.{number}.txt", 512) + b"x" * 512)
        stream.write(header("huge.jpg", 1 << 30))
        stream.seek(1 << 30, os.SEEK_CUR)
        stream.write(header("huge.txt", 512) + b"x" * 512 + bytes(1024))
    run = subprocess.run(
        [sys.executable, "-c", PEAK, str(small), str(large)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    read, grown_kib = map(int, run.stdout.split())
    assert read == 201
    assert grown_kib < 24_000
