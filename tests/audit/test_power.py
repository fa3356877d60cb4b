"""The class of weak models, generic captions and shares: what is refused, and what is covered."""

import numpy as np
import pytest
from scipy.stats import norm

from mispair.audit.probability import rate_rows
from mispair.audit.rate import storey_rate
from tests.audit.test_rate import counted

N = 3000


def corpus(generator, wins, share, generic=0.0, n=N):
    """Return p-values, and which captions are wrong: right ones win, or are generic (uniform)."""
    wrong = np.arange(n) < round(share * n)
    is_generic = ~wrong & (generator.random(n) < generic)
    values = norm.sf(generator.normal(norm.ppf(wins) * 2**0.5, 1, n))
    values[wrong | is_generic] = generator.random((wrong | is_generic).sum())
    order = generator.permutation(n)
    return values[order], wrong[order]


def judged(generator, values, trusted=None):
    trusted = np.zeros(len(values), bool) if trusted is None else trusted
    none = np.full(len(values), np.nan)
    rows, refused = rate_rows(counted(values, generator), values, none, np.empty(0), trusted)
    return {row["metric"]: row for row in rows}, refused


@pytest.mark.parametrize("wins", [0.52, 0.54, 0.587, 0.647])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8])
def test_weak_models_are_refused_at_every_share(wins, share):
    generator = np.random.default_rng(1)
    for _ in range(2):
        rows, refused = judged(generator, corpus(generator, wins, share)[0])
        assert refused
        assert {"wins_against_random", "power"} <= rows.keys()
        assert "wrong_captions" not in rows


@pytest.mark.parametrize("wins", [0.9, 0.97, 0.998])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6])
def test_good_models_are_not_refused_and_their_limit_is_near(wins, share):
    generator = np.random.default_rng(2)
    covered = 0
    for _ in range(5):
        rows, refused = judged(generator, corpus(generator, wins, share)[0])
        assert not refused
        found = rows["wrong_captions"]
        assert np.isnan(found["low"])
        assert found["value"] <= found["high"] < share + 0.16
        covered += found["high"] >= share
    assert covered >= 4


@pytest.mark.parametrize("wins", [0.54, 0.634, 0.718, 0.8, 0.876, 0.998])
@pytest.mark.parametrize("generic", [0.0, 0.3])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.2, 0.5])
def test_the_limit_covers_whatever_right_captions_do(wins, generic, share):
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(5):
        values = corpus(generator, wins, share, generic)[0]
        covered += storey_rate(counted(values, generator)).high >= share
    assert covered >= 4


def test_the_limit_covers_in_95_of_100_corpora():
    generator = np.random.default_rng(4)
    limits = [storey_rate(counted(corpus(generator, 0.998, 0.2)[0], generator)).high
              for _ in range(300)]  # fmt: skip
    assert np.mean(np.array(limits) >= 0.2) >= 0.92


@pytest.mark.parametrize(
    ("wins", "number", "is_refused"),
    [(0.538, 400, True), (0.587, 100, True), (0.718, 300, False), (0.87, 300, False)],
)
def test_with_trusted_pairs_intervals_that_are_useless_are_refused(wins, number, is_refused):
    generator = np.random.default_rng(5)
    covered, refusals = 0, 0
    for _ in range(5):
        values, wrong = corpus(generator, wins, 0.2)
        trusted = np.zeros(N, bool)
        trusted[generator.permutation(np.flatnonzero(~wrong))[:number]] = True
        rows, refused = judged(generator, values, trusted)
        refusals += bool(refused)
        if not refused:
            found = rows["wrong_captions"]
            covered += found["low"] <= 0.2 <= found["high"]
            assert rows["power"]["value"] == pytest.approx(wins, abs=0.06)
    assert refusals == (5 if is_refused else 0)
    assert covered >= 4 or is_refused
