"""The five rules on simulated data: size under the null, power, and errors of the primary claims.

The size is how often a rule makes a false statement. Replicates are normal, so limits and tests are
exact; where all cases can be enumerated, they are.
"""

import functools
import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mispair.core import distributions
from mispair.report.claims import MeasuredClaim
from mispair.report.judge import judge
from mispair.report.pages.study_pages import every_pages
from mispair.report.rules import (
    ABSENT,
    CONTRADICTS,
    DIRECTION,
    SUPPORTS,
    UNDECIDED,
    Decision,
    Rule,
    decide,
)
from mispair.report.statistics import Effect, trend, unknown_effect
from mispair.report.tables import Tables

NO_TABLES = Tables({})
TIMES = 6000
ALPHA = 0.05
TRIALS = 8
ERROR = 1 / math.sqrt(TRIALS)
"""Standard error of a mean of trials of variance 1."""

NEAR = 0.01
"""Largest difference of a simulated size or power: 3.5 standard errors at a size of 5 %."""


@pytest.fixture(autouse=True)
def remembered_quantiles(monkeypatch):
    """Thousands of effects have the same few quantiles, which take most of the time."""
    monkeypatch.setattr(distributions, "t_quantile", functools.cache(distributions.t_quantile))


def effects(truth: float, seed: int, shared: float = 0.0, times: int = TIMES) -> list[Effect]:
    """Return the effects of many experiments of `TRIALS` normal trials of variance 1.

    The part `shared` of the variance is drawn from seed 0: it is the same for every seed.
    """
    own, common = (np.random.default_rng(s).normal(size=(times, TRIALS)) for s in (seed + 1, 0))
    values = truth + math.sqrt(1 - shared) * own + math.sqrt(shared) * common
    means, errors = values.mean(axis=1), values.std(axis=1, ddof=1) * ERROR
    p = 2 * stats.t.sf(abs(means) / errors, TRIALS - 1)
    return [
        Effect(mean, error, TRIALS - 1, value, TRIALS, "trial")
        for mean, error, value in zip(means.tolist(), errors.tolist(), p.tolist(), strict=True)
    ]


def decisions(
    rule: Rule, truth: float, bound: float, sign: int = 1, alpha: float = ALPHA, seed: int = 0
) -> list[Decision]:
    return [decide(rule, effect, sign, bound, alpha) for effect in effects(truth, seed)]


def shares(found: list[Decision]) -> dict[str, float]:
    """Return how often each outcome, and each reason, was given."""
    counts = Counter(itertools.chain.from_iterable(dict.fromkeys(pair) for pair in found))
    return {name: counts[name] / len(found) for name in
            (SUPPORTS, DIRECTION, ABSENT, CONTRADICTS, UNDECIDED, "smaller")}  # fmt: skip


# Effect


@pytest.mark.parametrize("bound", [0.3 * ERROR, 3 * ERROR, 30 * ERROR])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_effect_gets_a_sign_in_alpha(bound, sign):
    found = shares(decisions("effect", 0.0, bound, sign))
    assert found[SUPPORTS] + found[DIRECTION] == pytest.approx(ALPHA / 2, abs=NEAR)
    assert found[SUPPORTS] + found[DIRECTION] + found[CONTRADICTS] <= ALPHA + NEAR


@pytest.mark.parametrize("bound", [0.3 * ERROR, 3 * ERROR, 30 * ERROR])
def test_an_effect_of_exactly_the_bound_is_called_smaller_or_absent_in_alpha(bound):
    found = shares(decisions("effect", bound, bound))
    assert found[SUPPORTS] <= ALPHA + NEAR
    assert found[ABSENT] + found["smaller"] <= ALPHA + NEAR
    assert found[CONTRADICTS] <= ALPHA / 2 + NEAR
    if bound > 10 * ERROR:  # the test against zero is decided: sizes are exact
        assert found[SUPPORTS] == pytest.approx(ALPHA, abs=NEAR)
        assert found["smaller"] == pytest.approx(ALPHA, abs=NEAR)


@pytest.mark.parametrize("bound", [0.3 * ERROR, 3 * ERROR, 30 * ERROR])
def test_the_opposite_of_exactly_the_bound_contradicts_in_alpha(bound):
    found = shares(decisions("effect", -bound, bound))
    assert found[CONTRADICTS] <= ALPHA + NEAR
    assert found[ABSENT] <= ALPHA + NEAR
    assert found[SUPPORTS] + found[DIRECTION] <= ALPHA / 2 + NEAR


# Equivalence and level


@pytest.mark.parametrize("bound", [ERROR, 3 * ERROR, 30 * ERROR])
def test_equivalence_at_the_bound_errs_in_alpha(bound):
    found = shares(decisions("equivalence", bound, bound))
    assert found[SUPPORTS] <= ALPHA + NEAR
    assert found[CONTRADICTS] <= ALPHA + NEAR
    if bound > 10 * ERROR:
        assert found[SUPPORTS] == pytest.approx(ALPHA, abs=NEAR)
        assert found[CONTRADICTS] == pytest.approx(ALPHA, abs=NEAR)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_level_that_is_just_reached_errs_in_alpha_each_way(sign):
    found = shares(decisions("level", 0.7, 0.7, sign))
    assert found[SUPPORTS] == pytest.approx(ALPHA, abs=NEAR)
    assert found[CONTRADICTS] == pytest.approx(ALPHA, abs=NEAR)


# Trend and count, by all cases


def of_orders(orders: tuple[tuple[int, ...], ...]) -> Decision:
    """Return the decision on blocks of ranked values at equally many rates."""
    x = [rate for order in orders for rate in range(len(order))]
    blocks = [block for block, order in enumerate(orders) for _ in order]
    found = trend(x, [float(v) for order in orders for v in order], blocks)
    effect = Effect(found.rho, math.nan, math.nan, found.p, found.blocks, "seed")
    return decide("trend", effect, 1, math.nan, ALPHA)


def test_exchangeable_values_have_a_trend_in_at_most_alpha():
    """Each of the 24² orders of two blocks of four values is equally probable."""
    orders = itertools.product(itertools.permutations(range(4)), repeat=2)
    found = shares([of_orders(order) for order in orders])
    assert found[SUPPORTS] == found[CONTRADICTS]
    assert 0.02 <= found[SUPPORTS] + found[CONTRADICTS] <= ALPHA


def test_the_power_of_a_trend_is_one_where_all_blocks_rise():
    assert of_orders((tuple(range(4)),) * 2)[0] == SUPPORTS
    assert of_orders((tuple(range(4))[::-1],) * 2)[0] == CONTRADICTS
    # One block of three has 6 orders, none of which is rarer than 5 %: it decides nothing.
    assert of_orders((tuple(range(3)),))[0] == UNDECIDED


def count_power(n: int, needed: float, truth: float) -> tuple[float, float]:
    """Return the exact probabilities of supports and contradicts at a true share."""
    found = [
        decide("count", unknown_effect(held / n, n, "run"), 1, needed, ALPHA)[0]
        for held in range(n + 1)
    ]
    probabilities = stats.binom.pmf(np.arange(n + 1), n, truth)
    return tuple(
        float(probabilities[[outcome == name for outcome in found]].sum())
        for name in (SUPPORTS, CONTRADICTS)
    )  # type: ignore[return-value]


@pytest.mark.parametrize("needed", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("n", [2, 3, 8, 24, 100])
def test_a_count_at_the_needed_share_errs_in_at_most_alpha(n, needed):
    assert max(count_power(n, needed, needed)) <= ALPHA
    assert min(count_power(100, 0.5, 0.5)) > 0.02  # conservative, but not empty


# Five primary claims

FALSE: dict[int, frozenset[str]] = {0: frozenset((SUPPORTS, DIRECTION, CONTRADICTS)),
                                    1: frozenset((ABSENT, "smaller", CONTRADICTS)),
                                    -1: frozenset((SUPPORTS, DIRECTION, ABSENT))}  # fmt: skip
"""False outcomes and reasons where the truth is no effect, or plus or minus the bound."""


PRIMARIES = [one for pages in every_pages() for one in pages.claims if one.primary]


@pytest.mark.parametrize(("size", "shared"), [(0.5, 0), (4, 0), (4, 0.7), (30, 0), (30, 0.7)])
@pytest.mark.parametrize(
    "truths", [(0, 0, 0, 0, 0), (1, 1, 1, 1, 1), (-1, -1, -1, -1, -1), (0, 0, 1, 1, -1)]
)
def test_any_false_statement_on_the_primary_claims_is_made_in_alpha(truths, size, shared):
    """By the judge, with the parts that these claims have; equivalence counts with the others."""
    times, size, stream = 2000, size * ERROR, itertools.count(10)
    wrong = np.zeros(times, dtype=bool)
    for declared, truth in zip(PRIMARIES, truths, strict=True):
        names = getattr(declared.measure, "parts", {"": None})
        by_part = [effects(truth * size, next(stream), shared, times) for _ in names]
        for number, drawn in enumerate(zip(*by_part, strict=True)):
            parts = {name: MeasuredClaim(each) for name, each in zip(names, drawn, strict=True)}
            measured = MeasuredClaim(parts=parts) if len(parts) > 1 else MeasuredClaim(drawn[0])
            verdict = judge(
                replace(declared, measure=lambda *_, of=measured: of, sign=1, bound=size,
                        controls=(), power=None),  # there are no rows to show power
                NO_TABLES, 1 - ALPHA,
            )  # fmt: skip
            wrong[number] |= bool(FALSE[truth] & {verdict.outcome, verdict.reason})
    assert wrong.mean() <= ALPHA + NEAR
