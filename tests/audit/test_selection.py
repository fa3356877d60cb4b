"""Which pairs are kept, and lists that other tools read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mispair.audit.report.gallery import Suspect, fragment
from mispair.audit.selection import kept_pairs, shown_kinds
from mispair.pairs.index.uids import uids_of


def test_a_cut_leaves_out_what_is_as_likely():
    probability = np.array([0.1, 0.5, 0.9, np.nan])
    assert kept_pairs(probability, 0.5, None).tolist() == [True, False, False, True]


def test_a_false_discovery_rate_bounds_the_right_pairs_left_out():
    generator = np.random.default_rng(0)
    probability = generator.random(5000)
    wrong = generator.random(5000) < probability
    kept = kept_pairs(probability, 0.5, 0.2)
    removed = ~kept
    assert (1 - probability[removed]).mean() <= 0.2
    assert abs((~wrong[removed]).mean() - 0.2) < 0.03
    assert probability[removed].min() > probability[kept].max()
    more = kept_pairs(probability, 0.5, 0.4)
    assert (~more).sum() > removed.sum()


def test_without_probabilities_all_are_kept():
    assert kept_pairs(np.full(3, np.nan), 0.5, 0.1).all()
    assert kept_pairs(np.full(3, np.nan), 0.5, None).all()


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
        "least similar": [0, 1],
        "could be either": [],
    }


def test_a_gallery_escapes_captions_and_says_what_is_missing():
    evil = "<script>alert(1)</script>"
    html = fragment({"wrong": [Suspect(evil, None, evil, 0.5)], "either": []}, 32)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "image not available" in html
    assert "No pair is of this kind" in html
    assert "0.50" in html
    assert "probability" not in fragment({"wrong": [Suspect("k", None, "c", float("nan"))]}, 32)
