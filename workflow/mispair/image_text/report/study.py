"""The image_text study in the report: its sections, tables and figures."""

from collections.abc import Mapping, Sequence

from mispair.evaluation import paths as evaluation
from mispair.image_text.paths import COMPARED_TOWERS, COMPARISON
from mispair.pairs import paths as pairs
from mispair.pairs.corruption.scheme import MAIN
from mispair.report.studies import Figure, ReportedStudy, columns
from mispair.towers import paths as towers

CARRIES = "What carries the effect"
REPLICATES = "Towers as replicates"
PURITY = "Definition of purity"
PROTOCOLS = "Protocols"
SCORES = "Retrieval, choice of captions and linear probe"
SCHEMES = "Schemes of corruption"
CORPUS = "The corpus"
SAMPLES = "Sample pairs before and after shuffling"

PRINTED: dict[str, tuple[str, ...]] = {
    "measure_arm": ("", CARRIES, PURITY, PROTOCOLS, SCORES, SCHEMES),
    "measure_covariance": ("", CARRIES),
    "fit_linear_probe": (SCORES,),
    "compare_arms": ("",),
    "compare_towers": (REPLICATES,),
    "prune_neurons": ("Pruning",),
    "measure_semantics": (PURITY,),
    "draw_neurons": (PURITY,),
    "corrupt_captions": (SCHEMES,),
    "list_images": (CORPUS,),
    "index_shards": (CORPUS,),
    "gather_index": (CORPUS,),
    "encode_features": (CORPUS,),
    "encode_captions": (CORPUS,),
}
"""Sections that print what a step writes."""


def sections_of(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    """Return the sections that print the numbers of a job."""
    # Models that are compared as they are have no corpus; this word replaces it.
    if wildcards.get("corpus") == "checkpoints":
        return ()
    return PRINTED.get(rule, ())


STUDY = ReportedStudy(
    key="image_text",
    title="Image-text study: shuffled captions",
    about="The captions of a share C_m of the pairs are swapped among themselves. The two final "
    "projections of a frozen pair of towers are fine-tuned on the result, from the "
    "pre-trained projections with the model's logit scale frozen and, as controls, with "
    "the logit scale at its optimum or frozen elsewhere, from random projections and without "
    "weight decay. A neuron is a column of a projection, and pure, by the paper, if its mean "
    "|cos| with all other neurons is low.",
    sections=(
        "",
        CARRIES,
        REPLICATES,
        "Pruning",
        PURITY,
        PROTOCOLS,
        SCORES,
        SCHEMES,
        CORPUS,
        SAMPLES,
    ),
    tables={
        "purity": columns(
            "start* scheme* rate tower* metric* seed neuron | value n low high deviation "
            "below rotations"
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
        "semantics": columns(
            "start* scheme* rate tower* seed basis* neuron metric* feature* | value n "
            "low high deviation below rotations overlap p"
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
        evaluation.PURITY: "purity",
        evaluation.ZEROSHOT: "zeroshot",
        evaluation.PROBE: "zeroshot",
        evaluation.PRUNING: "pruning",
        evaluation.SEMANTICS: "semantics",
        COMPARISON: "comparisons",
        COMPARED_TOWERS: "towers",
        towers.PROJECTION: "projection",
        towers.TRAINING_RECORD: "training",
        pairs.STATISTICS: "corpus",
        pairs.PAIRING: "pairing",
        pairs.REJECTED: "rejected",
        pairs.INDEX: "index",
        pairs.EXCLUDED: "excluded",
        towers.IMAGE_RECORD: "encoding",
        towers.TEXT_RECORD: "encoding",
    },
    describing=("corpus", "pairing", "index", "rejected", "excluded", "encoding"),
    measures=("purity", "zeroshot", "pruning"),
    main={"scheme": MAIN, "protocol": "clip_benchmark"},
    sections_of=sections_of,
    figures=(
        Figure(
            "purity_by_shuffling",
            "Overlap of neurons against shuffling",
            "Mean |cos| depends on the number of neurons, so overlap is judged by the number of "
            "directions over which neurons spread (participation ratio): fewer are more overlap. "
            "Axes of directions are logarithmic, each with its own range. Points: seeds; band "
            "or bar: mean ± 1 standard deviation. The published curves are of another model: "
            "shapes can be compared, levels cannot.",
            "figure 2(d)",
        ),
        Figure(
            "verdict_by_bound",
            "Verdicts against the smallest effect of interest",
            "What the rule of effects decides if the smallest effect of interest is another share "
            "of the published effect; framed: the bound in force, a third. Directions (the "
            "participation ratio, in logs) are judged; mean |cos| is next to them, because it "
            "depends on the number of neurons.",
        ),
        Figure(
            "accuracy_by_shuffling",
            "Zero-shot accuracy against shuffling",
            "Accuracy on each evaluation set; each has its own range. Chance is drawn where the "
            "axis reaches it.",
            "table 4",
        ),
        Figure(
            "silhouette_by_shuffling",
            "Silhouette of the classes against shuffling",
            "Cosine silhouette of the image embeddings by class on each evaluation set; each has "
            "its own range.",
            "table 4",
        ),
        Figure(
            "overlap_by_scale",
            "Overlap against shuffling, by logit scale",
            "The loss depends on cosine times scale alone: wrong captions cap this margin, and a "
            "frozen scale turns it into small gaps. The gap is the cosine of a pair that keeps its "
            "caption, less the mean cosine with the captions of other pairs. Axes of directions "
            "(participation ratio: fewer are more overlap) are logarithmic, each with its range.",
            section=CARRIES,
        ),
        Figure(
            "pruning",
            "Classification with k neurons kept",
            "Mean over the evaluation sets; embeddings masked as the authors’ code does. Band: the "
            "random draws’ mean ± 1 standard deviation. Controls of the order: rotated bases, in "
            "which the model computes the same, and rankings by variance and norm.",
            "figure 2(a-c, e-g)",
            "Pruning",
        ),
        Figure(
            "semantics_by_shuffling",
            "What neurons stand for against shuffling",
            "Mean over neurons of the |correlation| with the feature that each follows best. "
            "Points: seeds in the model’s own basis; grey: 95 % of randomly rotated bases, in "
            "which the model computes the same.",
            section=PURITY,
        ),
        Figure(
            "semantic_purity",
            "What neurons stand for against how much they overlap",
            "Every point is a neuron. Grey: those of a randomly rotated basis, in which the model "
            "computes the same.",
            section=PURITY,
        ),
        Figure(
            "compositional_by_shuffling",
            "Choice of the true caption against shuffling",
            "Share of images for which the true caption is more similar than the false one, in "
            "which something is added, replaced or exchanged; ties count half. Chance is the level "
            "of a model that does not bind words to things.",
            section=SCORES,
        ),
        Figure(
            "purity_by_scheme",
            "Overlap and accuracy by scheme of corruption",
            "All schemes share the arm at 0. Axes of directions (participation ratio: fewer are "
            "more overlap) are logarithmic, each with its own range. The published comparison, of "
            "random captions with one of the ten most similar, is of another model: shapes can be "
            "compared, levels cannot.",
            "public review",
            SCHEMES,
            every_scheme=True,
        ),
    ),
    small=(
        Figure("small_overlap", "Directions of text neurons against shuffling"),
        Figure("small_mixing", "What neurons stand for against shuffling"),
        Figure("small_accuracy", "Accuracy against the share of wrong captions", every_scheme=True),
        Figure("small_semantics", "What neurons stand for against how much they overlap"),
        Figure("small_pruning", "Accuracy with k neurons kept"),
    ),
)
