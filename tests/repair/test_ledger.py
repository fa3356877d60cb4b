"""The ledger of the repair: counts by hand, and sums that balance."""

import re
from collections import Counter

import numpy as np
import pytest
from huggingface_hub import DatasetCard

from mispair.core import cards
from mispair.core.words import percent
from mispair.repair import ledger
from mispair.repair.rules import DROPPED, FAILED, KEPT, REPLACED
from mispair.repair.steps.export_repaired import dataset_card

ACTIONS = np.array([KEPT, REPLACED, REPLACED, DROPPED, FAILED, FAILED, KEPT, DROPPED])
RIGHT = np.array([True, False, True, False, True, False, False, True])


def _by(rows: list[dict], *keys: str) -> dict:
    return {tuple(row[key] for key in keys): row["value"] for row in rows}


def test_counts_balance_and_name_reasons() -> None:
    trusted = np.array([True] + [False] * 7)
    reasons = [None, None, None, "empty", "empty", "captioner-failed", None, None]
    rows = ledger.counts(ACTIONS, trusted, reasons)
    counts = {row["metric"]: row["value"] for row in rows}
    assert counts["read"] == 8
    assert [counts[name] for name in ("kept", "replaced", "dropped", "failed")] == [2, 2, 2, 2]
    failed = _by([row for row in rows if row["metric"] == "failed_reason"], "reason")
    assert failed == {("empty",): 1, ("captioner-failed",): 1}
    assert counts["kept_trusted"] == 1


def test_cells_count_repaired_and_harmed_pairs() -> None:
    new_is_right = np.array([False, True, False, True, True, True, True, True])
    cells = _by(ledger.cells(ACTIONS, RIGHT, new_is_right), "before", "after")
    assert cells == {
        ("right", "right"): 2, ("wrong", "right"): 1, ("right", "wrong"): 1,
        ("wrong", "dropped"): 1, ("right", "dropped"): 1, ("wrong", "wrong"): 2,
    }  # fmt: skip
    unknown = _by(ledger.cells(ACTIONS, RIGHT, None), "before", "after")
    assert unknown[("swapped", "replaced")] == unknown[("own", "replaced")] == 1
    assert sum(cells.values()) == sum(unknown.values()) == len(ACTIONS)


def test_expected_numbers_are_sums_of_probabilities() -> None:
    wrong = np.linspace(0.1, 0.8, 8)
    trusted = np.array([True] + [False] * 7)
    rows = _by(ledger.expected(ACTIONS, wrong, trusted), "before", "after")
    assert rows["wrong", "replaced"] == pytest.approx(0.2 + 0.3)
    assert rows["right", "dropped"] == pytest.approx(0.6 + 0.2)
    assert rows["wrong", "kept"] == pytest.approx(0.7)
    assert sum(rows.values()) == pytest.approx(len(ACTIONS))


def test_precision_and_recall_are_those_of_a_count() -> None:
    draw = np.random.default_rng(1)
    pictures, named = draw.random((50, 9)) < 0.3, draw.random((50, 9)) < 0.4
    some = draw.random(50) < 0.5
    rows = ledger.features(pictures, named, "raw", some)
    pairs = Counter(
        (bool(pictures[i, j]), bool(named[i, j])) for i in np.flatnonzero(some) for j in range(9)
    )
    values = {row["metric"]: row["value"] for row in rows}
    both = pairs[True, True]
    assert values["precision"] == pytest.approx(both / (both + pairs[False, True]))
    assert values["recall"] == pytest.approx(both / (both + pairs[True, False]))
    assert ledger.features(pictures, np.zeros_like(named), "raw") == []


def test_the_card_has_front_matter_and_the_counts() -> None:
    rows = ledger.counts(ACTIONS, np.zeros(8, bool), ["empty"] * 8)
    rows += ledger.cells(ACTIONS, RIGHT, RIGHT)
    rows = [{"seed": 0, **row} for row in rows]
    card = DatasetCard(dataset_card(rows, {"repair": "factor", "factor": 1.2}, 'odd: "licence"'))
    assert card.data.license == 'odd: "licence"'
    assert card.data.size_categories == ["n<1K"]
    cells = {tuple(re.split(r" *\| *", line.strip("| "))) for line in card.text.splitlines()}
    assert ("read", "8") in cells
    assert ("wrong", "dropped", "1") in cells
    assert "Warning" not in card.text
    power = {"captioner_wins": 0.53, "scorer_wins": 0.9, "no_better_than_chance": ["captioner"]}
    warned = dataset_card(rows, {"repair": "factor", "factor": 1.2, **power}, "odd")
    assert warned.count("Warning") == 1
    assert "53 %" in warned


@pytest.mark.parametrize("excess", [0.0, 0.1])
@pytest.mark.parametrize("identified", ["limit", "interval"])
@pytest.mark.parametrize("rule", ["posterior", "factor"])
def test_the_card_states_that_probabilities_are_for_an_assumed_share(rule, identified, excess):
    rows = ledger.counts(ACTIONS, np.zeros(8, bool), ["empty"] * 8)
    expected = ledger.expected(ACTIONS, np.linspace(0.1, 0.8, 8), np.zeros(8, bool))
    known = {"identified": identified, "share": [0.3], "trusted_excess": excess}
    for by_audit, more in ((rule == "posterior", []), (True, expected)):
        made = [{"seed": 0, **row} for row in [*rows, *more]]
        card = dataset_card(made, {"repair": rule, **known}, "odd")
        noted = cards.assumed(percent(0.3, 2), contradicted=excess > 0) in card
        assert noted == (by_audit and identified == "limit")
