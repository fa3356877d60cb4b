"""What the report consists of: its tables, studies and figures by name.

The rules import this module to know which files the report's steps write, so it imports nothing
that takes time.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLES = (
    "purity.csv",
    "purity_map.csv",
    "zeroshot.csv",
    "pruning.csv",
    "comparisons.csv",
    "exported.csv",
    "semantics.csv",
    "bases.csv",
    "checkpoints.csv",
    "simulation.csv",
    "simulation_points.csv",
    "sufficiency.csv",
    "pairs.csv",
    "corpus.csv",
    "encoding.csv",
    "provenance.csv",
    "stepsize_runs.csv",
    "stepsize_curves.csv",
    "stepsize_speedups.csv",
    "stepsize_acceleration.csv",
    "pretraining.csv",
    "metrics.parquet",
    "metrics.csv",
)
"""Files of `gather_metrics`, in its folder of tables."""

PICTURES = ("svg", "pdf", "png")
FORMS = (*PICTURES, "csv", "vl.json")
"""Each figure is written as pictures, as the numbers in it, and as an interactive chart."""


@dataclass(frozen=True)
class Figure:
    """A figure: its file name without ending, title, what it shows, and place in the paper.

    ``section`` is the part of the study's page that it stands in.
    """

    name: str
    title: str
    about: str
    paper: str = ""
    section: str = ""


@dataclass(frozen=True)
class Study:
    """A study: its key in ``studies``, its title, what is done in it, and its page's sections."""

    key: str
    title: str
    about: str
    sections: tuple[str, ...]


STUDIES = (
    Study(
        "image_text",
        "Image-text study: shuffled captions",
        "The captions of a share C_m of the pairs are swapped among themselves. The two final "
        "projections of a frozen pair of towers are fine-tuned on the result, from the pre-trained "
        "projections with the model's logit scale frozen and, as controls, with the scale solved "
        "for or frozen elsewhere, from random projections and without weight decay. A neuron is a "
        "column of a projection; its mean |cos| with all other neurons is low if it is pure.",
        (
            "",
            "What carries the effect",
            "Pruning",
            "Purity, said precisely",
            "Protocols",
            "Retrieval and linear probe",
            "Schemes of corruption",
            "Measured against published",
            "The corpus",
            "Captions and images",
            "Encoding",
        ),
    ),
    Study(
        "simulation",
        "Simulation: sparse coding, raw against filtered captions",
        "Images and captions share sparse latent features; with probability C_s what a caption "
        "says is wrong. Encoders are trained on raw pairs (S1), a decoder writes new captions "
        "(S2), captions that fit worse than the decoder's are replaced (S3), and encoders are "
        "trained again on the filtered pairs (S4). The paper's text (as-written: as written, "
        "repaired so that it trains) and its authors' public code (as-run) set nearly every number "
        "differently.",
        (
            "Setting",
            "Figure 1",
            "What neurons learn",
            "Captions and filter",
            "Arms",
            "Theory of training",
            "From one preset to the other",
            "As written, literally",
            "Sensitivity",
            "Scaling with d",
        ),
    ),
    Study(
        "laclip",
        "CLIP against LaCLIP: tables 2 and 3",
        "LaCLIP models are trained on captions that a language model has rewritten, CLIP models of "
        "the same data and architecture on the raw ones. Each file that was given is classified "
        "with under every protocol, and its numbers stand beside the published ones.",
        (
            "",
            "Beside tables 2 and 3",
            "LaCLIP against CLIP",
            "Retrieval",
            "The models",
        ),
    ),
    Study(
        "sufficiency",
        "Sufficiency: what contrastive pre-training keeps",
        "A companion study, after Oko, Lin, Cai and Mei (2025). Text and image are the leaves of "
        "two random trees with one root; p says how often a symbol is flipped on its way down. "
        "Encoders are trained contrastively on matched pairs. As the trees are known, belief "
        "propagation gives the best that any predictor can do at each of four tasks: to match "
        "(CLIP), to classify by prompts (ZSC), to denoise the image given its text (CDM), and to "
        "predict the next word given the image (VLM).",
        (
            "Sufficiency",
            "Zero-shot classes",
            "Denoising and the next word",
            "Shifted trees",
            "At the published size",
            "Ten checks",
        ),
    ),
    Study(
        "stepsize",
        "Large stepsizes: two phases of gradient descent",
        "Two-layer networks with fixed output signs learn small data sets under the logistic loss "
        "by full-batch gradient descent with a constant stepsize m η, m being the width. Where η "
        "is large the risk first oscillates; below a threshold that falls as 1/η it can only "
        "fall, and the margin grows. All runs are in float64, with first weights, data and "
        "stepsizes of our own: the published text names them for hardly any experiment, so shapes "
        "can be compared and curves cannot.",
        (
            "Phases",
            "Margins",
            "Speed",
            "Sharpness",
            "Bounds",
            "Activations and widths",
            "Test accuracy",
            "Runs that fail",
            "Corrected and chosen",
        ),
    ),
    Study(
        "pretraining",
        "Pre-training: which wrong captions mix features",
        "Small image and text towers are trained from scratch on pictures of known features, with "
        "captions as they are (clean), with captions of other pictures (random), with each named "
        "feature replaced by its partner, always the same one (spurious), and with named features "
        "left out (missing), all at the same rate. The mixing score is the correlation of what "
        "follows a feature with the features that wrong captions link to it, less its correlation "
        "with the other features of that kind. It is zero on average if captions link nothing.",
        ("", "Accuracy and overlap"),
    ),
)


def _figure1(preset: str, words: str) -> Figure:
    return Figure(
        f"simulation_figure1_{preset.replace('-', '_')}",
        f"Raw against filtered captions: the four measures, {preset}",
        f"Settings: {words}. Every run is a faint point; solid line and band are the mean ± 1 "
        "standard deviation of all runs. Triangles on dashed lines: mean of the best two thirds "
        "of the runs, chosen anew for each measure and arm, as the published points were. "
        "Diamonds on dotted lines are published: means of the best ten of fifteen runs.",
        "figure 1(a-d)",
        "Figure 1",
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
            "overlap_by_scale",
            "Overlap against shuffling, by logit scale",
            "Mean |cos| with the logit scale solved for or frozen at a value, and the mean cosine "
            "gap times the scale. The gap is the cosine of a pair that keeps its caption, less the "
            "mean cosine with the captions of other pairs. The loss sees cosines only times the "
            "scale: wrong captions cap the margin, and a frozen scale turns this into small gaps.",
            section="What carries the effect",
        ),
        Figure(
            "correlation_by_shuffling",
            "Overlap of activations against shuffling",
            "Mean |correlation| of the activations of two neurons over the features of the corpus. "
            "It does not see directions in which features do not vary, where columns keep what "
            "is left of a random start.",
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
            "cosine_ladder",
            "How far neurons overlap, one step for each C_m",
            "Share of pairs of neurons by |cos|, mean over seeds; the bar on each step is the mean "
            "|cos|. Fine-tuned from the pre-trained projections.",
            "figure 2(h)",
        ),
        Figure(
            "overlap_map",
            "Which neurons overlap: heat maps",
            "Mean |cos| between groups of neurons, sorted from the purest group (upper left) to "
            "the least pure one, each map by its own order. One seed; the untouched projections, "
            "and the pre-trained ones fine-tuned at the lowest and the highest C_m.",
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
            "ranked by the text projection, the image projection, or both; embeddings masked as "
            "the authors' code does. The grey band holds the random draws' mean ± 1 standard "
            "deviation.",
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
            "pruning_silhouette_by_set",
            "Silhouette with k neurons kept, each evaluation set",
            "Cosine silhouette of the masked embeddings by class, with neurons ranked by the text "
            "projection.",
            "figures 2 and 8",
            "Pruning",
        ),
        Figure(
            "pruning_renormalised",
            "Masked against renormalised embeddings",
            "Solid: embeddings with k neurons as the authors' code leaves them, prompts whole. "
            "Dashed: images and prompts of the k neurons at length one again. Mean over the "
            "evaluation sets; the silhouette is the same for both.",
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
            section="Purity, said precisely",
        ),
        Figure(
            "semantics_by_shuffling",
            "What neurons stand for at both ends of C_m",
            "Mean over neurons of the |correlation| with the feature that each follows best, where "
            "features are known. Points: every seed of the model’s own basis. Bars: 95 % of "
            "randomly rotated bases.",
            section="Purity, said precisely",
        ),
        Figure(
            "semantic_purity",
            "What neurons stand for against how much they overlap",
            "Every point is a neuron: the |correlation| of its activation with the feature that it "
            "follows best, against its mean |cos|. Grey: the neurons of a randomly rotated basis, "
            "in which the model computes the same.",
            section="Purity, said precisely",
        ),
        Figure(
            "identified_basis",
            "Purity in a basis that the embeddings identify",
            "Above: mean over the known features of the best |correlation| with a neuron or "
            "component, on inputs that the basis was not fitted on. Varimax and ICA rotate the "
            "whitened principal components of the embedding without labels; the linear ceiling is "
            "the best direction for each feature, found with labels. Below: how far components "
            "that were fitted on two halves of the inputs agree. Grey: 95 % of random rotations.",
            section="Purity, said precisely",
        ),
        Figure(
            "realised_swaps",
            "What shuffling really changed",
            "Share of pairs with another pair's caption, and share with another text: two pairs "
            "may have the same caption, so the second can be smaller.",
            "figure 7",
            "Schemes of corruption",
        ),
        Figure(
            "purity_by_scheme",
            "Overlap and accuracy by scheme of corruption",
            "Every seed is a point, the band is the mean ± 1 standard deviation over seeds; all "
            "schemes share the arm at 0. The share is one of pairs, but of named features for "
            "spurious and missing and of words for drop. Dashed: the published comparison of "
            "random captions with one of the ten most similar, of another model (CC3M, 512 "
            "neurons), so shapes can be compared and levels cannot.",
            "public review",
            "Schemes of corruption",
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
    "simulation": (
        _figure1("as-written", "what the paper's text says, repaired so that it trains"),
        _figure1("as-run", "what the authors' public code does"),
        Figure(
            "simulation_cosines",
            "Cosines of neurons with the true features",
            "Share of all neuron-feature pairs in each bin of |cos|, mean over trials and one "
            "standard deviation above and below it, at each preset's largest C_s.",
            "figures 3 and 4",
            "What neurons learn",
        ),
        Figure(
            "simulation_mixing",
            "One feature or two: largest and second cosine of every neuron",
            "A pure neuron lies at the lower right, one that mixes two features above the line, on "
            "which the second is half of the first. Only neurons above it whose second feature is "
            "a spurious partner of the first count as mixed. Neurons of one trial at each preset's "
            "largest C_s.",
            "theorems 4.2 and 4.4",
            "What neurons learn",
        ),
        Figure(
            "simulation_tsne",
            "Test images in the encoders' features",
            "t-SNE of the image features of one trial at its largest C_s, coloured by class.",
            "figure 5",
            "What neurons learn",
        ),
        Figure(
            "simulation_captions",
            "What captions keep and what they add",
            "Left: probability that a feature of the image is in the caption. Right: probability "
            "that a feature is which the image does not have and which is spuriously correlated "
            "with one of its own; where whole captions are redrawn nothing is, and every feature "
            "that the image does not have counts. Mean ± 1 standard deviation over trials.",
            "theorem 4.3",
            "Captions and filter",
        ),
        Figure(
            "simulation_filter",
            "What the filter replaced",
            "Share of captions replaced by the decoder's, among those that belonged to another "
            "image (or held a wrong feature) and among those that were right: mean ± 1 standard "
            "deviation over trials.",
            "",
            "Captions and filter",
        ),
        Figure(
            "simulation_samples",
            "Captions before and after the filter",
            "The first pairs of S_w of the first trial at the largest C_s. Each square is a "
            "feature that the image or a caption has: right, missing from the caption, or wrong "
            "(not the image’s, or of the wrong sign). A feature has the same place on both sides.",
            "section 2.1",
            "Captions and filter",
        ),
        Figure(
            "simulation_dynamics",
            "What neurons grow towards: own and spurious features",
            "Mean |alignment| of neurons, both encoders, with their own feature (that of their "
            "largest alignment at the last step followed), with the features spuriously "
            "correlated with it, and with all others. Solid: measured, with the mean ± 1 standard "
            "deviation over trials; dashed and dotted: the equations from the same start. At the "
            "lowest and the highest C_s.",
            "Eqs. 34-36, theorem 4.2",
            "Theory of training",
        ),
        Figure(
            "simulation_alignments",
            "Growth of the alignments: measured and by the equations",
            "Left: norm of the alignments of all neurons with all features, mean over trials at "
            "the largest C_s. "
            "Right: distance of the equations' alignments from the measured ones, relative to "
            "these.",
            "Eqs. 34-36, appendix D",
            "Theory of training",
        ),
        Figure(
            "simulation_bridge",
            "From one preset to the other, one switch at a time",
            "Each row throws one switch to the other preset's values and leaves the rest; the "
            "last throws all. Point and bar: mean change with its 95 % interval, paired by trial; "
            "gain is filtered − raw.",
            "",
            "From one preset to the other",
        ),
        Figure(
            "simulation_grid",
            "Where filtering helps: noise × misalignment × bias schedule",
            "Gain by filtering in each condition: violet above zero, orange below. The paper's "
            "conclusion holds by the rule of differences, is reversed, or is open (the 95 % "
            "interval holds zero). Grey: no trial has both arms.",
            "",
            "Sensitivity",
        ),
        Figure(
            "simulation_scaling",
            "How failure, residuals, wrong features and loss gaps go with d",
            "Mean ± 1 standard deviation over trials by the number of features d, on logarithmic "
            "axes: a power of d is a straight line. The gap is to the same run continued by half, "
            "a local reference and not the optimum. Where nothing was counted in any trial, the "
            "point is an upper bound.",
            "theorems 4.1 to 4.5",
            "Scaling with d",
        ),
    ),
    "laclip": (
        Figure(
            "checkpoints",
            "CLIP and LaCLIP on every evaluation set",
            "Circles: measured, with 95 % intervals; diamonds: published in the paper's tables 2 "
            "and 3. Accuracy is the headline metric of the main protocol.",
            "tables 2 and 3",
        ),
    ),
    "sufficiency": (
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
            "propagation without the other modality, so what this is worth. Points are runs (trees "
            "and seeds), bars their 95 % intervals of evaluation.",
            "figure 2(c, d)",
            "Denoising and the next word",
        ),
        Figure(
            "sufficiency_shift",
            "Trained at one p, tested at others",
            "Excess risk over the belief propagation that knows the tested p. misspecified: belief "
            "propagation with the p of the training. Both trees are shifted, or the predicted one "
            "alone.",
            "figures 8 and 9",
            "Shifted trees",
        ),
        Figure(
            "sufficiency_published",
            "At the published size: worth of the other modality, losses of the models",
            "Points: published risk of each model over published Bayes, which is of other samples, "
            "so that it may fall below zero. Line with band: what the other modality is worth, "
            "from our belief propagation with and without it. A model above the line shows by its "
            "risk alone no use of the other modality.",
            "figure 2(c, d)",
            "At the published size",
        ),
    ),
    "stepsize": (
        Figure(
            "stepsize_risk",
            "Risk against steps, each stepsize",
            "First seed of each stepsize. Circle: the last rise of the risk is just over. Dashed: "
            "the threshold below which the theory forbids a rise (tight constants).",
            "figure 2(a)",
            "Phases",
        ),
        Figure(
            "stepsize_thresholds",
            "At which risk the oscillation ends, and where the theory is sure of it",
            "Every seed is a point. Risks from which it rose lie far above the thresholds: these "
            "are sufficient, and not where oscillation really ends.",
            "theorem 2.2(a)",
            "Phases",
        ),
        Figure(
            "stepsize_steps",
            "When the oscillation ends, and when the thresholds are reached",
            "Steps of every seed. Runs that never get there are not shown; the table of failures "
            "names them.",
            "theorems 2.2 and 4.1",
            "Phases",
        ),
        Figure(
            "stepsize_margin",
            "Normalised margin against steps",
            "min_i y_i f(x_i) / ‖w‖ of the first seed of each stepsize; what lies far below zero, "
            "early on, is cut off.",
            "figure 2(c)",
            "Margins",
        ),
        Figure(
            "stepsize_neurons",
            "Five points: neither neuron separates them, and the network does",
            "Margins of the network and of each of its two neurons, every one over the norm of "
            "its own weights.",
            "figure 4",
            "Margins",
        ),
        Figure(
            "stepsize_rate",
            "Risk times stepsize times steps: flat where L ≈ 1/(η t)",
            "First seed of each stepsize.",
            "figure 2(b)",
            "Speed",
        ),
        Figure(
            "stepsize_speedup",
            "How much sooner a stepsize gets to a risk",
            "Steps of the largest monotone stepsize over those of this one, first seed. No bar: "
            "one of the two never gets there. A bar below 1 is slower.",
            "",
            "Speed",
        ),
        Figure(
            "stepsize_acceleration",
            "Risk after T steps: stepsize fixed, and in proportion to T",
            "Two points whose gradients conflict, from weights of zero. The stepsize that grows is "
            "the one of the ladder nearest T/100: what the theorem asks for begins at T of 10⁷.",
            "corollary 4.2, theorem 4.3",
            "Speed",
        ),
        Figure(
            "stepsize_sharpness",
            "Sharpness and risk",
            "Above: the Hessian’s largest eigenvalue times m η/2; above 1 a quadratic would "
            "diverge. Below: the risk of the same runs. Not measured in the paper.",
            "",
            "Sharpness",
        ),
        Figure(
            "stepsize_bounds",
            "Averages over all steps, and what the theory bounds them by",
            "Solid: average risk and average gradient potential of the first t steps. Dashed: the "
            "bounds.",
            "theorem 3.2, lemma C.3",
            "Bounds",
        ),
        Figure(
            "stepsize_activations",
            "Risk by activation and width",
            "XOR’s four corners, first seed: one small picture for each activation (20 neurons) "
            "and for each width (leaky softplus).",
            "",
            "Activations and widths",
        ),
        Figure(
            "stepsize_accuracy",
            "Test accuracy against stepsize",
            "Last step of every seed (split) of the digits’ parity, and of the perceptron of four "
            "layers where it was trained.",
            "figures 1(c) and 3",
            "Test accuracy",
        ),
    ),
    "pretraining": (
        Figure(
            "pretraining_mixing",
            "Mixing of linked features by kind of wrong captions",
            "Mixing score less that of towers of the same seed on clean captions. Each circle is a "
            "seed; the bar is the 95 % interval of the mean over seeds. Identified: components "
            "that varimax finds without the true features. Linear: directions fitted to each "
            "true feature. Neurons: columns of the projection. Prompts: embeddings of a "
            "feature's words, against pictures. Dashed: the smallest effect of interest.",
            "theorem 4.2",
        ),
        Figure(
            "pretraining_accuracy",
            "Accuracy and overlap by kind of wrong captions",
            "Left: zero-shot accuracy (acc1), mean over the evaluation sets. Right: mean |cos| of "
            "the columns of both projections. Each circle is a seed.",
            section="Accuracy and overlap",
        ),
    ),
}
"""The figures of each study."""


def figures(study: str | None = None) -> list[Figure]:
    """Return the figures of a study, or of all."""
    keys = FIGURES if study is None else [study]
    return [figure for key in keys for figure in FIGURES[key]]
