"""Notes on the image-text study in the report: warnings, limits and what is missing."""

from __future__ import annotations

import pandas as pd

from mispair.core.words import count, listing, number
from mispair.evaluation.report import arm_words, checkpoints, comparison_evaluation
from mispair.pairs.report import corpus
from mispair.report.pages.study_pages import Drawing
from mispair.report.tables import Tables
from mispair.towers.report import encoding


def summary(tables: Tables) -> list[str]:
    """Return how many arms, evaluation sets and models there are."""
    sentences = []
    if tables.study("image_text"):
        arms = arm_words.arms(tables.purity, tables.zeroshot, tables.pruning)
        sentences.append(f"{count(len(arms), 'arm')} of {_main_model(tables)}")
    with_sets = (tables.zeroshot, tables.pruning, tables.exported, tables.checkpoints)
    if sets := {name for table in with_sets for name in table["evaluation_set"].dropna()}:
        sentences.append(count(len(sets), "evaluation set"))
    if compared := {*tables.checkpoints["towers"].dropna(), *checkpoints.facts(tables)}:
        sentences.append(f"{count(len(compared), 'model')} compared as they are")
    return sentences


def _main_model(tables: Tables) -> str:
    """Return the name of the model; an unnamed one if only projections were measured."""
    for table in (tables.zeroshot, tables.pruning, tables.exported):
        for name in table["towers"].dropna():
            return str(name)
    return "the frozen model"


def warnings(tables: Tables) -> list[str]:
    """Return what makes results hard to compare, or numbers wrong."""
    return [
        *_apart(tables),
        *corpus.warnings(tables),
        *encoding.warnings(tables),
        *comparison_evaluation.warnings(tables),
    ]


def _apart(tables: Tables) -> list[str]:
    """Return what makes results hard to compare: arms of different data or towers."""
    notes = []
    # Checkpoints are other towers, and are meant to be.
    apart = ["simulation", "checkpoint", "checkpoints"]
    rows = tables.provenance[~tables.provenance["artefact"].isin(apart)]
    for ending, plural in (("pairs_fingerprint", "sets of pairs"), ("towers", "pairs of towers")):
        last = rows["key"].str.rsplit(".", n=1).str[-1]
        seen = rows.loc[last == ending, "text"].dropna().nunique()
        if seen > 1:
            notes.append(
                f"The results come from {seen} different {plural}: "
                "curves mix what cannot be compared. Run again without old results."
            )
    for start, end, what in (
        ("evaluation_sets.", ".images_fingerprint", "images of the evaluation set"),
        ("protocols.", ".fingerprint", "prompts of set and protocol"),
    ):
        same = rows["key"].str.startswith(start) & rows["key"].str.endswith(end)
        for key, group in rows[same].groupby("key"):
            if group["text"].nunique() > 1:
                name = str(key).removeprefix(start).removesuffix(end)
                notes.append(f"The {what} {name} were not the same for all arms.")
    return notes


def limits(tables: Tables) -> list[str]:
    """Return what this run cannot tell."""
    sentences = []
    if tables.study("image_text"):
        sentences.append(
            "One frozen model and one corpus: intervals are over draws of swapped captions, pairs "
            "and batches (a seed has its own of each), and do not cover another model."
        )
    schemes = tables.schemes
    if schemes and schemes[0] != "random":
        sentences.append(
            f"Captions were corrupted by the scheme {schemes[0]}, while most published numbers are "
            "of random shuffling."
        )
    if len(schemes) > 1:
        sentences.append(
            f"Figures and claims are of the scheme {schemes[0]}, where they do not compare it with "
            f"{listing(schemes[1:])}."
        )
    names = tables.protocols
    if names:
        remark = f"; {listing(names[1:])} in the table of protocols" if names[1:] else ""
        sentences.append(
            f"Zero-shot numbers of figures and claims are by the protocol {names[0]}{remark}."
        )
    return sentences


def holes(tables: Tables) -> list[str]:
    """Return which arms, measures and runs are missing where others are there."""
    notes = []
    for name in ("purity", "zeroshot"):
        notes += _missing_arms(tables, name)
    for name in ("purity", "zeroshot", "pruning"):
        table = getattr(tables, name)
        empty = table[table["value"].isna()]
        where = ["metric", "evaluation_set"] if "evaluation_set" in empty else ["metric", "tower"]
        for (metric, key), group in empty.groupby(where):
            notes.append(f"{metric} on {key}: {count(len(group), 'value')} not defined.")
    return notes


def _missing_arms(tables: Tables, name: str) -> list[str]:
    """Name the arms of a table with a pairing but no measurement, if their start has others."""
    notes = []
    tuned = getattr(tables, name).dropna(subset=["rate"])
    for start in sorted(tuned["start"].dropna().unique()):
        lost: dict[str, dict[float, None]] = {}
        for scheme in tables.schemes or [""]:
            of_scheme = tables.of_scheme(scheme)
            have = getattr(of_scheme, name)
            missing = set(of_scheme.pairs["rate"].dropna()) - set(
                have.loc[have["start"] == start, "rate"]
            )
            for rate in sorted(missing):
                of = f" of {scheme}" if rate and scheme not in tables.schemes[:1] else ""
                lost.setdefault(of, {})[rate] = None
        notes += [
            f"{name}: no {start} arm{of} at C_m {', '.join(f'{rate:g}' for rate in rates)}."
            for of, rates in lost.items()
        ]
    return notes


def drawings(tables: Tables) -> list[Drawing]:
    """Return the figures of the paper that no claim can be measured on, with the reason."""
    return [
        Drawing(
            "figure 6",
            "The architecture: two frozen towers, and two projections whose columns are the "
            "neurons.",
            f"A drawing without a number: nothing to measure. {_neurons(tables)}",
        ),
        Drawing(
            "figure 7",
            "What shuffling does: captions of a share C_m of the pairs change places.",
            _swapped(tables),
        ),
    ]


def _neurons(tables: Tables) -> str:
    rows = tables.purity[tables.purity["metric"] == "neuron_purity"]
    counts = rows.groupby("tower")["neuron"].nunique()
    if counts.empty:
        return "The neurons of this run were not measured."
    counted = listing([f"{neurons:,} of the {tower} tower" for tower, neurons in counts.items()])
    return f"Neurons in this run: {counted}."


def _swapped(tables: Tables) -> str:
    table = tables.of_scheme().pairs
    rows = table[(table["metric"] == "swapped_share") & (table["rate"] > 0)]
    shares = rows.groupby("rate")["value"].mean()
    if shares.empty:
        return "A drawing; no captions were shuffled in this run."
    apart = (shares - pd.Series(shares.index, shares.index)).abs().max()
    listed = ", ".join(f"{number(value)} at C_m {rate:g}" for rate, value in shares.items())
    return f"Share of pairs really swapped: {listed}; at most {number(apart)} from C_m."
