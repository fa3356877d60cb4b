"""Tables on the paper's text: slopes over d, its statements taken literally, and what it leaves."""

from __future__ import annotations

import pandas as pd

from mispair.core.words import count
from mispair.report import style
from mispair.report.table import Table, mean_and_spread
from mispair.report.tables import Tables, records
from mispair.simulation.literal import STATEMENTS
from mispair.simulation.presets import PRESETS as SETTINGS
from mispair.simulation.presets import UNSTATED
from mispair.simulation.report.claims_figure1 import NAMES
from mispair.simulation.report.claims_scaling import (
    MEASURES,
    fitted,
    mean_text,
    of_sweep,
    slope_text,
    values,
)
from mispair.simulation.report.grid import FAILED
from mispair.simulation.report.runs import PAIR, PRESETS, of_preset, presets, runs

WRITTEN = "as-written"
REPAIRED = "(as written, repaired)"


def slopes(tables: Tables, confidence: float) -> list[Table]:
    """Return the means and slopes of each sweep over d."""
    return [
        _slopes(of_sweep(tables, preset, wide), wide, confidence)
        for preset in PRESETS
        for wide in (False, True)
    ]


def _slopes(table: pd.DataFrame, wide: bool, confidence: float) -> Table:
    fits, measured = fitted(table, confidence), values(table)
    dimensions = sorted({d for by_d in measured.values() for d in by_d})
    rows = []
    for measure, title in MEASURES.items():
        for (key, name), by_d in measured.items():
            if key != measure:
                continue
            fit = fits.get((key, name))
            cells = [
                f"{mean_text(by_d[d])} ({len(by_d[d])})" if d in by_d else "–" for d in dimensions
            ]
            bend = f"{fit.departure:.2f}" if fit else "–"
            rows.append((title, name, *cells, slope_text(fit) if fit else "–", bend))
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
    """Return what happens where the text's statements take the place of repairs."""
    table = tables.simulation
    of_literal = table[table["kind"] == "literal"]
    rows = []
    if not of_literal.empty:
        at = sorted(set(of_literal["spurious_probability"]))
        repaired = of_preset(table, WRITTEN)
        repaired = repaired[repaired["spurious_probability"].isin(at)]
        rows = [_row("none: as written, repaired", repaired)]
        rows += [
            _row(f"{switch}: {text}", of_literal[of_literal["switch"] == switch])
            for switch, text in STATEMENTS.items()
        ]
    return Table(
        "As written, literally: the text’s statements in place of repairs",
        ("statement", "trials", "runs that failed", *(
            f"{style.MEASURES[metric].split(' (')[0].lower()}, {arm}"
            for metric in ("purified_features", "accuracy") for arm in PAIR
        )),
        tuple(rows),
        "Silenced: no neuron of an encoder responds to any pair of a batch, at the step named.",
        section="As written, literally",
    )  # fmt: skip


def _row(name: str, of_condition: pd.DataFrame) -> tuple[str, ...]:
    cells = []
    for metric in ("purified_features", "accuracy"):
        wide = runs(of_condition, metric)
        cells += [mean_and_spread(wide[arm], NAMES[metric][2], counted=False) for arm in PAIR]
    return (name, str(of_condition["trial"].nunique()), _failures(of_condition), *cells)


def _failures(of_condition: pd.DataFrame) -> str:
    texts = []
    for metric, state in FAILED.items():
        for arm in PAIR:
            steps = of_condition.loc[
                (of_condition["metric"] == metric) & (of_condition["trained_on"] == arm), "value"
            ]
            if len(steps):
                first, last = steps.min(), steps.max()
                span = f"{first:g}" if first == last else f"{first:g} to {last:g}"
                texts.append(f"{arm}: {count(len(steps), 'run')} {state} at step {span}")
    return "; ".join(texts) or "–"


def unstated(tables: Tables) -> Table:
    """Return the choices of preset as-written that the text does not settle."""
    table = tables.simulation
    if WRITTEN not in presets(table):
        return Table("", (), ())
    keys = tables.provenance
    written = keys[(keys["artefact"] == "simulation") & (keys["condition"] == WRITTEN)]
    run = {
        str(row["key"]).removeprefix("settings."): str(row["text"])
        for row in records(written)
        if str(row["key"]).startswith("settings.")
    }
    rows = tuple(
        (name, str(SETTINGS[WRITTEN][name]), run.get(name, "–"), text)
        for name, text in UNSTATED.items()
    )
    return Table(
        f"What the text leaves to choose, and what preset {WRITTEN} {REPAIRED} takes",
        ("setting", "preset", "this run", "what the text says"),
        rows,
        "Open: the text gives no value. Contradictory: it gives two. Repaired: it gives one with "
        "which training fails.",
        folded=True,
        section="Setting",
    )
