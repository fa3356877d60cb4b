"""Tables of conditions around the presets: bridge, grid, sweep over d, the text's statements."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import count
from mispair.report import style
from mispair.report.statistics import Interval
from mispair.report.table import Cell, Number, Table, general, mean_and_spread, or_dash, whole
from mispair.report.tables import Tables, records, where
from mispair.simulation.literal import STATEMENTS
from mispair.simulation.presets import UNSTATED
from mispair.simulation.report.claims_scaling import (
    MEASURES,
    fitted,
    of_sweep,
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
from mispair.simulation.report.slopes import Slope
from mispair.simulation.study import PRESETS as SETTINGS

WRITTEN = "as-written"
REPAIRED = "(as written, repaired)"

COUNTED = ("purified_features", "accuracy")
"""Measures of the table of the text's statements."""


def switches(tables: Tables, confidence: float) -> Table:
    """Return what each switch between the presets changes, thrown alone."""
    changes = bridge_changes(tables, confidence)
    cells: dict[tuple[str, str], dict[str, Number | None]] = {}
    pairs: dict[tuple[str, str], int] = {}
    for row in records(changes):
        key = (row["switch"], row["trained_on"])
        digits = DIGITS[row["metric"]]
        star = "*" if excludes_zero(row["low"], row["high"]) else ""
        change = Interval(row["value"], row["low"], row["high"], row["n"])
        cells.setdefault(key, {})[row["metric"]] = plus_minus(change, digits, star)
        pairs[key] = max(pairs.get(key, 0), int(row["n"]))
    arms = list(style.CHANGES)
    keys = sorted(cells, key=lambda key: (key[0] == FAR_END, key[0], arms.index(key[1])))
    rows = [
        (*key, *(cells[key].get(metric) for metric in style.MEASURES), whole(pairs[key]))
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


def plus_minus(change: Interval, digits: int, mark: str = "") -> Number | None:
    """Return a change ± half the width of its interval, if it has one."""
    if math.isnan(change.value):
        return None
    half = (change.high - change.low) / 2
    return Number(change.value, digits, sign=True, spread=half, mark=mark)


def whole_grid(tables: Tables, confidence: float) -> Table:
    """Return every cell of the grid, and whether the paper's conclusions hold there."""
    rows = [
        (
            cell.noise, cell.misalignment, cell.bias, general(cell.spurious_probability),
            or_dash(cell.raw["purified_features"], 1), or_dash(cell.raw["accuracy"], 3),
            plus_minus(cell.gains["purified_features"], 1),
            cell.mark("purified_features") or None,
            plus_minus(cell.gains["accuracy"], 3), cell.mark("accuracy") or None,
            cell.failed or None,
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
            cells = [_mean(by_d[d]) if d in by_d else None for d in dimensions]
            fit = fits.get((key, name))
            ends = (_slope(fit), Number(fit.departure, 2)) if fit else (None, None)
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


def _mean(trials: list[float]) -> Number:
    """Return the mean over trials; small ones have two significant digits."""
    mean = sum(trials) / len(trials)
    return Number(mean, ".2g" if 0 < mean < 0.001 else 4, n=len(trials))


def _slope(fit: Slope) -> Number:
    effect, none_at = fit.effect, ", ".join(map(str, sorted(fit.bounds)))
    mark = f" (none at d = {none_at}: upper bounds there)" if none_at else ""
    return Number(effect.value, 2, sign=True, low=effect.low, high=effect.high, mark=mark)


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


def _statement(name: str, table: pd.DataFrame) -> tuple[Cell, ...]:
    cells = [
        mean_and_spread(runs(table, metric)[arm], DIGITS[metric], counted=False)
        for metric in COUNTED
        for arm in PAIR
    ]
    return (name, whole(table["trial"].nunique()), _failures(table), *cells)


def _failures(table: pd.DataFrame) -> str | None:
    texts = []
    for metric, state in FAILED.items():
        for arm in PAIR:
            steps = where(table, metric=metric, trained_on=arm)["value"]
            if len(steps):
                span = " to ".join(
                    dict.fromkeys(f"{step:g}" for step in (steps.min(), steps.max()))
                )
                texts.append(f"{arm}: {count(len(steps), 'run')} {state} at step {span}")
    return "; ".join(texts) or None


def unstated(tables: Tables) -> Table:
    """Return the choices of preset as-written that the text does not settle."""
    rows: list[tuple[Cell, ...]] = []
    if WRITTEN in presets(tables.simulation):
        written = where(tables.provenance, artefact="simulation", condition=WRITTEN)
        texts = dict(zip(written["key"], written["text"].astype(str), strict=True))
        rows = [
            (name, str(SETTINGS[WRITTEN][name]), texts.get(f"settings.{name}"), text)
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
