"""The paper's claims on LaCLIP models, over pairs of models as replicates."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from mispair.evaluation.report.rows import smallest_overlap
from mispair.evaluation.sets import canonical
from mispair.laclip.report.checkpoints import COLUMNS, METHODS, pairs
from mispair.report import published
from mispair.report.claims import THIRD, Claim, MeasuredClaim, PartEffect
from mispair.report.measures import Every
from mispair.report.questions import Question
from mispair.report.statistics import effect_of_mean
from mispair.report.tables import Tables

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
            {"pretraining": canonical(pair.clip.pretraining),
             "evaluation_set": pair.clip.evaluation_set,
             "first": pair.clip.value, "last": pair.laclip.value}
            for pair in pairs(tables.of_protocol(), measure)
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
