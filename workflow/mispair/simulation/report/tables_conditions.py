"""Tables of conditions around the presets: bridge, grid, sweep over d, the text's statements."""

from __future__ import annotations

import pandas as pd

from mispair.core.words import count, number
from mispair.report import style
from mispair.report.statistics import Interval
from mispair.report.table import Table, mean_and_spread, or_dash
from mispair.report.tables import Tables, records, where
from mispair.simulation.literal import STATEMENTS
from mispair.simulation.presets import UNSTATED
from mispair.simulation.report.claims_scaling import (
    MEASURES,
    fitted,
    mean_text,
    of_sweep,
    slope_text,
    values,
)
from mispair.simulation.report.conditions import (
    DIGITS,
    FAILED,
    FAR_END,
    bridge_base,
    bridge_changes,
    excludes_zero,
    grid_cells,
)
from mispair.simulation.report.runs import PAIR, listed, of_preset, presets, runs
from mispair.simulation.study import PRESETS as SETTINGS

WRITTEN = "as-written"
REPAIRED = "(as written, repaired)"

COUNTED = ("purified_features", "accuracy")
"""Measures of the table of the text's statements."""


def switches(tables: Tables, confidence: float) -> Table:
    """Return what each switch between the presets changes, thrown alone."""
    changes = bridge_changes(tables, confidence)
    cells: dict[tuple[str, str], dict[str, str]] = {}
    pairs: dict[tuple[str, str], int] = {}
    for row in records(changes):
        key = (row["switch"], row["trained_on"])
        digits = DIGITS[row["metric"]]
        star = "*" if excludes_zero(row["low"], row["high"]) else ""
        change = Interval(row["value"], row["low"], row["high"], row["n"])
        cells.setdefault(key, {})[row["metric"]] = plus_minus(change, digits) + star
        pairs[key] = max(pairs.get(key, 0), int(row["n"]))
    arms = list(style.CHANGES)
    keys = sorted(cells, key=lambda key: (key[0] == FAR_END, key[0], arms.index(key[1])))
    rows = [
        (*key, *(cells[key].get(metric, "–") for metric in style.MEASURES), str(pairs[key]))
        for key in keys
    ]
    bridge = where(tables.simulation, kind="bridge")
    return Table(
        f"One switch of {bridge_base(bridge)} thrown to the other preset, "
        f"at C_s {listed(bridge['spurious_probability'])}: change",
        ("switch", "of", *(name.split(" (")[0] for name in style.MEASURES.values()), "pairs"),
        tuple(rows),
        f"Change ± half the width of its {100 * confidence:g} % interval over trials; * marks "
        f"intervals without zero. Gain: filtered − raw. “{FAR_END}” is the other preset itself.",
        folded=True,
        section="From one preset to the other",
    )


def plus_minus(change: Interval, digits: int) -> str:
    """Print a change ± half the width of its interval, if it has one."""
    text = or_dash(change.value, digits, sign=True)
    return f"{text} ± {number((change.high - change.low) / 2, digits)}" if change.known else text


def whole_grid(tables: Tables, confidence: float) -> Table:
    """Return every cell of the grid, and whether the paper's conclusions hold there."""
    rows = [
        (
            cell.noise, cell.misalignment, cell.bias, f"{cell.spurious_probability:g}",
            or_dash(cell.raw["purified_features"], 1), or_dash(cell.raw["accuracy"], 3),
            plus_minus(cell.gains["purified_features"], 1),
            cell.mark("purified_features") or "–",
            plus_minus(cell.gains["accuracy"], 3), cell.mark("accuracy") or "–",
            cell.failed or "–",
        )
        for cell in grid_cells(tables, confidence)
    ]  # fmt: skip
    return Table(
        "The grid of conditions: gain by filtering, and where the conclusions hold",
        ("noise", "misalignment", "bias schedule", "C_s", "raw: purified features",
         "raw: accuracy", "gain in purified features", "purifies more", "gain in accuracy",
         "classifies better", "without a result"),
        tuple(rows),
        f"By the {100 * confidence:g} % interval of the gain in each cell alone: above zero "
        "(holds), below (reversed), or neither (open).",
        folded=True,
        section="Sensitivity",
    )  # fmt: skip


def slopes(tables: Tables, confidence: float) -> list[Table]:
    """Return the means and slopes of each sweep over d."""
    return [_slopes(of_sweep(tables, wide), wide, confidence) for wide in (False, True)]


def _slopes(table: pd.DataFrame, wide: bool, confidence: float) -> Table:
    fits, measured = fitted(table, confidence), values(table)
    dimensions = sorted({d for by_d in measured.values() for d in by_d})
    rows = []
    for measure, title in MEASURES.items():
        for (key, name), by_d in measured.items():
            if key != measure:
                continue
            cells = [
                f"{mean_text(by_d[d])} ({len(by_d[d])})" if d in by_d else "–" for d in dimensions
            ]
            fit = fits.get((key, name))
            ends = (slope_text(fit), f"{fit.departure:.2f}") if fit else ("–", "–")
            rows.append((title, name, *cells, *ends))
    more = ", more neurons for each feature" if wide else ""
    return Table(
        f"Measures by the number of features d{more}: mean (trials)",
        ("measure", "of", *(f"d = {d}" for d in dimensions), "slope of log on log d",
         "largest factor between a mean and the line"),
        tuple(rows),
        f"Intervals at {100 * confidence:g} %, from the spread of trials at each d. Settings "
        "follow d by the rules of mispair.simulation.scaling.",
        section="Scaling with d",
    )  # fmt: skip


def literal(tables: Tables) -> Table:
    """Return the measures where the text's statements replace repairs."""
    table = where(tables.simulation, kind="literal")
    rows = []
    if not table.empty:
        repaired = of_preset(tables.simulation, WRITTEN)
        repaired = where(repaired, spurious_probability=set(table["spurious_probability"]))
        rows = [_statement("none: as written, repaired", repaired)]
        rows += [
            _statement(f"{switch}: {text}", where(table, switch=switch))
            for switch, text in STATEMENTS.items()
        ]
    return Table(
        "As written, literally: the text’s statements in place of repairs",
        ("statement", "trials", "runs that failed", *(
            f"{style.MEASURES[metric].split(' (')[0].lower()}, {arm}"
            for metric in COUNTED for arm in PAIR
        )),
        tuple(rows),
        "Silenced: no neuron of an encoder responds to any pair of a batch, at the step named.",
        section="As written, literally",
    )  # fmt: skip


def _statement(name: str, table: pd.DataFrame) -> tuple[str, ...]:
    cells = [
        mean_and_spread(runs(table, metric)[arm], DIGITS[metric], counted=False)
        for metric in COUNTED
        for arm in PAIR
    ]
    return (name, str(table["trial"].nunique()), _failures(table), *cells)


def _failures(table: pd.DataFrame) -> str:
    texts = []
    for metric, state in FAILED.items():
        for arm in PAIR:
            steps = where(table, metric=metric, trained_on=arm)["value"]
            if len(steps):
                span = " to ".join(
                    dict.fromkeys(f"{step:g}" for step in (steps.min(), steps.max()))
                )
                texts.append(f"{arm}: {count(len(steps), 'run')} {state} at step {span}")
    return "; ".join(texts) or "–"


def unstated(tables: Tables) -> Table:
    """Return the choices of preset as-written that the text does not settle."""
    rows: list[tuple[str, ...]] = []
    if WRITTEN in presets(tables.simulation):
        written = where(tables.provenance, artefact="simulation", condition=WRITTEN)
        texts = dict(zip(written["key"], written["text"].astype(str), strict=True))
        rows = [
            (name, str(SETTINGS[WRITTEN][name]), texts.get(f"settings.{name}", "–"), text)
            for name, text in UNSTATED.items()
        ]
    return Table(
        f"What the text leaves to choose, and what preset {WRITTEN} {REPAIRED} takes",
        ("setting", "preset", "this run", "what the text says"),
        tuple(rows),
        "Open: the text gives no value. Contradictory: it gives two. Repaired: it gives one with "
        "which training fails.",
        folded=True,
        section="Setting",
    )
