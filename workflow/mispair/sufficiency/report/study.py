"""The sufficiency study in the report: its sections, tables and figures."""

from collections.abc import Mapping, Sequence

from mispair.report.studies import Figure, ReportedStudy, columns
from mispair.sufficiency.paths import BAYES, SUFFICIENCY, TRANSFER

PRINTED: dict[str, tuple[str, ...]] = {
    "measure_bayes": ("At the published size",),
    "train_encoders": ("Sufficiency", "Zero-shot classes"),
    "measure_sufficiency": ("Sufficiency", "Zero-shot classes"),
    "train_head": ("Denoising and the next word",),
    "measure_transfer": ("Denoising and the next word",),
}
"""Sections that print what a step writes."""


def sections_of(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    """Return the sections that print the numbers of a job."""
    return STUDY.sections if rule == "draw_trees" else PRINTED.get(rule, ())


STUDY = ReportedStudy(
    key="sufficiency",
    title="Sufficiency: what contrastive pre-training keeps",
    about="A companion study, after Oko, Lin, Cai and Mei (2025). Text and image are the leaves "
    "of two random trees with one root; p is how often a symbol is flipped on its way "
    "down. Encoders are trained contrastively on matched pairs. As the trees are known, "
    "belief propagation gives the best that any predictor can do at each of four tasks: "
    "to match (CLIP), to classify by prompts (ZSC), to denoise the image given its text "
    "(CDM), and to predict the next word given the image (VLM).",
    sections=(
        "Sufficiency",
        "Zero-shot classes",
        "Denoising and the next word",
        "At the published size",
    ),
    tables={
        "sufficiency": columns(
            "size* tree flip seed task* arm* metric* candidates per_class | value n low high"
        )
    },
    results={BAYES: "sufficiency", SUFFICIENCY: "sufficiency", TRANSFER: "sufficiency"},
    sections_of=sections_of,
    figures=(
        Figure(
            "sufficiency_divergence",
            "How far the encoders are from sufficient",
            "KL divergence between the distributions over K candidates under the best similarity "
            "and under the encoders', both directions summed: it is the excess contrastive risk, "
            "and it grows with K towards the lack of sufficiency. Bars: 95 % intervals.",
            "theorem on sufficiency",
            "Sufficiency",
        ),
        Figure(
            "sufficiency_prompts",
            "Zero-shot risk against the number of prompts",
            "Cross-entropy of an image's class with M texts as prompts for each class. exact: the "
            "best similarity with the same prompts; dashed: belief propagation, which needs none.",
            "figures 5 and 6",
            "Zero-shot classes",
        ),
        Figure(
            "sufficiency_transfer",
            "What heads lose against the best predictor",
            "Excess risk over belief propagation on the same samples. unconditional: belief "
            "propagation without the other modality, which shows its worth. Points are runs (trees "
            "and seeds), bars their 95 % intervals of evaluation.",
            "figure 2(c, d)",
            "Denoising and the next word",
        ),
    ),
    small=(Figure("small_sufficiency", "How far the encoders are from sufficient"),),
)
