"""Whatever happens to a shard on its way: no exception, books that balance, no wrong pair.

What can be noticed: a changed header, by its checksum (two changes in one header may cancel out, so
each block is changed at most once here); a cut, by the sizes and the end marker; members that were
moved, by their names. What cannot: a changed bit inside a caption or an image that stays readable.
There the content may differ, but still it is the one that stands under the key's own name.
"""

import io
import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mispair.pairs.index.faults import REASONS, Fault
from mispair.pairs.index.index import ShardIndex, index_shard
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS, split_name

BLOCK = 512
FIXED = settings(max_examples=150, derandomize=True, deadline=None, database=None)
EVERYTHING = Policy(empty_captions="keep", control_characters="keep")


def _image(number: int, image_format: str) -> bytes:
    stream = io.BytesIO()
    Image.linear_gradient("L").resize((9 + number, 12)).convert("RGB").save(stream, image_format)
    return stream.getvalue()


def _members() -> list[tuple[str, bytes]]:
    members: list[tuple[str, bytes]] = [("._0.jpg", b"hidden")]
    for number, image_format in enumerate(["JPEG", "PNG", "GIF", "WEBP", "BMP"]):
        extension = image_format.lower()
        members += [
            (f"{number}.{extension}", _image(number, image_format)),
            (f"{number}.txt", f"caption {number}".encode()),
            (f"{number}.json", b'{"url": "u%d"}' % number),
        ]
    members += [("d.v1.jpg", _image(8, "JPEG")), ("d.v1.txt", b"dotted")]
    members += [("e.jpg", _image(9, "JPEG")), ("e.seg.png", b"extra"), ("e.txt", b"with an extra")]
    return members


MEMBERS = _members()
KEYS = ["0", "1", "2", "3", "4", "d.v1", "e"]


class Shard(NamedTuple):
    content: bytes
    places: dict[str, range]
    """Where each member's content lies."""


def pack(members: list[tuple[str, bytes]]) -> Shard:
    parts, places, position = [], {}, 0
    for name, content in members:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        parts += [info.tobuf(tarfile.USTAR_FORMAT), content, bytes(-len(content) % BLOCK)]
        places[name] = range(position + BLOCK, position + BLOCK + len(content))
        position = sum(map(len, parts))
    return Shard(b"".join(parts) + bytes(2 * BLOCK), places)


class Pair(NamedTuple):
    image_name: str
    image: bytes
    caption: str


def _pairs() -> dict[str, Pair]:
    contents = dict(MEMBERS)
    pairs = {}
    for key in KEYS:
        named = [name for name in contents if name.startswith(f"{key}.") and "seg" not in name]
        [image] = [name for name in named if name.endswith(IMAGE_EXTENSIONS)]
        pairs[key] = Pair(image, contents[image], contents[f"{key}.txt"].decode())
    return pairs


PAIRS = _pairs()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "0.tar"


def indexed(path: Path, content: bytes, policy: Policy = EVERYTHING) -> ShardIndex:
    path.write_bytes(content)
    result = index_shard(path, policy)
    kept, rejected = ([row["key"] for row in rows] for rows in (result.kept, result.rejected))
    assert result.read == len(kept) + len(rejected)
    assert max(Counter(kept).values(), default=0) <= 1
    assert not set(kept) & {r["key"] for r in result.rejected if r["reason"] != Fault.DAMAGED_SHARD}
    assert {row["reason"] for row in result.rejected} <= set(REASONS)
    assert sum(row["reason"] == Fault.DAMAGED_SHARD for row in result.rejected) <= 1
    json.dumps([result.kept, result.rejected], ensure_ascii=False).encode()
    return result


def is_damaged(result: ShardIndex) -> bool:
    return any(row["reason"] == Fault.DAMAGED_SHARD for row in result.rejected)


def check_pairs(
    result: ShardIndex, content: bytes, places: dict[str, range], changed: set[int]
) -> None:
    """Compare every kept pair with the undamaged one, but for the files that were changed."""
    for row in result.kept:
        pair = PAIRS[row["key"]]
        start, size = row["image_offset"], row["image_bytes"]
        place = places[pair.image_name]
        assert range(start, start + size) == place
        if not changed.intersection(place):
            assert content[start : start + size] == pair.image
        if not changed.intersection(places[f"{row['key']}.txt"]):
            assert row["caption"] == pair.caption
    if not is_damaged(result):
        assert set(KEYS) <= {row["key"] for row in result.kept + result.rejected}


@st.composite
def damages(draw: st.DrawFn) -> tuple[bytes, dict[str, range], set[int]]:
    """Shuffle members, flip bits (at most one in a block), overwrite a block, cut the end off."""
    order = draw(st.sampled_from(["as it was", "samples moved", "members moved"]))
    members = MEMBERS
    if order == "samples moved":
        keys = draw(st.permutations(sorted({split_name(name)[0] for name, _ in MEMBERS})))
        members = sorted(MEMBERS, key=lambda member: keys.index(split_name(member[0])[0]))
    if order == "members moved":
        members = draw(st.permutations(MEMBERS))
    shard = pack(members)
    content, changed = bytearray(shard.content), set()
    places = st.integers(0, len(content) - 1)
    for position in draw(st.lists(places, max_size=2, unique_by=lambda p: p // BLOCK)):
        content[position] ^= 1 << draw(st.integers(0, 7))
        changed.add(position)
    if draw(st.integers(0, 3)) == 0:
        start = draw(places) // BLOCK * BLOCK
        block = draw(st.binary(min_size=BLOCK, max_size=BLOCK))
        content[start : start + BLOCK] = block
        changed.update(range(start, start + BLOCK))
    if draw(st.integers(0, 2)) == 0:
        del content[draw(places) :]
    return bytes(content), shard.places, changed


def test_the_undamaged_shard_is_kept_whole(path):
    shard = pack(MEMBERS)
    result = indexed(path, shard.content, Policy())
    assert [row["key"] for row in result.kept] == KEYS
    assert result.rejected == []
    assert result.ignored == 1
    check_pairs(result, shard.content, shard.places, set())


@FIXED
@given(damages())
def test_any_damage(path, damage):
    content, places, changed = damage
    check_pairs(indexed(path, content), content, places, changed)


@FIXED
@given(st.permutations(MEMBERS))
def test_shuffled_members_give_original_pairs_or_none(path, members):
    shard = pack(members)
    result = indexed(path, shard.content)
    check_pairs(result, shard.content, shard.places, set())
    assert not is_damaged(result)
    # Kept are those whose members, hidden files aside, stand side by side.
    runs = [split_name(name)[0] for name, _ in members if not name.startswith(".")]
    starts = Counter(key for i, key in enumerate(runs) if i == 0 or runs[i - 1] != key)
    kept = {row["key"] for row in result.kept}
    assert {key for key in KEYS[:5] if starts[key] == 1} == kept.intersection(KEYS[:5])


@FIXED
@given(st.data())
def test_a_flipped_bit_in_a_header_is_always_noticed(path, data):
    shard = pack(MEMBERS)
    number = data.draw(st.integers(0, len(MEMBERS) - 1))
    start = shard.places[MEMBERS[number][0]].start - BLOCK
    # Of the checksum's own eight bytes, blanks and zeros mean the same.
    position = start + data.draw(st.integers(0, BLOCK - 1).filter(lambda p: not 148 <= p < 156))
    content = bytearray(shard.content)
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    result = indexed(path, bytes(content))
    assert is_damaged(result)
    check_pairs(result, bytes(content), shard.places, {position})
    assert all(row["image_offset"] < start for row in result.kept)


@FIXED
@given(st.binary(max_size=3_000))
def test_random_bytes(path, content):
    result = indexed(path, content)
    assert result.kept == []
    # A block of zeros is the end of an archive without members.
    assert is_damaged(result) or not content.strip(b"\0")


@FIXED
@given(st.binary(max_size=600), st.sampled_from(["jpg", "png", "gif", "webp", "tif", "bmp"]))
def test_random_members(path, content, extension):
    start = dict(MEMBERS)["0.jpeg"][:300]
    members = [(f"a.{extension}", start[: len(content)] + content), ("a.txt", content),
               ("a.json", content)]  # fmt: skip
    for policy in (Policy(), EVERYTHING, Policy(caption_from="json:caption")):
        result = indexed(path, pack(members).content, policy)
        assert result.read == 1
        assert not is_damaged(result)
