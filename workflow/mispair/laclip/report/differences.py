"""Likely reasons why a number of a checkpoint differs from the published one, by rules."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from mispair.core.words import number
from mispair.evaluation.report.checkpoints import Score
from mispair.evaluation.set_names import canonical

POINT = 0.01
"""Differences of more than this are flagged; smaller ones count as none."""

PREPARATION = 0.03
"""A wrong mean, deviation or interpolation has moved accuracies by up to this."""

CLIP_MEAN, IMAGENET_MEAN = 0.4815, 0.485
"""First number of CLIP's and of ImageNet's mean colour."""

ON_IMAGENET_MEAN = ("cc3m", "cc12m", "redcaps")
"""Pre-trainings of LaCLIP's files whose images were prepared with ImageNet's mean and deviation."""

NOT_EXPLAINED = "not explained"

RULES = (
    "Differences of more than 1 point (0.01 of silhouette) are flagged; the first rule that "
    "applies gives the likely reason: LaCLIP’s own ImageNet number agrees with this one or differs "
    "from table 3 itself; another protocol of this run is within 1 point; so is the same "
    "protocol’s other metric; the activation is not the one of training; images were prepared with "
    "another mean than in training, here or in the authors’ script (differences up to 3 points)."
)


def flagged(score: Score) -> bool:
    """Return whether a number differs from the published one by more than a point."""
    # Both are given to a tenth of a point: rounding flags no difference of 1.0.
    return math.isfinite(score.difference) and abs(score.difference) > POINT + 1e-9


def reason(
    score: Score,
    scored: Sequence[Score],
    metrics: Mapping[str, float],
    facts: Mapping[str, str],
) -> str:
    """Return the likely reason of a flagged difference.

    Parameters
    ----------
    score : Score
        What differs.
    scored : sequence of Score
        All numbers of the run.
    metrics : mapping of str to float
        Every metric of the same model, set and protocol.
    facts : mapping of str to str
        What is known of the model's file: activation.image, activation.text, mean.
    """
    if score.measure == "acc1":
        text = _imagenet(score) or _other_protocol(score, scored) or _other_metric(score, metrics)
        if text:
            return text
    return _activation(score, facts) or _preparation(score, facts) or NOT_EXPLAINED


def _percent(value: float) -> str:
    return f"{number(100 * value, 1)} %"


def _points(value: float) -> str:
    return f"{number(100 * abs(value), 1)} points"


def _imagenet(score: Score) -> str | None:
    if not math.isfinite(score.own):
        return None
    apart = score.own - score.published
    if abs(score.value - score.own) <= POINT:
        return (
            f"agrees with LaCLIP’s own {_percent(score.own)}, from which the paper’s table 3 is "
            f"{_points(apart)} away: another protocol there"
        )
    if abs(apart) > POINT:
        return (
            f"table 3 is itself {_points(apart)} from LaCLIP’s own {_percent(score.own)}: its "
            "protocol differs, and is not stated"
        )
    return None


def _other_protocol(score: Score, scored: Sequence[Score]) -> str | None:
    same = [
        candidate
        for candidate in scored
        if (candidate.towers, candidate.evaluation_set) == (score.towers, score.evaluation_set)
        and candidate.protocol != score.protocol
        and abs(candidate.value - score.published) <= POINT
    ]
    if not same:
        return None
    nearest = min(same, key=lambda candidate: abs(candidate.value - score.published))
    return f"protocol: under {nearest.protocol} it is {_percent(nearest.value)} ({nearest.metric})"


def _other_metric(score: Score, metrics: Mapping[str, float]) -> str | None:
    for name in ("acc1", "mean_per_class_recall"):
        value = metrics.get(name, math.nan)
        if name != score.metric and abs(value - score.published) <= POINT:
            return f"metric: {name} of the same answers is {_percent(value)}"
    return None


def _activation(score: Score, facts: Mapping[str, str]) -> str | None:
    """Compare the activation of the text tower with the one that the files were trained with."""
    used = facts.get("activation.text")
    pretraining = canonical(score.pretraining)
    if used is None or not (pretraining in ON_IMAGENET_MEAN or pretraining == "laion400m"):
        return None
    quick = pretraining in ON_IMAGENET_MEAN or score.architecture == "ViT-L/14"
    if canonical(score.method) != "laclip" and pretraining == "laion400m":
        return None  # CLIP models of LAION-400M come with either, each right for its file
    if ("quick" in used) == quick:
        return None
    return (
        f"activation: the text tower has {used}, but the file was trained with "
        f"{'QuickGELU' if quick else 'GELU'}; that mistake costs 2.7 points of ImageNet on a "
        "ViT-B/32 (62.9 % against 60.2 %)"
    )


def _preparation(score: Score, facts: Mapping[str, str]) -> str | None:
    mean = _first(facts.get("mean"))
    if mean is None or canonical(score.pretraining) not in ON_IMAGENET_MEAN:
        return None
    if abs(mean - CLIP_MEAN) < 1e-3:
        return (
            "preparation: images have CLIP’s mean and deviation, but the file was trained with "
            "ImageNet’s"
        )
    if abs(mean - IMAGENET_MEAN) < 1e-3 and abs(score.difference) <= PREPARATION:
        return (
            "perhaps preparation: the authors’ script uses CLIP’s mean and deviation on files that "
            "were trained with ImageNet’s, which this run uses"
        )
    return None


def _first(mean: str | None) -> float | None:
    try:
        return float(json.loads(mean or "null")[0])
    except (TypeError, ValueError, IndexError):
        return None
