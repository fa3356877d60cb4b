"""The repair in the report: its sections, tables and figures."""

from collections.abc import Mapping, Sequence

from mispair.core.paths import fill
from mispair.evaluation import paths as evaluation
from mispair.repair import paths
from mispair.report.studies import Figure, ReportedStudy, columns
from mispair.review.paths import REPLACED
from mispair.towers.arms import REPAIR

LEDGER = "What became of the captions"
ARMS = "What each rule gives back"
LEARNED = "Encoders that learn from the captions of each rule"

PRINTED: dict[str, tuple[str, ...]] = {
    "filter_captions": ("", LEDGER),
    "recaption_pairs": ("", LEDGER),
    "compare_repairs": ("", ARMS),
    "measure_arm": (ARMS,),
    "filter_captions_of_draw": ("", LEARNED),
    "recaption_pairs_of_draw": ("", LEARNED),
    "measure_replaced": (LEDGER,),
    "train_repaired_towers": ("", LEARNED),
    "measure_repaired_towers": ("", LEARNED),
}
"""Sections that print what a step writes."""


def sections_of(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    """Return the sections that print the numbers of a job."""
    if rule == "measure_arm":
        return PRINTED[rule] if wildcards.get("arm", "").startswith("repair-") else ()
    return PRINTED.get(rule, ())


LEDGER_COLUMNS = columns(
    "rule* scheme* rate metric* reason* before* after* captions* seed | value n"
)

OF_REPAIR = f"{REPAIR}{{rule}}_{{scheme}}~{{rate}}"

STUDY = ReportedStudy(
    key="repair",
    title="Repair: new captions and filters",
    about="A captioner learns from pairs whose captions are right and writes a new caption for "
    "every picture. A rule decides which captions are replaced and which pairs are dropped. The "
    "projections are then fine-tuned on the result, or small towers are trained on it from "
    "scratch, with the same pictures, seeds and number of updates under every rule.",
    sections=("", LEDGER, ARMS, LEARNED),
    tables={
        "repairs": LEDGER_COLUMNS,
        "repair_examples": columns(
            "rule* scheme* rate sample* key* old* new* action* |", compared=False
        ),
        "repaired_arms": columns(
            "rule* scheme* rate tower* basis* evaluation_set* protocol* metric* seed headline* "
            "fingerprint* | value n low high chance"
        ),
        "tower_repairs": LEDGER_COLUMNS,
        "repaired_towers": columns(
            "rule* scheme* rate seed tower* basis* evaluation_set* protocol* metric* | value n low "
            "high chance"
        ),
        "repairs_compared": columns("metric* | value n low high"),
        "repair_differences": columns(
            "rule* reference* scheme* rate evaluation_set* protocol* metric* | value n seeds "
            "error freedom low high p"
        ),
    },
    results={
        paths.LEDGER: "ledger",
        paths.COMPARISON: "differences",
        REPLACED: "replaced",
        paths.LEDGER_OF_DRAW: "tower_ledger",
        paths.MIXING_OF_DRAW: "towers",
        fill(evaluation.PURITY, arm=OF_REPAIR): "purity",
        fill(evaluation.SEMANTICS, arm=OF_REPAIR): "semantics",
        fill(evaluation.ZEROSHOT, arm=OF_REPAIR): "zeroshot",
        fill(evaluation.PROBE, arm=OF_REPAIR): "zeroshot",
    },
    measures=("repaired_arms", "repaired_towers"),
    sections_of=sections_of,
    figures=(
        Figure(
            "repair_by_rule",
            "Overlap of neurons and accuracy by rule",
            "Directions (participation ratio): fewer are more overlap. Circles: seeds. Ticks: "
            "means, with a bar of ± 1 standard deviation. Raw captions are those before the "
            "repair. Accuracy is the mean over evaluation sets. Each panel has its own range.",
            section=ARMS,
        ),
        Figure(
            "repair_from_scratch",
            "Overlap of neurons and accuracy of towers trained from scratch, by rule",
            "Directions (participation ratio): fewer are more overlap. Circles: seeds. Ticks: "
            "means, with a bar of ± 1 standard deviation. A seed draws the corruption, the "
            "weights, the batches and the pairs; its captioner and scorer are of towers that were "
            "trained on its raw captions. Accuracy is the mean over sets.",
            section=LEARNED,
        ),
    ),
    small=(Figure("small_repair", "Accuracy by the captions that a model is fine-tuned on"),),
)
