"""The pretraining study in the report: its sections, tables and figures."""

from collections.abc import Mapping, Sequence

from mispair.pretraining.paths import MIXING
from mispair.report.studies import Figure, ReportedStudy, columns

RULES = (
    "decode_pictures", "corrupt_captions_of_draw", "train_small_towers", "measure_mixing",
)  # fmt: skip
"""Rules of the study, whose every section prints all trainings."""


def sections_of(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    """Return the sections that print the numbers of a job."""
    return STUDY.sections if rule in RULES else ()


STUDY = ReportedStudy(
    key="pretraining",
    title="Pre-training: which wrong captions mix features",
    about="Small image and text towers are trained from scratch on pictures of known features, "
    "with captions as they are (clean), with captions of other pictures (random), with "
    "each named feature replaced by its partner, always the same one (spurious), and with "
    "named features left out (missing), all at the same rate. The mixing score is the "
    "correlation of the component that follows a feature with the features that wrong "
    "captions link to it, less its correlation with the other features of that kind. It is "
    "zero on average if captions link nothing.",
    sections=("", "Accuracy and overlap"),
    tables={
        "pretraining": columns(
            "scheme* rate seed tower* basis* evaluation_set* protocol* metric* | value n low "
            "high chance"
        )
    },
    results={MIXING: "pretraining"},
    sections_of=sections_of,
    figures=(
        Figure(
            "pretraining_mixing",
            "Mixing of linked features by kind of wrong captions",
            "Mixing score less that of towers of the same seed on clean captions. Each circle is a "
            "seed; the bar is the 95 % interval of the mean over seeds. Identified: components "
            "that varimax finds without the true features. Linear: directions fitted to each "
            "true feature. Neurons: columns of the projection. Prompts: embeddings of a "
            "feature's words, against pictures.",
            "theorem 4.2",
        ),
    ),
    small=(Figure("small_pretraining", "Mixing of linked features by kind of wrong captions"),),
)
