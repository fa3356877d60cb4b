"""Tables of the conditions other than the presets: the bridge between them, and the grid."""

from __future__ import annotations

import math

from mispair.core.words import number
from mispair.report import style, verdicts
from mispair.report.statistics import Interval
from mispair.report.table import Table, or_dash
from mispair.report.tables import Tables, records
from mispair.simulation.report import bridge, grid
from mispair.simulation.report.claims_figure1 import NAMES

MARKS = {verdicts.SUPPORTS: "holds", verdicts.CONTRADICTS: "reversed", verdicts.UNDECIDED: "open"}


def switches(tables: Tables, confidence: float) -> Table:
    """Return what each switch between the presets changes, thrown alone."""
    changes_of = bridge.changes(tables, confidence)
    start = bridge.base(tables.simulation)
    by_row: dict[tuple[str, str], dict[str, str]] = {}
    pairs: dict[tuple[str, str], int] = {}
    for row in records(changes_of):
        key = (row["switch"], row["trained_on"])
        by_row.setdefault(key, {})[row["metric"]] = _change(row)
        pairs[key] = max(pairs.get(key, 0), int(row["n"]))
    rows = [
        (switch, arm, *(cells.get(metric, "–") for metric in style.MEASURES),
         str(pairs[switch, arm]))
        for (switch, arm), cells in sorted(
            by_row.items(), key=lambda item: (item[0][0] == bridge.FAR_END, item[0][0],
                                              list(style.CHANGES).index(item[0][1])))
    ]  # fmt: skip
    where = tables.simulation.loc[tables.simulation["kind"] == "bridge", "spurious_probability"]
    probabilities = ", ".join(f"{value:g}" for value in sorted(set(where)))
    return Table(
        f"One switch of {start} thrown to the other preset, at C_s {probabilities}: change",
        ("switch", "of", *(name.split(" (")[0] for name in style.MEASURES.values()), "pairs"),
        tuple(rows),
        "Change ± half the width of its "
        f"{100 * confidence:g} % interval over trials; * marks intervals without zero. Gain: "
        f"filtered − raw. “{bridge.FAR_END}” is the other preset itself.",
        folded=True,
        section="From one preset to the other",
    )


def _change(row: dict[str, object]) -> str:
    digits = NAMES[str(row["metric"])][2]
    value, low, high = (float(str(row[name])) for name in ("value", "low", "high"))
    text = number(value, digits, sign=True)
    if math.isfinite(low):
        text += f" ± {number((high - low) / 2, digits)}{'*' if low > 0 or high < 0 else ''}"
    return text


def whole_grid(tables: Tables, confidence: float) -> Table:
    """Return every cell of the grid, with where the paper's conclusions hold."""
    rows = [
        (
            cell.noise, cell.misalignment, cell.bias, f"{cell.spurious_probability:g}",
            or_dash(cell.raw["purified_features"], 1), or_dash(cell.raw["accuracy"], 3),
            _gain(cell.gains["purified_features"], 1),
            MARKS.get(cell.outcomes["purified_features"], "–"),
            _gain(cell.gains["accuracy"], 3), MARKS.get(cell.outcomes["accuracy"], "–"),
            cell.failed or "–",
        )
        for cell in grid.cells(tables, confidence)
    ]  # fmt: skip
    return Table(
        "The grid of conditions: gain by filtering, and where the conclusions hold",
        ("noise", "misalignment", "bias schedule", "C_s", "raw: purified features",
         "raw: accuracy", "gain in purified features", "purifies more", "gain in accuracy",
         "classifies better", "without a result"),
        tuple(rows),
        "By the rule of differences in each cell alone: holds, reversed or open (the "
        f"{100 * confidence:g} % interval holds zero, or there is one trial).",
        folded=True,
        section="Sensitivity",
    )  # fmt: skip


def _gain(changes_of: Interval, digits: int) -> str:
    if not math.isfinite(changes_of.value):
        return "–"
    text = number(changes_of.value, digits, sign=True)
    return (
        f"{text} ± {number((changes_of.high - changes_of.low) / 2, digits)}"
        if changes_of.known
        else text
    )
