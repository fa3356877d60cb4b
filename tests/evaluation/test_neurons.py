"""What activates neurons, against brute force; and the gallery that shows it."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from mispair.core import files
from mispair.evaluation import activations
from mispair.evaluation.activations import feature_blocks, strongest
from mispair.evaluation.purity import neuron_overlap, random_overlap, random_rotation
from mispair.evaluation.report import neurons
from mispair.evaluation.report.neurons import Neuron, ShownNeurons, ShownSample
from mispair.pairs.report import contact_sheet

EVIL = "<script>alert(1)</script> & \"quoted\" 'text'"


def _matrix(d, e, seed=0):
    return np.random.default_rng(seed).standard_normal((d, e)).astype(np.float32)


def test_the_strongest_are_those_of_a_full_sort():
    features, projection = _matrix(50, 7), _matrix(7, 5, 1)
    names = [f"{number:02d}" for number in np.random.default_rng(2).permutation(50)]
    product = features.astype(float) @ projection.astype(float)
    coordinates = product / np.linalg.norm(product, axis=1, keepdims=True)
    blocks = [(names[rows], features[rows]) for rows in (slice(0, 3), slice(3, 30), slice(30, 50))]
    for order in ([0, 1, 2], [2, 0, 1]):
        found = strongest([blocks[place] for place in order], projection, [4, 0], 6)
        for neuron, best in zip([4, 0], found, strict=True):
            rows = np.argsort(-coordinates[:, neuron])[:6]
            assert [name for name, _ in best] == [names[row] for row in rows]
            expected = coordinates[rows, neuron]
            np.testing.assert_allclose([value for _, value in best], expected, atol=1e-6)


def test_equal_activations_are_ordered_by_name_whatever_block_they_are_in():
    names, features = [*"dbeac"], np.array([[2.0, 0], [1, 0], [0, 1], [3, 0], [1, 0]])
    for cut in range(6):
        blocks = [(names[:cut], features[:cut]), (names[cut:], features[cut:])]
        blocks = [block for block in blocks if block[0]]
        (best,) = strongest(blocks, np.eye(2), [0], 3)
        assert best == [("a", 1.0), ("b", 1.0), ("c", 1.0)]
    assert strongest(blocks, np.eye(2), [0, 1], 9)[1][0] == ("e", 1.0)
    assert [len(best) for best in strongest(blocks, np.eye(2), [0, 1], 9)] == [5, 5]
    assert strongest(blocks, np.eye(2), [0, 1], 0) == [[], []]


def write_part(folder, name, *, towers="t" * 8, **kinds):
    """Write a part of features: kind=(ids, array, crops)."""
    import pandas as pd

    tensors, tables = {}, []
    for kind, (ids, array, crops) in kinds.items():
        tensors[f"{kind}_features"] = array
        rows = np.arange(len(ids)) * crops
        tables.append(pd.DataFrame({"kind": kind, "id": ids, "row": rows}))
    paths = folder / f"{name}.safetensors", folder / f"{name}.parquet"
    files.write_tensors(paths[0], tensors, {"towers": towers})
    files.write_parquet(paths[1], pd.concat(tables), {"towers": towers})
    return paths


def test_features_are_read_from_parts_of_images_of_captions_and_of_both(tmp_path, monkeypatch):
    monkeypatch.setattr(activations, "BLOCK", 4)
    images, texts = _matrix(60, 3), _matrix(40, 2, 1)
    keys, captions = [f"k{n:02d}" for n in range(30)], [f"c{n:02d}" for n in range(40)]
    first = {"image": (keys[:20], images[:40], 2), "text": (captions[:5], texts[:5], 1)}
    parts = [write_part(tmp_path, "1", **first),
             write_part(tmp_path, "2", image=(keys[20:], images[40:], 2)),
             write_part(tmp_path, "captions-0", text=(captions, texts + 1, 1))]  # fmt: skip
    stored, rows = zip(*parts, strict=True)
    for kind, wanted in (("image", keys), ("image", ["k00", "k19", "k20"]),
                         ("text", captions[3:]), ("text", ["c39", "c00", "c04"])):  # fmt: skip
        blocks = list(feature_blocks(stored[::-1], rows, kind, wanted, "t" * 8))
        assert all(len(names) == len(block) <= 4 for names, block in blocks)
        found = {n: row for names, block in blocks for n, row in zip(names, block, strict=True)}
        assert sorted(found) == sorted(wanted)
        assert sum(len(names) for names, _ in blocks) == len(wanted)
        for name, row in found.items():
            number = int(name[1:])
            # The first crop of an image; a caption as the first part has it.
            own = images[2 * number] if kind == "image" else texts[number] + (number >= 5)
            np.testing.assert_array_equal(row, own)


def test_what_is_wrong_with_parts_is_named(tmp_path):
    array = _matrix(3, 2)
    array[1, 1] = np.nan
    path, rows = write_part(tmp_path, "0", image=(["a", "b", "c"], array, 1))

    def read(wanted, features=(path,), tables=(rows,), **options):
        return list(feature_blocks(features, tables, "image", wanted, **options))

    assert [names for names, _ in read(["a", "c"])] == [["a", "c"]]
    with pytest.raises(files.UserError, match=r"0\.safetensors: the feature of 'b' is not finite"):
        read(["a", "b"])
    with pytest.raises(files.UserError, match=r"no part .* image 'x' \(1 of 2 are missing\)"):
        read(["a", "x"])
    assert [names for names, _ in read(["a", "x"], every=False)] == [["a"]]
    with pytest.raises(files.UserError, match=r"0\.safetensors: is of other towers"):
        read(["a"], towers="other")
    with pytest.raises(files.UserError, match=r"0\.parquet, is not among those given"):
        read(["a"], tables=())
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(files.UserError, match="cannot be read as safetensors"):
        read(["a"])


def test_rankings_show_both_ends_by_either_tower_and_a_rotated_basis():
    towers = {"text": _matrix(9, 8), "image": _matrix(12, 8, 1)}
    data = {"text": _matrix(40, 9, 2), "image": _matrix(40, 12, 3)}
    names = {kind: [f"{kind}{n:02d}" for n in range(40)] for kind in data}
    rotation = random_rotation(8, np.random.default_rng(4))

    def blocks(kind):
        return iter([(names[kind], data[kind])])

    texts = {name: f"says {name}" for name in names["text"]}
    shown = neurons.rankings(towers, blocks, texts, (3, 4, 2), rotation)
    turned = {tower: matrix @ rotation for tower, matrix in towers.items()}
    for ranking, by, basis in zip(
        shown, ("text", "image", "text"), (towers, towers, turned), strict=True
    ):
        overlap = {tower: neuron_overlap(matrix) for tower, matrix in basis.items()}
        order = np.argsort(overlap[by]).tolist()
        assert [neuron.number for neuron in ranking.purest] == order[:3]
        assert [neuron.number for neuron in ranking.least_pure] == order[:4:-1]
        assert [neuron.rank[by] for neuron in ranking.all] == [1, 2, 3, 8, 7, 6]
        for neuron in ranking.all:
            assert neuron.overlap == {t: pytest.approx(overlap[t][neuron.number]) for t in overlap}
            for tower, rank in neuron.rank.items():
                assert rank == 1 + (overlap[tower] < overlap[tower][neuron.number]).sum()
            (pictures,) = strongest(blocks("image"), basis["image"], [neuron.number], 4)
            (said,) = strongest(blocks("text"), basis["text"], [neuron.number], 2)
            assert neuron.pictures == pictures
            assert neuron.captions == [(f"says {name}", value) for name, value in said]
    assert len(neurons.rankings(towers, blocks, texts, (3, 4, 2))) == 2
    (few, _) = neurons.rankings(towers, blocks, texts, (50, 1, 1))
    assert len(few.purest) == len(few.least_pure) == 4  # no neuron stands at both ends


def _encoded(format="JPEG", mode="RGB", side=96, seed=0, **options):
    draw = np.random.default_rng(seed)
    noise = Image.fromarray(draw.integers(0, 256, (side, side, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    noise.convert(mode).save(buffer, format, **options)
    return buffer.getvalue()


TOWERS = {"text": _matrix(512, 4), "image": _matrix(768, 4)}
SAMPLE = ShownSample("untouched projections", 1200, 34)


def _ranking(pictures, captions=((EVIL, 0.25),), title="By the text tower"):
    overlap, rank = {"text": 0.0412, "image": 0.1}, {"text": 1, "image": 3}
    neuron = Neuron(17, overlap, rank, pictures, captions)
    return ShownNeurons(title, EVIL, [neuron], [neuron])


def _thumbnails(html):
    found = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', html)
    return [Image.open(io.BytesIO(base64.b64decode(text))) for text in found]


def test_the_gallery_escapes_what_data_says_and_gives_every_number():
    html = neurons.fragment([_ranking([(EVIL, 0.5)])], {EVIL: _encoded()}, TOWERS, SAMPLE, 64)
    assert "<script" not in html
    # About, and for both neurons alt, title and text.
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 1 + 2 * 3
    for attribute in re.findall(r'(?:alt|title)="([^"]*)"', html):
        assert "<" not in attribute
    for text in (
        *("Neuron 17", "0.0412", "0.1000", "0.500", "0.250", "rank of 4"),
        *(f"{random_overlap(512):.4f}", f"{random_overlap(768):.4f}"),
        *("1,200 images", "34 captions", "untouched projections"),
    ):
        assert text in html, text
    assert re.search(r"(?:src|href)=\"(?!data:)", html) is None  # nothing is fetched
    (first, _) = _thumbnails(html)
    assert first.size == (64, 64)


def test_odd_pictures_are_shown_and_broken_ones_are_said_to_be_missing():
    deep = io.BytesIO()
    Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64)).save(deep, "PNG")
    odd = {
        "grey": _encoded(mode="L"), "cmyk": _encoded(mode="CMYK"), "png": _encoded("PNG", "RGBA"),
        "palette": _encoded("GIF", "P"), "webp": _encoded("WEBP"), "deep": deep.getvalue(),
        "empty": b"", "cut": _encoded()[:300], "text": EVIL.encode(),
    }  # fmt: skip
    pictures = [(name, 0.1) for name in (*odd, "absent")]
    html = neurons.fragment([_ranking(pictures)], odd, TOWERS, SAMPLE, 32)
    assert len(_thumbnails(html)) == 2 * 6
    assert html.count("image not available") == 2 * 4
    assert {max(image.size) for image in _thumbnails(html)} == {32}


def test_thumbnails_shrink_and_then_get_fewer_until_the_gallery_fits(monkeypatch):
    noise = {f"{number}": _encoded("PNG", seed=number, side=80) for number in range(8)}
    shown = [_ranking([(name, 0.1) for name in noise])]
    whole = neurons.fragment(shown, noise, TOWERS, SAMPLE, 80)
    assert len(_thumbnails(whole)) == 16
    monkeypatch.setattr(neurons, "LARGEST_GALLERY", len(whole) // 2)
    smaller = neurons.fragment(shown, noise, TOWERS, SAMPLE, 80)
    assert len(smaller.encode()) <= len(whole) // 2
    assert len(_thumbnails(smaller)) == 16
    assert 24 <= max(_thumbnails(smaller)[0].size) < 80
    monkeypatch.setattr(neurons, "LARGEST_GALLERY", 16_000)
    fewest = neurons.fragment(shown, noise, TOWERS, SAMPLE, 80)
    assert len(fewest.encode()) <= 16_000
    assert 0 < len(_thumbnails(fewest)) < 16


def test_control_characters_are_shown_as_such() -> None:
    caption = "a\0 red \x1b[31m\tcup"
    sheet = contact_sheet.fragment(
        [contact_sheet.SheetPair("k\x1b", None, caption, caption, True)], 0.5, 32
    )
    shown = _ranking([("k\x1b", 0.5)], [(caption, 0.25)])
    for html in (sheet, neurons.fragment([shown], {}, TOWERS, SAMPLE, 32)):
        assert "a\ufffd red \ufffd[31m\tcup" in html
        assert not {"\0", "\x1b"} & set(html)
