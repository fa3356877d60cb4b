"""The steps that show and measure neurons, on a small corpus of tars with planted neurons."""

import html
import io
import re
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from mispair.core import files, metrics
from mispair.evaluation.steps import draw_neurons, measure_semantics
from mispair.pairs.index.index import index_shard
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards.shard_writer import add_member
from mispair.towers.arms import LABELS, UNTOUCHED
from tests.evaluation.encoded import write_projection

EVIL = "<script>alert('x')</script> & \"quoted\""
FEATURES = ["colour:red", "colour:blue", "shape:star"]
TOWERS = "a" * 64
KEYS = [f"{number:06d}" for number in range(16)]


def codes_of(number):
    """Return the features of a pair: every combination of the three occurs twice."""
    return [name for place, name in enumerate(FEATURES) if number >> place & 1]


def caption_of(number):
    return EVIL if number == 7 else f"caption {number % 8}"  # each pair of captions is one caption


def picture(number):
    # Pairs 3 and 11 have the same image, file for file.
    shade = 3 if number == 11 else number
    image = Image.new("RGB", (40, 30), (shade * 16, 255 - shade * 16, 128))
    buffer = io.BytesIO()
    image.save(buffer, ("PNG", "JPEG", "WEBP")[shade % 3])
    return buffer.getvalue(), ("png", "jpg", "webp")[shade % 3]


@pytest.fixture
def corpus(tmp_path):
    """Write two groups of a shard each, their index, corpus, truth and features."""
    made: dict[str, list[Path]] = {"shards": [], "index": [], "truth": []}
    kept = []
    for group in range(2):
        own = range(8 * group, 8 * group + 8)
        shard = tmp_path / f"{group:05d}.tar"
        with tarfile.open(shard, "w") as tar:
            for number in own:
                content, extension = picture(number)
                add_member(tar, f"{KEYS[number]}.{extension}", content)
                add_member(tar, f"{KEYS[number]}.txt", caption_of(number).encode())
        found = index_shard(shard, Policy())
        assert len(found.kept) == 8, found.rejected
        index = pd.DataFrame(found.kept)
        made["shards"].append(shard)
        made["index"].append(tmp_path / "index" / f"{group:04d}.parquet")
        files.write_parquet(made["index"][-1], index)
        kept.append(
            index[["key", "caption_id"]].assign(group=f"{group:04d}", row=np.arange(len(index)))
        )
        made["truth"].append(tmp_path / f"{group:05d}.parquet")
        named = [codes_of(number) for number in own]
        truth = {"key": [KEYS[n] for n in own], "image_features": named, "caption_features": named}
        files.write_parquet(made["truth"][-1], pd.DataFrame(truth))
    pairs = pd.concat(kept, ignore_index=True)
    made["corpus"] = tmp_path / "corpus.parquet"
    files.write_parquet(made["corpus"], pairs)
    made |= _features(tmp_path / "features", pairs)
    made["projection"] = tmp_path / "projection.safetensors"
    _write_projection(made["projection"], np.eye(4))
    return made


def _code(number):
    return np.array([number >> place & 1 for place in range(3)], dtype=float)


def _features(folder, pairs):
    """Write features of which coordinates are: red, 3 blue + 4 star, minus star, what is left."""
    vectors = []
    for number in range(16):
        red, blue, star = _code(number)
        # Small, so that the last coordinate takes nearly all of the length and none varies it.
        first = 1e-3 * np.array([red, 3 * blue + 4 * star, -star])
        vectors.append(np.array([*first, np.sqrt(1 - (first**2).sum())]))
    vectors = np.array(vectors)
    captions = pairs.drop_duplicates("caption_id")
    paths = {"features": [], "feature_rows": []}
    for name, kind, ids, array in (
        ("0000", "image", KEYS[:8], vectors[:8]),
        ("0001", "image", KEYS[8:], vectors[8:]),
        ("captions-0", "text", captions["caption_id"], vectors[captions["key"].astype(int) % 8]),
    ):
        rows = pd.DataFrame({"kind": kind, "id": list(ids), "row": np.arange(len(ids))})
        paths["features"].append(folder / f"{name}.safetensors")
        paths["feature_rows"].append(folder / f"{name}.parquet")
        files.write_parquet(paths["feature_rows"][-1], rows, {"towers": TOWERS})
        files.write_tensors(paths["features"][-1], {f"{kind}_features": array}, {"towers": TOWERS})
    return paths


def _write_projection(path, matrix, towers=TOWERS):
    both = np.stack([matrix, matrix])
    write_projection(path, both, both, start="untouched", towers=towers, seeds="[4, 5]")


def _measure(corpus, path, **settings):
    names = ("projection", "index", "features", "feature_rows", "truth")
    measure_semantics.run(
        measure_semantics.Settings(**settings),
        **{name: corpus[name] for name in names},
        semantics=path,
    )
    return metrics.read_metrics(path)


def _draw(corpus, path, **settings):
    names = ("projection", "index", "shards", "features", "feature_rows", "corpus")
    draw_neurons.run(
        draw_neurons.Settings(**settings), **{name: corpus[name] for name in names}, sources=[],
        gallery=path,
    )  # fmt: skip
    return path.read_text(encoding="utf-8")


def test_planted_neurons_are_found_in_both_towers(corpus, tmp_path):
    rows, provenance = _measure(corpus, tmp_path / "semantics.json", rotations=1, seeds=1)
    assert provenance["projection"]["towers"] == TOWERS
    for tower, size in (("image", 16), ("text", 9)):  # captions each once; 7 and 15 differ

        def one(metric, neuron, tower=tower):
            wanted = {"tower": tower, "metric": metric, "neuron": neuron, "basis": "original"}
            (row,) = [row for row in rows if wanted.items() <= row.items()]
            return row

        best = [one("best_correlation", neuron) for neuron in range(3)]
        assert [row["feature"] for row in best] == ["colour:red", "shape:star", "shape:star"]
        assert best[0]["value"] == pytest.approx(1, abs=1e-6)
        assert best[2]["value"] == pytest.approx(-1, abs=1e-6)
        assert all(row["n"] == size and row["seed"] == 4 and row["overlap"] == 0 for row in best)
        if tower == "image":
            assert best[1]["value"] == pytest.approx(0.8, abs=1e-6)
            shares = [one("selectivity", neuron)["value"] for neuron in range(3)]
            assert shares == pytest.approx([1, 0.64, 1], abs=1e-6)
    assert {row["basis"] for row in rows} == {"original", "rotated", "rotated-0"}
    assert {row["seed"] for row in rows} == {4}


def test_no_order_of_files_changes_a_byte(corpus, tmp_path):
    _measure(corpus, tmp_path / "1.json", seeds=2)
    _draw(corpus, tmp_path / "1.html")
    for name in ("index", "shards", "features", "feature_rows", "truth"):
        corpus[name] = corpus[name][::-1]
    _measure(corpus, tmp_path / "2.json", seeds=2)
    _draw(corpus, tmp_path / "2.html")
    for kind in ("json", "html"):
        assert (tmp_path / f"1.{kind}").read_bytes() == (tmp_path / f"2.{kind}").read_bytes()
    rows, _ = metrics.read_metrics(tmp_path / "1.json")
    assert {row["seed"] for row in rows} == {4, 5}


def test_truth_that_is_missing_or_never_varies_is_an_error(corpus, tmp_path):
    path = tmp_path / "semantics.json"
    with pytest.raises(files.UserError, match=r"no true features of '000008' \(8 of 16 pairs\)"):
        _measure(corpus | {"truth": corpus["truth"][:1]}, path)
    with pytest.raises(files.UserError, match="no true features of '000000'"):
        _measure(corpus | {"truth": []}, path)
    with pytest.raises(files.UserError, match="no true features at all"):
        _measure(corpus | {"index": []}, path)
    same = pd.DataFrame(
        {"key": KEYS, "image_features": [["a"]] * 16, "caption_features": [None] * 16}
    )
    files.write_parquet(tmp_path / "same.parquet", same)
    with pytest.raises(files.UserError, match="image tower, seed 4: of 1 true features none"):
        _measure(corpus | {"truth": [tmp_path / "same.parquet"]}, path)
    files.write_parquet(tmp_path / "other.parquet", same[["key"]])
    with pytest.raises(files.UserError, match=r"other\.parquet: has no column"):
        _measure(corpus | {"truth": [tmp_path / "other.parquet"]}, path)
    _write_projection(corpus["projection"], np.eye(5))
    with pytest.raises(files.UserError, match="features of width 4 do not fit"):
        _measure(corpus, path)
    assert not path.exists()


def _cards(page):
    """Return (neuron, keys of its pictures, its captions) of every card."""
    found = []
    for card in page.split('<p class="number">Neuron ')[1:]:
        keys = re.findall(r'title="([^:"]+): ', card)
        captions = re.findall(r"<li>(.*?) <span", card)
        found.append((int(card.split("<")[0]), keys, [html.unescape(text) for text in captions]))
    return found


def test_the_gallery_shows_what_activates_each_neuron(corpus, tmp_path):
    page = _draw(corpus, tmp_path / "gallery.html", neurons=2, pictures=7, captions=5)
    assert "<script" not in page
    assert f"({LABELS[UNTOUCHED]}), 4 neurons" in page
    assert "among 15 images and 9 captions" in page  # 3 and 11 are one image
    cards = _cards(page)
    assert len(cards) == 3 * 4
    assert page.count("<img") == 3 * 4 * 7
    assert "image not available" not in page
    own = {number: (keys, captions) for number, keys, captions in cards[:4]}
    assert sorted(own) == [0, 1, 2, 3]
    # Red: the odd pairs, but for 11, of which the image is that of 3.
    assert {int(key) for key in own[0][0]} == {1, 3, 5, 7, 9, 13, 15}
    # Blue and star: 6, 7, 14 and 15, and then star alone.
    assert {int(key) for key in own[1][0][:4]} == {6, 7, 14, 15}
    assert {int(key) for key in own[1][0][4:]} < {4, 5, 12, 13}
    assert set(own[1][1][:3]) == {"caption 6", EVIL, "caption 7"}
    # Captions are shown once, though pairs 6 and 14 have the same.
    assert all(len(set(captions)) == 5 for _, _, captions in cards)


def test_the_shown_pictures_are_those_of_their_pairs(corpus, tmp_path):
    import base64

    page = _draw(corpus, tmp_path / "gallery.html", neurons=2, pictures=16, rotated=False)
    shown = re.findall(r'base64,([^"]+)" alt="[^"]*" title="(\d+):', page)
    assert len({key for _, key in shown}) == 15
    for text, key in shown:
        image = Image.open(io.BytesIO(base64.b64decode(text)))
        number = int(key)
        assert image.size == (40, 30)
        expected = (number * 16, 255 - number * 16, 128)
        np.testing.assert_allclose(image.getpixel((20, 15)), expected, atol=6)


def test_few_pairs_are_drawn_by_key_alone(corpus, tmp_path):
    page = _draw(corpus, tmp_path / "gallery.html", neurons=1, pairs=3, rotated=False)
    keys = {key for _, keys, _ in _cards(page) for key in keys}
    assert len(keys) == 3
    # Without the second group the same pairs of the first are drawn.
    alone = corpus | {"index": corpus["index"][:1], "shards": corpus["shards"][:1]}
    page = _draw(alone, tmp_path / "alone.html", neurons=1, pairs=3, rotated=False)
    first = {key for _, keys, _ in _cards(page) for key in keys}
    assert len(first) == 3
    assert keys & set(KEYS[:8]) <= first <= set(KEYS[:8])


def test_an_excluded_pair_is_not_shown(corpus, tmp_path):
    pairs, _ = files.read_parquet(corpus["corpus"])
    files.write_parquet(corpus["corpus"], pairs[~pairs["key"].isin(["000001", "000014"])])
    page = _draw(corpus, tmp_path / "gallery.html", neurons=2, pictures=16)
    keys = {key for _, keys, _ in _cards(page) for key in keys}
    assert keys == set(KEYS) - {"000001", "000011", "000014"}


def test_a_corpus_without_pairs_has_an_empty_gallery(corpus, tmp_path):
    none = _draw(corpus | {"index": [], "shards": []}, tmp_path / "1.html")
    pairs, _ = files.read_parquet(corpus["corpus"])
    files.write_parquet(corpus["corpus"], pairs[:0])
    for page in (none, _draw(corpus, tmp_path / "2.html")):
        assert "No neuron could be shown" in page
        assert not _cards(page)


def test_faults_are_named(corpus, tmp_path):
    path = tmp_path / "gallery.html"
    with pytest.raises(files.UserError, match=r"the index names 00001\.tar"):
        _draw(corpus | {"shards": corpus["shards"][:1]}, path)
    shard = corpus["shards"][0]
    shard.write_bytes(b"\0" * shard.stat().st_size)
    with pytest.raises(files.UserError, match="no longer where the index says"):
        _draw(corpus, path)
    _write_projection(corpus["projection"], np.eye(4), towers="b" * 64)
    with pytest.raises(files.UserError, match="is of other towers"):
        _draw(corpus, path)
    dead = np.eye(4)
    dead[:, 2] = 0
    _write_projection(corpus["projection"], dead)
    with pytest.raises(
        files.UserError, match=r"projection\.safetensors: neuron 2 has no direction"
    ):
        _draw(corpus, path)
    assert not path.exists()
