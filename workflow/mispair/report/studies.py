"""What every study puts into the report: its verdicts and its tables. A new study is one entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mispair.evaluation.report import (
    claims_construct,
    comparison_evaluation,
    comparison_exported,
    comparison_protocols,
    figures_basis,
    figures_semantics,
    testable_pruning,
)
from mispair.image_text.report import (
    claims_image_text,
    claims_mediation,
    claims_schemes,
    comparison,
    comparison_shuffling,
    controls_image_text,
    figures_spectrum,
    presets_image_text,
    reanalysis,
)
from mispair.laclip.report import checkpoint_overlap, claims_checkpoints, comparison_checkpoints
from mispair.pairs.report import corpus, pairings
from mispair.pretraining.report import claims_pretraining, comparison_pretraining
from mispair.report import multiplicity, verdicts
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.report.verdicts import Verdict
from mispair.simulation.report import claims_simulation, comparison_simulation
from mispair.stepsize.report import claims_stepsize, comparison_stepsize
from mispair.sufficiency.report import claims_sufficiency, comparison_sufficiency
from mispair.towers.report import encoding

Judge = Callable[[Tables, float], list[Verdict]]
Printed = Callable[[Tables, Sequence[Verdict], float], list[Table]]


@dataclass(frozen=True)
class Parts:
    """How a study's claims are judged, and what makes the tables of its page.

    ``tables`` is given all measurements, all verdicts and the confidence level.
    """

    judges: tuple[Judge, ...]
    tables: Printed


def _image_text(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    alpha = 1 - confidence
    single = (
        controls_image_text.controls(tables, alpha),
        claims_mediation.arms(tables),
        reanalysis.table4(tables),
        presets_image_text.presets(tables),
        presets_image_text.unstated() if tables.study("image_text") else None,
        comparison_protocols.protocols(tables, alpha),
        pairings.pairings(tables),
        pairings.effective(tables),
        encoding.encoding(tables),
    )
    return [
        *filter(None, single),
        *comparison_exported.exported(tables),
        *comparison.image_text(tables),
        *comparison_shuffling.shuffling(tables, alpha),
        *comparison_evaluation.evaluation(tables),
        *figures_spectrum.spectrum(tables),
        *figures_semantics.semantics(tables),
        *figures_basis.bases(tables),
        *corpus.corpus(tables),
    ]


def _laclip(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    return comparison_checkpoints.checkpoints(tables)


def _sufficiency(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    return comparison_sufficiency.sufficiency(tables, confidence)


def _stepsize(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    return comparison_stepsize.stepsize(tables)


def _pretraining(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    return comparison_pretraining.pretraining(tables, confidence)


PARTS: dict[str, Parts] = {
    "image_text": Parts(
        (
            claims_construct.judge,
            claims_image_text.judge,
            testable_pruning.judge,
            claims_schemes.judge,
            claims_mediation.judge,
            reanalysis.judge,
        ),
        _image_text,
    ),
    "simulation": Parts((claims_simulation.judge,), comparison_simulation.simulation),
    "laclip": Parts((claims_checkpoints.judge, checkpoint_overlap.judge), _laclip),
    "sufficiency": Parts((claims_sufficiency.judge,), _sufficiency),
    "stepsize": Parts((claims_stepsize.judge,), _stepsize),
    "pretraining": Parts((claims_pretraining.judge,), _pretraining),
}
"""By the key of the study, as in `mispair.report.catalogue.STUDIES`."""


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on the claims of all studies, corrected for their number.

    Controls of a claim that shows no effect say nothing.
    """
    judged = [
        verdict
        for parts in PARTS.values()
        for judge in parts.judges
        for verdict in judge(tables, confidence)
    ]
    return [*map(verdicts.silenced, multiplicity.adjusted(judged, 1 - confidence))]
