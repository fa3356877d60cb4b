"""Features of a pairing from the parts they are cached in, against one lookup for each pair."""

import errno
import os
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest

from mispair.core import files
from mispair.towers import features
from mispair.towers.features import FeaturePart, gather, read_part


def make(name, keys, captions, *, seed, crops=1, dtype=np.float32, **metadata):
    """Return a part with random features, its table of rows in no order."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "kind": ["image"] * len(keys) + ["text"] * len(captions),
            "id": [*keys, *captions],
            "row": [*range(0, len(keys) * crops, crops), *range(len(captions))],
        }
    )
    return FeaturePart(
        name=f"{name}.safetensors",
        rows=table.sample(frac=1, random_state=seed),
        image_features=draw.standard_normal((len(keys) * crops, 4)).astype(dtype),
        text_features=draw.standard_normal((len(captions), 5)).astype(dtype),
        metadata={"towers": "T", "precision": "fp32", "crops": str(crops), **metadata},
    )


def corpus(**options):
    """Three groups and a part with nothing but texts; c1 and c2 are in several of them."""
    return {
        "0007": make("0007", ["k3", "k1", "k5"], ["c2", "c1"], seed=1, **options),
        "0002": make("0002", ["k2", "k0", "k4"], ["c1", "c0"], seed=2, **options),
        "0011": make("0011", ["k9"], ["c2", "c8"], seed=3, **options),
        "drop~0.3": make("drop~0.3", [], ["n1", "n0"], seed=4, **options),
    }


def pairing(*pairs):
    """Return the pairing of (key, group, row, caption)."""
    table = pd.DataFrame(pairs, columns=["key", "group", "row", "caption_id"])
    return table.assign(text_changed=False).astype({"row": "int32"})


PAIRS = pairing(
    ("k0", "0002", 1, "c1"),
    ("k1", "0007", 1, "n0"),
    ("k2", "0002", 0, "c1"),
    ("k5", "0007", 2, "c2"),
    ("k9", "0011", 0, "c0"),
)


def loaders(parts):
    return {name: (lambda part=part: part) for name, part in parts.items()}


@pytest.mark.parametrize("crops", [1, 3])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_large_features_are_in_a_file_without_a_name(dtype, crops, tmp_path, monkeypatch):
    parts = loaders(corpus(dtype=dtype, crops=crops))
    kept = gather(parts, PAIRS)
    monkeypatch.setattr(features, "MAPPED_FROM", 1)
    mapped = gather(parts, PAIRS, scratch=tmp_path)
    assert [*tmp_path.iterdir()] == []
    for name in ("image_features", "text_features", "text_rows"):
        np.testing.assert_array_equal(getattr(mapped, name), getattr(kept, name))
        assert getattr(mapped, name).dtype == getattr(kept, name).dtype
    for name in ("image_features", "text_features"):
        assert isinstance(getattr(mapped, name), np.memmap)
        assert not isinstance(getattr(kept, name), np.memmap)


def test_features_for_which_the_disk_has_no_room_are_one_message(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(features, "MAPPED_FROM", 1)
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(files.UserError, match="Make room"):
        gather(loaders(corpus()), PAIRS, scratch=tmp_path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("crops", [1, 3])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("reverse", [False, True])
def test_gather_follows_the_pairing_whatever_the_order_of_parts(reverse, dtype, crops):
    parts = corpus(dtype=dtype, crops=crops)
    given = dict(reversed(parts.items())) if reverse else parts
    found = gather(loaders(given), PAIRS)
    images, texts = [], []
    for pair in PAIRS.itertuples():
        features = parts[pair.group].image_features
        images += [features[pair.row * crops + crop] for crop in range(crops)]
        # The first part by name that holds the caption.
        for name in ["0002", "0007", "0011", "drop~0.3"]:
            rows = parts[name].rows
            here = rows[(rows["kind"] == "text") & (rows["id"] == pair.caption_id)]
            if len(here):
                texts.append(parts[name].text_features[here["row"].iloc[0]])
                break
    np.testing.assert_array_equal(found.image_features, images)
    np.testing.assert_array_equal(found.text_features[found.text_rows[0]], texts)
    assert found.image_features.dtype == found.text_features.dtype == dtype
    assert found.crops == crops
    assert len(found.text_features) == 4  # c1 is held once


def test_gather_loads_each_part_once_and_holds_one_at_a_time():
    rows, parts = 2000, 12
    names = [f"{number:02d}" for number in range(parts)]
    keys = [[f"k{name}{row:04d}" for row in range(rows)] for name in names]
    captions = [[f"c{name}{row:04d}" for row in range(rows)] for name in names]
    tables = [make(*each, seed=0).rows for each in zip(names, keys, captions, strict=True)]
    loaded = []

    def load(number):
        loaded.append(number)
        image, text = (np.full((rows, 1024), number, np.float16) for _ in range(2))
        return FeaturePart(names[number], tables[number], image, text, {"towers": "T"})

    table = pairing(
        *((keys[n][r], names[n], r, captions[n][r]) for r in range(rows) for n in range(parts))
    )
    part = 2 * rows * 1024 * 2
    tracemalloc.start()
    try:
        found = gather({name: partial(load, number) for number, name in enumerate(names)}, table)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sorted(loaded) == list(range(parts))
    held = found.image_features.nbytes + found.text_features.nbytes
    assert held == parts * part
    assert peak < held + 2.4 * part  # one part, a block of rows being copied, and the names
    assert (found.image_features[:, 0].reshape(rows, parts) == np.arange(parts)).all()
    assert (found.text_features[found.text_rows[0], 0] == found.image_features[:, 0]).all()


@pytest.mark.parametrize(("wrong", "message"), [
    (("k4", "0002", 1, "c1"), "has image 'k4' in row 1, where the features have 'k0'"),
    (("k0", "0002", 3, "c1"), "has image 'k0' in row 3, where the features have no image"),
    (("k0", "0002", -2, "c1"), "has image 'k0' in row -2, where the features have no image"),
])  # fmt: skip
def test_gather_refuses_features_of_another_index(wrong, message):
    table = pd.concat([PAIRS.iloc[1:], pairing(wrong)])
    with pytest.raises(ValueError, match=rf"0002.safetensors and the .* out of step.*{message}"):
        gather(loaders(corpus()), table)


def test_gather_names_what_is_missing():
    parts = corpus()
    beyond = pairing(("k6", "0005", 0, "c1"))
    with pytest.raises(ValueError, match=r"no image 'k6' \(1 of 6 are missing\)"):
        gather(loaders(parts), pd.concat([PAIRS, beyond]))
    del parts["drop~0.3"]
    with pytest.raises(ValueError, match=r"no text 'n0' \(1 of 4 are missing\)"):
        gather(loaders(parts), PAIRS)
    with pytest.raises(ValueError, match=r"no image 'k0' \(5 of 5 are missing\)"):
        gather({}, PAIRS)
    with pytest.raises(ValueError, match="the pairing holds no pair"):
        gather(loaders(corpus()), PAIRS.iloc[:0])


@pytest.mark.parametrize(("options", "message"), [
    ({"towers": "U"}, r"differ in towers \(T and U\)"),
    ({"precision": "bf16"}, r"differ in precision of images \(fp32, float32 and bf16, float32\)"),
    ({"crops": 2}, r"differ in crops \(1 and 2\)"),
    ({"dtype": np.float16}, r"differ in precision of images \(.*32 and fp32, float16\)"),
])  # fmt: skip
def test_gather_refuses_parts_that_were_made_otherwise(options, message):
    parts = corpus()
    parts["0011"] = make("0011", ["k9"], ["c2", "c8"], seed=3, **options)
    with pytest.raises(ValueError, match=f"0002.safetensors and 0011.safetensors {message}"):
        gather(loaders(parts), PAIRS)


def test_images_and_texts_may_differ_in_precision():
    images = {
        "0007": make("0007", ["k3", "k1", "k5"], [], seed=1, dtype=np.float16, precision="bf16"),
        "0002": make("0002", ["k2", "k0", "k4"], [], seed=2, dtype=np.float16, precision="bf16"),
        "0011": make("0011", ["k9"], [], seed=3, dtype=np.float16, precision="bf16"),
    }
    texts = {"captions-0": make("captions-0", [], ["c0", "c1", "c2", "n0"], seed=4)}
    found = gather(loaders(images | texts), PAIRS)
    assert (found.image_features.dtype, found.text_features.dtype) == (np.float16, np.float32)
    texts["drop~0.3"] = make("drop~0.3", [], ["n1"], seed=5, precision="bf16")
    with pytest.raises(ValueError, match=r"captions-0.* and drop~0.3.* differ in precision of tex"):
        gather(loaders(images | texts), PAIRS)


def test_texts_alone_have_no_crops():
    parts = corpus(crops=2)
    parts["drop~0.3"] = make("drop~0.3", [], ["n1", "n0"], seed=4, crops=1)
    assert gather(loaders(parts), PAIRS).crops == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_gather_names_a_used_feature_that_is_not_finite(value, dtype):
    parts = corpus(dtype=dtype)
    largest = np.finfo(dtype).max
    for part in parts.values():
        part.image_features[:, 0] = largest  # finite, though a sum of them is not
        part.image_features[:, 1] = largest
    parts["0007"].image_features[0, 2] = value  # k3, which the pairing does not use
    gather(loaders(parts), PAIRS)
    parts["0007"].image_features[2, 2] = value
    with pytest.raises(ValueError, match="image 'k5' in 0007.safetensors is not finite"):
        gather(loaders(parts), PAIRS)
    parts = corpus(dtype=dtype)
    parts["drop~0.3"].text_features[1, 4] = value
    with pytest.raises(ValueError, match=r"text 'n0' in drop~0.3.safetensors is not finite"):
        gather(loaders(parts), PAIRS)


def test_gather_refuses_a_table_of_other_features():
    parts = corpus()
    two = make("0007", ["k3", "k1", "k5"], ["c2", "c1"], seed=1, crops=2)
    one = parts["0007"]
    # Twice the rows of half the width would fit in shape.
    parts["0007"] = FeaturePart(
        one.name, one.rows, two.image_features, one.text_features, one.metadata
    )
    with pytest.raises(ValueError, match=r"0007.* has 6 rows of images, .* lists 3 .* of 1 crops"):
        gather(loaders(parts), PAIRS)
    parts["0007"] = FeaturePart(
        one.name, one.rows, one.image_features, one.image_features, one.metadata
    )
    with pytest.raises(ValueError, match="0007.* has 3 texts, its table 2"):
        gather(loaders(parts), PAIRS)


def test_parts_come_from_files(tmp_path):
    part = make("0007", ["k3", "k1"], ["c2"], seed=1, crops=2)
    tensors = {"image_features": part.image_features, "text_features": part.text_features}
    files.write_tensors(tmp_path / "0007.safetensors", tensors, dict(part.metadata))
    files.write_parquet(tmp_path / "0007.parquet", part.rows)
    read = read_part(tmp_path / "0007.safetensors", tmp_path / "0007.parquet")
    assert (read.name, read.crops, read.metadata) == ("0007.safetensors", 2, part.metadata)
    np.testing.assert_array_equal(read.image_features, part.image_features)
    np.testing.assert_array_equal(read.text_features, part.text_features)
    assert read.rows["id"].tolist() == part.rows["id"].tolist()
