"""The claims of the image-text study, and the questions that they answer."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from mispair.evaluation.arm_comparison import AGAINST_SCHEME, OF_ALL_SETS, SELECTION_OF_ALL_SETS
from mispair.evaluation.report.rows import published_directions
from mispair.evaluation.retrieval import SELECTION
from mispair.evaluation.semantics import ORIGINAL, ROTATED
from mispair.image_text.report import effects
from mispair.image_text.report.arms import AT_CHANCE, TOWERS, at_chance
from mispair.image_text.report.effects import SAME_CAPTIONS, Compared
from mispair.image_text.report.neurons import (
    BASELINES,
    RENORMALISED,
    SMALLEST,
    SMALLEST_GAIN,
    RankCorrelation,
    Spread,
)
from mispair.report import published
from mispair.report.claims import SAME, THIRD, Claim, Control, MeasuredClaim
from mispair.report.measures import Arms, Ends, Every, Responds, Rows, logged, rows
from mispair.report.questions import Question
from mispair.report.tables import Tables
from mispair.towers.arms import CONVERGED, LABELS, PRETRAINED, RANDOM_STARTS, WEIGHTED

STUDY = "image_text"
SIMILAR, RANDOM = "similar", "random"
DIRECTIONS, COSINE, CORRELATION = (
    "participation_ratio", "mean_abs_cosine", "mean_abs_correlation",
)  # fmt: skip


def _gate(tables: Tables) -> str:
    return AT_CHANCE if at_chance(tables.of_scheme().of_protocol()) else ""


def _published_change(curve: pd.Series) -> float:
    return abs(float(curve.iloc[-1] - curve.iloc[0]))


ACCURACY_BOUND = THIRD * _published_change(effects.published_accuracy())
"""A third of the published fall of accuracy over table 4, a share of the images."""


# Overlap ----------------------------------------------------------------------------------------


def _purity(metric: str, tower: str, start: str = PRETRAINED, scheme: str | None = None) -> Rows:
    return rows("purity", scheme=scheme, start=start, tower=tower, metric=metric)


def _log_change(metric: str, tower: str, start: str = PRETRAINED) -> Ends:
    """Return the change of the log of a measure of neurons; only directions are published."""
    curve = published_directions if metric == DIRECTIONS else None
    return Ends(_purity(metric, tower, start).select, curve, log=True)


def _both(start: str = PRETRAINED, metric: str = DIRECTIONS) -> Every:
    return Every({tower: _log_change(metric, tower, start) for tower in TOWERS})


def of_cosine(tables: Tables, confidence: float, tower: str) -> MeasuredClaim:
    """Return the change of mean |cos| of a tower, with the published one, to show it."""

    def published_cosines() -> pd.Series:
        table = published.purity()
        curve: pd.Series = table.set_index("shuffle_probability")["mean_abs_cosine"]
        return curve

    return Ends(_purity(COSINE, tower).select, published_cosines)(tables, confidence)


def _responds(tables: Tables, confidence: float) -> str:
    """Return the condition of small effects: scores, or neurons of a tower, change enough."""
    scores = (ACCURACY_FALLS, ACCURACY_BOUND), (CHOSEN, ACCURACY_BOUND)
    neurons = (_both(), math.nan), (FOLLOWED, SMALLEST_GAIN)
    return Responds((*scores, *neurons))(tables, confidence)


def _solved() -> Every:
    """Return the change with the logit scale at its optimum, where it converged."""
    ends = {tower: _log_change(DIRECTIONS, tower, CONVERGED) for tower in TOWERS}
    return Every({tower: effects.Converged(each, CONVERGED) for tower, each in ends.items()})


OVERLAP = Claim(
    "overlap-rises", STUDY,
    "Neurons overlap more the more captions are shuffled.",
    "figure 2(d), section 5.2", "purity_by_shuffling",
    _both(),
    sign=-1, unit="log", every="tower", primary=True, needs="studies: [image_text]",
    power=_responds,
    controls=(
        Control(LABELS[CONVERGED].capitalize(), _solved()),
        *(
            Control(LABELS[start].capitalize(), _both(start))
            for start in ("scale-10", "scale-70", *RANDOM_STARTS, "without-decay")
        ),
        *(
            Control(f"{LABELS[start].capitalize()}, correlation of activations",
                    _both(start, CORRELATION), of=_both(metric=CORRELATION))
            for start in RANDOM_STARTS
        ),
        Control("Mean |cos| in rotated bases", _both(metric=f"{COSINE}_rotated"), least=None,
                most=SAME, of=_both(metric=COSINE)),
        Control("Fine-tuning on unshuffled captions",
                Every({tower: effects.FineTuningAlone(_purity(DIRECTIONS, tower))
                       for tower in TOWERS}), least=None, most=0.1),
    ),
)  # fmt: skip


def _scheme_difference(tower: str) -> Arms:
    def published_difference() -> pd.Series:
        logs = {name: published_directions(name) for name in (SIMILAR, RANDOM)}
        return (logs[SIMILAR] / logs[RANDOM]).map(math.log)

    random, similar = (
        logged(_purity(DIRECTIONS, tower, scheme=name).select) for name in (RANDOM, SIMILAR)
    )
    return Arms(random, similar, published_difference)


SIMILAR_LESS = Claim(
    "similar-less", STUDY,
    "At the same C_m, captions of similar pairs make neurons overlap less than random ones do.",
    "public review", "purity_by_scheme",
    Every({tower: _scheme_difference(tower) for tower in TOWERS}),
    unit="log", every="tower", needs="corrupt_captions: {schemes: [random, similar]}",
    power=_responds,
)  # fmt: skip


# Scores -----------------------------------------------------------------------------------------


def _scores(metric: str, start: str = PRETRAINED, scheme: str | None = None) -> Rows:
    return rows("zeroshot", scheme=scheme, balanced="evaluation_set", start=start, metric=metric)


ACCURACY_FALLS = Compared(
    levels=_scores("acc1"), published=effects.published_accuracy, by_set=True, gate=_gate
)
SILHOUETTE_FALLS = effects.BySet(
    Ends(_scores("silhouette").select, effects.published_silhouette, gate=_gate),
    _scores("silhouette"),
)
CHOSEN = Compared(
    metric=SELECTION_OF_ALL_SETS, levels=_scores(SELECTION), gate=effects.no_category_can_fall
)


def _harms_less(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return the accuracy with captions of similar pairs less that with random ones."""
    random, similar = (_scores("acc1", scheme=name).select for name in (RANDOM, SIMILAR))
    means = Arms(random, similar)(tables, confidence)
    compared = Compared(reference=AGAINST_SCHEME.format(RANDOM), scheme=SIMILAR)(tables, confidence)
    if not math.isfinite(compared.effect.value):  # arms were not compared by image
        return means
    return replace(means, effect=compared.effect, rates=compared.rates)


OTHER_STARTS = (CONVERGED, "reinitialised-small", "without-decay")
"""Starts whose scores are compared with the pre-trained one's."""

ACCURACY = Claim(
    "accuracy-falls", STUDY, "Zero-shot accuracy falls the more captions are shuffled.",
    "table 4", "accuracy_by_shuffling", ACCURACY_FALLS,
    sign=-1, unit="points", primary=True, needs="studies: [image_text]", power=_responds,
    controls=tuple(
        Control(LABELS[start].capitalize(), replace(ACCURACY_FALLS, start=start))
        for start in OTHER_STARTS
    ),
)  # fmt: skip
SILHOUETTE = Claim(
    "silhouette-falls", STUDY,
    "The silhouette of the classes falls the more captions are shuffled.",
    "table 4", "silhouette_by_shuffling", SILHOUETTE_FALLS,
    sign=-1, needs="studies: [image_text]", power=_responds,
    controls=tuple(
        Control(LABELS[start].capitalize(),
                Ends(_scores("silhouette", start).select, effects.published_silhouette))
        for start in OTHER_STARTS
    ),
)  # fmt: skip
SIMILAR_HARMS_LESS = Claim(
    "similar-harms-less", STUDY,
    "Random captions exaggerate the harm: at the same C_m, captions of similar pairs lower "
    "accuracy less.",
    "public review", "purity_by_scheme",
    _harms_less,
    bound=ACCURACY_BOUND, unit="points", needs="corrupt_captions: {schemes: [random, similar]}",
    power=_responds,
)  # fmt: skip
FOLLOWS = Claim(
    "accuracy-follows-overlap", STUDY,
    "The rise of overlap carries the loss of accuracy: at the same C_m, arms whose neurons come to "
    "overlap more lose more accuracy.",
    "section 5.2", "purity_by_scheme", effects.mediated,
    sign=-1, bound=ACCURACY_BOUND, unit="points",
    needs="finetune_projection: {starts: [pretrained, scale-converged, reinitialised]}",
    power=_responds,
    controls=(Control("Overlap of image neurons", effects.mediated_by_image),),
)  # fmt: skip
COMPOSITION = Claim(
    "composition-falls", STUDY,
    "The true one of two captions is chosen less often the more captions are shuffled.",
    "not in the paper", "compositional_by_shuffling",
    CHOSEN,
    sign=-1, bound=ACCURACY_BOUND, unit="points",
    needs="evaluation_sets: [scenes-compositional]", power=_responds,
    controls=(
        Control("Categories above chance", effects.categories_above_chance, least=1.0,
                of=effects.one),
        Control("Words without the image", effects.AboveChance(blind=True), least=None,
                most=THIRD, of=effects.AboveChance()),
    ),
)  # fmt: skip
WEIGHTS = Claim(
    "weights-help", STUDY,
    "Weighing each pair by the probability that its caption is right gives back accuracy that "
    "wrong captions cost.",
    "not in the paper", "accuracy_by_shuffling",
    Compared(WEIGHTED, SAME_CAPTIONS, OF_ALL_SETS, gate=effects.no_cost),
    bound=ACCURACY_BOUND, unit="points", needs="finetune_projection: {weights: audit}",
)  # fmt: skip


# What neurons stand for ------------------------------------------------------------------------


def _followed(tower: str, basis: str) -> Ends:
    return Ends(
        rows(
            "semantics", start=PRETRAINED, tower=tower, metric="mean_semantic_purity", basis=basis
        ).select
    )


FOLLOWED = Every({tower: _followed(tower, ORIGINAL) for tower in TOWERS})
MIXING = Claim(
    "neurons-mix", STUDY,
    "Neurons follow one feature less closely the more captions are shuffled.",
    "sections 1 and 5.2", "semantics_by_shuffling",
    FOLLOWED,
    sign=-1, bound=SMALLEST_GAIN, every="tower", needs="corpus: scenes", power=_responds,
    controls=(
        Control("Randomly rotated bases", Every({tower: _followed(tower, ROTATED)
                                                 for tower in TOWERS}), least=None, most=SAME),
    ),
)  # fmt: skip
CONSTRUCT = Claim(
    "construct-validity", STUDY,
    "The less a neuron overlaps, the more closely it follows one feature.",
    "sections 1 and 4", "semantic_purity",
    Every({"untouched": RankCorrelation("untouched"), "largest C_m": RankCorrelation(PRETRAINED)}),
    sign=-1, bound=SMALLEST, every="model", primary=True, needs="corpus: scenes",
)  # fmt: skip

PRUNED = Spread("acc1")

PRUNING = Claim(
    "pruning-accuracy", STUDY,
    "Accuracy is best with the neurons of little overlap, and worst with those of much.",
    "figures 2(a-c) and 8", "pruning", PRUNED.but(by_set=True),
    unit="points", primary=True, needs="studies: [image_text]",
    controls=(
        Control("High purity against random neurons", PRUNED.but(second="random"), least=0.0),
        Control("Random neurons against low purity", PRUNED.but(first="random"), least=0.0),
        Control("Ranked by the image projection", PRUNED.but(ranked_by="image")),
        Control("Ranked by both projections", PRUNED.but(ranked_by="both")),
        Control("Rotated bases", PRUNED.but(basis="rotated"), least=None, most=THIRD),
        *(
            Control(f"Ranked by {words}",
                    PRUNED.but(first=f"high-{name}", second=f"low-{name}", absolute=True),
                    least=None, most=1.0)
            for name, words in BASELINES.items()
        ),
        Control("Renormalised embeddings", PRUNED.but(normalised=RENORMALISED)),
    ),
)  # fmt: skip
CLAIMS = (
    OVERLAP, SIMILAR_LESS, MIXING, ACCURACY, SIMILAR_HARMS_LESS, FOLLOWS, SILHOUETTE,
    CONSTRUCT, PRUNING, COMPOSITION, WEIGHTS,
)  # fmt: skip


# Questions --------------------------------------------------------------------------------------


def _of_scheme(tables: Tables, confidence: float) -> Mapping[str, Any]:
    return {"scheme": next(iter(tables.schemes), RANDOM)}


QUESTIONS = (
    Question(
        "overlap", "Do neurons overlap more when captions are wrong?",
        ("overlap-rises", "similar-less"), "small_overlap", _of_scheme,
    ),
    Question(
        "mixing", "Do wrong captions make neurons mix features?", ("neurons-mix",), "small_mixing"
    ),
    Question(
        "accuracy", "Do wrong captions lower accuracy?",
        ("accuracy-falls", "similar-harms-less", "accuracy-follows-overlap",
         "silhouette-falls"),
        "small_accuracy", _of_scheme,
    ),
    Question(
        "construct", "Does overlap show which neurons follow one feature?",
        ("construct-validity",), "small_semantics",
    ),
    Question(
        "pruning", "Do neurons of little overlap classify better?",
        ("pruning-accuracy",), "small_pruning",
    ),
    Question(
        "composition", "Do models confuse what belongs to what when captions are wrong?",
        ("composition-falls",), "", _of_scheme, folded=True,
    ),
    Question("weights", "What does weighing pairs recover?", ("weights-help",)),
)  # fmt: skip
"""In the order of the page."""
