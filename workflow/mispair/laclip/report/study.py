"""The laclip study in the report: its sections, tables and figures."""

from collections.abc import Mapping, Sequence

from mispair.laclip.paths import PURITY, ZEROSHOT
from mispair.report.studies import Figure, ReportedStudy, columns
from mispair.towers.paths import CONVERTED_RECORD

PUBLISHED = "Next to tables 2 and 3"
SCORES = "Retrieval and choice of captions"
OVERLAP = "Overlap of neurons"


def sections_of(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    """Return the sections that print the numbers of a job."""
    compared = rule == "measure_arm" and wildcards["corpus"] == "checkpoints"
    return STUDY.sections if compared else ()


STUDY = ReportedStudy(
    key="laclip",
    title="CLIP against LaCLIP: tables 2 and 3",
    about="LaCLIP models are trained on captions that a language model has rewritten, CLIP "
    "models of the same data and architecture on the raw ones. Each given file is "
    "evaluated under every protocol, and its numbers are next to the published ones.",
    sections=("", PUBLISHED, SCORES, OVERLAP),
    tables={
        "checkpoints": columns(
            "pretraining* architecture* method* recipe* model* towers* evaluation_set* "
            "protocol* tower* metric* classname* headline* fingerprint* | value n low high chance"
        )
    },
    results={ZEROSHOT: "zeroshot", PURITY: "purity", CONVERTED_RECORD: "origin"},
    sections_of=sections_of,
    describing=("origin",),
    figures=(
        Figure(
            "checkpoints",
            "CLIP and LaCLIP on every evaluation set",
            "Circles: measured, with 95 % intervals; diamonds: published. Accuracy is the headline "
            "metric of the main protocol.",
            "tables 2 and 3",
        ),
    ),
    small=(Figure("small_laclip", "Overlap of LaCLIP models less that of CLIP models"),),
)
