"""What the study puts on the pages of the report."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from mispair.evaluation.purity import DEFINITION
from mispair.evaluation.report import (
    claims_construct,
    claims_pruning,
    clip_benchmark,
    comparison_evaluation,
    comparison_exported,
    comparison_protocols,
    numbers_page,
    tables_basis,
    tables_semantics,
)
from mispair.image_text.report import (
    answers,
    claims_added,
    claims_mediation,
    claims_schemes,
    claims_shuffling,
    comparison,
    controls,
    curves,
    notes,
    presets,
    reanalysis,
    tables_spectrum,
    tables_towers,
)
from mispair.pairs.report import corpus, pairings
from mispair.report.pages.content import Content
from mispair.report.pages.study_pages import Pages, Piece
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.report.verdicts import Verdict
from mispair.towers.report import encoding

SAMPLES = "Sample pairs before and after shuffling"
"""Section of the contact sheet."""

GALLERY = Markup('<h3 id="neurons">What the neurons respond to</h3>\n')

RULES = {
    "construct": "Spearman's rank correlation over the neurons of one model between mean |cos| and "
    "what is known of each neuron, its semantic purity and its selectivity, in both towers. The "
    "effect is the mean of the four, claimed below zero; a replicate is a neuron, resampled with "
    "its columns in both towers. Judged by the rule of effects.",
    "contrast": "The value at the largest C_m − the value at the lowest, paired by seed, judged by "
    "the rule of effects; each seed has its own swaps, pairs and batches. Cannot tell where the "
    "model classifies no better than chance at the lowest C_m. The trend over all C_m is printed "
    "and does not change the verdict.",
    "sets": "The rule of effects on the change of the mean of all evaluation sets. Sets that go "
    "against the claim, by p values corrected for the number of sets, are named; no set changes "
    "the verdict on the mean. Cannot tell where the model is no better than chance at C_m 0.",
    "order": "Scores averaged over the evaluation sets and all numbers k of kept neurons below the "
    "full width: high-purity − low-purity, with the error of the difference of two random draws "
    "of neurons, and the rule of effects. Supports only if random neurons are between the two.",
    "rates": "Similar − random at each C_m above 0, paired by seed, each by the rule of effects; "
    "the smallest effect of interest is a third of what was published at that C_m (for accuracy, "
    "of the published fall from C_m 0). Supports if all C_m do, contradicts if one does and none "
    "supports, no such effect if there is none at any C_m, cannot tell otherwise. Nothing is "
    "averaged over C_m, because the curves may cross.",
    "published": "The change of accuracy in table 4 from C_m 0.1 to 0.8, one for each data set, by "
    "the rule of effects; the smallest effect of interest is a third of the published fall from "
    "C_m 0 to 0.8.",
    "mediation": "The change of accuracy from C_m 0 is regressed on that of overlap over all arms, "
    "within C_m; the slope times the rise of overlap in the main arm at the largest C_m is the "
    "loss that goes with overlap. One number for each seed, by the rule of effects, claimed below "
    "zero; the smallest effect of interest is a third of the loss. Cannot tell without a loss.",
    "weights": "Accuracy, or the share of right choices, of the pretrained start with weighted − "
    "without weighted pairs on the same captions, random, at the largest C_m, by the rule of "
    "effects; the smallest effect of interest is a third of what these captions cost the "
    "pretrained start, against C_m 0. Cannot tell where they cost nothing.",
    "composition": "The change from C_m 0 to the largest C_m, paired by image and seed, by the "
    "rule of effects; questions about one picture are one trial. The smallest effect of interest "
    "is that of zero-shot accuracy, a third of the published fall, as nothing was published on "
    "such sets. Cannot tell where no category is answered better than by chance at C_m 0.",
    "alike": "Accuracy under similar − under random captions at the same |cos|, which is "
    "interpolated between the C_m of random, at each C_m of similar. Supports if two one-sided "
    "tests place all differences within the smallest effect of interest, a third of the published "
    "fall; contradicts if one is significant and at least as large; cannot tell otherwise.",
}
"""Rules of its claims in words, as the report prints them."""


def _tables(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    alpha = 1 - confidence
    single = (
        controls.controls(tables, alpha),
        claims_mediation.arms(tables),
        reanalysis.table4(tables),
        presets.presets(tables),
        presets.unstated() if tables.study("image_text") else None,
        comparison_protocols.protocols(tables, alpha),
        pairings.pairings(tables),
        pairings.effective(tables),
        encoding.encoding(tables),
    )
    return [
        *filter(None, single),
        *comparison_exported.exported(tables),
        *comparison.image_text(tables),
        *comparison.shuffling(tables, alpha),
        *comparison_evaluation.evaluation(tables),
        *tables_towers.replicates(tables),
        *tables_spectrum.spectrum(tables),
        *tables_semantics.semantics(tables),
        *tables_basis.bases(tables),
        *corpus.corpus(tables),
    ]


def _pieces(content: Content) -> dict[str, Piece]:
    sheet = content.pieces.get("contact_sheet")
    why = "it could not be made from the existing results" if content.failed else "it was not drawn"
    pieces = {
        SAMPLES: Piece(html=Markup(sheet)) if sheet else Piece(f"No contact sheet: {why}."),
    }
    gallery = content.pieces.get("neurons")
    if gallery:
        pieces[tables_semantics.SECTION] = Piece(DEFINITION, GALLERY + Markup(gallery))
    elif not content.tables.purity.empty:
        lacking = "No gallery of neurons: it was not drawn, or could not be."
        pieces[tables_semantics.SECTION] = Piece(f"{DEFINITION} {lacking}")
    return pieces


PAGES = Pages(
    judges=(
        claims_construct.judge,
        claims_shuffling.judge,
        claims_pruning.judge,
        claims_schemes.judge,
        claims_mediation.judge,
        claims_added.judge,
        reanalysis.judge,
    ),
    questions=answers.QUESTIONS,
    tables=_tables,
    rules=RULES,
    definitions={"Overlap and purity of neurons": DEFINITION},
    summary=notes.summary,
    warnings=notes.warnings,
    limits=notes.limits,
    holes=notes.holes,
    drawings=notes.drawings,
    pieces=_pieces,
    others=numbers_page.pages,
    runs=curves.runs,
    results=clip_benchmark.results,
)
