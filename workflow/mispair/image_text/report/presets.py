"""Differences between the paper's text and its authors' public code in the image-text study."""

from __future__ import annotations

import json

import pandas as pd

from mispair.core.words import count, listing
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.towers.finetuning.finetuning_presets import NOT_STATED, STATED

SECTION = "What carries the effect"

PARTS: tuple[tuple[str, str, str], ...] = (
    ("neurons", "columns of the final projection, |cos| averaged over all pairs",
     "columns of the text projection, zeros on the diagonal counted in: N² entries, not N(N−1); "
     "a second script has statistics of each tower"),
    ("ranking for pruning", "mean |cos| with all other neurons",
     "sum of |cos| in the image projection plus the same in the text projection"),
    ("pruning", "keeps k neurons",
     "image embeddings are normalised, then all but k coordinates set to zero; prompts stay whole, "
     "and nothing is normalised again"),
    ("k", "200 to 500", "200, 250, … 500, with one random draw"),
    ("prompts", "not stated", "“a photo of a {class}” alone, names as the data set spells them"),
    ("preparation of images", "not stated",
     "224 pixels, bicubic, mean and deviation of CLIP, for files trained with ImageNet’s"),
    ("accuracy", "zero-shot",
     "share of all test images; Caltech-101: the whole set with its background class"),
    ("silhouette", "cosine distance",
     "scikit-learn’s, on normalised image embeddings by class"),
    ("shuffling", "captions permuted with probability C_m",
     "not published; the variant by similarity swaps captions among the ten most similar by TF-IDF "
     "until a share C_m is swapped"),
)  # fmt: skip
"""Rows (what, as written, as run) beyond the fine-tuning itself."""


PLAIN = {
    "batch_size": "pairs in a batch",
    "lr": "learning rate",
    "final_lr": "learning rate at the end",
    "weight_decay": "weight decay",
    "warmup_epochs": "epochs of warm-up",
    "warmup_lr": "learning rate at the start of the warm-up",
}
"""Settings of the fine-tuning in plain words, where their names are not."""


def presets(tables: Tables) -> Table | None:
    """Return the differences of text and code, with the choices of this run where recorded."""
    if not tables.study("image_text"):
        return None
    selected = tables.provenance[tables.provenance["artefact"].isin(["purity", "zeroshot"])]
    values_of: dict[str, set[str]] = {}
    trained = selected[selected["start"] == "pretrained"]
    for key, text in zip(trained["key"], trained["text"].fillna(""), strict=True):
        name = key.removeprefix("projection.")
        if name == "training" and text:
            for part, value in json.loads(text).items():
                values_of.setdefault(part, set()).add(str(value))
        elif text:
            values_of.setdefault(name, set()).add(text)
    texts = {name: listing(sorted(values)) for name, values in values_of.items()}
    texts |= {
        "neurons": "columns of either projection, N(N−1)",
        "accuracy": "share of all test images",
        "silhouette": "cosine distance, exact",
    }
    if tables.protocols:
        texts["prompts"] = protocol_phrase(tables)
    if tables.schemes:
        texts["shuffling"] = listing(tables.schemes)
    if (tables.purity["rate"] == 0).any():
        for what in ("C_m = 0, accuracy", "C_m = 0, |cos|"):
            texts[what] = "fine-tuned as any other rate; the untouched model is measured too"
    texts |= _pruning(tables.pruning)
    rows = [(what, written, run, texts.get(what, "–")) for what, written, run in (*PARTS, *STATED)]
    preset = texts.get("preset")
    used = f"This run fine-tuned by the preset {preset}." if preset else (
        "The preset of this run’s fine-tuning was not recorded."
    )  # fmt: skip
    return Table(
        "Where the paper’s text (as-written) and its authors’ public code (as-run) part",
        ("what", "as written", "as run", "this run"),
        tuple(rows),
        f"{used} Where a preset has no value of its own, the other’s is used.",
        section=SECTION,
        folded=True,
    )


def unstated() -> Table:
    """Return what the paper's text leaves open on the fine-tuning, and the choices used for it."""
    rows = tuple(
        (PLAIN.get(what, what.replace("_", " ")), run)
        for what, written, run in (*PARTS, *STATED)
        if written == NOT_STATED
    )
    return Table(
        "What the paper’s text does not state on this study",
        ("choice", "the public code’s, which both presets take"),
        rows,
        f"{count(len(rows), 'choice')} that the text leaves open. A reader of the text alone "
        "cannot repeat the experiment, so results under the preset as-written are results under "
        "these choices, too.",
        section=SECTION,
        folded=True,
    )


def _pruning(table: pd.DataFrame) -> dict[str, str]:
    if table.empty:
        return {}
    ks = sorted(table["k"].dropna().unique())
    original = table[table["basis"].fillna("original") == "original"]
    draws = original.loc[original["strategy"] == "random", "draw"].nunique()
    rankings = sorted(set(table["ranked_by"].dropna()) - {"none"})
    return {
        "ranking for pruning": f"mean |cos| by {listing(rankings)}",
        "pruning": listing(sorted(table["normalised"].dropna().unique()) or ["masked"]),
        "k": f"{ks[0]:g} to {ks[-1]:g}, {count(draws, 'random draw')}",
    }
