"""Images and captions read back from an index and its shards."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from mispair.core.files import UserError
from mispair.pairs.index import image_list
from mispair.pairs.index.image_list import image_id
from mispair.pairs.index.index import caption_id, index_shard
from mispair.pairs.index.policy import Policy
from mispair.pairs.report.contact_sheet import distinct_captions
from tests.pairs.test_index import whole, write_tar


def indexed(shard: Path, **policy) -> pd.DataFrame:
    return pd.DataFrame(index_shard(shard, Policy(**policy)).kept)


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    return write_tar(tmp_path / "a.tar", [m for n in range(5) for m in whole(f"key{n}")])


def test_nothing_but_the_images_is_read(shard):
    with tarfile.open(shard) as archive:
        expected = {n: archive.extractfile(f"key{n}.jpg").read() for n in range(5)}
    places = image_list.locations(indexed(shard))
    # Everything else is wiped out: headers, captions, the end of the archive.
    kept = bytearray(shard.stat().st_size)
    content = shard.read_bytes()
    for place in places:
        span = slice(place.offset, place.offset + place.size)
        kept[span] = content[span]
    shard.write_bytes(bytes(kept))
    order = [3, 0, 4, 0]
    wanted = [places[number] for number in order]
    assert [place.key for place in wanted] == ["key3", "key0", "key4", "key0"]
    assert list(image_list.read_encoded(shard, wanted)) == [expected[number] for number in order]
    for image, number in zip(image_list.read_images(shard, wanted), order, strict=True):
        reference = Image.open(io.BytesIO(expected[number])).convert("RGB")
        assert np.array_equal(np.asarray(image), np.asarray(reference))


def change(shard: Path, how: str) -> None:
    content = bytearray(shard.read_bytes())
    offset = content.index(b"\xff\xd8", 4_000)
    match how:
        case "a bit":
            content[offset + 300] ^= 1
        case "moved":
            content[:0] = bytes(512)
        case "cut":
            del content[offset + 100 :]
        case "empty":
            content.clear()
    shard.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["a bit", "moved", "cut", "empty"])
def test_a_changed_shard_is_never_taken_for_the_one_that_was_indexed(how, shard):
    places = image_list.locations(indexed(shard))
    change(shard, how)
    with pytest.raises(UserError, match=r"a\.tar: the image of 'key\d' is no longer .* changed"):
        list(image_list.read_images(shard, places))


def test_a_shard_that_is_gone_is_named(shard):
    places = image_list.locations(indexed(shard))
    shard.unlink()
    with pytest.raises(UserError, match=r"a\.tar: cannot be read \(No such file"):
        list(image_list.read_encoded(shard, places))


def test_the_index_has_set_the_limit_of_pixels(tmp_path):
    # More than decode_image takes by itself, and than Pillow takes without a warning.
    stream = io.BytesIO()
    Image.new("1", (10_000, 9_000)).save(stream, "PNG")
    members = [("big.png", stream.getvalue()), ("big.txt", b"x")]
    shard = write_tar(tmp_path / "a.tar", members)
    index = indexed(shard, max_image_pixels=90_000_000)
    (image,) = image_list.read_images(shard, image_list.locations(index))
    assert image.size == (10_000, 9_000)
    small = index.assign(width=np.int32(9_999))
    with pytest.raises(UserError, match=r"'big' cannot be decoded .*pixels"):
        list(image_list.read_images(shard, image_list.locations(small)))


def test_what_is_no_image_is_named(tmp_path):
    shard = tmp_path / "a.tar"
    shard.write_bytes(b"no image")
    place = image_list.MemberPlace("one", 0, 8, image_id(b"no image"), 100)
    with pytest.raises(UserError, match=r"a\.tar: the image of 'one' cannot be decoded"):
        list(image_list.read_images(shard, [place]))


def test_every_text_once_by_its_id():
    captions = ["b", "a", "b", "c"]
    index = pd.DataFrame({"caption": captions, "caption_id": [*map(caption_id, captions)]})
    index["more_captions"] = [["d", "a"], [], np.array(["e"], object), []]
    found = distinct_captions(index)
    assert list(found) == sorted(caption_id(text) for text in "abcde")
    assert all(caption_id(text) == name for name, text in found.items())
    assert set(found.values()) == set("abcde")
    assert distinct_captions(index[:0]) == {}
