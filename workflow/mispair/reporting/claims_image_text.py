"""The paper's claims on shuffled captions, judged on the tables."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from mispair.reporting import published, verdicts
from mispair.reporting.controls_image_text import carried
from mispair.reporting.gaps import gap_of_change
from mispair.reporting.protocols import named, of_metric, said
from mispair.reporting.series import (
    LARGE,
    SMALL,
    change,
    ends,
    ends_text,
    purity_series,
    run_trend,
    sample,
    why_missing,
    zeroshot_series,
)
from mispair.reporting.tables import Tables
from mispair.reporting.verdicts import Claim, Control, Part, Verdict
from mispair.reporting.words import count, number

TRAINING = {"without-decay": "Without weight decay", "scale-converged": "Logit scale solved for"}
"""Controls that fine-tune the pre-trained projections in another way."""

NOTICEABLE = 0.1
"""A share of an effect that is worth a remark."""

OVERLAP = Claim(
    "overlap-rises", "image_text",
    "Neurons overlap more (their mean |cos| rises) the more captions are shuffled.",
    "figure 2(d), section 5.2", "trend", "purity_by_shuffling",
)  # fmt: skip
ACCURACY = Claim(
    "accuracy-falls", "image_text",
    "Zero-shot accuracy falls the more captions are shuffled.",
    "table 4", "sets", "accuracy_by_shuffling",
)  # fmt: skip
SILHOUETTE = Claim(
    "silhouette-falls", "image_text",
    "The silhouette of the classes falls the more captions are shuffled.",
    "table 4", "sets", "silhouette_by_shuffling",
)  # fmt: skip


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on all claims under the main scheme of corruption and protocol."""
    tables = tables.of_scheme().of_protocol()
    alpha = 1 - confidence
    return [
        _overlap(tables, alpha),
        _sets(tables, ACCURACY, "acc1", "accuracy", alpha),
        _sets(tables, SILHOUETTE, "silhouette", "silhouette", alpha),
    ]


# Overlap of neurons ---------------------------------------------------------------------------


def _overlap(tables: Tables, alpha: float) -> Verdict:
    series = purity_series(tables, "pretrained", "text", "mean_abs_cosine")
    found = run_trend(series)
    outcome, reason = verdicts.decide_trend(found, +1, alpha)
    curve = published.purity().set_index("shuffle_probability")["mean_abs_cosine"]
    if outcome == verdicts.UNMEASURED:
        return Verdict(OVERLAP, outcome, why_missing(tables, "pretrained", reason))
    return Verdict(
        OVERLAP,
        outcome,
        reason,
        scope="text projection, fine-tuned from the pre-trained one",
        measured=f"text |cos| {ends_text(series, 4)}",
        published=f"{number(curve.iloc[0], 4)} → {number(curve.iloc[-1], 4)} (CC3M, 512 neurons)",
        sample=sample(series),
        test=verdicts.trend_text(found),
        controls=tuple(control(tables, series, alpha) for control in _OVERLAP_CONTROLS),
        gap=gap_of_change(series.groupby("rate")["value"].mean(), curve, 4),
    )


def _image_tower(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "The other tower"
    other = purity_series(tables, "pretrained", "image", "mean_abs_cosine")
    if not math.isfinite(change(other)):
        return Control(name, "not measured", "The image projection was not measured.")
    outcome, reason = verdicts.decide_trend(run_trend(other), +1, alpha)
    agrees = outcome == verdicts.SUPPORTS
    text = f"Image projection: {ends_text(other, 4)}; {reason}."
    return Control(name, "does not limit" if agrees else "limits", text)


def _reinitialised(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "Re-initialised projections"
    other = purity_series(tables, "reinitialised", "text", "mean_abs_cosine")
    own, there = change(series), change(other)
    if not math.isfinite(there):
        return Control(name, "not measured", "No arm from re-initialised projections was run.")
    vanishes = abs(there) < SMALL * abs(own)
    text = f"From re-initialised projections the text |cos| goes {ends_text(other, 4)}"
    accuracy = zeroshot_series(tables, "reinitialised", "acc1")
    if math.isfinite(change(accuracy)):
        text += f", while accuracy ({said(tables)}) goes {ends_text(accuracy)}"
    text += (
        ". The effect on overlap vanishes there: it comes with fine-tuning away from pre-trained "
        "projections, not from shuffling alone."
        if vanishes
        else ": the effect does not depend on the pre-trained start."
    )
    return Control(name, "limits" if vanishes else "does not limit", text)


def _training(start: str, name: str) -> Callable[[Tables, pd.DataFrame, float], Control]:
    """Return the control that fine-tunes from the pre-trained projections in another way."""

    def control(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
        other = purity_series(tables, start, "text", "mean_abs_cosine")
        return _carried(name, series, other, 4)

    return control


def _carried(name: str, series: pd.DataFrame, other: pd.DataFrame, digits: int) -> Control:
    found = carried(change(series), change(other))
    if found == "not measured":
        return Control(name, "not measured", "No such arm was run.")
    text = f"It goes {ends_text(other, digits)}: the control {found} the effect."
    return Control(name, "limits" if found in ("removes", "reverses") else "does not limit", text)


def _rotated(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "Rotated basis"
    other = purity_series(tables, "pretrained", "text", "mean_abs_cosine_rotated")
    own, there = change(series), change(other)
    if not math.isfinite(there):
        return Control(name, "not measured", "No rotated basis was measured.")
    same = there * own > 0 and abs(there) >= LARGE * abs(own)
    text = f"In randomly rotated bases, with the same similarities, it goes {ends_text(other, 4)}"
    text += (
        ": nearly as much as in the model’s own basis. This follows from the spectrum, which "
        "rotations keep, so the measure shows nothing of single neurons."
        if same
        else ": less than in the model’s own basis, so the effect depends on the basis."
    )
    return Control(name, "limits" if same else "does not limit", text)


def _participation_ratio(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "Participation ratio"
    other = purity_series(tables, "pretrained", "text", "participation_ratio")
    if not math.isfinite(change(other)):
        return Control(name, "not measured", "The participation ratio was not measured.")
    falls = verdicts.decide_trend(run_trend(other), -1, alpha)[0] == verdicts.SUPPORTS
    text = f"The text projection’s participation ratio goes {ends_text(other, 1)} directions"
    text += (
        ": the spectrum collapses. The mean squared cosine is a function of this number alone."
        if falls
        else ": the spectrum does not collapse."
    )
    return Control(name, "limits" if falls else "does not limit", text)


def _untouched(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "Untouched model"
    untouched = purity_series(tables, "untouched", "text", "mean_abs_cosine")["value"].mean()
    low, _, first, _ = ends(series)
    if not math.isfinite(untouched) or low != 0:
        return Control(name, "not measured", "The untouched model or C_m = 0 was not measured.")
    apart = abs(first - untouched) >= NOTICEABLE * abs(change(series))
    text = (
        f"Untouched {number(untouched, 4)}, fine-tuned on unshuffled captions {number(first, 4)}: "
    )
    text += (
        "fine-tuning itself moves the overlap, so the untouched model is no stand-in for C_m = 0."
        if apart
        else "fine-tuning itself hardly moves the overlap."
    )
    return Control(name, "limits" if apart else "does not limit", text)


_OVERLAP_CONTROLS: tuple[Callable[[Tables, pd.DataFrame, float], Control], ...] = (
    _reinitialised, *(_training(start, name) for start, name in TRAINING.items()),
    _rotated, _participation_ratio, _untouched, _image_tower,
)  # fmt: skip


# Accuracy and silhouette ------------------------------------------------------------------------


def _sets(tables: Tables, claim: Claim, metric: str, column: str, alpha: float) -> Verdict:
    series = zeroshot_series(tables, "pretrained", metric)
    found = run_trend(series)
    whole, reason = verdicts.decide_trend(found, -1, alpha)
    if whole == verdicts.UNMEASURED:
        return Verdict(claim, whole, why_missing(tables, "pretrained", reason))
    own = tables.zeroshot[tables.zeroshot["start"] == "pretrained"]
    names = sorted(own.loc[own["metric"] == metric, "evaluation_set"].dropna().unique())
    parts = []
    for name in names:
        part = zeroshot_series(tables, "pretrained", metric, name)
        outcome, why = verdicts.decide_trend(run_trend(part), -1, alpha)
        by = f" ({named(of_metric(tables, metric, name))})" if metric == "acc1" else ""
        text = f"{ends_text(part)}{by}; {why}" if math.isfinite(change(part)) else why
        parts.append(Part(name, outcome, text))
    outcome, reason = verdicts.decide_sets(whole, parts, reason)
    table = published.table4()
    means = table.groupby("shuffle_probability")[column].mean()
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"mean of {count(len(names), 'evaluation set')}, from pre-trained projections"
        + (f"; {said(tables)}" if metric == "acc1" else ""),
        measured=f"mean of sets {ends_text(series)}",
        published=f"{number(means.iloc[0])} → {number(means.iloc[-1])} "
        f"(mean of {table['dataset'].nunique()} other data sets, CC3M)",
        sample=sample(series),
        test=verdicts.trend_text(found),
        controls=(
            _untouched_scores(tables, series, metric),
            _from_scratch(tables, metric, alpha),
            *(
                _carried(name, series, zeroshot_series(tables, start, metric), 3)
                for start, name in TRAINING.items()
            ),
        ),
        parts=tuple(parts),
        gap=gap_of_change(series.groupby("rate")["value"].mean(), means),
    )


def _untouched_scores(tables: Tables, series: pd.DataFrame, metric: str) -> Control:
    name = "Untouched model"
    untouched = zeroshot_series(tables, "untouched", metric)["value"].mean()
    low, _, first, _ = ends(series)
    if not math.isfinite(untouched) or low != 0:
        return Control(name, "not measured", "The untouched model or C_m = 0 was not measured.")
    apart = abs(first - untouched) >= NOTICEABLE * abs(change(series))
    text = f"Untouched {number(untouched)}, fine-tuned on unshuffled captions {number(first)}: "
    text += "fine-tuning itself moves it." if apart else "fine-tuning itself hardly moves it."
    return Control(name, "limits" if apart else "does not limit", text)


def _from_scratch(tables: Tables, metric: str, alpha: float) -> Control:
    name = "Re-initialised projections"
    scores = zeroshot_series(tables, "reinitialised", metric)
    if not math.isfinite(change(scores)):
        return Control(name, "not measured", "No arm from re-initialised projections was run.")
    falls = verdicts.decide_trend(run_trend(scores), -1, alpha)[0] == verdicts.SUPPORTS
    here = change(purity_series(tables, "pretrained", "text", "mean_abs_cosine"))
    there = change(purity_series(tables, "reinitialised", "text", "mean_abs_cosine"))
    unmixed = math.isfinite(here) and math.isfinite(there) and abs(there) < SMALL * abs(here)
    text = f"From re-initialised projections it goes {ends_text(scores)}"
    if falls and unmixed:
        text += ": it falls without a rise in overlap, so overlap is not what makes it fall."
    elif falls:
        text += ": it falls there too."
    else:
        text += ": it does not fall there."
    return Control(name, "limits" if not falls or unmixed else "does not limit", text)
