"""Rules of the repair, pair by pair, against loops that decide one pair at a time."""

from dataclasses import replace

import numpy as np
import pytest

from mispair.repair.rules import DROPPED, FAILED, KEPT, REPLACED, RULES, Evidence, decide
from mispair.repair.steps.filter_captions import Settings

N = 500


@pytest.fixture
def evidence() -> Evidence:
    draw = np.random.default_rng(0)
    generated = draw.random(N) < 0.9
    new = np.where(generated, draw.uniform(-0.2, 1, N), np.nan)
    return Evidence(draw.random(N) < 0.1, generated, draw.uniform(-0.2, 1, N), new, draw.random(N))


def _factor(evidence: Evidence, pair: int, factor: float) -> int:
    if evidence.trusted[pair]:
        return KEPT
    if not evidence.generated[pair]:
        return FAILED
    old, new = evidence.old[pair], evidence.new[pair]
    if old > 0:
        return REPLACED if new / old >= factor else KEPT
    return REPLACED if new > 0 else KEPT


@pytest.mark.parametrize("rule", RULES)
def test_trusted_pairs_keep_their_captions_and_only_generated_ones_replace(rule, evidence) -> None:
    actions = decide(rule, evidence, Settings(), 0)
    assert (actions[evidence.trusted] == KEPT).all()
    assert evidence.generated[actions == REPLACED].all()
    assert not evidence.generated[actions == FAILED].any()
    assert set(actions.tolist()) <= {KEPT, REPLACED, DROPPED, FAILED}


def test_declarations_agree_with_what_the_rules_do(evidence: Evidence) -> None:
    numbers = {**Settings().model_dump(), "factor": 3.0, "trusted_quantile": 0.9,
               "kept_share": 0.9, "posterior": 0.05}  # fmt: skip
    hidden = {"new": {"new": np.full(N, np.nan)}, "audit": {"wrong": 1 - evidence.wrong},
              "cosines": {"old": evidence.old[::-1], "new": evidence.new[::-1]}}  # fmt: skip
    for name, rule in RULES.items():
        actions = decide(name, evidence, Settings(), 0)
        assert (REPLACED in actions) is rule.replaces, name
        assert bool((actions != KEPT).any()) is rule.changes, name
        assert set(rule.references) < set(RULES), name
        for field, other in numbers.items():
            changed = decide(name, evidence, Settings(**{field: other}), 0)
            assert np.array_equal(changed, actions) or field in rule.numbers, (name, field)
        for part, values in hidden.items():
            changed = decide(name, replace(evidence, **values), Settings(), 0)
            assert np.array_equal(changed, actions) or part in rule.reads, (name, part)


def test_factor_and_drop_decide_as_a_loop_does(evidence: Evidence) -> None:
    expected = np.array([_factor(evidence, pair, 1.5) for pair in range(N)])
    assert np.array_equal(decide("factor", evidence, Settings(factor=1.5), 0), expected)
    dropped = decide("drop", evidence, Settings(factor=1.5), 0)
    assert np.array_equal(dropped == DROPPED, expected == REPLACED)
    assert not (dropped == REPLACED).any()


FACTOR_RULES = ("factor", "drop", "factor-untouched")


@pytest.mark.parametrize("rule", FACTOR_RULES)
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.2, 3.0])
@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [(-0.10, -0.115, False), (-0.10, -0.01, False), (-0.10, -0.10, False), (0.0, 0.0, False),
     (0.0, -0.1, False), (0.1, -0.3, False), (0.1, 0.0, False), (-0.1, 0.01, True),
     (0.0, 0.01, True), (0.1, 0.4, True)],
)  # fmt: skip
def test_a_factor_of_cosines_that_are_not_positive_replaces_none_by_a_worse_one(
    rule: str, factor: float, old: float, new: float, changes: bool
) -> None:
    one = np.ones(1, bool)
    pair = Evidence(~one, one, np.array([old]), np.array([new]))
    actions = decide(rule, pair, Settings(factor=factor), 0)
    assert (actions != KEPT).tolist() == [changes]


def test_pooled_takes_the_better_caption_above_a_quantile_of_trusted_pairs(evidence: Evidence):
    cut = np.quantile(evidence.old[evidence.trusted], 0.2)
    actions = decide("pooled", evidence, Settings(trusted_quantile=0.2), 0)
    for pair in np.flatnonzero(~evidence.trusted):
        new = evidence.new[pair] if evidence.generated[pair] else -np.inf
        best = max(new, evidence.old[pair])
        expected = DROPPED if best < cut else REPLACED if new > evidence.old[pair] else KEPT
        assert actions[pair] == expected


def test_share_keeps_the_best_captions(evidence: Evidence) -> None:
    actions = decide("share", evidence, Settings(kept_share=0.4), 0)
    open_pairs = ~evidence.trusted & evidence.generated
    worst_kept = evidence.old[open_pairs & (actions == KEPT)].min()
    assert worst_kept > evidence.old[actions == REPLACED].max()
    assert (evidence.old >= worst_kept).mean() == pytest.approx(0.4, abs=1 / N)


def test_posterior_replaces_what_the_audit_takes_for_wrong(evidence: Evidence) -> None:
    actions = decide("posterior", evidence, Settings(posterior=0.7), 0)
    open_pairs = ~evidence.trusted & evidence.generated
    assert np.array_equal(actions[open_pairs] == REPLACED, evidence.wrong[open_pairs] >= 0.7)


def test_random_rules_touch_as_many_pairs_as_factor_and_other_ones(evidence: Evidence) -> None:
    number = int((decide("factor", evidence, Settings(), 0) == REPLACED).sum())
    replaced = decide("random-replaced", evidence, Settings(), 0) == REPLACED
    dropped = decide("random-dropped", evidence, Settings(), 0) == DROPPED
    assert replaced.sum() == dropped.sum() == number
    assert np.array_equal(replaced, dropped)
    assert not np.array_equal(
        replaced, decide("random-replaced", evidence, Settings(), 1) == REPLACED
    )
    # Drawn without regard to the cosines.
    better = decide("factor", evidence, Settings(), 0) == REPLACED
    assert 0 < (replaced & ~better).sum() < number


def test_all_trusted_alone_raw_and_oracle(evidence: Evidence) -> None:
    every = decide("all", evidence, Settings(), 0)
    assert np.array_equal(every == REPLACED, ~evidence.trusted & evidence.generated)
    alone = decide("trusted-alone", evidence, Settings(), 0)
    assert np.array_equal(alone == KEPT, evidence.trusted)
    assert np.array_equal(alone == DROPPED, ~evidence.trusted)
    for rule in ("raw", "oracle"):
        assert (decide(rule, evidence, Settings(), 0) == KEPT).all()


def test_a_rule_without_its_evidence_is_refused(evidence: Evidence) -> None:
    none = np.zeros(N, bool)
    with pytest.raises(ValueError, match="audit"):
        decide("posterior", Evidence(none, ~none, evidence.old, evidence.new), Settings(), 0)
    with pytest.raises(ValueError, match="trusted"):
        decide("pooled", Evidence(none, ~none, evidence.old, evidence.new), Settings(), 0)
