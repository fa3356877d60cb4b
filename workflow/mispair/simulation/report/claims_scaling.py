"""The theorems' asymptotic statements, judged by slopes over the number of features d.

Θ(1/d), o(1) and 1 − Θ(1) name no constants: a value at one d cannot agree or disagree with them.
The slope of the logarithm on log d over several d can: it is -1 for Θ(1/d), 0 for Θ(1), and
negative for o(1) wherever that is a power of d.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mispair.report.claims import SAME, THIRD, Claim, Control, MeasuredClaim
from mispair.report.measures import Every
from mispair.report.statistics import Effect, effect_of_estimate, effect_of_mean, trial_means
from mispair.report.tables import Tables, where
from mispair.simulation.report.runs import RUN, main, spurious

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
    "unpurified": "Features that no neuron purifies (share)",
    "mixed": "Neurons that mix a spurious pair (share)",
}
"""Measures that are followed over d, with their units."""


@dataclass(frozen=True)
class OverD:
    """The slope of log(mean over trials) on log(d) of a measure: see `slope`.

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

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the slope with the means at the smallest and the largest d."""
        table = of_sweep(tables, self.wide)
        if self.upper:
            table = table[table["features"] >= table["features"].drop_duplicates().median()]
        fits = {} if table.empty else fitted(table, confidence)
        fit = fits.get((self.measure, self.name))
        if fit is None:
            return MeasuredClaim()
        ends = (min(fit.means), max(fit.means))
        first, last = (fit.means[d] for d in ends)
        return MeasuredClaim(fit.effect, first=first, last=last, at=tuple(map(float, ends)))


@dataclass(frozen=True)
class OfCaptions:
    """The mean probability that captions of a source hold a wrong feature, or lack a right one."""

    metric: str
    source: str

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the mean over trials and all d."""
        rows = where(of_sweep(tables), metric=self.metric, source=self.source)
        values = spurious(rows.dropna(subset=["value"]).groupby(RUN)["value"].mean())
        lacks = 1 - values if self.metric == "caption_true" else values
        return MeasuredClaim(effect_of_mean(trial_means(lacks), confidence, "trial"))


LEARNED, FEW_PURIFIED = THIRD, "few purified"
"""Share of the features that encoders purify with the fewest wrong captions if they have learned,
and the name of the condition."""


def _learned(tables: Tables, confidence: float) -> str:
    """Return `FEW_PURIFIED` if filtered captions purify too few features at the smallest d."""
    left = values(of_sweep(tables)).get(("unpurified", "filtered"), {})
    return FEW_PURIFIED if not left or 1 - np.mean(left[min(left)]) < LEARNED else ""


CLAIMS = (
    Claim(
        "neurons-residual", "simulation",
        "Beyond the two features of a spurious pair (raw captions), or beyond one feature "
        "(filtered captions), neurons hold a share of order 1/d of their energy.",
        "theorems 4.2 and 4.4", FIGURE,
        Every({arm: OverD("residual", arm) for arm in ("raw", "filtered")}),
        "level", sign=-1, bound=-1 + FLAT, needs=SWEEP, every="arm", power=_learned,
    ),
    Claim(
        "captions-repaired", "simulation",
        "Generated captions keep an image’s features with probability 1 − Θ(1/d) and hold wrong "
        "ones with probability Θ(1/d).",
        "theorem 4.3", FIGURE,
        Every({name: OverD(name, "generated") for name in ("missing", "wrong")}),
        "level", sign=-1, bound=-1 + FLAT, needs=SWEEP, every="feature", power=_learned,
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
        power=_learned,
    ),
    Claim(
        "filtered-succeeds", "simulation",
        "Encoders trained on filtered captions fail with a probability o(1).",
        "theorem 4.5", FIGURE, OverD("failure", "filtered"), sign=-1, bound=FLAT, needs=SWEEP,
        power=_learned,
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


FEWEST = 3
"""Fewest d that a slope needs: two points are always on a line."""


@dataclass(frozen=True)
class Slope:
    """A fitted power law.

    Attributes
    ----------
    effect : Effect
        The slope with its intervals, from the spread over trials at each d.
    means : dict of int to float
        The mean over trials by d.
    bounds : frozenset of int
        d at which nothing was counted in any trial; the mean there is an upper bound.
    departure : float
        Largest factor between a mean and the fitted line: 1 on a power law.
    """

    effect: Effect
    means: dict[int, float]
    bounds: frozenset[int]
    departure: float


def slope(
    values: Mapping[int, Sequence[float]],
    confidence: float,
    counted: Mapping[int, float] | None = None,
) -> Slope | None:
    r"""Fit log(mean over trials) = a + b log d by least squares.

    With :math:`x_d = \log d` minus its mean and :math:`c_d = x_d / \sum x^2` the slope is
    :math:`\sum c_d \log m_d`. Trials at each d are independent, and :math:`\log m_d` has the
    variance :math:`s_d^2 / (n_d m_d^2)` (delta method); degrees of freedom are those of
    Satterthwaite. The interval covers only the spread of the means; their distance from a power
    law is `Slope.departure`.

    Parameters
    ----------
    values : mapping of int to sequence of float
        By d, one number at least 0 for each trial.
    confidence : float
        1 - α.
    counted : mapping of int to float, optional
        By d, the number of cases behind a trial's share. Where all shares are 0, the mean is
        replaced by the upper 95 % limit 3 / (cases in all trials), or without it d is left out.

    Returns
    -------
    Slope or None
        None with fewer than `FEWEST` values of d.
    """
    means, variances, freedom, bounds = {}, {}, {}, set()
    for d, replicates in sorted(values.items()):
        observed = np.asarray(replicates, dtype=float)
        observed = observed[np.isfinite(observed)]
        if len(observed) < 2:
            continue
        mean = float(observed.mean())
        cases = (counted or {}).get(d, math.nan) * len(observed)
        if mean > 0:
            means[d] = mean
            variances[d] = float(observed.var(ddof=1)) / (len(observed) * mean**2)
        elif math.isfinite(cases):
            means[d], variances[d] = 3 / cases, 0.0
            bounds.add(d)
        else:
            continue
        freedom[d] = len(observed) - 1
    if len(means) < FEWEST:
        return None
    x = np.log(list(means))
    x -= x.mean()
    weights = x / (x @ x)
    y = np.log(list(means.values()))
    value = float(weights @ y)
    line = y.mean() + value * x
    departure = float(np.exp(np.abs(y - line).max()))
    parts = weights**2 * np.array(list(variances.values()))
    trials = min(freedom.values()) + 1
    error, degrees = math.sqrt(parts.sum()), 0.0
    if error > 0:
        degrees = parts.sum() ** 2 / (parts**2 / np.array(list(freedom.values()))).sum()
    effect = effect_of_estimate(value, error, degrees, trials, confidence, "trial")
    return Slope(effect, means, frozenset(bounds), departure)
