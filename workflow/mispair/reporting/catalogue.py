"""What the report consists of: its tables, studies and figures by name.

The rules import this module to know which files the report's steps write, so it imports nothing
that takes time.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLES = (
    "purity.csv",
    "zeroshot.csv",
    "pruning.csv",
    "simulation.csv",
    "pairs.csv",
    "provenance.csv",
    "metrics.parquet",
)
"""Files of `gather_metrics`, in its folder of tables."""

FORMS = ("svg", "csv", "vl.json")
"""Each figure is written as a picture, as the numbers in it, and as an interactive chart."""


@dataclass(frozen=True)
class Figure:
    """A figure: its file name without ending, title, what it shows, and place in the paper."""

    name: str
    title: str
    about: str
    paper: str = ""


@dataclass(frozen=True)
class Study:
    """A study: its key in ``studies``, its title, and what is done in it."""

    key: str
    title: str
    about: str


STUDIES = (
    Study(
        "image_text",
        "Image-text study: shuffled captions",
        "The captions of a share C_m of the pairs are swapped among themselves. The two final "
        "projections of a frozen pair of towers are fine-tuned on the result, from the pre-trained "
        "projections and, as a control, from re-initialised ones. A neuron is a column of a "
        "projection; its mean |cos| with all other neurons is low if it is pure.",
    ),
    Study(
        "simulation",
        "Simulation: sparse coding, raw against filtered captions",
        "Images and captions share sparse latent features; with probability C_s a caption belongs "
        "to another image. Encoders are trained on raw pairs (S1), a decoder writes new captions "
        "(S2), captions that fit worse than the decoder's are replaced (S3), and encoders are "
        "trained again on the filtered pairs (S4).",
    ),
)

FIGURES: dict[str, tuple[Figure, ...]] = {
    "image_text": (
        Figure(
            "purity_by_shuffling",
            "Overlap of neurons against shuffling",
            "Mean |cos| of all pairs of neurons; every seed is a point, the band is the mean ± 1 "
            "standard deviation over seeds. The published curve is of another model (CC3M, 768 to "
            "512 dimensions), so shapes can be compared and levels cannot.",
            "figure 2(d)",
        ),
        Figure(
            "effective_rank_by_shuffling",
            "Effective rank of the projections against shuffling",
            "The number of directions that the neurons share out among themselves: a control for "
            "the overlap, since few directions force neurons to overlap.",
        ),
        Figure(
            "cosine_histogram",
            "Distribution of the cosines of neuron pairs",
            "Signed cosines of all pairs of neurons, mean over seeds, one line for each C_m.",
            "figure 2(h)",
        ),
        Figure(
            "accuracy_by_shuffling",
            "Zero-shot accuracy against shuffling",
            "acc1 on each evaluation set; the dotted line is chance.",
            "table 4",
        ),
        Figure(
            "silhouette_by_shuffling",
            "Silhouette of the classes against shuffling",
            "Cosine silhouette of the image embeddings by class on each evaluation set.",
            "table 4",
        ),
        Figure(
            "pruning",
            "Classification with k neurons kept",
            "Mean over the evaluation sets of acc1 (above) and silhouette (below), with neurons "
            "ranked by the text projection, the image projection, or both. The grey band holds "
            "the random draws' mean ± 1 standard deviation.",
            "figure 2(a-c, e-g)",
        ),
        Figure(
            "pruning_by_set",
            "Classification with k neurons kept, each evaluation set",
            "acc1 with neurons ranked by the text projection, as in the paper.",
            "figures 2 and 8",
        ),
        Figure(
            "pruning_controls",
            "Two controls of the pruning order",
            "Left: the same strategies in randomly rotated bases, in which the model computes the "
            "same. Right: neurons ranked by how much their activation varies instead of by purity.",
        ),
        Figure(
            "realised_swaps",
            "What shuffling really changed",
            "Share of pairs with another pair's caption, and share with another text: two pairs "
            "may have the same caption, so the second can be smaller.",
            "figure 7",
        ),
    ),
    "simulation": (
        Figure(
            "simulation_figure1",
            "Raw against filtered captions: the four measures",
            "Every run is a faint point; line and band are the mean ± 1 standard deviation of all "
            "runs. Diamonds on dashed lines are published: means of the best ten of fifteen runs, "
            "chosen anew for each measure and arm.",
            "figure 1(a-d)",
        ),
        Figure(
            "simulation_cosines",
            "Cosines of neurons with the true features",
            "Share of all neuron-feature pairs in each bin of |cos|, mean over trials.",
            "figures 3 and 4",
        ),
        Figure(
            "simulation_filter",
            "What the filter replaced",
            "Share of captions replaced by the decoder's, among those that belonged to another "
            "image and among those that were right.",
        ),
    ),
}
"""The figures of each study."""

TEMPLATES = (
    "contact_sheet.html.j2",
    "index.html.j2",
    "macros.html.j2",
    "page.js",
    "study.html.j2",
    "style.css",
)
"""Files in this package's ``templates`` that make up the page."""


def figures(study: str | None = None) -> list[Figure]:
    """Return the figures of a study, or of all."""
    keys = FIGURES if study is None else [study]
    return [figure for key in keys for figure in FIGURES[key]]
