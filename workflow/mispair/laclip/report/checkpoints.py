"""Numbers of CLIP and LaCLIP checkpoints next to tables 2 and 3, and reasons of differences."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mispair.evaluation.sets import canonical
from mispair.report import published
from mispair.report.statistics import Interval
from mispair.report.tables import Tables, protocols, records, where

METHODS = ("CLIP", "LaCLIP")
COLUMNS = {"acc1": "accuracy", "silhouette": "silhouette"}

DATA_SETS = ("Food-101", "CIFAR-10", "CIFAR-100", "Caltech-101", "Pets", "STL-10", "ImageNet-1k")
"""Names in tables 2 to 4."""

OTHER_NAMES = {
    "oxfordiiitpet": "Pets", "oxfordiiitpets": "Pets", "oxfordpets": "Pets", "oxfordpet": "Pets",
    "imagenet": "ImageNet-1k", "ilsvrc2012": "ImageNet-1k",
}  # fmt: skip

_BY_NAME = {**{canonical(name): name for name in DATA_SETS}, **OTHER_NAMES}


def published_name(evaluation_set: str) -> str | None:
    """Return the published name of an evaluation set, or None if it has no published number.

    Examples
    --------
    >>> published_name("wds_food101"), published_name("vtab-caltech101"), published_name("digits")
    ('Food-101', 'Caltech-101', None)
    """
    return _BY_NAME.get(canonical(evaluation_set))


@dataclass(frozen=True)
class Score:
    """One number of one model, and the published number of the same model and data set, or NaN.

    ``measure`` is ``acc1`` for the headline metric of the protocol (its name is ``metric``), or
    ``silhouette``. ``own`` is the number of LaCLIP's authors for ImageNet.
    """

    measure: str
    pretraining: str
    architecture: str
    method: str
    towers: str
    evaluation_set: str
    protocol: str | None
    metric: str
    fingerprint: str | None
    value: float
    low: float
    high: float
    n: float
    published: float
    own: float

    @property
    def dataset(self) -> str | None:
        """The published name of the evaluation set."""
        return published_name(self.evaluation_set)

    @property
    def difference(self) -> float:
        """Measured − published."""
        return self.value - self.published


def scores(tables: Tables, measure: str) -> list[Score]:
    """Return every headline number, or every silhouette, of every checkpoint."""
    table = tables.checkpoints
    if measure == "silhouette":
        measured = table[table["metric"] == "silhouette"]
    else:
        prompted = table["protocol"].isin(protocols(table))
        measured = table[prompted & (table["metric"] == table["headline"].fillna("acc1"))]
    order = {name: model for model, name in enumerate(protocols(table))}
    measured = measured.sort_values("protocol", key=lambda names: names.map(order), kind="stable")
    keys = ["pretraining", "architecture", "method", "towers", "evaluation_set"]
    results = []
    for row in records(measured.sort_values(keys, kind="stable")):
        labels = {name: _text(row[name]) or "not stated" for name in keys}
        protocol, fingerprint = _text(row["protocol"]), _text(row["fingerprint"])
        value, low, high, n = (float(row[name]) for name in ("value", "low", "high", "n"))
        model = labels["pretraining"], labels["method"]
        dataset = published_name(labels["evaluation_set"])
        published_value = published_number(dataset, *model, COLUMNS[measure])
        own_number = math.nan
        if measure == "acc1" and dataset == "ImageNet-1k":
            own_number = laclip_own(labels["pretraining"], labels["architecture"], model[1])
        results.append(
            Score(measure, **labels, protocol=protocol, metric=str(row["metric"]),
                  fingerprint=fingerprint, value=value, low=low, high=high, n=n,
                  published=published_value, own=own_number)
        )  # fmt: skip
    return results


def stated(value: object) -> str:
    """Return a label of a checkpoint; a missing one is not stated."""
    return value if isinstance(value, str) else "not stated"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


@functools.cache
def published_number(dataset: str | None, pretraining: str, method: str, column: str) -> float:
    """Return a number of table 2 or 3, or NaN if there is none."""
    row = _published().get((dataset or "", canonical(pretraining), canonical(method)))
    return math.nan if row is None else float(row[column])


@functools.cache
def _published() -> dict[tuple[str, str, str], dict[str, float]]:
    """Return the rows of tables 2 and 3 by data set, pre-training and method."""
    return {
        (str(row["dataset"]), canonical(row["pretraining"]), canonical(row["method"])): row
        for row in records(published.checkpoints())[::-1]
    }


def laclip_own(pretraining: str, architecture: str, method: str) -> float:
    """Return the ImageNet accuracy of LaCLIP's authors, or NaN."""
    table = published.laclip_imagenet()
    rows = table[
        (table["pretraining"].map(canonical) == canonical(pretraining))
        & (table["architecture"] == architecture)
        & (table["method"].map(canonical) == canonical(method))
    ]
    return float(rows["accuracy"].iloc[0]) if len(rows) else math.nan


@dataclass(frozen=True)
class Pair:
    """A CLIP and a LaCLIP model of the same data and architecture, on one evaluation set."""

    clip: Score
    laclip: Score
    difference: Interval
    paired: bool

    @property
    def published(self) -> float:
        """The published difference, or NaN."""
        return self.laclip.published - self.clip.published

    @property
    def name(self) -> str:
        """Pre-training, architecture and evaluation set."""
        return f"{self.clip.pretraining} {self.clip.architecture}, {self.clip.evaluation_set}"


def pairs(tables: Tables, measure: str) -> list[Pair]:
    """Return every LaCLIP number next to the CLIP number of the same kind.

    The interval is that of paired images if the models were compared, else that of two
    independent numbers from their own intervals (Newcombe 1998, Statistics in Medicine 17, 873).
    """
    by_place: dict[tuple[object, ...], dict[str, Score]] = {}
    for score in scores(tables, measure):
        counterpart = (score.pretraining, score.architecture, score.evaluation_set, score.protocol)
        method = next((m for m in METHODS if canonical(m) == canonical(score.method)), "")
        by_place.setdefault(counterpart, {}).setdefault(method, score)
    results = []
    for both in by_place.values():
        if set(METHODS) <= set(both):
            clip, laclip = (both[method] for method in METHODS)
            same = clip.metric == laclip.metric and clip.fingerprint == laclip.fingerprint
            if not same:
                continue
            paired = _paired(tables, clip, laclip)
            results.append(Pair(clip, laclip, paired or _independent(clip, laclip),
                              paired is not None))  # fmt: skip
    return results


def _paired(tables: Tables, clip: Score, laclip: Score) -> Interval | None:
    rows = where(
        tables.comparisons, towers=laclip.towers, reference=clip.towers,
        evaluation_set=laclip.evaluation_set, protocol=laclip.protocol,
        metric=f"{laclip.metric}_difference",
    )  # fmt: skip
    if rows.empty:
        return None
    row: Mapping[str, float] = records(rows)[0]
    return Interval(row["value"], row["low"], row["high"], int(row["n"]))


def _independent(clip: Score, laclip: Score) -> Interval:
    gap = laclip.value - clip.value
    below = math.hypot(laclip.value - laclip.low, clip.high - clip.value)
    above = math.hypot(laclip.high - laclip.value, clip.value - clip.low)
    return Interval(gap, gap - below, gap + above, int(laclip.n) if laclip.n == laclip.n else 0)


def facts(tables: Tables) -> dict[str, dict[str, str]]:
    """Return the facts in the folder of every converted checkpoint, by its name."""
    rows = tables.provenance[tables.provenance["artefact"] == "checkpoint"]
    by_model: dict[str, dict[str, str]] = {}
    for row in records(rows):
        if isinstance(row["text"], str) and row["text"]:
            by_model.setdefault(row["condition"], {})[row["key"]] = row["text"]
    return by_model


# Likely reasons of differences, by rules --------------------------------------------------------

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
