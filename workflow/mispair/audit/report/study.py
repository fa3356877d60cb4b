"""The audit in the report: its sections, tables and figures."""

from collections.abc import Mapping, Sequence

from mispair.audit import paths
from mispair.report.studies import Figure, ReportedStudy, columns
from mispair.review.paths import REVIEW, STRATA

CALIBRATION = "Known shares of wrong captions"
APART = "Separation of wrong pairs from right ones"
LISTS = "What is kept"
TEXTS = "Conspicuous texts"
SUSPECTS = "Suspicious pairs"
CHECKED = "Checked by eye"

PRINTED: dict[str, tuple[str, ...]] = {
    "audit_pairs": ("", TEXTS, SUSPECTS, LISTS),
    "draw_suspects": (SUSPECTS,),
    "calibrate_audit": (CALIBRATION, APART),
    "select_pairs": (LISTS,),
    "draw_review": (CHECKED,),
    "measure_review": ("", CHECKED),
    "rate_similar": (CHECKED,),
}
"""Sections that print what a step writes."""


def sections_of(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    """Return the sections that print the numbers of a job."""
    return PRINTED.get(rule, ())


STUDY = ReportedStudy(
    key="audit",
    title="Audit: how many captions are wrong, and which",
    about="For each picture, its caption is ranked among captions of other pairs. The assumption "
    "is that a wrong caption is one more random caption: then its rank (p-value) is uniform for "
    "any model. The share of such captions is estimated from the ranks of all pairs, and the "
    "probability that a caption is wrong from a score: the cosine of the pair, less that with what "
    "is near it, and how far its neighbours agree, as far as this separates better here. Without "
    "pairs known to be right the share has an upper limit and no lower one. "
    "Captions of similar pictures are another kind of wrong caption, which these ranks do not "
    "detect; they are counted if pairs known to be right are given (the key trusted).",
    sections=("", CHECKED, TEXTS, SUSPECTS, CALIBRATION, APART, LISTS),
    tables={
        "audit": columns("metric* at word* text* | value n low high tail"),
        "audit_calibration": columns(
            "scheme* injected scorer* method* metric* at | value n low high made trusted"
        ),
    },
    results={
        paths.RATES: "audit",
        paths.SELECTION: "selection",
        paths.CALIBRATION: "calibration",
        REVIEW: "review",
        STRATA: "sample",
        paths.SIMILAR_RATE: "similar",
    },
    describing=("sample",),
    sections_of=sections_of,
    figures=(
        Figure(
            "audit_p_values",
            "Ranks of captions among random captions",
            "Density of the p-values of all pairs: 1 is that of random captions. The peak on the "
            "left is right captions; the flat part on the right is wrong ones, and right ones that "
            "the model ranks like random ones.",
        ),
        Figure(
            "audit_calibration",
            "Estimated against true shares of wrong captions",
            "Known shares of captions of this corpus were made wrong: permuted (random), or "
            "swapped for one of the ten most similar (similar). Points: the estimate with its "
            "95 % interval, which begins at 0 without trusted pairs; those of one share stand side "
            "by side. Memorised: projections trained on the pairs that they judge; cross-fitted: "
            "trained on the other half of the pairs.",
            section=CALIBRATION,
        ),
        Figure(
            "audit_reliability",
            "Share of wrong captions against their probability for the estimated share",
            "Pairs with permuted captions in ten bins of the probability that the caption is "
            "wrong, for the share that the audit takes without pairs known to be right. The size "
            "of a point is the number of pairs.",
            section=APART,
        ),
        Figure(
            "audit_by_eye",
            "Share of wrong captions by the labels against their probability for the audit’s share",
            "Each point is a stratum of the random sample, with the 95 % interval of its share of "
            "wrong captions by the labels. Probabilities are for the share that the audit takes, "
            "an assumed one where it knows an upper limit alone. The size of a point is the number "
            "of labels.",
            section=CHECKED,
        ),
    ),
    small=(Figure("small_audit", "Estimated against true shares of wrong captions"),),
)
