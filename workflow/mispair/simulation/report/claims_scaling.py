"""The theorems' asymptotic statements, judged by slopes over the number of features d.

Θ(1/d), o(1) and 1 − Θ(1) name no constants: a value at one d cannot agree or disagree with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mispair.report.claims import SAME, Claim, Control, Measured
from mispair.report.measures import Every
from mispair.report.tables import Tables, where
from mispair.simulation.report.runs import caption_runs, effect_by_trial, main
from mispair.simulation.report.slopes import Slope, slope

PROFILE = "config/simulation-scaling.yaml"
SWEEP = "simulate: {preset: as-written, scaling_trials: 10}"

FLAT = 0.25
"""Smallest slope of interest: from d = 20 to 120 it is a change by a factor of 1.6."""

FIGURE = "simulation_scaling"

MEASURES = {
    "failure": "Failure (1 − accuracy)",
    "residual": "Energy beyond a neuron’s features (share)",
    "wrong": "Wrong features added (probability)",
    "missing": "Right features missing (probability)",
    "gap": "Gap to the same run continued (relative)",
    "unpurified": "Features that no neuron purifies (share)",
    "mixed": "Neurons that mix a spurious pair (share)",
}
"""Measures that are followed over d, with their units."""


@dataclass(frozen=True)
class OverD:
    """The slope of log(mean over trials) on log(d) of a measure: see `slopes.slope`.

    Attributes
    ----------
    measure, name : str
        One of `MEASURES`, and its arm or source of captions.
    wide : bool
        Whether the sweep with more neurons for each feature is meant.
    upper : bool
        Whether only the upper half of the d counts: what bends there is no power of d.
    """

    measure: str
    name: str
    wide: bool = False
    upper: bool = False

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the slope with the means at the smallest and the largest d."""
        table = of_sweep(tables, self.wide)
        if self.upper:
            table = table[table["features"] >= table["features"].drop_duplicates().median()]
        fits = {} if table.empty else fitted(table, confidence)
        fit = fits.get((self.measure, self.name))
        if fit is None:
            return Measured()
        ends = (min(fit.means), max(fit.means))
        first, last = (fit.means[d] for d in ends)
        return Measured(fit.effect, first=first, last=last, at=tuple(map(float, ends)))


@dataclass(frozen=True)
class OfCaptions:
    """The mean probability that captions of a source hold a wrong feature, or lack a right one."""

    metric: str
    source: str

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the mean over trials and all d."""
        values = caption_runs(of_sweep(tables), self.metric, self.source)
        lacks = 1 - values if self.metric == "caption_true" else values
        return Measured(effect_by_trial(lacks, confidence))


CLAIMS = (
    Claim(
        "neurons-residual", "simulation",
        "Beyond the two features of a spurious pair (raw captions), or beyond one feature "
        "(filtered captions), neurons hold a share of order 1/d of their energy.",
        "theorems 4.2 and 4.4", FIGURE,
        Every({arm: OverD("residual", arm) for arm in ("raw", "filtered")}),
        "level", sign=-1, bound=-1 + FLAT, needs=SWEEP, every="arm",
    ),
    Claim(
        "captions-repaired", "simulation",
        "Generated captions keep an image’s features with probability 1 − Θ(1/d) and hold wrong "
        "ones with probability Θ(1/d).",
        "theorem 4.3", FIGURE,
        Every({name: OverD(name, "generated") for name in ("missing", "wrong")}),
        "level", sign=-1, bound=-1 + FLAT, needs=SWEEP, every="feature",
        controls=(
            Control("Wrong features of generated captions, of those of raw ones",
                    OfCaptions("caption_spurious", "generated"), least=None, most=SAME,
                    of=OfCaptions("caption_spurious", "raw")),
            Control("Missing features of captions read at their own length, of all missing ones",
                    OfCaptions("caption_true", "rescaled"),
                    of=OfCaptions("caption_true", "generated")),
        ),
    ),
    Claim(
        "raw-fails", "simulation",
        "Encoders trained on raw captions fail with a probability that does not depend on d.",
        "theorem 4.5", FIGURE, OverD("failure", "raw"), "equivalence", bound=FLAT, needs=SWEEP,
    ),
    Claim(
        "filtered-succeeds", "simulation",
        "Encoders trained on filtered captions fail with a probability o(1).",
        "theorem 4.5", FIGURE, OverD("failure", "filtered"), sign=-1, bound=FLAT, needs=SWEEP,
        controls=(
            Control("The upper half of the d", OverD("failure", "filtered", upper=True)),
            Control("Features that no neuron purifies", OverD("unpurified", "filtered")),
            Control("More neurons for each feature", OverD("failure", "filtered", wide=True)),
        ),
    ),
)  # fmt: skip
"""The smallest slope of interest stands for "some power of d", and −1 + it for "order 1/d"."""


def of_sweep(tables: Tables, wide: bool = False) -> pd.DataFrame:
    """Return the rows of the sweep over d, or of the one with more neurons."""
    table = where(tables.simulation, kind="scaling")
    return table[(table["condition"].str.count("~") == 2) == wide]


def values(table: pd.DataFrame) -> dict[tuple[str, str], dict[int, list[float]]]:
    """Return one number for each trial, by measure and arm (or source of captions), and by d."""
    selected = main(table)
    selected = selected[selected["value"].notna()]
    by_arm: dict[tuple[str, str], dict[int, list[float]]] = {}

    def add(measure: str, rows: pd.DataFrame, name: str, metric: str) -> None:
        means = where(rows, metric=metric).groupby(["features", "trial"])["value"].mean()
        if metric == "purified_features":
            means /= means.index.get_level_values("features")
        if measure in ("failure", "unpurified", "missing"):
            means = 1 - means
        if len(means):
            lists = means.groupby("features").agg(list)
            by_arm[measure, name] = dict(zip(lists.index.astype(int).tolist(), lists, strict=True))

    for arm, residual in (("raw", "residual_share"), ("filtered", "residual_share_pure")):
        of_arm = where(selected, trained_on=arm)
        add("failure", of_arm, arm, "accuracy")
        add("residual", of_arm, arm, residual)
        add("gap", of_arm, arm, "loss_gap")
        add("mixed", of_arm, arm, "mixed_neurons")
        add("unpurified", of_arm, arm, "purified_features")
    for source in ("raw", "generated", "filtered"):
        of_source = where(selected, source=source)
        add("missing", of_source, source, "caption_true")
        add("wrong", of_source, source, "caption_spurious")
    return by_arm


def fitted(table: pd.DataFrame, confidence: float) -> dict[tuple[str, str], Slope]:
    """Return the slopes of `values` over d, where there are enough d."""
    counted = table.groupby("features")["caption_features"].max()
    cases = {int(float(str(d))): float(n) for d, n in counted.items() if n > 0}
    fits = {
        (measure, name): slope(by_d, confidence, cases if measure in ("wrong", "missing") else None)
        for (measure, name), by_d in values(table).items()
    }
    return {key: fit for key, fit in fits.items() if fit is not None}
