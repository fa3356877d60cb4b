"""Measurements on CLIP and LaCLIP checkpoints, next to the numbers of tables 2 and 3."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from mispair.evaluation.set_names import canonical
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
