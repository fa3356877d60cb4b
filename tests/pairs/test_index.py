"""Which samples of a shard are kept: whole pairs, and nothing else."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mispair.core.files import UserError
from mispair.pairs.index import index as verdicts
from mispair.pairs.index.faults import REASONS, Fault
from mispair.pairs.index.index import ShardIndex, index_shard
from mispair.pairs.index.policy import Policy
from tests.pairs.test_shards import pack


def jpeg(size: tuple[int, int] = (40, 30)) -> bytes:
    # Noise, so that the file is long enough to be cut in the middle of its picture.
    return encoded(Image.effect_noise(size, 90).convert("RGB"), "JPEG")


def encoded(image: Image.Image, image_format: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, image_format, **options)
    return stream.getvalue()


def write_tar(path: Path, members: list[tuple[str, bytes]]) -> Path:
    path.write_bytes(pack(members, encoding="utf-8"))
    return path


def whole(key: str) -> list[tuple[str, bytes]]:
    return [(f"{key}.jpg", jpeg()), (f"{key}.txt", f"caption {key}".encode())]


def reasons(result: ShardIndex) -> dict[str, str]:
    return {row["key"]: row["reason"] for row in result.rejected}


def index_of(tmp_path: Path, members: list[tuple[str, bytes]], **policy: Any) -> ShardIndex:
    return index_shard(write_tar(tmp_path / "a.tar", members), Policy(**policy))


def exif_rotated() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(Image.new("RGB", (40, 30)), "JPEG", exif=exif)


# Each fault or oddity: its members, and what becomes of each key.
FAULTS: dict[str, tuple[list[tuple[str, bytes]], dict[str, str]]] = {
    "no image": ([("p.txt", b"x")], {"p": "no-image"}),
    "no caption": ([("p.jpg", jpeg())], {"p": "no-caption"}),
    "a json alone": ([("p.json", b"{}")], {"p": "no-image"}),
    "empty caption": ([("p.jpg", jpeg()), ("p.txt", b"  \n")], {"p": "empty-caption"}),
    "not UTF-8": ([("p.jpg", jpeg()), ("p.txt", b"caf\xe9")], {"p": "undecodable-caption"}),
    "NUL": ([("p.jpg", jpeg()), ("p.txt", b"a\0b")], {"p": "control-characters"}),
    "truncated image": ([("p.jpg", jpeg()[:400]), ("p.txt", b"x")], {"p": "undecodable-image"}),
    "image of 0 bytes": ([("p.jpg", b""), ("p.txt", b"x")], {"p": "undecodable-image"}),
    "HTML as image": ([("p.jpg", b"<html>"), ("p.txt", b"x")], {"p": "undecodable-image"}),
    "bomb": (
        [("p.png", encoded(Image.new("1", (20_000, 20_000)), "PNG")), ("p.txt", b"x")],
        {"p": "too-many-pixels"},
    ),
    "not UTF-8 as key": (
        [("p\udce9.jpg", jpeg()), ("p\udce9.txt", b"x")], {"p\\udce9": "undecodable-key"},
    ),
    "scattered": (
        [("p.jpg", jpeg()), ("p.txt", b"x"), *whole("between"), ("p.json", b"{}")],
        {"p": "ambiguous-key", "between": ""},
    ),
    "whole twice": (
        [*whole("p"), *whole("between"), *whole("p")], {"p": "ambiguous-key", "between": ""},
    ),
    "interleaved": (
        [("p.jpg", jpeg()), ("q.jpg", jpeg()), ("p.txt", b"x"), ("q.txt", b"y")],
        {"p": "ambiguous-key", "q": "ambiguous-key"},
    ),
    "member twice": (
        [("p.jpg", jpeg()), ("p.txt", b"x"), ("p.TXT", b"y")], {"p": "ambiguous-key"},
    ),
    "two images": (
        [("p.jpg", jpeg()), ("p.txt", b"x"), ("p.png", b"y")], {"p": "ambiguous-key"},
    ),
    "upper case": ([("p.JPG", jpeg()), ("p.TXT", b"x")], {"p": ""}),
    "lying extension": (
        [("p.jpg", encoded(Image.new("RGB", (3, 2)), "PNG")), ("p.txt", b"x")], {"p": ""},
    ),
    "1 x 1": ([("p.jpg", jpeg((1, 1))), ("p.txt", b"x")], {"p": ""}),
    "CMYK": (
        [("p.jpg", encoded(Image.new("CMYK", (9, 9)), "JPEG")), ("p.txt", b"x")], {"p": ""},
    ),
    "16 bits": (
        [("p.png", encoded(Image.new("I;16", (9, 9)), "PNG")), ("p.txt", b"x")], {"p": ""},
    ),
    "palette": ([("p.gif", encoded(Image.new("P", (9, 9)), "GIF")), ("p.txt", b"x")], {"p": ""}),
    "alpha": ([("p.png", encoded(Image.new("LA", (9, 9)), "PNG")), ("p.txt", b"x")], {"p": ""}),
    "animation": (
        [("p.webp", encoded(Image.new("RGB", (9, 9)), "WEBP", save_all=True,
                            append_images=[Image.new("RGB", (9, 9), "red")])), ("p.txt", b"x")],
        {"p": ""},
    ),
    "EXIF-rotated": ([("p.jpeg", exif_rotated()), ("p.txt", b"x")], {"p": ""}),
    "TIFF": ([("p.tif", encoded(Image.new("L", (9, 9)), "TIFF")), ("p.txt", b"x")], {"p": ""}),
    "dotted": ([("p.v1.2.jpg", jpeg()), ("p.v1.2.txt", b"x")], {"p.v1.2": ""}),
    "extra member": (
        [("p.jpg", jpeg()), ("p.seg.png", b"y"), ("p.txt", b"x"), ("p.npy", b"z")], {"p": ""},
    ),
    "200 characters": ([("p" * 196 + ".jpg", jpeg()), ("p" * 196 + ".txt", b"x")], {"p" * 196: ""}),
    "absolute": ([("/p.jpg", jpeg()), ("/p.txt", b"x")], {"/p": ""}),
    "outside": ([("../../p.jpg", jpeg()), ("../../p.txt", b"x")], {"../../p": ""}),
    "./": ([("./p.jpg", jpeg()), ("p.txt", b"x")], {"p": ""}),
    "hidden files": (
        [("p.jpg", jpeg()), ("._p.jpg", b"y"), (".DS_Store", b"y"), ("p.txt", b"x")], {"p": ""},
    ),
    "broken json": ([*whole("p"), ("p.json", b"{")], {"p": ""}),
    "bidirectional": ([("p.jpg", jpeg()), ("p.txt", "a \u202ecat".encode())], {"p": ""}),
    "20,000 characters": ([("p.jpg", jpeg()), ("p.txt", b"word " * 4_000)], {"p": ""}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_alone_has_its_verdict_and_spares_its_neighbours(tmp_path, fault):
    members, expected = FAULTS[fault]
    result = index_of(tmp_path, [*whole("good1"), *members, *whole("good2")])
    kept = [key for key, reason in expected.items() if not reason]
    assert [row["key"] for row in result.kept] == ["good1", *kept, "good2"]
    assert reasons(result) == {key: reason for key, reason in expected.items() if reason}
    assert {row["shard"] for row in result.kept + result.rejected} == {"a.tar"}
    assert result.read == len(result.kept) + len(result.rejected)
    assert set(reasons(result).values()) < set(REASONS)


def test_a_row_says_all_about_its_pair(tmp_path):
    image = exif_rotated()
    sidecar = {"url": "https://example.org/1.jpg", "status": "success", "sha256": "ab", "width": 9}
    sidecar |= {"licence": "MIT", "uid": "0f"}
    members = [
        *whole("0"),
        ("1.jpg", image), ("1.txt", "\ufeff<PERSON> \u00e0 la plage\n".encode()),
        ("1.json", json.dumps(sidecar).encode()),
    ]  # fmt: skip
    result = index_of(tmp_path, members)
    other, row = result.kept
    assert other.keys() == row.keys()
    with (tmp_path / "a.tar").open("rb") as opened:
        opened.seek(row.pop("image_offset"))
        assert opened.read(row.pop("image_bytes")) == image
    caption = "<PERSON> \u00e0 la plage"
    assert row == {
        "key": "1", "shard": "a.tar", "row": 1, "image_id": hashlib.sha256(image).hexdigest()[:16],
        "caption": caption, "caption_id": hashlib.sha256(caption.encode()).hexdigest()[:16],
        "more_captions": [], "width": 30, "height": 40, "words": 4, "characters": 19,
        "person": True, "non_ascii": True, "control": False,
        "url": "https://example.org/1.jpg", "status": "success", "sha256": "ab",
        "licence": "MIT", "uid": "0f",
    }  # fmt: skip
    assert [other[c] for c in ("url", "status", "sha256", "licence", "uid")] == [None] * 5


def test_rejections_have_a_row_of_their_own_form(tmp_path):
    result = index_of(tmp_path, [("a.txt", b"x"), ("b.jpg", b"x"), ("b.txt", b"y")])
    assert result.rejected == [
        {"key": "a", "shard": "a.tar", "reason": "no-image", "detail": "members: txt"},
        {"key": "b", "shard": "a.tar", "reason": "undecodable-image",
         "detail": "is none of JPEG, PNG, WEBP, GIF, BMP, TIFF, PPM, AVIF"},
    ]  # fmt: skip


@pytest.mark.parametrize("members", [[], [("README", b"hello"), (".hidden.jpg", b"x")]])
def test_a_shard_without_a_sample_is_one_damaged_row(tmp_path, members):
    [row] = index_of(tmp_path, members).rejected
    assert (row["key"], row["shard"], row["reason"]) == ("", "a.tar", Fault.DAMAGED_SHARD)
    assert "no sample" in row["detail"]
    assert "0 members" not in row["detail"]


def test_a_shard_that_cannot_be_opened_is_one_damaged_row(tmp_path):
    [row] = index_shard(tmp_path, Policy()).rejected
    assert row["reason"] == Fault.DAMAGED_SHARD
    assert "cannot be opened" in row["detail"]


def test_a_shard_that_is_gone_is_an_error_of_the_job_and_no_damage(tmp_path):
    with pytest.raises(UserError, match="none.tar: is gone"):
        index_shard(tmp_path / "none.tar", Policy())


def test_policies_of_taste(tmp_path):
    members = [("a.jpg", jpeg()), ("a.txt", b" "), ("b.jpg", jpeg((3, 50))), ("b.txt", b"one\x07"),
               ("c.jpg", jpeg()), ("c.txt", b"one two three")]  # fmt: skip

    def outcome(**policy: Any) -> dict[str, str]:
        result = index_of(tmp_path, members, **policy)
        return {row["key"]: "" for row in result.kept} | reasons(result)

    default = {"a": "empty-caption", "b": "control-characters", "c": ""}
    assert outcome() == default
    assert outcome(empty_captions="keep") == default | {"a": ""}
    assert outcome(control_characters="keep") == default | {"b": ""}
    assert outcome(control_characters="keep", min_image_side=4)["b"] == "too-small-image"
    assert outcome(control_characters="keep", min_image_side=3)["b"] == ""
    assert outcome(max_words=2)["c"] == outcome(max_characters=12)["c"] == "caption-length"
    assert outcome(min_words=4)["c"] == "caption-length"
    assert outcome(max_image_pixels=1_199)["c"] == "too-many-pixels"
    assert outcome(max_image_pixels=1_200)["c"] == ""
    assert outcome(max_member_bytes=20)["c"] == "member-too-large"
    result = index_of(tmp_path, members, max_member_bytes=20)
    assert "c.jpg" in result.rejected[-1]["detail"]
    assert outcome(max_caption_bytes=12)["c"] == "member-too-large"
    assert outcome(max_caption_bytes=13)["c"] == ""
    assert outcome(max_aspect_ratio=1.3)["c"] == "extreme-shape"
    assert outcome(max_aspect_ratio=1.34)["c"] == ""


def test_a_narrow_picture_and_a_book_for_a_caption_are_rejected_by_default(tmp_path):
    narrow = encoded(Image.new("RGB", (1, 65_500)), "PNG")
    members = [("a.png", narrow), ("a.txt", b"a line"), ("b.jpg", jpeg()),
               ("b.txt", b"a" * (2 << 20)), ("c.jpg", jpeg()), ("c.txt", b"a cup")]  # fmt: skip
    result = index_of(tmp_path, members)
    assert reasons(result) == {"a": "extreme-shape", "b": "member-too-large"}
    assert [row["key"] for row in result.kept] == ["c"]


def test_a_caption_of_a_table_has_the_limit_too(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.jpg", jpeg()), ("b.jpg", jpeg())])
    table = {"a": ["a" * (2 << 20)], "b": ["a cup"]}
    result = index_shard(path, Policy(table="replace"), lambda keys: table)
    assert reasons(result) == {"a": "caption-length"}


def test_captions_from_a_json_field_or_another_extension(tmp_path):
    members = [("a.jpg", jpeg()), ("a.txt", b"no"), ("a.llava.txt", b"long"),
               ("a.json", b'{"alt": " an alt text ", "url": "u"}'),
               ("b.jpg", jpeg()), ("b.txt", b"no"), ("b.json", b"{"),
               ("c.jpg", jpeg()), ("c.txt", b"no"), ("c.json", b"{}"),
               ("d.jpg", jpeg()), ("d.txt", b"no"), ("d.json", b'{"alt": "\\ud800"}')]  # fmt: skip
    result = index_of(tmp_path, members, caption_from="json:alt")
    (row,) = result.kept
    assert (row["key"], row["caption"], row["url"]) == ("a", "an alt text", "u")
    assert reasons(result) == {
        "b": "undecodable-caption", "c": "no-caption", "d": "undecodable-caption",
    }  # fmt: skip
    result = index_of(tmp_path, members, caption_from="llava.txt")
    assert [(row["key"], row["caption"]) for row in result.kept] == [("a", "long")]
    assert set(reasons(result).values()) == {"no-caption"}


FIVE = b"a cat\r\n\n  a pet \na cat\n\x07\n"


@pytest.mark.parametrize(("content", "settings", "captions"), [
    (FIVE, {"captions_per_line": True}, ["a cat", "a pet"]),
    (b"a cat\na pet\n", {"captions_per_line": False}, ["a cat\na pet"]),
    (b"a cat\na pet\n", {}, ["a cat\na pet"]),
    (b'["a cat", "", "a pet"]', {"caption_from": "json"}, ["a cat", "a pet"]),
    (b'{"c": ["a cat\\na pet", "x"]}', {"caption_from": "json:c"}, ["a cat\na pet", "x"]),
    (b'{"c": ["a cat\\na pet", "x"]}', {"caption_from": "json:c", "captions_per_line": True},
        ["a cat", "a pet", "x"]),
    (b'["a cat"]', {"caption_from": "captions.json"}, ["a cat"]),
    (json.dumps([str(n) for n in range(verdicts.MOST_CAPTIONS + 1)]).encode(),
        {"caption_from": "json"}, Fault.CAPTION_LENGTH),
])  # fmt: skip
def test_several_captions_in_one_file(tmp_path, content, settings, captions):
    extension = settings.get("caption_from", "txt").partition(":")[0]
    members = [("a.jpg", jpeg()), (f"a.{extension}", content)]
    result = index_of(tmp_path, members, **settings)
    kept = [[row["caption"], *row["more_captions"]] for row in result.kept]
    assert kept == ([captions] if isinstance(captions, list) else [])
    assert reasons(result) == ({} if kept else {"a": captions})


def test_lines_of_a_table_are_captions_too(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.jpg", jpeg())])
    policy = Policy(table="replace", captions_per_line=True)
    [row] = index_shard(path, policy, lambda keys: {"a": ["one\ntwo", "three"]}).kept
    assert [row["caption"], *row["more_captions"]] == ["one", "two", "three"]


TABLE = {"a": [" new a ", "newer a", "new a"], "b": ["caption b", "second b"], "e": ["", "e\0"],
         "f": ["", "good"], "elsewhere": ["x"]}  # fmt: skip


REPLACED = {"a": ["new a", "newer a"], "b": ["caption b", "second b"], "f": ["good"]}
"""Captions of the pairs that the table has."""
NO_ROW = "not-in-caption-table"


@pytest.mark.parametrize(("table", "captions", "refused"), [
    ("replace", REPLACED, {"c": NO_ROW, "d": NO_ROW, "e": "empty-caption", "g": "no-image"}),
    ("augment", REPLACED | {"a": ["caption a", *REPLACED["a"]], "c": ["caption c"]},
        {"d": "undecodable-caption", "e": "no-caption", "g": "no-image"}),
])  # fmt: skip
def test_a_table_s_captions_replace_those_of_the_shard_or_follow_them(
    tmp_path, table, captions, refused
):
    members = [*whole("a"), *whole("b"), *whole("c"), ("d.jpg", jpeg()), ("d.txt", b"\xff"),
               ("e.jpg", jpeg()), ("f.jpg", jpeg()), ("f.seg.png", b""),
               ("g.txt", b"x")]  # fmt: skip
    asked = []

    def lookup(keys: list[str]) -> dict[str, list[str]]:
        asked.extend(keys)
        return {key: TABLE[key] for key in keys if key in TABLE}

    path = write_tar(tmp_path / "a.tar", members)
    result = index_shard(path, Policy(table=table), lookup)  # type: ignore[arg-type]
    assert set("abcdef") <= set(asked)
    kept = {row["key"]: [row["caption"], *row["more_captions"]] for row in result.kept}
    assert (kept, reasons(result)) == (captions, refused)
    told = [row["detail"] for row in result.rejected if row["reason"] == NO_ROW]
    assert set(told) <= {"the table has no such key"}


def test_lookup_and_policy_go_together(tmp_path):
    with pytest.raises(ValueError, match="caption table"):
        index_shard(tmp_path, Policy(table="replace"))
    with pytest.raises(ValueError, match="caption table"):
        index_shard(tmp_path, Policy(), lambda keys: {})


def test_an_error_of_the_lookup_is_not_one_of_the_shard(tmp_path):
    def lookup(keys: list[str]) -> dict[str, list[str]]:
        raise OSError("the table is gone")

    with pytest.raises(OSError, match="the table is gone"):
        index_shard(write_tar(tmp_path / "a.tar", whole("a")), Policy(table="replace"), lookup)


def test_the_heart_beats_at_every_sample(tmp_path):
    beats: list[None] = []
    path = write_tar(tmp_path / "a.tar", [m for n in range(5) for m in whole(str(n))])
    index_shard(path, Policy(), alive=lambda: beats.append(None))
    assert len(beats) >= 5


def test_the_same_shard_gives_the_same_rows(tmp_path):
    members = [m for fault, _ in FAULTS.values() for m in fault]
    first, second = index_of(tmp_path, members), index_of(tmp_path, members)
    assert first == second
    assert "0x" not in json.dumps(first.rejected)


def test_nothing_is_written_by_the_name_of_a_member(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    target = tmp_path / "absolute"
    members = [m for key in ("../escaped", str(target), "plain") for m in whole(key)]
    result = index_of(inside, members)
    assert len(result.kept) == 3
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.tar", "inside"]


@pytest.mark.parametrize(("extension", "image_format"), [
    ("jpg", "JPEG"), ("JPE", "JPEG"), ("jfif", "JPEG"), ("Jpeg", "JPEG"), ("png", "PNG"),
    ("webp", "WEBP"), ("gif", "GIF"), ("bmp", "BMP"), ("tif", "TIFF"), ("tiff", "TIFF"),
    ("ppm", "PPM"), ("pgm", "PPM"), ("avif", "AVIF"), ("img", "PNG"), ("image", "JPEG"),
])  # fmt: skip
def test_images_of_every_common_kind_are_kept(tmp_path, extension, image_format):
    content = encoded(Image.effect_noise((24, 16), 60).convert("RGB"), image_format)
    (row,) = index_of(tmp_path, [(f"a.{extension}", content), ("a.txt", b"a caption")]).kept
    assert (row["key"], row["width"], row["height"]) == ("a", 24, 16)
