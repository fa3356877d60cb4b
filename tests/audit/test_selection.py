"""Which pairs are kept, and lists that other tools read."""

import re
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset
from scipy.stats import norm

from mispair.audit.probability import probabilities
from mispair.audit.selection import WEBDATASET, least_discoveries, likely_right, shown_kinds
from mispair.audit.steps.draw_suspects import Suspect, fragment
from mispair.pairs.index.books import uids_of
from mispair.pairs.shards.shard_writer import add_member
from mispair.pairs.sources.packing import pack
from mispair.pairs.sources.source import Entry, Source


def test_a_cut_leaves_out_what_is_as_likely():
    probability = np.array([0.1, 0.5, 0.9, np.nan])
    assert likely_right(probability, 0.5, None).tolist() == [True, False, False, True]
    assert likely_right(probability, 0.5, 0.1).tolist() == [True, False, False, True]
    # There may be no wrong caption at all.
    assert likely_right(probability, 0.5, 0.0).all()


@pytest.mark.parametrize("trusted", [100, 300, 1000])
@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_few_of_those_left_out_are_right_at_every_share(rate, trusted):
    """Realised shares over draws, on average and of all that is left out."""
    found = {}
    for share in (0.0, 0.03, 0.12, 0.27, 0.45):
        right, removed, shares = 0, 0, []
        for draw in range(40):
            generator = np.random.default_rng(draw)
            wrong = generator.random(3000) < share
            score = generator.normal(0, 1, 3000) + 2 * wrong
            known = np.zeros(3000, bool)
            known[generator.permutation(np.flatnonzero(~wrong))[:trusted]] = True
            left_out = ~least_discoveries(norm.cdf(score), known, rate)
            assert not (left_out & known).any()
            mistakes = int((left_out & ~wrong).sum())
            shares.append(mistakes / max(1, left_out.sum()))
            right, removed = right + mistakes, removed + int(left_out.sum())
            found[share] = removed / 40
        assert np.mean(shares) <= rate, share
        if trusted >= 300:  # also among the lists that leave something out
            assert right <= 1.2 * rate * removed + 3 * np.sqrt(rate * removed), share
        assert share or not removed
    assert trusted == 100 or found[0.45] > 0.3 * 0.45 * 3000


def test_what_has_no_probability_or_no_trusted_pair_is_kept():
    probability = np.array([np.nan, 0.99, 0.9, 0.1])
    assert least_discoveries(probability, np.zeros(4, bool), 0.5).all()
    assert least_discoveries(np.full(4, np.nan), np.array([True] * 2 + [False] * 2), 0.5).all()
    assert likely_right(np.full(3, np.nan), 0.5, None).all()


@pytest.mark.parametrize(("share", "n"), [(0.03, 1200), (0.03, 5000), (0.12, 5000), (0.27, 1200)])
def test_pairs_beyond_a_cut_are_as_often_wrong_as_expected(share, n):
    """An extreme bin of few pairs was once taken for one without right pairs."""
    expected, removed, mistaken = 0.0, 0, 0
    for draw in range(10):
        generator = np.random.default_rng(draw)
        wrong = generator.random(n) < share
        similarity = generator.normal(0, 1, n) + 1.85 * ~wrong
        reference, folds = generator.normal(0, 1, (n, 10)), generator.integers(0, 2, n)
        found = probabilities(similarity, reference, share, folds)
        left_out = ~likely_right(found, 0.5, None)
        expected += float((1 - found[left_out]).sum())
        removed, mistaken = removed + int(left_out.sum()), mistaken + int((left_out & ~wrong).sum())
    assert mistaken <= 1.1 * expected + 3 * np.sqrt(expected)
    assert removed < 10 or mistaken < 0.5 * removed


HIGH, LOW = "ffffffffffffffff0000000000000001", "00000000000000000000000000000002"
BOTH = [(0, 2), (2**64 - 1, 1)]


@pytest.mark.parametrize(
    ("keys", "index", "uids"),
    [
        ([HIGH, LOW], {}, BOTH),
        ([HIGH, LOW, LOW], {LOW: None, HIGH: "no uid"}, BOTH),
        (["0001", "0002"], {"0001": LOW, "0002": HIGH, "0003": None}, BOTH),
        (["a/0001", f"b/{LOW}"], {"a/0001": f" {HIGH.upper()} "}, BOTH),
        ([HIGH, "1"], {HIGH: LOW, "1": LOW}, [(0, 2)]),
        ([HIGH, LOW, "000012345"], {}, None),
        (["0001", "0002"], {"0001": LOW, "0002": LOW[1:]}, None),
        ([], {}, None),
    ],
)
def test_uids_of_datacomp_are_in_the_json_or_keys(keys, index, uids, tmp_path):
    paths = [tmp_path / f"{number}.parquet" for number in range(len(index))]
    for path, (key, uid) in zip(paths, index.items(), strict=True):
        pq.write_table(pa.table({"key": [key], "uid": pa.array([uid], pa.string())}), path)
    found, note = uids_of(keys, paths)
    assert (None if found is None else found.tolist()) == uids
    assert ("not written" in note) == (uids is None)


def test_the_most_likely_come_first_and_those_that_could_be_either_are_near_a_half():
    probability = np.array([0.2, 0.95, np.nan, 0.55, 0.99, 0.05])
    similarity = np.arange(6.0)
    likely, either = shown_kinds(probability, similarity, 2).values()
    assert (likely.tolist(), either.tolist()) == ([4, 1], [3, 0])
    assert shown_kinds(probability, similarity, 9)["most likely wrong"].tolist() == [4, 1, 3, 0, 5]
    kinds = shown_kinds(np.full(6, np.nan), similarity, 2)
    assert {kind: rows.tolist() for kind, rows in kinds.items()} == {
        "least similar": [0, 1], "could be either": []}  # fmt: skip


def test_a_gallery_escapes_captions_and_says_what_is_missing():
    evil = "<script>alert(1)</script>"
    html = fragment({"wrong": [Suspect(evil, None, evil, 0.5)], "either": []}, 32)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "image not available" in html
    none = [line for line in html.splitlines() if "note none" in line]
    assert [" hidden" in line for line in none] == [True, False]
    assert "0.50" in html
    unknown = fragment({"wrong": [Suspect("k", None, "c", float("nan"))]}, 32)
    assert "with probability" not in unknown
    assert 'data-probability=""' in unknown


def test_a_gallery_without_a_lower_limit_has_ranks_and_no_probability():
    likely = shown_kinds(np.array([0.2, 1.0, 0.9]), np.arange(3.0), 2, known=False)
    assert likely.popitem()[0] == "could be either"
    assert {kind: rows.tolist() for kind, rows in likely.items()} == {"most suspicious": [1, 2]}
    suspect = Suspect("k", None, "c", float("nan"), (1, 5000, 0.25))
    html = fragment({"most suspicious": [suspect], "either": []}, 32)
    assert "1 of 5,000" in html
    assert "1.00" not in html
    assert "<label hidden>Wrong with" in html
    assert "<label>Wrong with" in fragment({"wrong": [Suspect("k", None, "c", 0.5)]}, 32)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # webdataset closes late
def test_the_recipe_of_the_card_finds_the_pairs_in_packed_and_in_own_shards(tmp_path, monkeypatch):
    """It runs as written, with webdataset's reader of names."""
    keys = ["a/plain", "a/img.v2", "50%", "x%2Ey", "c d"]
    entries = []
    for number, key in enumerate([*keys, "a/left.out"]):
        path = tmp_path / f"{number}.jpg"
        path.write_bytes(b"a picture")
        entries.append(Entry(key, (str(path),), captions=("a text",)))
    pack(Source("folder", "", tuple(entries)), tmp_path / "packed.tar", lambda: None)
    with tarfile.open(tmp_path / "own.tar", "w") as tar:
        for key in ("a/plain", "50%", "x%2Ey", "left"):
            add_member(tar, f"{key}.jpg", b"a picture")
    (tmp_path / "kept.txt").write_text("".join(f"{key}\n" for key in keys))
    monkeypatch.chdir(tmp_path)
    recipe = re.search(r"```python\n(.*?)```", WEBDATASET, re.DOTALL)[1]
    for shard, expected in (("packed.tar", len(keys)), ("own.tar", 3)):
        names = {"webdataset": webdataset, "shards": str(tmp_path / shard)}
        exec(recipe, names)
        found = [sample["__key__"] for sample in names["dataset"]]
        assert len(found) == expected, found
        assert not [key for key in found if "left" in key]
