"""The claim on realistic misalignment: captions of similar pairs against random ones."""

from __future__ import annotations

import math

import pandas as pd

from mispair.reporting import published, verdicts
from mispair.reporting.claims_image_text import NOTICEABLE
from mispair.reporting.gaps import gap_of_mean
from mispair.reporting.series import ends, purity_series, run_trend, why_missing
from mispair.reporting.statistics import Interval, mean_interval, trial_means
from mispair.reporting.tables import Tables
from mispair.reporting.verdicts import Claim, Control, Verdict
from mispair.reporting.words import count, number

SIMILAR, RANDOM = "similar", "random"

LESS = Claim(
    "similar-less", "image_text",
    "Captions of similar pairs make neurons overlap less than random ones do, but still raise "
    "the overlap.",
    "public review", "less", "purity_by_scheme",
)  # fmt: skip


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdict on the claim."""
    missing = [name for name in (SIMILAR, RANDOM) if name not in tables.schemes]
    if missing:
        reason = f"the scheme {' and '.join(missing)} was not run"
        if not tables.study("image_text"):
            reason = why_missing(tables, "pretrained", reason)
        return [Verdict(LESS, verdicts.UNMEASURED, reason)]
    similar, random = (overlap(tables, name) for name in (SIMILAR, RANDOM))
    found, gap = run_trend(similar), difference(similar, random, confidence)
    outcome, reason = verdicts.decide_less(found, gap, 1 - confidence)
    if outcome == verdicts.UNMEASURED:
        return [Verdict(LESS, outcome, why_missing(tables, "pretrained", reason))]
    return [
        Verdict(
            LESS,
            outcome,
            reason,
            scope="text projection, fine-tuned from the pre-trained one",
            measured=f"similar {_ends(similar)}, random {_ends(random)}",
            published=_published(),
            sample=f"{count(gap.n, 'seed')}, paired by seed and C_m, one model, "
            "a draw of swaps for each seed",
            test=f"similar − random {verdicts.interval_text(gap, confidence, 4)}; "
            f"similar alone: {verdicts.trend_text(found)}",
            controls=(_changed_texts(tables),),
            gap=gap_of_mean(_by_rate(similar, random), _published_gap(), "in similar − random", 4),
        )
    ]


def overlap(tables: Tables, scheme: str) -> pd.DataFrame:
    """Return rate, seed and mean |cos| of the pre-trained start's text neurons under a scheme."""
    own = tables.of_scheme(scheme)
    return purity_series(own, "pretrained", "text", "mean_abs_cosine").dropna()


def difference(first: pd.DataFrame, second: pd.DataFrame, confidence: float) -> Interval:
    """Return the mean of first − second over rates above 0 within each seed, then over seeds."""
    both = first.merge(second, on=["rate", "seed"])
    gaps = (both["value_x"] - both["value_y"])[both["rate"] > 0]
    gaps.index = pd.MultiIndex.from_frame(both.loc[gaps.index, ["rate", "seed"]])
    return mean_interval(trial_means(gaps, "seed"), confidence)


def _by_rate(first: pd.DataFrame, second: pd.DataFrame) -> pd.Series:
    means = [series.groupby("rate")["value"].mean() for series in (first, second)]
    apart = (means[0] - means[1]).dropna()
    return apart[apart.index > 0]


def _published_gap() -> pd.Series:
    table = published.purity_by_scheme()
    wide = table.pivot(index="shuffle_probability", columns="scheme", values="mean_abs_cosine")
    return wide[SIMILAR] - wide[RANDOM]


def _ends(series: pd.DataFrame) -> str:
    low, high, first, last = ends(series)
    return f"{number(first, 4)} → {number(last, 4)} from C_m {low:g} to {high:g}"


def _published() -> str:
    curves = published.purity_by_scheme().groupby("scheme")["mean_abs_cosine"]
    texts = [
        f"{name} {number(curves.get_group(name).iloc[0], 4)} → "
        f"{number(curves.get_group(name).iloc[-1], 4)}"
        for name in (SIMILAR, RANDOM)
    ]
    return f"{', '.join(texts)} (CC3M, 512 neurons)"


def _changed_texts(tables: Tables) -> Control:
    """Tell whether the similar scheme left more texts as they were than the random one did."""
    name = "Changed texts"
    table = tables.pairs[(tables.pairs["metric"] == "text_changed_share")]
    wide = table[table["rate"] > 0].pivot_table(index="rate", columns="scheme", values="value")
    wide = wide.reindex(columns=[SIMILAR, RANDOM]).dropna()
    similar, random = (float(wide[scheme].mean()) for scheme in (SIMILAR, RANDOM))
    if not math.isfinite(similar):
        return Control(name, "not measured", "The shares of changed texts were not recorded.")
    text = (
        f"Mean share of pairs with another text over the same C_m: similar {number(similar)}, "
        f"random {number(random)}: "
    )
    fewer = similar < (1 - NOTICEABLE) * random
    text += (
        "the similar scheme changed fewer texts, which alone would raise the overlap less."
        if fewer
        else "both changed about as many."
    )
    return Control(name, "limits" if fewer else "does not limit", text)
