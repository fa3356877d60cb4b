"""README's numbers: the verdicts on the primary claims and the minutes of the last demo.

Run as ``python tests/bench/readme.py README RUN``, with the folder in which the demo ran. A part
of README between ``<!-- NAME -->`` and ``<!-- /NAME -->`` is written by this program alone.
"""

from __future__ import annotations

import math
import os
import re
import sys
from pathlib import Path

import pandas as pd

from mispair.core import files
from mispair.core.words import number
from mispair.report import studies
from tests.visible_words import LANDING, STUDY, visible_words

CLAIMS = {
    "overlap-rises": "Neurons overlap more, the more captions are shuffled.",
    "accuracy-falls": "Zero-shot accuracy falls, the more captions are shuffled.",
    "construct-validity": "Neurons that overlap less follow one feature more clearly.",
    "pruning-accuracy": "A pruned model is best with the neurons of least overlap.",
    "filtered-accuracy": "Filtered captions raise the accuracy of the simulation.",
}
"""The primary claims in README's order and words."""

HEAD = ("claim of the paper", "verdict in the demo", "measured", "published")
DIGITS = 3
IDLE = 2.0
"""Largest ratio of wall time to the time of all jobs in a run that was not interrupted."""


def numbers(claims: pd.DataFrame) -> str:
    """Return the table of the primary claims, from ``claims.csv``.

    Raises
    ------
    UserError
        If a primary claim is missing, or has several rows.
    """
    lines = ["| " + " | ".join(HEAD) + " |", "| " + " | ".join("---" for _ in HEAD) + " |"]
    for key, text in CLAIMS.items():
        rows = claims[claims["claim"] == key]
        if len(rows) > 1:
            rows = rows[rows["preset"] == "as-run"]
        if len(rows) != 1:
            raise files.UserError(
                f"claims.csv has {len(rows)} rows of the claim {key}, and README needs one. "
                "Run `make demo` first."
            )
        row = rows.iloc[0]
        cells = (text, f"**{row['outcome']}**", _measured(row), _published(row))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _measured(row: pd.Series) -> str:
    """Return the number of a claim with its interval, and what it is of."""
    value, effect = row["measured_value"], row["effect"]
    if not math.isfinite(value):
        value = effect
    if not math.isfinite(value):
        return "–"
    text = number(value, DIGITS, sign=True)
    if math.isfinite(row["low"] - row["high"]) and abs(value - effect) < 0.5 * 10**-DIGITS:
        low, high = (number(row[end], DIGITS, sign=True) for end in ("low", "high"))
        text += f" ({low} to {high})"
    quantity = row["quantity"]
    return f"{text}, {quantity}" if isinstance(quantity, str) and quantity else text


def _published(row: pd.Series) -> str:
    value = row["published_value"]
    return number(value, DIGITS, sign=True) if math.isfinite(value) else "no number"


def minutes(benchmarks: Path, cores: int) -> str:
    """Return the sentence on the time of the demo, from the records of its jobs.

    Raises
    ------
    UserError
        If there are no records, or they are not of one run from its start to its end.
    """
    starts, ends, busy = [], [], 0.0
    for path in sorted(benchmarks.rglob("*.tsv")):
        seconds = float(pd.read_csv(path, sep="\t")["s"].sum())
        end = path.stat().st_mtime
        starts.append(end - seconds)
        ends.append(end)
        busy += seconds
    if not ends:
        raise files.UserError(f"{benchmarks}: there are no records of jobs. Run `make demo` first.")
    wall = max(ends) - min(starts)
    if wall > IDLE * busy:
        raise files.UserError(
            f"{benchmarks}: the jobs took {busy:.0f} s in {wall:.0f} s, so they are of several "
            "runs. Run `make demo` in a fresh clone first."
        )
    return (
        f"The last demo took {max(1, round(wall / 60))} minutes on {cores} cores "
        f"({len(ends)} jobs), after the installation."
    )


def filled(text: str, name: str, content: str) -> str:
    """Return a text with the content between the markers of a name.

    Raises
    ------
    UserError
        If the text does not have these markers once.

    Examples
    --------
    >>> filled("<!-- a -->\\nold\\n<!-- /a -->", "a", "new")
    '<!-- a -->\\nnew\\n<!-- /a -->'
    """
    pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    result, count = re.subn(
        pattern, lambda match: f"{match[1]}{content}\n{match[2]}", text, flags=re.DOTALL
    )
    if count != 1:
        raise files.UserError(f"there are {count} pairs of <!-- {name} --> and <!-- /{name} -->")
    return result


def refuse_long_pages(reports: Path) -> None:
    """Raise a UserError if a page of the demo has more words than a reader has minutes for."""
    pages = {reports / "index.html": LANDING}
    pages |= {reports / "pages" / f"{name}.html": STUDY for name in studies.NAMES}
    for page, most in pages.items():
        if page.exists() and (words := visible_words(page.read_text())) > most:
            raise files.UserError(f"{page} shows {words} words, and its budget is {most}.")


def fill(readme: Path, run: Path, cores: int) -> None:
    """Write the numbers of a run into README, if its pages keep their budgets of words."""
    table = run / "reports" / "tables" / "claims.csv"
    if not table.exists():
        raise files.UserError(f"{table} does not exist. Run `make demo` first.")
    refuse_long_pages(run / "reports")
    text = filled(readme.read_text(), "numbers", numbers(pd.read_csv(table)))
    files.write_text(readme, filled(text, "minutes", minutes(run / "benchmarks", cores)))


if __name__ == "__main__":
    try:
        fill(Path(sys.argv[1]), Path(sys.argv[2]), len(os.sched_getaffinity(0)))
    except files.UserError as error:
        sys.exit(f"error: {error}")
