"""CLIP and LaCLIP checkpoints next to tables 2 and 3, and the paper's claims on them."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from mispair.evaluation.report.rows import smallest_overlap
from mispair.evaluation.sets import canonical
from mispair.report import published
from mispair.report.claims import THIRD, Claim, MeasuredClaim, PartEffect
from mispair.report.measures import Every
from mispair.report.questions import Question
from mispair.report.statistics import effect_of_mean
from mispair.report.tables import Tables, protocols, records

METHODS = ("CLIP", "LaCLIP")
POINT = 0.01
"""Differences of more than this are flagged."""
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

    @property
    def flagged(self) -> bool:
        """Whether it differs from the published number by more than a point."""
        # Both are given to a tenth of a point: rounding flags no difference of 1.0.
        return abs(self.difference) > POINT + 1e-9


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


def pairs(tables: Tables, measure: str) -> list[tuple[Score, Score]]:
    """Return every CLIP number with the LaCLIP number of the same kind."""
    by_place: dict[tuple[object, ...], dict[str, Score]] = {}
    for score in scores(tables, measure):
        counterpart = (
            score.pretraining, score.architecture, score.evaluation_set, score.protocol,
            score.metric, score.fingerprint,
        )  # fmt: skip
        by_place.setdefault(counterpart, {}).setdefault(canonical(score.method), score)
    clip, laclip = map(canonical, METHODS)
    return [(both[clip], both[laclip]) for both in by_place.values() if {clip, laclip} <= {*both}]


# The paper's claims on LaCLIP models, over pairs of models as replicates.

UNIT = "pre-training"
"""The replicate, a data set: captions were rewritten once for each. Models of several architectures
that were trained on the same data, and evaluation sets of the same models, are averaged first."""

NEEDS = "studies: [laclip]"

Apart = Callable[[Tables], pd.DataFrame]
"""Returns rows of ``pretraining``, ``evaluation_set`` (or ""), ``first`` and ``last``."""


@dataclass(frozen=True)
class Paired:
    """LaCLIP − CLIP over pairs of models, with data sets of pre-training as replicates.

    Attributes
    ----------
    apart : callable
        The value of both models of each pair.
    published : float
        The published mean difference.
    log : bool
        Whether natural logs are compared.
    """

    apart: Apart
    published: float = math.nan
    log: bool = False

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the mean difference, and that on each evaluation set."""
        rows = self.apart(tables)
        if rows.empty:
            return MeasuredClaim()
        logs = rows[["first", "last"]].map(math.log if self.log else float)
        rows = rows.assign(value=logs["last"] - logs["first"])
        of_sets = rows[rows["evaluation_set"] != ""].groupby("evaluation_set")
        means = rows.groupby("pretraining")["value"].mean()
        return MeasuredClaim(
            effect_of_mean(means.tolist(), confidence, UNIT), published=self.published,
            first=float(rows["first"].mean()), last=float(rows["last"].mean()),
            sets={
                str(name): PartEffect(effect_of_mean(
                    of_set.groupby("pretraining")["value"].mean().tolist(), confidence, UNIT
                ))
                for name, of_set in of_sets
            },
        )  # fmt: skip


def _scores(measure: str, tables: Tables) -> pd.DataFrame:
    """Return the scores of both models of each pair on each set, under the main protocol."""
    return pd.DataFrame(
        [
            {"pretraining": canonical(clip.pretraining), "evaluation_set": clip.evaluation_set,
             "first": clip.value, "last": laclip.value}
            for clip, laclip in pairs(tables.of_protocol(), measure)
        ],
        columns=["pretraining", "evaluation_set", "first", "last"],
    )  # fmt: skip


def of_overlap(tables: Tables, tower: str, metric: str) -> pd.DataFrame:
    """Return a measure of overlap of both models of each pair of the same data and architecture."""
    table = tables.checkpoints
    table = table[(table["metric"] == metric) & (table["tower"] == tower)]
    table = table.sort_values("towers", kind="stable").assign(
        method=table["method"].fillna("").map(canonical),
        pretraining=table["pretraining"].fillna("not stated"),
        architecture=table["architecture"].fillna("not stated"),
    )
    wide = table.pivot_table(
        index=["pretraining", "architecture"], columns="method", values="value", aggfunc="first"
    )
    wide = wide.reindex(columns=[*map(canonical, METHODS)]).dropna()
    wide.columns = pd.Index(["first", "last"])
    return wide.reset_index().assign(evaluation_set="")


def published_gain(measure: str) -> float:
    """Return the mean of LaCLIP − CLIP in tables 2 and 3."""
    table = published.checkpoints().pivot_table(
        index=["pretraining", "dataset"], columns="method", values=COLUMNS[measure]
    )
    return float((table[METHODS[1]] - table[METHODS[0]]).mean())


def _score(measure: str) -> Paired:
    return Paired(functools.partial(_scores, measure), published_gain(measure))


def _directions(tower: str) -> Paired:
    return Paired(lambda tables: of_overlap(tables, tower, "participation_ratio"), log=True)


CLAIMS = (
    Claim(
        "laclip-accuracy", "laclip",
        "LaCLIP models classify better zero-shot than CLIP models of the same data and "
        "architecture.",
        "tables 2 and 3", "checkpoints",
        _score("acc1"), bound=THIRD * published_gain("acc1"), unit="points", needs=NEEDS,
    ),
    Claim(
        "laclip-silhouette", "laclip",
        "LaCLIP models separate classes better (silhouette) than CLIP models of the same data and "
        "architecture.",
        "tables 2 and 3", "checkpoints",
        _score("silhouette"), bound=THIRD * published_gain("silhouette"), needs=NEEDS,
    ),
    Claim(
        "laclip-overlap", "laclip",
        "The neurons of LaCLIP models overlap less (a larger participation ratio) than those of "
        "CLIP models of the same data and architecture.",
        "sections 1 and 5.2", "checkpoints",
        Every({tower: _directions(tower) for tower in ("text", "image")}),
        bound=smallest_overlap(), unit="log", every="tower", needs=NEEDS,
    ),
)  # fmt: skip

QUESTIONS = (
    Question(
        "laclip", "Do models that were trained on rewritten captions overlap less?",
        ("laclip-overlap", "laclip-accuracy", "laclip-silhouette"), "small_laclip",
    ),
)  # fmt: skip
