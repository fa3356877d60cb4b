"""Intervals of a person's labels: coverage and width where every label is known.

``python -m bench.review`` prints both as tables, for docs/measurements/audit.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from mispair.core.intervals import wilson
from mispair.review.draw import draw, strata
from mispair.review.interval import interval

Row = tuple[str, str, str, str]

PAIRS, SIZE, POPULATIONS = 20_000, 200, 4
CASES = (
    "random", "similar", "fits-everything", "fits-nothing", "generic", "filtered", "chance",
    "memorised",
)  # fmt: skip
SHARES = (0.0, 0.01, 0.05, 0.2, 0.5)
WIDEST = {0.99: 0.4, 0.9: 0.8, 0.5: 1.05}
"""Largest wanted width at a share of 0.2 over Wilson's, by the AUROC of the model."""


class Cell(NamedTuple):
    """Share of draws whose interval covers, mean width over Wilson's, and mean error."""

    covered: float
    width: float
    error: float


def population(
    case: str, share: float, auroc: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return which captions are wrong, and the model's probabilities, of a made-up corpus.

    The model's score of a pair is normal, and that of a wrong caption higher. Its probability is
    right for random wrong captions, and for no others.
    """
    wrong = np.zeros(PAIRS, bool)
    wrong[generator.permutation(PAIRS)[: round(share * PAIRS)]] = True
    shift = 0.0 if case == "chance" else np.sqrt(2) * norm.ppf(auroc)
    seen, expected = wrong.copy(), max(share, 0.001)
    if case == "similar":  # wrong captions of similar pictures are half as conspicuous
        seen = wrong * 0.5
    elif case == "fits-everything":  # boilerplate that looks more right than right captions
        seen = -1.0 * wrong
    elif case == "generic":  # right captions that look wrong
        seen = wrong | (generator.random(PAIRS) < 0.3)
        expected = min(share + 0.3, 0.9)
    elif case == "fits-nothing":  # half of the wrong ones are of a kind that stands out far more
        seen = wrong * np.where(generator.random(PAIRS) < 0.5, 2.5, 1.0)
    score = generator.normal(size=PAIRS) + shift * seen
    if case == "filtered":  # another model removed what was conspicuous: little is left to see
        score = np.minimum(score, 1.0 + 0.3 * generator.normal(size=PAIRS))
    if case == "memorised":  # the model takes nearly all pairs for right
        return wrong, generator.beta(0.3, 30, size=PAIRS) * (1 - 0.5 * wrong)
    odds = shift * score - shift**2 / 2 + np.log(expected / (1 - expected))
    return wrong, 1 / (1 + np.exp(-odds))


def draws(
    case: str, share: float, auroc: float, number: int
) -> Iterator[tuple[float, float, float]]:
    """Yield estimate, lower and upper limit of samples from some populations, all labelled."""
    for which in range(POPULATIONS):
        generator = np.random.default_rng([which, round(1000 * share), CASES.index(case)])
        wrong, probability = population(case, share, auroc, generator)
        _, counts = draw([*map(str, range(PAIRS))], probability, SIZE, which)
        pairs, drawn = (np.array([of[name] for of in counts]) for name in ("pairs", "drawn"))
        hits = np.bincount(strata(probability), wrong).astype(int)
        shape = number // POPULATIONS, len(pairs)
        found = generator.hypergeometric(hits, pairs - hits, drawn, shape)
        yield from zip(*interval(pairs, drawn, found), strict=True)


def cell(case: str, share: float, number: int = 2000, auroc: float = 0.95) -> Cell:
    """Return coverage, width and error of a situation and a share."""
    found = np.array([*draws(case, share, auroc, number)])
    covered = (found[:, 1] <= share + 1e-9) & (found[:, 2] >= share - 1e-9)
    generator = np.random.default_rng(1)
    low, high = wilson(generator.binomial(SIZE, share, 4000), SIZE)
    width = (found[:, 2] - found[:, 1]).mean() / (high - low).mean()
    return Cell(float(covered.mean()), float(width), float(found[:, 0].mean() - share))


def measure() -> Iterator[Row]:
    """Measure the smallest coverage of all situations, and the widths by the model's AUROC."""
    cells = {(case, share): cell(case, share) for case in CASES for share in SHARES}
    worst = min(cells, key=lambda key: cells[key].covered)
    least = f"{cells[worst].covered:.3f} ({worst[0]}, {worst[1]:g})"
    yield f"labels, {SIZE}: least coverage of {len(cells)} cells", least, "0.93", ""
    for auroc, most in WIDEST.items():
        width = f"{cell('random', 0.2, auroc=auroc).width:.2f}"
        yield f"labels, {SIZE}: width over Wilson's at 0.2, AUROC {auroc:g}", width, f"{most:g}", ""


def main(number: int) -> None:
    """Print the tables of coverage and width."""
    print("| situation |", *(f"{share:g} |" for share in SHARES))
    print("| --- |", "--- |" * len(SHARES))
    for case in CASES:
        row = [cell(case, share, number) for share in SHARES]
        print(f"| {case} |", *(f"{one.covered:.3f} ({one.width:.2f}) |" for one in row), flush=True)
    for auroc, most in WIDEST.items():
        width = cell("random", 0.2, number, auroc).width
        print(f"width at 0.2, AUROC {auroc}: {width:.3f}, wanted at most {most}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
