"""Tables of the page of one model: its facts, its arms, and its numbers on every set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pandas as pd

from mispair.evaluation.report import arm_words, checkpoints
from mispair.evaluation.report.checkpoints import Score
from mispair.evaluation.report.comparison_exported import exported
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.evaluation.report.set_tables import SCORE_HEADS, score_cells
from mispair.report.table import Table, mean_and_spread
from mispair.report.tables import Tables

UNNAMED = "the frozen model"
"""What a model is called of which nothing was recorded but its purity."""


def main_model(tables: Tables) -> str:
    """Return the name of the model of the image-text study; empty if the study was not run."""
    for table in (tables.zeroshot, tables.pruning, tables.exported):
        for name in table["towers"].dropna():
            return str(name)
    return UNNAMED if tables.study("image_text") else ""


def compared_models(tables: Tables) -> list[str]:
    """Return the names of the models that are compared as they are."""
    return sorted({*tables.checkpoints["towers"].dropna(), *checkpoints.facts(tables)})


def of_main(tables: Tables) -> list[Table]:
    """Return the tables of the model that is fine-tuned; without empty ones."""
    candidates = [_facts(_recorded(tables)), _arms(tables), _recipe(tables)]
    return [table for table in [*candidates, *exported(tables)] if table.rows]


def of_compared(tables: Tables, scores: Sequence[Score], name: str) -> list[Table]:
    """Return the tables of a model that is compared as it is; without empty ones."""
    facts = checkpoints.facts(tables).get(name, {})
    candidates = [
        _scores([score for score in scores if score.towers == name]),
        _facts({_words(key): text for key, text in facts.items()}),
    ]
    return [table for table in candidates if table.rows]


def _words(key: str) -> str:
    return key.replace("_", " ").replace(".", ", ")


def _facts(facts: Mapping[str, str]) -> Table:
    return Table("What it is", ("what", "which"), tuple(facts.items()))


def _of_arms(tables: Tables) -> pd.DataFrame:
    kinds = ["purity", "zeroshot", "pruning", "semantics", "bases", "exported"]
    return tables.provenance[tables.provenance["artefact"].isin(kinds)]


def _recorded(tables: Tables) -> dict[str, str]:
    """Return the fingerprints of towers and pairs, and how many neurons there are."""
    of_model = _of_arms(tables)
    of_model = of_model[of_model["text"].fillna("") != ""]
    last = of_model["key"].str.rsplit(".", n=1).str[-1]
    facts_of = {}
    for key, label in (
        ("towers", "fingerprint of the frozen towers"),
        ("pairs_fingerprint", "fingerprint of the pairs it is fine-tuned on"),
        ("preset", "preset of the fine-tuning"),
    ):
        if texts := sorted(of_model.loc[last == key, "text"].unique()):
            facts_of[label] = ", ".join(texts)
    neurons = tables.purity.loc[tables.purity["metric"] == "neuron_purity"]
    for tower, rows in neurons.groupby("tower"):
        facts_of[f"neurons, {tower} tower"] = f"{rows['neuron'].nunique():,}"
    return facts_of


def _arms(tables: Tables) -> Table:
    """Return purity, mean accuracy and mean silhouette of every arm."""
    purity, zeroshot = tables.purity, tables.main_zeroshot
    purity = purity[purity["metric"].isin(["mean_abs_cosine", "participation_ratio"])]
    zeroshot = zeroshot[zeroshot["metric"].isin(["acc1", "silhouette"])]
    of_purity, of_zeroshot = arm_words.by_arm(purity), arm_words.by_arm(zeroshot)
    rows = []
    for arm in arm_words.arms(purity, zeroshot):
        pure = of_purity.get(arm_words.key(arm), purity[:0])
        scored = of_zeroshot.get(arm_words.key(arm), zeroshot[:0])
        overlap = [
            mean_and_spread(_metric(pure[pure["tower"] == tower], "mean_abs_cosine"), 4, False)
            for tower in ("text", "image")
        ]
        rank = mean_and_spread(
            _metric(pure[pure["tower"] == "text"], "participation_ratio"), 1, counted=False
        )
        means = [_of_sets(scored, metric) for metric in ("acc1", "silhouette")]
        seeds = len({*pure["seed"].dropna(), *scored["seed"].dropna()})
        rows.append((*arm_words.cells(arm), f"{seeds}", *overlap, rank, *means))
    return Table(
        "Every arm: mean ± 1 standard deviation over seeds",
        (*arm_words.HEADS, "seeds", "mean |cos|, text", "mean |cos|, image",
         "participation ratio, text", "accuracy, mean of sets", "silhouette, mean of sets"),
        tuple(rows),
        f"Accuracy: {protocol_phrase(tables)}." if len(zeroshot) else "",
    )  # fmt: skip


def _metric(table: pd.DataFrame, metric: str) -> pd.Series:
    return table.loc[table["metric"] == metric, "value"]


def _of_sets(table: pd.DataFrame, metric: str) -> str:
    rows = table[table["metric"] == metric]
    return mean_and_spread(rows.groupby("seed")["value"].mean(), 3, counted=False)


def _recipe(tables: Tables) -> Table:
    """Return the settings of the fine-tuning, as every arm records them."""
    of_model = _of_arms(tables)
    values_of: dict[str, dict[str, None]] = {}
    for text in of_model.loc[of_model["key"] == "projection.training", "text"].dropna():
        for key, value in json.loads(text).items():
            values_of.setdefault(_words(key), {})[str(value)] = None
    rows = tuple((key, "; ".join(values)) for key, values in sorted(values_of.items()))
    return Table(
        "Recipe of the fine-tuning", ("setting", "value"), rows,
        "Where arms differ all values are listed.", folded=True,
    )  # fmt: skip


def _scores(scores: Sequence[Score]) -> Table:
    return Table(
        "On every evaluation set, next to tables 2 and 3",
        ("evaluation set", *SCORE_HEADS),
        tuple((score.evaluation_set, *score_cells(score)) for score in scores),
    )
