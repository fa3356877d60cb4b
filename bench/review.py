"""Intervals of a person's labels: coverage and width where every label is known.

``python -m bench.review`` prints both as tables, and writes them into docs/measurements/audit.md.
``python -m bench.review refute`` looks for situations in which intervals cover too rarely.
"""

import sys
from collections.abc import Iterator
from datetime import date
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from mispair.core.distributions import wilson
from mispair.review.draw import sizes, strata
from mispair.review.measure import interval

Row = tuple[str, str, str, str]

PAGE = Path(__file__).parents[1] / "docs/measurements/audit.md"
PAIRS, SIZE, POPULATIONS = 20_000, 200, 4
CASES = (
    "random", "similar", "fits-everything", "fits-nothing", "generic", "filtered", "chance",
    "memorised", "reversed", "clustered", "ties", "one-value", "missed",
)  # fmt: skip
SHARES = (0.0, 0.01, 0.05, 0.2, 0.5)
SAMPLES = ((200, 20), (200, 100), (2_000, 50), (20_000, 20), (20_000, 1_000), (100_000, 1_000))
"""Further numbers of pairs and of labels."""
FURTHER_SHARES = (0.002, 0.01, 0.05, 0.2, 0.5, 0.99)
MORE_CASES = (
    "half-missed", "inverted-third", "overconfident", "underconfident", "heavy-tailed",
    "mostly-generic", "other-share",
)  # fmt: skip
"""Situations in which `refute` looks as well."""
REFUTED_SHARES = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
DESIGNS = ((50, 0.75), (100, 0.97), (200, 0.97), (400, 0.75))
"""Labels, and the AUROC of the model, of `refute`."""
WIDEST = {0.99: 0.4, 0.9: 0.8, 0.5: 1.05}
"""Largest wanted width at a share of 0.2 over Wilson's, by the AUROC of the model."""


class Cell(NamedTuple):
    """Share of draws whose interval covers, mean width over Wilson's, and mean error."""

    covered: float
    width: float
    error: float


def population(
    case: str, share: float, auroc: float, generator: np.random.Generator, number: int = PAIRS
) -> tuple[np.ndarray, np.ndarray]:
    """Return which captions are wrong, and the model's probabilities, of a made-up corpus.

    The model's score of a pair is normal, and that of a wrong caption higher. Its probability is
    right for random wrong captions, and for no others.
    """
    wrong = np.zeros(number, bool)
    wrong[generator.permutation(number)[: round(share * number)]] = True
    if case == "clustered":  # all wrong captions are of one source, which the model does not know
        wrong = np.sort(wrong)
    shift = 0.0 if case in ("chance", "clustered") else np.sqrt(2) * norm.ppf(auroc)
    seen, expected = wrong.copy(), max(share, 0.001)
    if case == "similar":  # wrong captions of similar pictures are half as conspicuous
        seen = wrong * 0.5
    elif case in ("fits-everything", "reversed"):  # boilerplate, or all wrong ones, look right
        seen = -(2.0 if case == "reversed" else 1.0) * wrong
    elif case == "generic":  # right captions that look wrong
        seen = wrong | (generator.random(number) < 0.3)
        expected = min(share + 0.3, 0.9)
    elif case == "fits-nothing":  # half of the wrong ones are of a kind that stands out far more
        seen = wrong * np.where(generator.random(number) < 0.5, 2.5, 1.0)
    elif case == "half-missed":
        seen = wrong * (generator.random(number) < 0.5)
    elif case == "inverted-third":  # a third stands out, a third hardly, a third looks right
        seen = wrong * np.array([1.5, 0.3, -1.0])[generator.integers(0, 3, number)]
    elif case == "mostly-generic":
        seen = wrong | (generator.random(number) < 0.6)
    elif case == "other-share":  # probabilities are those of a corpus with half of them wrong
        expected = 0.5
    elif case == "missed":  # the model is certain, and does not see a tenth of the wrong ones
        seen = wrong * np.where(generator.random(number) < 0.1, 0.0, 3.0)
    score = generator.normal(size=number) + shift * seen
    if case == "heavy-tailed":
        score = generator.standard_t(2, number) + shift * seen
    if case == "filtered":  # another model removed what was conspicuous: little is left to see
        score = np.minimum(score, 1.0 + 0.3 * generator.normal(size=number))
    if case == "memorised":  # the model takes nearly all pairs for right
        return wrong, generator.beta(0.3, 30, size=number) * (1 - 0.5 * wrong)
    if case == "ties":  # three distinct probabilities
        return wrong, np.array([0.01, 0.3, 0.95])[np.digitize(score, [0.5, 2.0])]
    if case == "one-value":
        return wrong, np.full(number, share)
    odds = shift * score - shift**2 / 2 + np.log(expected / max(1 - expected, 0.01))
    odds *= {"overconfident": 3.0, "underconfident": 0.3}.get(case, 1.0)
    return wrong, expit(odds)


def draws(
    case: str, share: float, auroc: float, number: int, pairs: int = PAIRS, size: int = SIZE
) -> Iterator[tuple[float, float, float]]:
    """Yield estimate, lower and upper limit of samples from some populations, all labelled."""
    for which in range(POPULATIONS):
        place = (*CASES, *MORE_CASES).index(case)
        generator = np.random.default_rng([which, round(1000 * share), place])
        wrong, probability = population(case, share, auroc, generator, pairs)
        of = strata(probability)
        every, drawn = sizes(of, probability, size)
        hits = np.bincount(of, wrong).astype(int)
        shape = number // POPULATIONS, len(every)
        found = generator.hypergeometric(hits, every - hits, drawn, shape)
        yield from zip(*interval(every, drawn, found), strict=True)


def cell(
    case: str, share: float, number: int = 2000, auroc: float = 0.95,
    pairs: int = PAIRS, size: int = SIZE,
) -> Cell:  # fmt: skip
    """Return coverage, width and error of a situation and a share."""
    found = np.array([*draws(case, share, auroc, number, pairs, size)])
    true = round(share * pairs) / pairs
    covered = (found[:, 1] <= true + 1e-9) & (found[:, 2] >= true - 1e-9)
    generator = np.random.default_rng(1)
    low, high = wilson(generator.binomial(size, share, 4000), size)
    width = (found[:, 2] - found[:, 1]).mean() / (high - low).mean()
    return Cell(float(covered.mean()), float(width), float(found[:, 0].mean() - true))


Situation = tuple[str, float]


def least(shares: tuple[float, ...], number: int, pairs: int, size: int) -> tuple[Situation, Cell]:
    """Return the situation and the share with the smallest coverage, and its cell.

    It is measured again with ten times as many draws: the smallest of many measurements is too
    small by chance.
    """
    cells = {(case, share): cell(case, share, number, pairs=pairs, size=size)
             for case in CASES for share in shares}  # fmt: skip
    worst = min(cells, key=lambda key: cells[key].covered)
    return worst, cell(*worst, 10 * number, pairs=pairs, size=size)


def measure() -> Iterator[Row]:
    """Measure the smallest coverage of all situations, and the widths by the model's AUROC."""
    samples = {(PAIRS, SIZE): SHARES, **dict.fromkeys(SAMPLES, FURTHER_SHARES)}
    for (pairs, size), shares in samples.items():
        (case, share), found = least(shares, 2000, pairs=pairs, size=size)
        what = f"{size:,} labels of {pairs:,} pairs: least coverage of {len(CASES) * len(shares)}"
        yield f"{what} cells", f"{found.covered:.3f} ({case}, {share:g})", "0.93", ""
    for auroc, most in WIDEST.items():
        width = f"{cell('random', 0.2, auroc=auroc).width:.2f}"
        yield f"{SIZE} labels: width over Wilson's at 0.2, AUROC {auroc:g}", width, f"{most:g}", ""


def refute(number: int = 1000) -> None:
    """Print how many cells of all situations, shares, models and designs cover below 0.93.

    Those that do are measured again with ten times as many draws, and these are printed.
    """
    again = {}
    for (size, auroc), case, share in product(DESIGNS, (*CASES, *MORE_CASES), REFUTED_SHARES):
        if cell(case, share, number, auroc, size=size).covered < 0.93:
            again[size, auroc, case, share] = cell(
                case, share, 10 * number, auroc, size=size
            ).covered
    cells = len(DESIGNS) * (len(CASES) + len(MORE_CASES)) * len(REFUTED_SHARES)
    kept = sum(covered < 0.93 for covered in again.values())
    print(f"{cells} cells, {len(again)} below 0.93; with {10 * number} draws {kept} of these")
    for key, covered in sorted(again.items(), key=lambda of: of[1]):
        print(f"{covered:.4f}", *key)


def table(number: int) -> str:
    """Return coverage and, in brackets, width by situation and share, as Markdown."""
    lines = [["situation", *(f"{share:g}" for share in SHARES)], ["---"] * (1 + len(SHARES))]
    for case in CASES:
        row = [cell(case, share, number) for share in SHARES]
        lines.append([case, *(f"{one.covered:.3f} ({one.width:.2f})" for one in row)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(number: int) -> None:
    """Print the table, and write it into the page."""
    from bench.readme import filled
    from bench.run import describe_machine

    day = date.today()
    origin = f"{number:,} draws a cell, {day.day} {day:%B %Y}, {describe_machine()}:"
    text = f"{origin}\n\n{table(number)}"
    print(text)
    PAGE.write_text(filled(PAGE.read_text(), "review", text))


if __name__ == "__main__":
    if sys.argv[1:2] == ["refute"]:
        refute(*map(int, sys.argv[2:3]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000)
