"""Tables of the simulation study: its setting, figure 1, its arms and what they learned."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from mispair.report import published, style
from mispair.report.statistics import mean_interval
from mispair.report.table import (
    Cell,
    Number,
    Table,
    between,
    general,
    mean_and_spread,
    or_dash,
    whole,
)
from mispair.report.tables import Tables, where
from mispair.simulation.report.conditions import DIGITS, excludes_zero
from mispair.simulation.report.reproduction import TOLERANCES, foils, points
from mispair.simulation.report.runs import (
    PAIR,
    PRESETS,
    best,
    listed,
    of_preset,
    presets,
    runs,
)
from mispair.simulation.report.tables_conditions import (
    literal,
    slopes,
    switches,
    unstated,
    whole_grid,
)

MIXING = {
    "top_alignment": "top |cos|",
    "second_alignment": "second |cos|",
    "alpha_share": "energy in the top feature",
    "second_alpha_share": "energy in the second",
    "residual_share": "energy outside both",
    "residual_share_pure": "energy outside the top one",
    "mixed_neurons": "neurons that mix a spurious pair",
    "mixed_pairs_covered": "spurious pairs mixed by some neuron",
}

LONG = 12
"""A list of points with more rows than this is folded."""


CELL = ["spurious_probability", "trained_on"]
"""Columns that name a row of most tables."""


def simulation(tables: Tables, confidence: float) -> list[Table]:
    """Return the study's tables."""
    table = tables.simulation
    printed = [_setting(table)]
    for preset in presets(table):
        of_condition = of_preset(table, preset)
        printed += [
            _figure1(of_condition, preset),
            _not_reproduced(of_condition, preset),
            _tolerances(of_condition, preset),
            _definitions(of_condition, preset),
            _arms(of_condition, preset, confidence),
            _protocols(of_condition, preset),
            _mixing(of_condition, preset),
            _loss(of_condition, preset),
        ]
    printed += [unstated(tables), switches(tables, confidence), literal(tables)]
    return [*printed, whole_grid(tables, confidence), *slopes(tables, confidence)]


def _spreads(
    rows: pd.DataFrame, column: str, names: Iterable[str], digits: int, counted: bool = True
) -> list[Cell]:
    """Return a cell for each name in a column: mean ± standard deviation of its rows, if any."""
    groups = [rows.loc[rows[column] == name, "value"].dropna() for name in names]
    return [mean_and_spread(of, digits, counted) if len(of) else None for of in groups]


def _setting(table: pd.DataFrame) -> Table:
    rows = []
    for preset in presets(table):
        of_condition = of_preset(table, preset)
        noise = where(of_condition, metric="noise_to_signal").groupby("tower")["value"].mean()
        first = of_condition.iloc[0]
        rows.append((
            preset, *(_text(first[name]) for name in
                      ("misalignment", "encoder", "bias_schedule", "definition_main")),
            or_dash(first["image_noise_variance"], ".3g"),
            tuple(or_dash(noise.get(tower), 2) for tower in ("image", "text")),
            listed(of_condition["spurious_probability"].dropna()),
            whole(of_condition["trial"].nunique()),
        ))  # fmt: skip
    return Table(
        "What was run",
        ("preset", "misalignment", "encoder", "bias schedule", "main definition",
         "image noise σ² per coordinate", "noise ÷ signal energy, image / text", "C_s", "trials"),
        tuple(rows),
        section="Setting",
    )  # fmt: skip


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _figure1(table: pd.DataFrame, preset: str) -> Table:
    rows = []
    for metric in style.MEASURES:
        digits = DIGITS[metric]
        wide = runs(table, metric)
        for probability, part in wide.groupby("spurious_probability"):
            for arm in PAIR:
                expected = published.figure1_curve(metric, arm).get(probability, math.nan)
                rows.append((
                    metric.replace("_", " "), general(probability), arm,
                    mean_and_spread(part[arm], digits), or_dash(best(part[arm]), digits),
                    or_dash(expected, digits),
                    or_dash(part[arm].mean() - expected, digits, sign=True),
                ))  # fmt: skip
    return Table(
        f"The four measures of figure 1, {preset}",
        ("measure", "C_s", "trained on", "measured, all runs", "best two thirds of the runs",
         "published (best 10 of 15)", "all runs − published"),
        tuple(rows),
        "A best-two-thirds mean needs at least three trials.",
        folded=True,
        section="Figure 1",
    )  # fmt: skip


def _not_reproduced(table: pd.DataFrame, preset: str) -> Table:
    compared = points(table)
    missed = [point for point in compared if not point.within(point.mean)]
    chosen = sum(point.within(point.best) for point in compared)
    rows = [
        (
            point.metric.replace("_", " "), general(point.spurious_probability),
            point.trained_on, Number(point.published, DIGITS[point.metric]),
            mean_and_spread(point.values, DIGITS[point.metric]),
            Number(point.mean - point.published, DIGITS[point.metric], sign=True),
            Number(None, "g", spread=TOLERANCES[point.metric]),
            or_dash(point.best, DIGITS[point.metric]),
        )
        for point in missed
    ]  # fmt: skip
    return Table(
        f"Points of figure 1 not reproduced by all runs, {preset}: {len(rows)} of {len(compared)}",
        ("measure", "C_s", "trained on", "published", "all runs", "difference", "tolerance",
         "best two thirds of the runs"),
        tuple(rows),
        "Published points are means of the best ten of fifteen runs. The best two thirds of the "
        f"runs here reproduce {chosen} of {len(compared)} points.",
        folded=len(rows) > LONG,
        section="Figure 1",
    )  # fmt: skip


def _tolerances(table: pd.DataFrame, preset: str) -> Table:
    """Return which wrong curves the tolerances of figure 1 would pass as the published ones."""
    rows = [
        (foil.name, Number(foil.passed, 0, unit=f"of {foil.points}"))
        for foil in foils()
        if points(table)
    ]
    return Table(
        f"How soft the tolerances of figure 1 are, {preset}",
        ("each published point replaced by", "still within the tolerance"),
        tuple(rows),
        "Wrong curves that the tolerances pass: so many points can agree without the published "
        "curve being reproduced.",
        folded=True,
        section="Figure 1",
    )


def _definitions(table: pd.DataFrame, preset: str) -> Table:
    defined = where(table, metric=style.MEASURES, trained_on=PAIR)
    defined = defined[defined["definition"].notna()]
    names = [name for name in PRESETS if name in set(defined["definition"])]
    if len(names) < 2:
        return Table("", (), ())
    rows = [
        (
            metric.replace("_", " "), general(probability), str(arm),
            *_spreads(group, "definition", names, DIGITS[metric]),
        )
        for metric in style.MEASURES
        for (probability, arm), group in where(defined, metric=metric).groupby(CELL)
    ]  # fmt: skip
    main = _text(defined["definition_main"].iloc[0])
    return Table(
        f"The same runs in both definitions, {preset}",
        ("measure", "C_s", "trained on", *(f"defined {name}" for name in names)),
        tuple(rows),
        f"The main definition of this preset is {main}; figures and verdicts use it.",
        folded=True,
        section="Figure 1",
    )


def _arms(table: pd.DataFrame, preset: str, confidence: float) -> Table:
    wide = {metric: runs(table, metric) for metric in style.MEASURES}
    rows: list[tuple[Cell, ...]] = []
    extra = [arm for arm in style.ARMS if arm not in (*PAIR, "oracle", "high-quality-only")]
    detailed = wide["accuracy"][extra].dropna(how="all").index
    detailed = detailed.union(wide["purified_features"][extra].dropna(how="all").index)
    probabilities = detailed.get_level_values("spurious_probability")
    for probability in sorted(set(probabilities)):
        index = detailed[probabilities == probability]
        measures = {metric: values.reindex(index) for metric, values in wide.items()}
        for arm, label in style.ARM_WORDS.items():
            trials = max(int(values[arm].count()) for values in measures.values())
            cells = (
                _arm_cell(values, arm, DIGITS[metric], confidence)
                for metric, values in measures.items()
            )
            if trials:
                rows.append((general(probability), label, *cells, whole(trials)))
    return Table(
        f"All arms, {preset}: mean ± 1 standard deviation [difference to raw]",
        ("C_s", "trained on", *(name.split(" (")[0] for name in style.MEASURES.values()), "trials"),
        tuple(rows),
        "Differences are paired by trial; * marks those whose "
        f"{100 * confidence:g} % interval does not hold zero. Right captions only: the raw arm of "
        "the same trial at C_s = 0. S_h alone does not depend on C_s.",
        section="Arms",
    )


def _arm_cell(measures: pd.DataFrame, arm: str, digits: int, confidence: float) -> Number:
    cell = mean_and_spread(measures[arm], digits, counted=False)
    gain = mean_interval((measures[arm] - measures["raw"]).dropna().tolist(), confidence)
    if arm == "raw" or not gain.n:
        return cell
    star = "*" if excludes_zero(gain.low, gain.high) else ""
    return replace(cell, beside=Number(gain.value, digits, sign=True, mark=star))


def _protocols(table: pd.DataFrame, preset: str) -> Table:
    accuracies = where(table, metric="accuracy_by_protocol", trained_on=PAIR)
    counts = runs(table, "purified_features").groupby("spurious_probability").mean()
    rows = []
    for (probability, arm, prompts, margin), group in accuracies.groupby(
        [*CELL, "prompts", "margin"]
    ):
        trained, zero = (where(group, bias=bias)["value"].mean() for bias in ("trained", "zero"))
        purified = counts[arm].get(probability, math.nan)
        rows.append((
            general(probability), str(arm), f"{prompts}, margin {margin:g}",
            *_spreads(group, "bias", ("trained", "zero"), 3),
            or_dash(zero - trained, 3, sign=True), or_dash(purified, 1),
        ))  # fmt: skip
    return Table(
        f"Accuracy by protocol, {preset}",
        ("C_s", "trained on", "prompts and test margin", "biases as trained", "biases zero",
         "zero − trained", "purified features"),
        tuple(rows),
        "Accuracy alone is no evidence of purity: where it does not fall without the biases, it "
        "does not rest on purified features.",
        folded=True,
        section="Arms",
    )  # fmt: skip


def _mixing(table: pd.DataFrame, preset: str) -> Table:
    of_runs = where(table, metric=MIXING).dropna(subset=["value"])
    means = of_runs.groupby([*CELL, "metric", "trial"])["value"].mean().reset_index()
    rows = []
    for probability, of_probability in means.groupby("spurious_probability"):
        for arm in style.ARMS:
            of_arm = where(of_probability, trained_on=arm)
            if len(of_arm):
                cells = _spreads(of_arm, "metric", MIXING, 3, counted=False)
                trials = whole(of_arm["trial"].nunique())
                rows.append((general(probability), arm, *cells, trials))
    return Table(
        f"What a neuron consists of, {preset}",
        ("C_s", "trained on", *MIXING.values(), "trials"),
        tuple(rows),
        "Theorems 4.2 and 4.4 bound the energy outside a neuron’s features by an order, 1/d, that "
        "one d cannot test: see Scaling with d. Means over neuron pairs.",
        folded=True,
        section="What neurons learn",
    )


def _loss(table: pd.DataFrame, preset: str) -> Table:
    losses = where(table, metric=("loss_gap", "loss_longer")).dropna(subset=["value"])
    rows = []
    for (probability, arm), group in losses.groupby(CELL):
        gap, reference = _spreads(group, "metric", ("loss_gap", "loss_longer"), 4)
        limits = mean_interval(where(group, metric="loss_gap")["value"].tolist())
        around = between(limits.low, limits.high, 4)
        rows.append((general(probability), str(arm), gap, around, reference))
    return Table(
        f"Gap to the same run continued (theorem 4.1), {preset}",
        ("C_s", "trained on", "(L − L′) ÷ |L′|", "95 % interval", "L′"),
        tuple(rows),
        "L′ is the lower of the two losses before and after the same run continues with its "
        "thresholds held: a local reference, not a bound on the optimum L*.",
        section="Theory of training",
    )
