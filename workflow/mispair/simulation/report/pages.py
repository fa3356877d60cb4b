"""What the study puts on the pages of the report: tables, sentences, settings, and curves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from mispair.core.words import count
from mispair.report import style, texts
from mispair.report.curves import TrainingCurves, in_order, path_of, tag_of
from mispair.report.pages.study_pages import FigureWithoutClaim, Pages
from mispair.report.statistics import mean_interval
from mispair.report.table import Cell, Number, Table, general, mean_and_spread, or_dash, whole
from mispair.report.tables import Tables, records, where
from mispair.report.texts import Note
from mispair.simulation.report import claims
from mispair.simulation.report.claims_scaling import MEASURES, Slope, fitted, of_sweep, values
from mispair.simulation.report.runs import (
    PAIR,
    PRESETS,
    RUN,
    TOLERANCES,
    of_preset,
    points,
    presets,
    runs,
)
from mispair.simulation.study import PRESETS as SETTINGS

# The printed tables of the simulation study, in the order of its page.

WRITTEN = "as-written"
"""The preset of the paper's text."""

DIGITS = {"purified_features": 1, "purified_magnitude": 3, "accuracy": 3, "silhouette": 3}
"""Digits of the four measures of figure 1."""

LONG = 12
"""A list of points with more rows than this is folded."""

COUNTED = ("purified_features", "accuracy")
"""Measures of the conditions around the presets."""

FAILED = {"silenced_at_step": "silenced", "diverged_at_step": "diverged"}


def simulation(tables: Tables, confidence: float) -> list[Table]:
    """Return the study's tables."""
    of_presets = [(name, of_preset(tables.simulation, name)) for name in presets(tables.simulation)]
    return [
        setting(tables.simulation),
        *(not_reproduced(table, name) for name, table in of_presets),
        *(arms(table, name, confidence) for name, table in of_presets),
        unstated(tables),
        grid(tables, confidence),
        slopes(tables, confidence),
    ]


def setting(table: pd.DataFrame) -> Table:
    """Return what distinguishes the presets that were run."""
    rows = []
    for preset in presets(table):
        of_condition = of_preset(table, preset)
        noise = where(of_condition, metric="noise_to_signal").groupby("tower")["value"].mean()
        first = of_condition.iloc[0]
        named = (first[key] for key in ("misalignment", "encoder", "bias_schedule",
                                        "definition_main"))  # fmt: skip
        c_s = sorted(set(of_condition["spurious_probability"].dropna()))
        rows.append((
            preset, *(text if isinstance(text, str) and text else None for text in named),
            or_dash(first["image_noise_variance"], ".3g"),
            tuple(or_dash(noise.get(tower), 2) for tower in ("image", "text")),
            ", ".join(map("{:g}".format, c_s)), whole(of_condition["trial"].nunique()),
        ))  # fmt: skip
    return Table(
        "What was run",
        ("preset", "misalignment", "encoder", "bias schedule", "main definition",
         "image noise σ² per coordinate", "noise ÷ signal energy, image / text", "C_s", "trials"),
        tuple(rows),
        section="Setting",
    )  # fmt: skip


def not_reproduced(table: pd.DataFrame, preset: str) -> Table:
    """Return the published points that the mean of all runs misses."""
    compared = points(table)
    missed = [point for point in compared if not point.within(point.mean)]
    rows = [
        (
            point.metric.replace("_", " "), general(point.spurious_probability),
            point.trained_on, Number(point.published, digits),
            mean_and_spread(point.values, digits),
            Number(point.mean - point.published, digits, sign=True),
            Number(None, "g", spread=TOLERANCES[point.metric]), or_dash(point.best, digits),
        )
        for point in missed
        for digits in [DIGITS[point.metric]]
    ]  # fmt: skip
    chosen = sum(point.within(point.best) for point in compared)
    note = Note("simulation", "table_not_reproduced", chosen=chosen, compared=len(compared))
    return Table(
        f"Points of figure 1 not reproduced by all runs, {preset}: {len(rows)} of {len(compared)}",
        ("measure", "C_s", "trained on", "published", "all runs", "difference", "tolerance",
         "best two thirds of the runs"),
        tuple(rows),
        texts.text(note),
        folded=len(rows) > LONG,
        section="Figure 1",
    )  # fmt: skip


def arms(table: pd.DataFrame, preset: str, confidence: float) -> Table:
    """Return all arms at the C_s at which more than figure 1's were run."""
    wide = {metric: runs(table, metric) for metric in style.MEASURES}
    further = [arm for arm in style.ARM_WORDS if arm not in (*PAIR, "oracle", "high-quality-only")]
    measured = [wide[metric][further].dropna(how="all").index for metric in COUNTED]
    detailed = measured[0].union(measured[1]).to_frame(index=False)
    rows: list[tuple[Cell, ...]] = []
    for probability, index in detailed.groupby("spurious_probability"):
        keys = pd.MultiIndex.from_frame(index)
        measures = {metric: of_runs.reindex(keys) for metric, of_runs in wide.items()}
        for arm, label in style.ARM_WORDS.items():
            trials = max(int(of_runs[arm].count()) for of_runs in measures.values())
            cells = (
                _against_raw(of_runs, arm, DIGITS[metric], confidence)
                for metric, of_runs in measures.items()
            )
            if trials:
                rows.append((general(probability), label, *cells, whole(trials)))
    return Table(
        f"All arms, {preset}: mean ± 1 standard deviation [difference to raw]",
        ("C_s", "trained on", *(name.split(" (")[0] for name in style.MEASURES.values()), "trials"),
        tuple(rows),
        texts.text(Note("simulation", "table_arms", confidence=confidence)),
        section="Arms",
    )


def _against_raw(measures: pd.DataFrame, arm: str, digits: int, confidence: float) -> Number:
    cell = mean_and_spread(measures[arm], digits, counted=False)
    gain = mean_interval((measures[arm] - measures["raw"]).dropna().tolist(), confidence)
    if arm == "raw" or not gain.n:
        return cell
    star = "*" if gain.low > 0 or gain.high < 0 else ""
    return replace(cell, beside=Number(gain.value, digits, sign=True, mark=star))


UNSTATED: dict[str, str] = {
    "latent_values": "contradictory: 0 and ±1 (assumption 3.1d), or Bernoulli(0.1) (section 5.1)",
    "misalignment": "open: each feature has several spurious ones, at C_s in all (section 5.1)",
    "spurious_group_size": "open: several (section 5.1); the theorems have pairs (appendix B.2)",
    "start_std": "open: a variance of order 1 / (d1 poly(d)) (theorem 4.1)",
    "bias_schedule": "repaired: Eqs. 79-81 and table 5 state the schedule theory; see below",
    "bias_scale": "open: sqrt(1 + c_0 - 2 gamma c_0) (Eq. 79) with small constants",
    "phase2_steps": "open: of order d log(d) / eta (appendix E), until Eq. 81 holds",
    "phase2_growth": "open: the constant of Eq. 81, which only the schedule theory reads",
    "loss_reduction": "open: Eq. 1 sums over all pairs; how a batch represents them is not stated",
    "temperature": "open: positive (Eq. 1)",
    "epochs": "open: theorem 4.1 has a number of steps of order d² log(d), section 5.1 none",
    "retrain_epochs": "open: as S1 (section 2.1)",
    "decoder": "contradictory: ReLU (Eq. 6), or thresholds (appendix G, Eqs. 115 and 116)",
    "decoder_lr": "open: step size eta (section 3.3); whether it is that of S1 is not stated",
    "decoder_steps": "open: theorem 4.3 has a number of steps of order d log(d)",
    "test_margin": "open: the best class leads (Eq. 10), by how much is not stated",
    "test_shift": "open: at most of order 1 / sqrt(d) (Eq. 8)",
}
"""Settings of ``as-written`` that the paper's text does not settle, and what it states on them.

*Open*: the text gives no value. *Contradictory*: it gives two. *Repaired*: it gives one with which
training fails.
"""


def unstated(tables: Tables) -> Table:
    """Return the choices of preset as-written that the text does not settle."""
    rows: list[tuple[Cell, ...]] = []
    if WRITTEN in presets(tables.simulation):
        written = where(tables.provenance, artefact="simulation", condition=WRITTEN)
        used = dict(zip(written["key"], written["text"].astype(str), strict=True))
        rows = [
            (name, str(SETTINGS[WRITTEN][name]), used.get(f"settings.{name}"), text)
            for name, text in UNSTATED.items()
        ]
    return Table(
        f"What the text leaves to choose, and what preset {WRITTEN} (as written, repaired) takes",
        ("setting", "preset", "this run", "what the text says"),
        tuple(rows),
        texts.text(Note("simulation", "table_unstated")),
        folded=True,
        section="Setting",
    )


def _failures(table: pd.DataFrame) -> str | None:
    """Return how many runs of each arm gave no result, and at which steps."""
    lost = []
    for (metric, arm), rows in where(table, metric=FAILED).groupby(["metric", "trained_on"]):
        steps = sorted({rows["value"].min(), rows["value"].max()})
        span = " to ".join(map("{:g}".format, steps))
        lost.append(f"{arm}: {count(len(rows), 'run')} {FAILED[str(metric)]} at step {span}")
    return "; ".join(lost) or None


def grid(tables: Tables, confidence: float) -> Table:
    """Return the gain by filtering in every cell of the grid, and whether it excludes zero."""
    keys = ["image_noise_variance", "misalignment", "bias_schedule", "spurious_probability"]
    rows: list[tuple[Cell, ...]] = []
    for _, cell in where(tables.simulation, kind="grid").groupby(keys):
        noise, misalignment, bias, probability = cell.iloc[0][keys]
        gains = (part for metric in COUNTED for part in _gain(cell, metric, confidence))
        position = (Number(noise, "g"), misalignment, bias, general(probability))
        rows.append((*position, *gains, _failures(cell)))
    return Table(
        "The grid of conditions: gain by filtering, and where the conclusions hold",
        ("noise", "misalignment", "bias schedule", "C_s", "raw: purified features",
         "gain in purified features", "purifies more", "raw: accuracy", "gain in accuracy",
         "classifies better", "without a result"),
        tuple(rows),
        texts.text(Note("simulation", "table_grid", confidence=confidence)),
        folded=True,
        section="Sensitivity",
    )  # fmt: skip


def _gain(table: pd.DataFrame, metric: str, confidence: float) -> tuple[Cell, Cell, Cell]:
    """Return the level of raw, the gain with half its interval, and what follows from it."""
    wide = runs(table, metric)
    gain = mean_interval((wide["filtered"] - wide["raw"]).tolist(), confidence)
    raw = or_dash(wide["raw"].mean(), DIGITS[metric])
    if not gain.n:
        return raw, None, None
    half = (gain.high - gain.low) / 2
    mark = "holds" if gain.low > 0 else "reversed" if gain.high < 0 else "open"
    return raw, Number(gain.value, DIGITS[metric], sign=True, spread=half), mark


def slopes(tables: Tables, confidence: float) -> Table:
    """Return the means of each measure by d, and its slope, of both sweeps over d."""
    sweeps = [(of_sweep(tables, wide), wide) for wide in (False, True)]
    rows: list[tuple[Cell, ...]] = []
    dimensions = sorted({int(d) for table, _ in sweeps for d in table["features"].dropna()})
    for table, wide in sweeps:
        fits, measured = fitted(table, confidence), values(table)
        for measure, name in sorted(measured, key=lambda key: [*MEASURES].index(key[0])):
            by_d, fit = measured[measure, name], fits.get((measure, name))
            rows.append((
                MEASURES[measure], f"{name}, more neurons" if wide else name,
                *(_mean(by_d[d]) if d in by_d else None for d in dimensions),
                *((_slope(fit), Number(fit.departure, 2)) if fit else (None, None)),
            ))  # fmt: skip
    return Table(
        "Measures by the number of features d: mean (trials)",
        ("measure", "of", *(f"d = {d}" for d in dimensions), "slope of log on log d",
         "largest factor between a mean and the line"),
        tuple(rows),
        texts.text(Note("simulation", "table_slopes", confidence=confidence)),
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


def drawings(tables: Tables) -> list[FigureWithoutClaim]:
    """Return the figures of the paper without a claim."""
    return [
        FigureWithoutClaim(
            "figures 3 and 4",
            Note("simulation", "drawing_cosines"),
            Note("simulation", "drawing_distributions"),
            "simulation_cosines",
        )
    ]


def summary(tables: Tables) -> list[Note]:
    """Return how many runs there are."""
    if tables.simulation.empty:
        return []
    distinct = tables.simulation[["condition", *RUN]].drop_duplicates()
    return [Note("simulation", "summary_runs", runs=len(distinct))]


def limits(tables: Tables) -> list[Note]:
    """Return which presets were run, with how many trials."""
    if tables.simulation.empty:
        return []
    trials = {
        name: of_preset(tables.simulation, name)["trial"].nunique()
        for name in presets(tables.simulation)
    }
    missing = [name for name in PRESETS if name not in trials]
    return [Note("simulation", "limits_presets", trials=trials, missing=missing)]


def holes(tables: Tables) -> list[Note]:
    """Return which trainings ended early."""
    found = []
    keys = ["condition", "trained_on", "spurious_probability"]
    for metric in ("diverged_at_step", "silenced_at_step"):
        lost = where(tables.simulation, metric=metric)
        for (condition, arm, probability), group in lost.groupby(keys):
            steps = group["value"].dropna()
            found.append(
                Note("simulation", "missing_trials", condition=condition, arm=arm, event=metric,
                     probability=probability, trials=sorted(group["trial"]), first=steps.min(),
                     last=steps.max())
            )  # fmt: skip
    return found


def settings(tables: Tables) -> list[Table]:
    """Return the settings that each preset was run with, side by side."""
    names = presets(tables.simulation)
    entries = where(tables.provenance, artefact="simulation", condition=names)
    entries = entries[entries["key"].str.startswith("settings.")]
    rows = []
    for key, group in entries.fillna({"text": "none"}).groupby("key"):
        texts = [where(group, condition=name)["text"].unique() for name in names]
        rows.append((str(key).removeprefix("settings."), *(", ".join(sorted(t)) for t in texts)))
    if not rows:
        return []
    return [Table("Settings of the simulation", ("setting", *names), tuple(rows))]


DISTINGUISHING = ("tower", "source", "definition", "prompts", "margin", "bias")
"""Columns of the simulation that distinguish curves of a metric."""


def curves(
    tables: Tables, trained: Mapping[str, Sequence[Path]], points: int
) -> list[TrainingCurves]:
    """Return a run for each trial and arm of the simulation: its dynamics over epochs."""
    table = tables.simulation
    keys = ["condition", "spurious_probability", "trained_on", "trial"]
    rows = table[table["bin_low"].isna() & table["epoch"].notna()]
    results = []
    for (condition, probability, arm, trial), group in rows.groupby(keys, sort=True):
        name = f"simulation/{condition}/cs~{probability:g}/{arm}/trial~{trial:g}"
        by_tag: dict[str, dict[int, float]] = {}
        for row in records(group):
            tag = tag_of([row["metric"], *(row[key] for key in DISTINGUISHING)])
            by_tag.setdefault(tag, {})[int(row["epoch"])] = row["value"]
        keys_of_run = dict(zip(keys, (condition, probability, arm, trial), strict=True))
        results.append(TrainingCurves(path_of(name), keys_of_run, tuple(in_order(by_tag))))
    return results


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    scopes=claims.scopes,
    tables=simulation,
    summary=summary,
    limits=limits,
    holes=holes,
    drawings=drawings,
    settings=settings,
    runs=curves,
)
