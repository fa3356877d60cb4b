"""What an incomplete report lacks: which results, where their numbers would stand, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mispair.core.failures import Failure, Record, named, why
from mispair.report.catalogue import STUDIES

BESIDE = "Measured against published"

STANDS_IN: dict[str, tuple[str, ...]] = {
    "measure_purity": (
        "", "What carries the effect", "Purity, said precisely", "Schemes of corruption", BESIDE,
    ),
    "measure_covariance": ("", "What carries the effect"),
    "evaluate_zeroshot": (
        "", "What carries the effect", "Protocols", "Retrieval and linear probe",
        "Schemes of corruption", BESIDE,
    ),
    "fit_linear_probe": ("Retrieval and linear probe",),
    "compare_arms": ("Retrieval and linear probe", BESIDE),
    "prune_neurons": ("Pruning", BESIDE),
    "export_pruned": ("Pruning",),
    "measure_semantics": ("Purity, said precisely",),
    "identify_basis": ("Purity, said precisely",),
    "draw_neurons": ("Purity, said precisely",),
    "corrupt_captions": ("Schemes of corruption",),
    "index_shards": ("The corpus",),
    "gather_index": ("The corpus", "Captions and images"),
    "encode_features": ("Encoding",),
    "encode_captions": ("Encoding",),
}  # fmt: skip
"""Sections of the image-text study that print what a step writes."""

STEPSIZE_PARTS: dict[str, tuple[str, ...]] = {
    "sweep": ("Phases", "Margins", "Speed", "Test accuracy", "Runs that fail"),
    "sharpness": ("Sharpness",),
    "onset": ("Sharpness",),
    "activations": ("Activations and widths", "Runs that fail"),
    "widths": ("Activations and widths", "Runs that fail"),
    "bounds": ("Bounds",),
    "acceleration": ("Speed", "Sharpness"),
    "neurons": ("Margins",),
    "multilayer": ("Phases", "Test accuracy", "Runs that fail"),
}
"""Sections of the stepsize study that print a part of it."""

CONDITIONS = {
    "bridge": "From one preset to the other",
    "grid": "Sensitivity",
    "scaling": "Scaling with d",
    "literal": "As written, literally",
}
"""Sections that alone print conditions of such a kind; a preset stands in every section."""

SUFFICIENCY: dict[str, tuple[str, ...]] = {
    "measure_bayes": ("At the published size", "Ten checks"),
    "train_encoders": ("Sufficiency", "Zero-shot classes", "Shifted trees", "Ten checks"),
    "measure_sufficiency": ("Sufficiency", "Zero-shot classes", "Shifted trees", "Ten checks"),
    "train_head": ("Denoising and the next word", "Shifted trees", "Ten checks"),
    "measure_transfer": ("Denoising and the next word", "Shifted trees", "Ten checks"),
}
"""Sections of the sufficiency study that print what a step writes."""


PRETRAINING = (
    "decode_pictures", "corrupt_captions_of_draw", "train_small_towers", "measure_mixing",
)  # fmt: skip
"""Rules of the pre-training study, whose every section prints all trainings."""


@dataclass(frozen=True)
class Hole:
    """A result that is not there: the step that makes it with its wildcards, and why."""

    what: str
    why: str


def holes(record: Record) -> dict[tuple[str, str], list[Hole]]:
    """Return the results that a run did not make, by study and section of the page."""
    found: defaultdict[tuple[str, str], list[Hole]] = defaultdict(list)
    failed = record["failed"]
    for job in [*failed, *record["not_run"]]:
        hole = Hole(named(job), f"failed: {why(job)}" if "lines" in job else _not_run(job, failed))
        for place in places(job["rule"], job["wildcards"]):
            found[place].append(hole)
    return dict(found)


def places(rule: str, wildcards: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the studies and sections in which the numbers of a job stand.

    Examples
    --------
    >>> places("simulate", {"condition": "grid~0.02~independent~zero"})
    [('simulation', 'Sensitivity')]
    """
    sections = {study.key: study.sections for study in STUDIES}
    if rule == "simulate":
        kind = wildcards["condition"].partition("~")[0]
        own = (CONDITIONS[kind],) if kind in CONDITIONS else sections["simulation"]
        return [("simulation", section) for section in own]
    if rule == "draw_trees":
        return [("sufficiency", section) for section in sections["sufficiency"]]
    if rule in SUFFICIENCY:
        return [("sufficiency", section) for section in SUFFICIENCY[rule]]
    if rule in PRETRAINING:
        return [("pretraining", section) for section in sections["pretraining"]]
    if rule in ("train_two_layer", "train_multilayer"):
        return [("stepsize", name) for name in STEPSIZE_PARTS[wildcards.get("part", "multilayer")]]
    # Models that are compared as they are have no corpus; this stands in its place.
    if rule == "evaluate_zeroshot" and wildcards["corpus"] == "checkpoints":
        return [("laclip", section) for section in sections["laclip"]]
    return [("image_text", section) for section in STANDS_IN.get(rule, ())]


def _not_run(job: Mapping[str, Any], failed: Sequence[Failure]) -> str:
    if job["because"] is None:
        return "not run, because the run stopped"
    cause = failed[job["because"]]
    return f"not run, because {named(cause)} failed: {why(cause)}"
