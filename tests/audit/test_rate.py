"""Rates: near the truth, intervals that cover it, and what they refuse."""

import numpy as np
import pytest
from scipy.stats import norm

from mispair.audit import probability
from mispair.audit.probability import rate_rows
from mispair.audit.rate import (
    LEAST_EXCESS,
    Rate,
    mixture_rate,
    storey_rate,
    trusted_excess,
    trusted_rate,
)
from mispair.audit.score import BINS, deal, rank
from mispair.audit.similar import similar_rate
from tests.audit.made_up import embeddings, swapped, unlike


def p_values(n, rate, shift, generator):
    """Return uniform values for wrong pairs, and for right ones those of shifted scores."""
    wrong = round(rate * n)
    right = norm.sf(generator.normal(shift, 1, n - wrong))
    return np.concatenate([generator.random(wrong), right])


def histogram(values):
    return np.bincount(np.minimum((values * BINS).astype(int), BINS - 1), minlength=BINS)


def counted(values, generator, replicates=50):
    """Return histograms of both halves, measured and resampled."""
    halves = [histogram(values[half::2]) for half in (0, 1)]
    drawn = [generator.multinomial(h.sum(), h / h.sum(), size=replicates) for h in halves]
    return np.stack([np.vstack([h, d]) for h, d in zip(halves, drawn, strict=True)]).astype(float)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.8])
@pytest.mark.parametrize(("shift", "near"), [(4.0, 0.03), (2.0, 0.07)])
def test_the_mixture_is_near_the_truth_and_covers_it(rate, shift, near):
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(10):
        found = mixture_rate(histogram(p_values(10_000, rate, shift, generator)))
        covered += found.low - 1e-6 <= rate <= found.high + 1e-6
        assert found.high - found.low < 3 * near
        assert abs(found.value - rate) < near
    assert covered >= 9


def test_dependent_pairs_widen_the_interval():
    values = histogram(p_values(5000, 0.3, 3, np.random.default_rng(1)))
    independent, dependent = mixture_rate(values), mixture_rate(values, 4.0)
    assert dependent.high - dependent.low > 1.6 * (independent.high - independent.low)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8])
def test_storey_is_near_the_truth_with_a_strong_model(rate):
    generator = np.random.default_rng(3)
    found = storey_rate(counted(generator.permutation(p_values(10_000, rate, 4, generator)),
                                   generator))  # fmt: skip
    assert found.value == pytest.approx(rate, abs=0.03)
    assert np.isnan(found.low)
    assert found.value <= found.high
    assert rate <= found.high < rate + 0.04


@pytest.mark.parametrize(
    ("number", "shift", "is_weak"),
    [(1, 3, False), (5, 3, False), (19, 0.0, False), (2000, 3, False), (500, 0.0, True)],
)
def test_trusted_pairs_that_tell_nothing_are_refused(number, shift, is_weak):
    """The model is blamed only where it was tried."""
    values = p_values(2000, 0.0, shift, np.random.default_rng(6))
    known = np.arange(2000) < number
    with pytest.raises(ValueError, match="the key trusted|the key towers") as fault:
        trusted_rate(values, known)
    assert ("The model cannot tell" in str(fault.value)) == is_weak
    assert judged(np.random.default_rng(0), values, known)[1] == str(fault.value)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("wins", [0.718, 0.87, 0.998])
@pytest.mark.parametrize("mistaken", [0.0, 0.1, 0.3])
def test_wrong_pairs_among_the_trusted_ones_are_reported(mistaken, wins, share):
    """They rank like random ones, and make the interval too low. A weak model hides them."""
    generator, reported = np.random.default_rng(11), 0
    for _ in range(5):
        values, wrong = corpus(generator, wins, share)
        trusted = np.zeros(N, bool)
        trusted[generator.permutation(np.flatnonzero(~wrong))[:300]] = True
        lost = np.flatnonzero(trusted)[: round(300 * mistaken)]
        values[lost] = generator.random(len(lost))
        rows, refused = judged(generator, values, trusted)
        found = {} if refused else rows["trusted_like_random"]
        reported += bool(refused) or found["low"] > LEAST_EXCESS
    assert reported <= 1 if mistaken == 0 else wins < 0.9 or reported == 5


@pytest.mark.parametrize("mistaken", [0.3, 0.5])
def test_an_upper_limit_of_contradicted_trusted_pairs_is_not_below_that_without_them(mistaken):
    generator = np.random.default_rng(12)
    for share in (0.02, 0.2):
        values, wrong = corpus(generator, 0.998, share)
        bad = round(300 * mistaken)
        trusted = np.zeros(N, bool)
        trusted[np.flatnonzero(~wrong)[: 300 - bad]] = True
        values[np.flatnonzero(trusted)[:bad]] = generator.random(bad)
        rows, refused = judged(generator, values, trusted)
        assert refused or rows["trusted_excess"]["value"] > 0
        assert refused or share <= rows["wrong_captions"]["high"]


@pytest.mark.parametrize("wins", [0.87, 0.97, 0.998])
@pytest.mark.parametrize("n", [3000, 20_000])
def test_right_captions_alone_have_no_lower_limit(wins, n):
    """Their p-values have a long tail, of which few trusted pairs show nothing."""
    generator, trusted = np.random.default_rng(13), np.arange(n) < 300
    limits = [trusted_rate(corpus(generator, wins, 0.0, n=n)[0], trusted).low for _ in range(200)]
    assert np.mean(np.array(limits) > 0) <= 0.05


def test_no_upper_limit_is_below_one_pair():
    values = np.concatenate([np.full(300, 0.002), np.full(1700, 0.001)])
    assert trusted_rate(values, np.arange(2000) < 300).high == 1 / 2000


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("trusted", [100, 1000, 3000])
def test_captions_of_similar_pictures_are_a_rate_of_their_own(trusted, share):
    """Three kinds of ranks with known means: the share of the third is solved for.

    All others are right or unrelated, and only right ones are trusted.
    """
    generator = np.random.default_rng(8)
    covered = above = 0
    for _ in range(50):
        similar = round(share * 10_000)
        right, unrelated, swapped = (
            generator.beta(*shape, n)
            for shape, n in (((1, 6), 7000 - similar), ((1, 1), 3000), ((1, 1.3), similar))
        )
        values = np.concatenate([right, unrelated, swapped])
        known = np.arange(10_000) < trusted
        found = similar_rate(values, known, generator.beta(1, 1.3, 1000), Rate(0.3, 0.3, 0.3))
        covered += found.low <= share <= found.high
        above += found.low > 0
        assert found.low <= found.value <= found.high <= 0.7
    assert covered >= 44
    assert above >= 44 if share else above <= 4


# The class of weak models, generic captions and shares: what is refused, and what is covered.


N = 3000


def corpus(generator, wins, share, generic=0.0, n=N):
    """Return p-values, and which captions are wrong: right ones win, or are generic (uniform)."""
    wrong = np.arange(n) < round(share * n)
    is_generic = ~wrong & (generator.random(n) < generic)
    values = norm.sf(generator.normal(norm.ppf(wins) * 2**0.5, 1, n))
    values[wrong | is_generic] = generator.random((wrong | is_generic).sum())
    order = generator.permutation(n)
    return values[order], wrong[order]


def judged(generator, values, trusted=None, traits=()):
    trusted = np.zeros(len(values), bool) if trusted is None else trusted
    none = np.full(len(values), np.nan)
    counts = counted(values, generator)
    both = np.stack([counts] * 3), np.stack([values, values])
    rows, refused = rate_rows(*both, none, np.empty(0), trusted, traits)
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


# Wrong captions that do not rank like captions of the corpus, next to pictures that are random.


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("kind", ["another corpus", "empty", "one text", "texts of the corpus"])
def test_wrong_captions_of_any_kind_are_counted_where_their_pictures_are_random(kind, share):
    n = 4000
    images, texts = embeddings(n, noise=0.5)
    _, wrong = swapped(n, share)
    texts = unlike(kind, texts, wrong)
    _, text = np.unique(texts, axis=0, return_inverse=True)
    blocks = ((each, images[each], texts[each]) for each in deal(n, 0))
    ranked = rank(blocks, (np.arange(n), text.ravel()), 0, replicates=100)
    trusted = np.zeros(n, bool)
    trusted[np.flatnonzero(~wrong)[:300]] = True
    for known in (None, trusted):
        rows, refused, _ = probability.judged(ranked, 0, known)
        found = {row["metric"]: row for row in rows}.get("wrong_captions")
        if known is None and share > 0.5 and refused:
            continue
        assert share <= found["high"]
        assert np.isnan(found["low"]) if known is None else found["low"] <= share
        assert found["high"] < share + 0.1


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
@pytest.mark.parametrize(
    ("part", "contradicts"), [(1.0, False), (0.75, True), (0.5, True), (0.1, True)]
)
def test_trusted_pairs_that_fit_better_than_the_right_ones(part, share, contradicts) -> None:
    """Also where the share of wrong captions hides that the interval is too high."""
    generator, n = np.random.default_rng(int(10 * share)), 4000
    for shift in (1.0, 1.5, 2.5):
        for _ in range(10):
            wrong = generator.random(n) < share
            ranks = norm.sf(generator.normal(shift * ~wrong, 1))
            order = np.flatnonzero(~wrong)[np.argsort(ranks[~wrong])]
            trusted = np.zeros(n, bool)
            best = order[: round(part * len(order))]
            trusted[generator.choice(best, min(400, len(best)), replace=False)] = True
            reported = trusted_rate(ranks, trusted)
            excess = trusted_excess(ranks, trusted, reported, share + 0.05)
            assert (excess > 0) == contradicts


PARTS_OF_RIGHT = {
    "random": lambda right, ranks, words: right,
    "the most similar": lambda right, ranks, words: right[np.argsort(ranks[right])][: N // 4],
    "the least similar": lambda right, ranks, words: right[np.argsort(-ranks[right])][: N // 4],
    "short": lambda right, ranks, words: right[words[right] < 6],
}


@pytest.mark.parametrize("kind", PARTS_OF_RIGHT)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_contradicted_trusted_pairs_leave_an_upper_limit(kind, share):
    """The headline, and not only a line below it, falls back; fair random parts keep theirs."""
    generator, limits = np.random.default_rng(13), 0
    for _ in range(10):
        values, wrong = corpus(generator, 0.95, share)
        words = generator.poisson(8, N)
        pool = PARTS_OF_RIGHT[kind](np.flatnonzero(~wrong), values, words)
        trusted = np.zeros(N, bool)
        trusted[generator.permutation(pool)[:300]] = True
        rows, refused = judged(generator, values, trusted, [words])
        assert not refused
        found = rows["wrong_captions"]
        is_limit = bool(np.isnan(found["low"]))
        assert is_limit == (rows["trusted_excess"]["value"] > 0)
        if is_limit:
            assert found["high"] >= max(rows["trusted"]["high"], rows["storey"]["high"])
            assert found["value"] == rows["mixture"]["value"]
            assert share <= found["high"]
        limits += is_limit
    assert limits <= 1 if kind == "random" else limits == 10
