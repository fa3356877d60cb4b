"""README's numbers: what the last demo found, the verdicts on the main claims, and its minutes.

Run as ``python bench/readme.py PAGE... --run RUN``, with the folder in which the demo ran. A part
of a page between ``<!-- NAME -->`` and ``<!-- /NAME -->`` is written by this program alone. With
``--check`` nothing is written, and a table that is not that of the demo is an error.
"""

import argparse
import difflib
import json
import math
import os
import re
import sys
from collections.abc import Mapping
from html import unescape
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from mispair.core import files, run_record
from mispair.core.words import number
from mispair.report import studies
from tests.visible_words import LANDING, STUDY, visible_words

CLAIMS = {
    "overlap-rises": "Neurons overlap more, the more captions are shuffled.",
    "accuracy-falls": "Zero-shot accuracy falls, the more captions are shuffled.",
    "construct-validity": "Neurons that overlap less follow one feature more clearly.",
    "pruning-accuracy": "A pruned model is best with the neurons of least overlap.",
    "filtered-accuracy": "Filtered captions raise the accuracy of the simulation, by the test of "
    "the public code (preset `as-run`).",
}
"""The primary claims in README's order and words."""

REPAIR = {
    "repair-overlap": "Recaptioning with a filter restores the overlap of neurons, in a direct "
    "experiment.",
    "repair-accuracy": "Recaptioning with a filter gives back accuracy, in the same experiment.",
}
"""The claims of the direct experiment, which is not in the paper."""

PRESET = "as-run"
"""The preset of the simulation whose verdict README has."""

HEAD = ("claim of the paper", "verdict in the demo", "effect (interval)", "published")
TOWERS_HEAD = "five pairs of towers"
COLUMNS = (
    "claim", "preset", "outcome", "near", "effect", "shown_confidence", "shown_low", "shown_high",
    "published", "quantity",
)  # fmt: skip
"""The columns of ``claims.csv`` that are read."""

BENCHMARKS = "docs/measurements/benchmarks.md#types-of-cpu"
NOTHING = "–"
IDLE = 2.0
"""Largest ratio of wall time to the time of all jobs in a run that was not interrupted."""


class Unit(NamedTuple):
    """Unit of an effect in README: its name, what a number is multiplied by, and its digits.

    A difference of logarithms (`log`) is written as the relative change that it is.
    """

    name: str
    factor: float = 1.0
    digits: int = 3
    log: bool = False

    def text(self, value: float) -> str:
        """Return a number in this unit, with its sign."""
        value = math.expm1(value) if self.log else value
        return number(self.factor * value, self.digits, sign=True)


UNITS = {"points": Unit("points", 100.0, 1), "log": Unit("% directions", 100.0, 1, log=True)}
"""Units by the ``quantity`` of a claim; any other quantity is a name itself."""

UNNAMED = {"construct-validity": Unit("rank correlation")}
"""Units of claims without a ``quantity``; of others it is a share of the images."""


def numbers(claims: pd.DataFrame, devices: set[str], towers: pd.DataFrame | None = None) -> str:
    """Return the table of the claims, and the type of CPU on which they were measured.

    Parameters
    ----------
    claims : DataFrame
        ``claims.csv`` of the demo.
    devices : set of str
        Types of CPU and GPU of the demo.
    towers : DataFrame, optional
        Rows of the same columns, measured over several pairs of towers: a column of their own.

    Raises
    ------
    UserError
        If a column or a claim is missing, or a claim has several rows.
    """
    heads = [*HEAD, *([TOWERS_HEAD] if towers is not None else [])]
    lines = [heads, ["---"] * len(heads)]
    for key, text in {**CLAIMS, **REPAIR}.items():
        row = _row(claims, key)
        cells = [text, _verdict(row), _effect(row), _published(row)]
        if towers is not None:
            known = key in set(towers["claim"])
            of_towers = _row(towers, key) if known else None
            cells.append(
                NOTHING if of_towers is None else f"{_verdict(of_towers)}, {_effect(of_towers)}"
            )
        lines.append(cells)
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    primary, other = (
        f"{100 * max(_row(claims, key)['shown_confidence'] for key in keys):g} %"
        for keys in (CLAIMS, REPAIR)
    )
    names = ", ".join(sorted(device.removeprefix("cpu ").strip("()") for device in devices))
    return (
        f"{table}\n\nIntervals are at the level that judges a claim: {primary} for the paper's, "
        f"which are primary, and {other} for those of the direct experiment. "
        f"The demo ran on {names}. "
        f"Another type of CPU [rounds otherwise]({BENCHMARKS}), so its numbers differ a little."
    )


def _row(claims: pd.DataFrame, key: str) -> pd.Series:
    if missing := [name for name in COLUMNS if name not in claims]:
        raise files.UserError(
            f"claims.csv has no column {', '.join(missing)}: it is of another version. "
            "Run `make demo` first."
        )
    rows = claims[claims["claim"] == key]
    if len(rows) > 1:
        rows = rows[rows["preset"] == PRESET]
    if len(rows) != 1:
        raise files.UserError(
            f"claims.csv has {len(rows)} rows of the claim {key}, and README needs one. "
            "Run `make demo` first."
        )
    return rows.iloc[0]


def _verdict(row: pd.Series) -> str:
    near = ", close to another verdict" if str(row["near"]) == "True" else ""
    return f"**{row['outcome']}**{near}"


def _unit(row: pd.Series) -> Unit:
    quantity = row["quantity"]
    if not isinstance(quantity, str) or not quantity:
        return UNNAMED.get(row["claim"], Unit("share of images"))
    return UNITS.get(quantity, Unit(quantity.replace("|", "\\|")))


def _effect(row: pd.Series) -> str:
    """Return the effect of a claim, or of each of its parts, with its interval and unit."""
    if not math.isfinite(row["effect"]):
        return NOTHING
    unit, parts, decisive = _unit(row), row.get("parts"), row.get("decided_by")
    of_parts = json.loads(parts) if isinstance(parts, str) else []
    whole = [{"at": decisive if isinstance(decisive, str) else "", **row}]
    texts = [f"{part['at']} {_interval(part, unit)}".strip() for part in of_parts or whole]
    return f"{', '.join(texts)} {unit.name}".replace("largest C_m", "most shuffled")


def _interval(effect: Mapping[str, Any], unit: Unit) -> str:
    numbers = [effect[name] for name in ("effect", "shown_low", "shown_high")]
    texts = [unit.text(one) for one in numbers if one is not None and math.isfinite(one)]
    return texts[0] + (f" ({texts[1]} to {texts[2]})" if len(texts) == 3 else "")


def _published(row: pd.Series) -> str:
    if not math.isfinite(row["published"]):
        return "no number"
    unit = _unit(row)
    return f"{unit.text(row['published'])} {unit.name}"


def found(front: str) -> str:
    """Return the paragraph that the first page of a report opens with, as Markdown.

    Examples
    --------
    >>> found('<p class="opening">One\\n <b>&amp;</b> <i>C</i><sub>m</sub></p>')
    'One **&** <i>C</i><sub>m</sub>'
    """
    opening = front.partition('<p class="opening">')[2].partition("</p>")[0]
    return " ".join(unescape(re.sub(r"</?b>", "**", opening)).split())


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
    if not busy / cores <= wall <= IDLE * busy:
        raise files.UserError(
            f"{benchmarks}: the jobs took {busy:.0f} s in {wall:.0f} s, so they are of several "
            "runs, or their times were changed by a copy. Run `make demo` in a fresh clone first."
        )
    return f"The demo takes about {max(1, round(wall / 60))} minutes on {cores} cores."


LONGEST_INSTALLATION = 3600.0
"""Seconds from which on an environment is taken for one that was added to later."""


def installation(environment: Path, locks: Path) -> str:
    """Return the sentence on the size and time of what `make venv` and `make tools` installed.

    The size is that of the files that the packages of a lock list as their own; the time of the
    tools is what `make tools` wrote. Without an environment by `make venv` there is no sentence.
    """
    done = environment / "set-up"
    if not done.exists():
        return ""
    wall = done.stat().st_mtime - (environment / "pyvenv.cfg").stat().st_mtime
    if wall > LONGEST_INSTALLATION:
        raise files.UserError(
            f"{environment}: was not installed in one go ({wall / 60:.0f} minutes lie between its "
            "first and its last file). Run `make demo` in an empty clone."
        )
    running, every = (
        _size(environment, locks / f"{name}.lock") for name in ("run", "requirements")
    )
    tools = environment / "set-up-tools"
    added = ""
    if tools.exists():
        seconds = tools.read_text().strip()  # nothing if another program than make installed them
        took = f"{_minutes(float(seconds))} and " if seconds else ""
        added = f"; the developers' tools add {took}{(every - running) / 1e9:.1f} GB"
    return (
        f"The installation takes about {_minutes(wall)} with a fast network, and "
        f"{running / 1e9:.1f} GB{added}. "
    )


def _minutes(seconds: float) -> str:
    count = max(1, round(seconds / 60))
    return f"{count} minute{'s' * (count > 1)}"


def _size(environment: Path, lock: Path) -> int:
    """Return the bytes of the packages of a lock in an environment."""
    pinned = {_name(line) for line in lock.read_text().splitlines() if "==" in line}
    places = [str(path) for path in environment.glob("lib/*/site-packages")]
    return sum(
        path.stat().st_size
        for package in distributions(path=places)
        if _name(package.name) in pinned
        for path in map(Path, map(package.locate_file, package.files or ()))
        if path.exists()
    )


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", requirement.partition("==")[0]).strip().lower()


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


def fill(
    readme: Path, run: Path, cores: int, towers: Path | None = None, *, check: bool = False
) -> None:
    """Write the numbers of a run into README, if its pages keep their budgets of words.

    Raises
    ------
    UserError
        If the run is not finished or a page is too long; with `check`, if README has another
        table. The time of a run differs every time, so it is not checked.
    """
    table, record = run / "reports" / "tables" / "claims.csv", run / "reports" / "run.json"
    for path in (table, record, run / "reports" / "index.html"):
        if not path.exists():
            raise files.UserError(f"{path} does not exist. Run `make demo` first.")
    refuse_long_pages(run / "reports")
    devices = run_record.devices(files.read_json(record)[run_record.RECORD])
    of_towers = None if towers is None else pd.read_csv(towers)
    before = readme.read_text()
    content = numbers(pd.read_csv(table), devices, of_towers)
    if readme.parent.name == "docs":
        content = content.replace("](docs/", "](")
    text = filled(before, "numbers", content)
    text = filled(text, "found", found((run / "reports" / "index.html").read_text()))
    if not check:
        times = installation(run / ".venv", run / "envs")
        times += minutes(run / "benchmarks", cores)
        if "<!-- minutes -->" in text:
            text = filled(text, "minutes", times)
        files.write_text(readme, text)
    elif text != before:
        lines = difflib.ndiff(before.splitlines(), text.splitlines())
        changed = "\n".join(line for line in lines if line.startswith(("- ", "+ ")))
        raise files.UserError(
            f"{readme}: the table is not that of the demo in {run}:\n{changed}\n"
            "Run `make readme`, and list each changed verdict in CHANGELOG.md."
        )


def main() -> None:
    """Write or check README's numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, nargs="+", help="README, or a page of docs")
    parser.add_argument("--run", type=Path, default=".", help="folder of a finished demo")
    parser.add_argument("--towers", type=Path, help="a table of the claims over pairs of towers")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if it differs")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    try:
        for page in options.pages:
            fill(page, options.run, cores, options.towers, check=options.check)
    except files.UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
