"""Controls of the claim that overlap rises: the temperature, the start, decay and the basis."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import listing, number
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.evaluation.report.series import (
    LARGE,
    NOTICEABLE,
    SMALL,
    TOWERS,
    carried,
    change,
    ends,
    ends_text,
    purity_series,
    run_trend,
    scale_series,
    zeroshot_series,
)
from mispair.report import verdicts
from mispair.report.statistics import contrast
from mispair.report.tables import Tables
from mispair.report.verdicts import Control
from mispair.towers.arms import CONVERGED, FIXED_SCALES, RANDOM_STARTS

MEASURES = {"mean_abs_cosine": "|cos|", "mean_abs_correlation": "|correlation|"}
"""Measures of overlap: of columns of the projection, and of the activations of neurons."""


def controls(tables: Tables, series: pd.DataFrame, confidence: float) -> tuple[Control, ...]:
    """Return the controls of the rise of text |cos| from pre-trained projections."""
    untouched = purity_series(tables, "untouched", "text", "mean_abs_cosine")["value"].mean()
    return (
        temperature(tables),
        _fixed_scales(tables),
        *(_random_start(tables, start) for start in RANDOM_STARTS),
        _without_decay(tables, series),
        _rotated(tables, series),
        _participation_ratio(tables, 1 - confidence),
        untouched_control(series, untouched, "the overlap", 4),
        _image_tower(tables, confidence),
    )


def shares_left(
    tables: Tables, start: str, tower: str, metric: str = "mean_abs_cosine"
) -> dict[float, float]:
    """Return what a control leaves of the change from the lowest C_m, by rate.

    The change of the control over that of the pre-trained start at the same rate; NaN where the
    latter is zero.
    """
    means = {
        name: purity_series(tables, name, tower, metric).groupby("rate")["value"].mean()
        for name in ("pretrained", start)
    }
    rates = sorted(set(means["pretrained"].index) & set(means[start].index))
    moved = {name: series - series.get(rates[0], math.nan) for name, series in means.items()
             if rates}  # fmt: skip
    return {
        rate: float(moved[start][rate] / moved["pretrained"][rate])
        if moved["pretrained"][rate] else math.nan
        for rate in rates[1:]
    }  # fmt: skip


def unconverged(tables: Tables, start: str) -> list[float]:
    """Return the rates at which the logit scale of a seed has not converged, or is unknown."""
    flags = scale_series(tables, start, "logit_scale_converged")
    rates = set(purity_series(tables, start, "text", "mean_abs_cosine")["rate"].dropna())
    return sorted(rates - set(flags["rate"])) + sorted(set(flags.loc[flags["value"] < 1, "rate"]))


def percent(share: float) -> str:
    """Print a share in percent."""
    return f"{number(100 * share, 0)} %"


def _left_text(tables: Tables, start: str) -> str:
    """Print what is left of both measures at the two largest rates, for both towers."""
    parts = []
    for tower in TOWERS:
        for metric, label in MEASURES.items():
            left = shares_left(tables, start, tower, metric)
            some = [f"{percent(left[rate])} at C_m {rate:g}" for rate in [*left][-2:]
                    if math.isfinite(left[rate])]  # fmt: skip
            if some:
                parts.append(f"{tower} {label} {listing(some)}")
    return "; ".join(parts)


def temperature(tables: Tables) -> Control:
    """Return what is left of the rise where the logit scale is solved for."""
    name = "Temperature"
    left = shares_left(tables, CONVERGED, "text")
    if not left:
        return Control(name, "not measured", "No arm with a solved logit scale was run.")
    if rates := unconverged(tables, CONVERGED):
        where = listing([f"{rate:g}" for rate in rates])
        return Control(
            name, "not measured", f"The solved logit scale did not converge at C_m {where}."
        )
    scales = scale_series(tables, CONVERGED, "logit_scale").groupby("rate")["value"].mean()
    path = " → ".join(number(value, 1) for value in (scales.iloc[0], scales.iloc[-1]))
    text = (
        f"What is left of the rise if the logit scale is solved for ({path} from C_m "
        f"{scales.index[0]:g} to {scales.index[-1]:g}): {_left_text(tables, CONVERGED)}."
    )
    removed = left[max(left)] < SMALL
    text += (
        " The rise of |cos| is mostly a response to the frozen temperature."
        if removed
        else " The frozen temperature does not explain the rise of |cos|."
    )
    return Control(name, "limits" if removed else "does not limit", text)


def gap_times_scale(tables: Tables, rate: float) -> dict[str, float]:
    """Return the mean cosine gap times the logit scale at a rate, by arm with a fixed scale."""
    values = {}
    for start in ("pretrained", *FIXED_SCALES):
        series = scale_series(tables, start, "gap_times_scale")
        at_rate = series.loc[series["rate"] == rate, "value"]
        if len(at_rate):
            values[start] = float(at_rate.mean())
    return values


def _fixed_scales(tables: Tables) -> Control:
    name = "Fixed scales"
    moved = {
        start: {
            tower: change(purity_series(tables, start, tower, "mean_abs_cosine"))
            for tower in TOWERS
        }
        for start in FIXED_SCALES
    }
    measured = {start: by for start, by in moved.items() if math.isfinite(by["text"])}
    main_change = change(purity_series(tables, "pretrained", "text", "mean_abs_cosine"))
    if len(measured) < 2 or not math.isfinite(main_change):
        return Control(name, "not measured", "Fewer than two fixed logit scales were run.")
    doses = "; ".join(
        f"{FIXED_SCALES[start]:g}: " + listing(
            [f"{tower} {number(by[tower], 4, sign=True)}" for tower in TOWERS
             if math.isfinite(by[tower])]
        )
        for start, by in measured.items()
    )  # fmt: skip
    text = f"Change of |cos| at logit scales frozen at {doses}."
    high = ends(purity_series(tables, next(iter(measured)), "text", "mean_abs_cosine"))[1]
    products = gap_times_scale(tables, high)
    if len(products) > 1:
        low, most = min(products.values()), max(products.values())
        text += (
            f" The mean cosine gap times the scale is {number(low, 2)} to {number(most, 2)} at "
            f"C_m {high:g} over {len(products)} scales: the loss fixes this margin, and a larger "
            "scale leaves smaller gaps."
        )
    smallest = min(measured, key=FIXED_SCALES.__getitem__)
    depends = measured[smallest]["text"] < SMALL * main_change
    return Control(name, "limits" if depends else "does not limit", text)


def _random_start(tables: Tables, start: str) -> Control:
    name = f"Random start, norm × {RANDOM_STARTS[start]:g}"
    left = {
        (tower, metric): shares
        for tower in TOWERS
        for metric in MEASURES
        if (shares := shares_left(tables, start, tower, metric))
    }
    if ("text", "mean_abs_cosine") not in left:
        return Control(name, "not measured", "No such arm was run.")
    if ("text", "mean_abs_correlation") not in left:
        return Control(name, "not measured", "Correlations of activations were not measured.")
    text = f"What is left of the rise from pre-trained projections: {_left_text(tables, start)}."
    accuracy = zeroshot_series(tables, start, "acc1")
    if math.isfinite(change(accuracy)):
        text += f" Accuracy ({protocol_phrase(tables)}) goes {ends_text(accuracy)}."
    at_end = {measure: abs(shares[max(shares)]) for measure, shares in left.items()}
    gone = all(share < SMALL for share in at_end.values())
    only_columns = at_end["text", "mean_abs_cosine"] < SMALL and not gone
    if gone:
        text += " It vanishes in columns and in activations."
    elif only_columns:
        text += (
            " It vanishes in columns and not in activations: |cos| measures what is left of the "
            "random start, too, in directions in which features hardly vary."
        )
    return Control(name, "limits" if gone else "does not limit", text)


def _without_decay(tables: Tables, series: pd.DataFrame) -> Control:
    control_series = purity_series(tables, "without-decay", "text", "mean_abs_cosine")
    return carried_control("Without weight decay", series, control_series, 4)


def carried_control(name: str, series: pd.DataFrame, control: pd.DataFrame, digits: int) -> Control:
    """Return the control that compares the change of another arm with the claim's own."""
    fate = carried(change(series), change(control))
    if fate == "not measured":
        return Control(name, "not measured", "No such arm was run.")
    text = f"It goes {ends_text(control, digits)}: the control {fate} the effect."
    return Control(name, "limits" if fate in ("removes", "reverses") else "does not limit", text)


def _rotated(tables: Tables, series: pd.DataFrame) -> Control:
    name = "Rotated basis"
    rotated = purity_series(tables, "pretrained", "text", "mean_abs_cosine_rotated")
    main_change, rotated_change = change(series), change(rotated)
    if not math.isfinite(rotated_change):
        return Control(name, "not measured", "No rotated basis was measured.")
    same = rotated_change * main_change > 0 and abs(rotated_change) >= LARGE * abs(main_change)
    text = f"In randomly rotated bases, with the same similarities, it goes {ends_text(rotated, 4)}"
    text += (
        ": nearly as much as in the model’s own basis. This follows from the spectrum, which "
        "rotations keep, so the measure shows nothing of single neurons."
        if same
        else ": less than in the model’s own basis, so the effect depends on the basis."
    )
    return Control(name, "limits" if same else "does not limit", text)


def _participation_ratio(tables: Tables, alpha: float) -> Control:
    name = "Participation ratio"
    ratios = purity_series(tables, "pretrained", "text", "participation_ratio")
    if not math.isfinite(change(ratios)):
        return Control(name, "not measured", "The participation ratio was not measured.")
    falls = verdicts.decide_trend(run_trend(ratios), -1, alpha)[0] == verdicts.SUPPORTS
    text = f"The text projection’s participation ratio goes {ends_text(ratios, 1)} directions"
    text += (
        ": the spectrum collapses. The mean squared cosine is a function of this number alone."
        if falls
        else ": the spectrum does not collapse."
    )
    return Control(name, "limits" if falls else "does not limit", text)


def untouched_control(series: pd.DataFrame, untouched: float, what: str, digits: int) -> Control:
    """Return whether fine-tuning on unshuffled captions moves what is measured by itself."""
    name = "Untouched model"
    low, _, first, _ = ends(series)
    if not math.isfinite(untouched) or low != 0:
        return Control(name, "not measured", "The untouched model or C_m = 0 was not measured.")
    apart = abs(first - untouched) >= NOTICEABLE * abs(change(series))
    text = (
        f"Untouched {number(untouched, digits)}, fine-tuned on unshuffled captions "
        f"{number(first, digits)}: fine-tuning itself {'' if apart else 'hardly '}moves {what}"
    )
    text += ", so the untouched model cannot replace C_m = 0." if apart else "."
    return Control(name, "limits" if apart else "does not limit", text)


def _image_tower(tables: Tables, confidence: float) -> Control:
    name = "The other tower"
    image_series = purity_series(tables, "pretrained", "image", "mean_abs_cosine")
    effect = contrast(image_series, confidence)
    if not math.isfinite(effect.value):
        return Control(name, "not measured", "The image projection was not measured.")
    rises = effect.value > 0 and effect.known and effect.p <= 1 - confidence
    text = (
        f"Image projection: {ends_text(image_series, 4)}, difference "
        f"{verdicts.effect_text(effect, confidence, 4)}."
    )
    return Control(name, "does not limit" if rises else "limits", text)
