"""Likely reasons why a number of a checkpoint differs from the published one, by rules."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

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

Reason = tuple[str, Mapping[str, Any]]
"""A macro ``reason_NAME`` of the study's template without the prefix, and its numbers."""

NOT_EXPLAINED: Reason = ("not_explained", {})


def flagged(score: Score) -> bool:
    """Return whether a number differs from the published one by more than a point."""
    # Both are given to a tenth of a point: rounding flags no difference of 1.0.
    return math.isfinite(score.difference) and abs(score.difference) > POINT + 1e-9


def reason(
    score: Score,
    scored: Sequence[Score],
    metrics: Mapping[str, float],
    facts: Mapping[str, str],
) -> Reason:
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
    found = None
    if score.measure == "acc1":
        found = _imagenet(score) or _other_protocol(score, scored) or _other_metric(score, metrics)
    return found or _activation(score, facts) or _preparation(score, facts) or NOT_EXPLAINED


def _imagenet(score: Score) -> Reason | None:
    if not math.isfinite(score.own):
        return None
    numbers = {"own": score.own, "apart": abs(score.own - score.published)}
    if abs(score.value - score.own) <= POINT:
        return "own_number", numbers
    return ("table_differs", numbers) if numbers["apart"] > POINT else None


def _other_protocol(score: Score, scored: Sequence[Score]) -> Reason | None:
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
    return "protocol", {
        "protocol": nearest.protocol, "value": nearest.value, "metric": nearest.metric,
    }  # fmt: skip


def _other_metric(score: Score, metrics: Mapping[str, float]) -> Reason | None:
    for name in ("acc1", "mean_per_class_recall"):
        value = metrics.get(name, math.nan)
        if name != score.metric and abs(value - score.published) <= POINT:
            return "metric", {"metric": name, "value": value}
    return None


def _activation(score: Score, facts: Mapping[str, str]) -> Reason | None:
    """Compare the activation of the text tower with the one that the files were trained with."""
    used = facts.get("activation.text")
    pretraining = canonical(score.pretraining)
    if used is None or not (pretraining in ON_IMAGENET_MEAN or pretraining == "laion400m"):
        return None
    quick = pretraining in ON_IMAGENET_MEAN or score.architecture == "ViT-L/14"
    if canonical(score.method) != "laclip" and pretraining == "laion400m":
        return None  # CLIP models of LAION-400M come with either, each right for its file
    return None if ("quick" in used) == quick else ("activation", {"used": used, "quick": quick})


def _preparation(score: Score, facts: Mapping[str, str]) -> Reason | None:
    mean = _first(facts.get("mean"))
    if mean is None or canonical(score.pretraining) not in ON_IMAGENET_MEAN:
        return None
    if abs(mean - CLIP_MEAN) < 1e-3:
        return "preparation", {}
    if abs(mean - IMAGENET_MEAN) < 1e-3 and abs(score.difference) <= PREPARATION:
        return "preparation_of_authors", {}
    return None


def _first(mean: str | None) -> float | None:
    try:
        return float(json.loads(mean or "null")[0])
    except (TypeError, ValueError, IndexError):
        return None
