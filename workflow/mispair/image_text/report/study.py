"""The image_text study in the report: its sections, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mispair.report.study import Figure, Study, columns

REPLICATES = "Towers as replicates"
COMPOSITIONAL = "Compositional sets"

PRINTED: dict[str, tuple[str, ...]] = {
    "measure_arm": (
        "", "What carries the effect", "Definition of purity", "Protocols", COMPOSITIONAL,
        "Retrieval and linear probe", "Schemes of corruption",
    ),
    "measure_covariance": ("", "What carries the effect"),
    "fit_linear_probe": ("Retrieval and linear probe",),
    "compare_arms": ("",),
    "compare_towers": (REPLICATES,),
    "prune_neurons": ("Pruning",),
    "export_pruned": ("Pruning",),
    "measure_semantics": ("Definition of purity",),
    "identify_basis": ("Definition of purity",),
    "draw_neurons": ("Definition of purity",),
    "corrupt_captions": ("Schemes of corruption",),
    "list_images": ("The corpus",),
    "index_shards": ("The corpus",),
    "gather_index": ("The corpus", "Captions and images"),
    "encode_features": ("Encoding",),
    "encode_captions": ("Encoding",),
}  # fmt: skip
"""Sections that print what a step writes."""


def sections_of(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    """Return the sections that print the numbers of a job."""
    # Models that are compared as they are have no corpus; this word replaces it.
    if wildcards.get("corpus") == "checkpoints":
        return ()
    return PRINTED.get(rule, ())


STUDY = Study(
    key="image_text",
    title="Image-text study: shuffled captions",
    about="The captions of a share C_m of the pairs are swapped among themselves. The two final "
    "projections of a frozen pair of towers are fine-tuned on the result, from the "
    "pre-trained projections with the model's logit scale frozen and, as controls, with "
    "the scale solved for or frozen elsewhere, from random projections and without weight "
    "decay. A neuron is a column of a projection; its mean |cos| with all other neurons "
    "is low if it is pure.",
    sections=(
        "",
        "What carries the effect",
        REPLICATES,
        "Pruning",
        "Definition of purity",
        "Protocols",
        COMPOSITIONAL,
        "Retrieval and linear probe",
        "Schemes of corruption",
        "The corpus",
        "Captions and images",
        "Encoding",
        "Sample pairs before and after shuffling",
    ),
    tables={
        "purity": columns(
            "start* scheme* rate tower* metric* seed neuron bin_low bin_high | value n low high "
            "deviation below rotations"
        ),
        "purity_map": columns(
            "start* scheme* rate tower* metric* seed row column | value n",
            compared=False,
        ),
        "zeroshot": columns(
            "start* scheme* rate towers* evaluation_set* protocol* metric* classname* seed "
            "headline* fingerprint* | value n low high chance"
        ),
        "pruning": columns(
            "start* scheme* rate towers* evaluation_set* protocol* normalised* basis* strategy* "
            "ranked_by* metric* seed draw k | value n low high"
        ),
        "comparisons": columns(
            "start* scheme* rate towers* evaluation_set* protocol* metric* reference* | value n "
            "seeds error freedom low high p"
        ),
        "exported": columns(
            "start* scheme* rate towers* evaluation_set* protocol* strategy* ranked_by* k "
            "metric* fingerprint* | value"
        ),
        "semantics": columns(
            "start* scheme* rate tower* seed basis* neuron metric* feature* shuffle | value n "
            "low high deviation below rotations overlap p"
        ),
        "bases": columns(
            "start* scheme* rate tower* seed basis* metric* reference* neuron feature* | value "
            "n low high deviation below rotations"
        ),
        "pairs": columns("metric* scheme* rate reason* | value n"),
        "corpus": columns("metric* reason* status* licence* bin_low bin_high | value n"),
        "towers": columns("start* scheme* rate metric* tower* towers* | value"),
        "tower_intervals": columns(
            "quantity* start* scheme* rate metric* tower* | value low high p n"
        ),
        "encoding": columns("group* device* precision* metric* | value", compared=False),
    },
    results={
        "results/arms/*/*/*/purity.json": "purity",
        "results/arms/*/*/*/zeroshot.json": "zeroshot",
        "results/arms/*/*/*/probe.json": "zeroshot",
        "results/arms/*/*/*/pruning.json": "pruning",
        "results/arms/*/*/*/semantics.json": "semantics",
        "results/arms/*/*/*/basis.json": "bases",
        "results/arms/*/*/comparison.json": "comparisons",
        "results/arms/*/towers.json": "towers",
        "logs/export_pruned/*/*/*/*.json": "exported",
        "results/arms/*/*/*/projection.safetensors": "projection",
        "results/towers/trained/training.json": "training",
        "results/pairs/*/statistics.json": "corpus",
        "results/pairs/*/pairing/*.parquet": "pairing",
        "results/pairs/*/index/*.rejected.parquet": "rejected",
        "results/pairs/*/index/*.parquet": "index",
        "results/pairs/*/excluded.parquet": "excluded",
        "logs/encode_features/*/*/*.json": "encoding",
        "logs/encode_captions/*/*/*.json": "encoding",
    },
    describing=("corpus", "pairing", "index", "rejected", "excluded", "encoding"),
    measures=("purity", "zeroshot", "pruning"),
    sections_of=sections_of,
    figures=(
        Figure(
            "purity_by_shuffling",
            "Overlap of neurons against shuffling",
            "Mean |cos| of all pairs of neurons; every seed is a point, the band is the mean ± 1 "
            "standard deviation over seeds. Dashed: the same projections in randomly rotated "
            "bases. The published curve is of another model (CC3M, 768 to "
            "512 dimensions), so shapes can be compared and levels cannot.",
            "figure 2(d)",
        ),
        Figure(
            "verdict_by_bound",
            "Verdicts against the smallest effect of interest",
            "What the rule of effects decides if the smallest effect of interest is another share "
            "of the published effect. Directions (the participation ratio, in logs) are judged; "
            "mean |cos| is next to them, because it depends on the number of neurons.",
        ),
        Figure(
            "overlap_by_scale",
            "Overlap against shuffling, by logit scale",
            "Mean |cos| with the logit scale solved for or frozen at a value, and the mean cosine "
            "gap times the scale. The gap is the cosine of a pair that keeps its caption, less the "
            "mean cosine with the captions of other pairs. The loss depends on cosine times scale "
            "alone: wrong captions cap this margin, and a frozen scale turns it into small gaps.",
            section="What carries the effect",
        ),
        Figure(
            "correlation_by_shuffling",
            "Overlap of activations against shuffling",
            "Mean |correlation| of the activations of two neurons over the features of the corpus. "
            "It ignores directions in which features do not vary, where columns keep what is left "
            "of a random start.",
            section="What carries the effect",
        ),
        Figure(
            "participation_by_shuffling",
            "Participation ratio of the projections against shuffling",
            "The number of directions that the neurons share. The mean squared cosine of two "
            "neurons is a function of this number alone, and mean |cos| is close to √(2/π) times "
            "the root of it. Right: the published mean |cos| as the participation ratio of 512 "
            "neurons that it implies.",
            "figure 2(d)",
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
            "acc1 on each evaluation set. The axis shows the range of what was measured; the "
            "dotted line is chance, where the axis reaches it.",
            "table 4",
        ),
        Figure(
            "silhouette_by_shuffling",
            "Silhouette of the classes against shuffling",
            "Cosine silhouette of the image embeddings by class on each evaluation set.",
            "table 4",
        ),
        Figure(
            "compositional_by_shuffling",
            "Choice of the true caption against shuffling",
            "Share of images for which the true caption is more similar than the false one, in "
            "which something is added, replaced or exchanged; ties count half. Dotted: chance, "
            "the level of a model that does not bind words to things.",
            section=COMPOSITIONAL,
        ),
        Figure(
            "pruning",
            "Classification with k neurons kept",
            "Mean over the evaluation sets of acc1 (left) and silhouette (right), one row for "
            "neurons ranked by the text projection, the image projection, and both; embeddings "
            "masked as the authors' code does. The grey band holds the random draws' mean ± 1 "
            "standard deviation.",
            "figure 2(a-c, e-g)",
            "Pruning",
        ),
        Figure(
            "pruning_by_set",
            "Accuracy with k neurons kept, each evaluation set",
            "acc1 with neurons ranked by the text projection, as in the paper. The grey band holds "
            "the random draws' mean ± 1 standard deviation.",
            "figures 2 and 8",
            "Pruning",
        ),
        Figure(
            "pruning_renormalised",
            "Masked against renormalised embeddings",
            "Solid: embeddings with k neurons as the authors' code leaves them, prompts whole. "
            "Dashed: images and prompts of the k neurons, normalised again to length one. Mean "
            "over the evaluation sets; the silhouette is the same for both.",
            section="Pruning",
        ),
        Figure(
            "pruning_controls",
            "Controls of the pruning order",
            "First: the same strategies in randomly rotated bases, in which the model computes the "
            "same. Then: neurons ranked by how much their activation varies, and by the length of "
            "their column, instead of by purity.",
            section="Pruning",
        ),
        Figure(
            "shape_ratio",
            "What is left of |cos| without the spectrum: the shape ratio",
            "Mean |cos| over √(2/π) times the root mean square cosine, which the spectrum "
            "determines. Points: every seed of the model’s own basis. Bars: 95 % of randomly "
            "rotated bases of the same projection. A point inside its bar is not purer than a "
            "random basis.",
            section="Definition of purity",
        ),
        Figure(
            "semantics_by_shuffling",
            "What neurons stand for at both ends of C_m",
            "Mean over neurons of the |correlation| with the feature that each follows best, where "
            "features are known. Points: every seed of the model’s own basis. Bars: 95 % of "
            "randomly rotated bases.",
            section="Definition of purity",
        ),
        Figure(
            "semantic_purity",
            "What neurons stand for against how much they overlap",
            "Every point is a neuron: the |correlation| of its activation with the feature that it "
            "follows best, against its mean |cos|. Grey: the neurons of a randomly rotated basis, "
            "in which the model computes the same.",
            section="Definition of purity",
        ),
        Figure(
            "identified_basis",
            "Purity in a basis that the embeddings identify",
            "Above: mean over the known features of the best |correlation| with a neuron or "
            "component, on inputs that the basis was not fitted on. Varimax and ICA rotate the "
            "whitened principal components of the embedding without labels; the linear ceiling is "
            "the best direction for each feature, found with labels. Below: how far components "
            "that were fitted on two halves of the inputs agree. Grey: 95 % of random rotations.",
            section="Definition of purity",
        ),
        Figure(
            "purity_by_scheme",
            "Overlap and accuracy by scheme of corruption",
            "Every seed is a point, the band is the mean ± 1 standard deviation over seeds; all "
            "schemes share the arm at 0. The share is one of pairs, named features or words, by "
            "scheme. Dashed: the published comparison of random captions with one of the ten most "
            "similar, of another model (CC3M, 512 neurons), so shapes can be compared and levels "
            "cannot.",
            "public review",
            "Schemes of corruption",
            every_scheme=True,
        ),
        Figure(
            "caption_lengths",
            "Lengths of the captions",
            "Kept pairs by words and characters of their caption, before any corruption. Bins "
            "widen to the right; the last is open.",
            section="Captions and images",
        ),
        Figure(
            "image_sizes",
            "Sizes of the images",
            "Kept pairs by the shorter side of their image as a viewer shows it. Bins widen to the "
            "right; the last is open.",
            section="Captions and images",
        ),
    ),
    small=(
        Figure("small_overlap", "Overlap of text neurons against shuffling"),
        Figure("small_mixing", "What neurons stand for against shuffling"),
        Figure("small_accuracy", "Accuracy against the share of wrong captions", every_scheme=True),
        Figure("small_semantics", "What neurons stand for against how much they overlap"),
        Figure("small_pruning", "Accuracy with k neurons kept"),
        Figure("small_composition", "Choice of the true caption against shuffling"),
        Figure("small_weights", "Accuracy with and without weighted pairs"),
    ),
)
