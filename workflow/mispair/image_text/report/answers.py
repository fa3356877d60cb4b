"""Questions on shuffled captions, and the sentences that answer them."""

from __future__ import annotations

from mispair.core.words import interval, number
from mispair.evaluation.report.claims_construct import SMALLEST_GAIN
from mispair.evaluation.report.series import ends, purity_series, zeroshot_series
from mispair.evaluation.report.tables_semantics import mean_series
from mispair.image_text.report.claims_schemes import RANDOM, SIMILAR, equal_rate
from mispair.image_text.report.claims_schemes import accuracy as measured_accuracy
from mispair.image_text.report.contrasts import accuracy_contrasts
from mispair.image_text.report.controls_overlap import shares_left, temperature
from mispair.report.questions import (
    ACCURACY,
    Findings,
    Quantity,
    Question,
    Sentence,
    effect_sentence,
    named_limits,
)
from mispair.report.statistics import contrast
from mispair.report.tables import Tables
from mispair.report.verdicts import ABSENT, CONTRADICTS, SUPPORTS, UNDECIDED, decide_equal
from mispair.towers.arms import CONVERGED, PRETRAINED

OVERLAP = Quantity("the overlap of text neurons (mean |cos|)")
CHOICES = Quantity("the share of right choices between two captions", "points", 100)
WEIGHTED = Quantity(
    "weighting pairs by the audit", "points", 100,
    "raises accuracy", "lowers accuracy", "changes accuracy",
)  # fmt: skip
ONE = "One model and one corpus were tried."


def _when(findings: Findings) -> str:
    """Name the largest share of captions, and what was done to them."""
    tables = findings.tables.of_scheme()
    rate = max(
        float(series["rate"].max())
        for series in (
            purity_series(tables, PRETRAINED, "text", "mean_abs_cosine"),
            zeroshot_series(tables, PRETRAINED, "acc1"),
        )
        if len(series)
    )
    scheme = next(iter(findings.tables.schemes), "random")
    corrupted = "shuffled" if scheme == "random" else f"corrupted ({scheme})"
    return f"With {percent(rate)} of the captions {corrupted}"


def percent(share: float) -> str:
    """Print a share in per cent."""
    return f"{100 * share:.3g} %"


def points(value: float, sign: bool = False) -> str:
    """Print a difference in accuracy in percentage points."""
    return f"{number(100 * value, 1, sign)} points"


def _change_of(quantity: Quantity) -> Sentence:
    """Return the sentence on how a quantity changes at the largest share of captions."""
    return lambda findings: effect_sentence(findings, quantity, _when(findings))


def _overlap_limits(findings: Findings) -> str:
    """Return how much of the rise depends on the temperature, and what overlap does not show."""
    tables = findings.tables.of_scheme()
    return " ".join(filter(None, [_of_the_temperature(tables), _not_mixing(findings, tables)]))


def _of_the_temperature(tables: Tables) -> str:
    if temperature(tables).finding != "limits":
        return ""
    left = shares_left(tables, CONVERGED, "text")
    return f"The optimal logit scale leaves {percent(round(left[max(left)], 2))} of the rise."


def _not_mixing(findings: Findings, tables: Tables) -> str:
    series = mean_series(tables, "text", "mean_semantic_purity")
    low, high, first, last = ends(series)
    if low < high:
        moved = contrast(series, findings.confidence)
        sizes = f"mean correlation {number(last)} with these captions, {number(first)} without"
        if decide_equal(moved, SMALLEST_GAIN)[0] == SUPPORTS:
            return f"Overlap is not mixing: neurons follow one feature as closely ({sizes})."
        if moved.known and moved.high < 0:
            return f"Neurons also follow one feature less closely ({sizes})."
        return f"Overlap shows little of how closely neurons follow one feature ({sizes})."
    construct = findings.first("construct-validity")
    if construct is None:
        return "Overlap is an indirect measure: no features are known that could be mixed."
    if construct.outcome == SUPPORTS:
        return named_limits(findings) or ONE
    return "Overlap is an indirect measure: it does not show which neurons follow one feature."


def _accuracy_below(findings: Findings) -> str:
    """Return what accuracy does at the largest rate but one."""
    tables = findings.tables.of_scheme().of_protocol()
    effects = accuracy_contrasts(tables, PRETRAINED, findings.confidence)
    rates = [rate for rate in sorted(effects) if rate > 0]
    if len(rates) < 2:
        return named_limits(findings) or ONE
    below = effects[rates[-2]]
    limits = interval(100 * below.low, 100 * below.high, 1, sign=True) if below.known else "one run"
    return (
        f"It depends on the share: with {percent(rates[-2])} accuracy changes by "
        f"{points(below.value, sign=True)} ({limits})."
    )


def _near_misses(findings: Findings) -> str:
    verdict = findings.first("similar-harms-less")
    if verdict is None or verdict.effect is None:
        return ""
    tables = findings.tables.of_protocol()
    by_rate = equal_rate(
        measured_accuracy(tables, SIMILAR), measured_accuracy(tables, RANDOM), findings.confidence
    )
    at = next((rate for rate, each in by_rate.items() if each.value == verdict.effect.value), None)
    size = points(abs(verdict.effect.value))
    share = f"at {percent(at)} " if at is not None else ""
    if verdict.outcome == CONTRADICTS:
        return (
            f"Look for captions of similar pictures first: {share}they cost {size} more than "
            "random ones."
        )
    if verdict.outcome == SUPPORTS:
        return f"Random captions exaggerate: {share}those of similar pictures cost {size} less."
    return ""


def _construct(findings: Findings) -> str:
    effect = findings.verdict.effect
    assert effect is not None
    size = f"rank correlation {number(effect.value, 2, sign=True)}"
    if effect.known:
        limits = interval(effect.low, effect.high, 2, sign=True)
        size += f" ({100 * findings.confidence:g} % interval {limits})"
    start = {
        SUPPORTS: "Neurons of little overlap follow one feature more closely",
        CONTRADICTS: "Neurons of much overlap follow one feature more closely",
        ABSENT: "Overlap does not show how closely a neuron follows one feature",
        UNDECIDED: "Cannot tell whether neurons of little overlap follow one feature more closely",
    }
    return f"{start[findings.verdict.outcome]}: {size}."


def _of_one_model(findings: Findings) -> str:
    effect = findings.verdict.effect
    assert effect is not None
    if "Rotated bases" in findings.verdict.limited:
        return (
            "Randomly rotated neurons give the same relation, so it is not specific to the model’s "
            "own neurons."
        )
    return f"{effect.replicates[:1].upper()}{effect.replicates[1:]} of one model."


def _use_features(findings: Findings) -> str:
    if findings.verdict.outcome not in (ABSENT, CONTRADICTS):
        return ""
    return "Rank neurons by features that you know, not by mean |cos|."


def _pruning(findings: Findings) -> str:
    when = "If neurons of little overlap are kept in place of those of much"
    return effect_sentence(findings, ACCURACY, when)


def _what_to_keep(findings: Findings) -> str:
    verdict = findings.verdict
    if verdict.outcome in (ABSENT, CONTRADICTS):
        return "Do not choose the neurons to keep by mean |cos|."
    if verdict.outcome == SUPPORTS and not verdict.limited:
        return "To prune a model, keep the neurons of the lowest mean |cos|."
    return ""


def _at_chance(findings: Findings) -> str:
    if "Categories at chance" in findings.verdict.limited:
        return "Some categories are answered no better than by chance, and cannot fall."
    return _limits_or_one(findings)


def _use_weights(findings: Findings) -> str:
    supported = findings.verdict.outcome == SUPPORTS
    return "Set finetune_projection.weights to audit." if supported else ""


def _limits_or_one(findings: Findings) -> str:
    return named_limits(findings) or ONE


QUESTIONS = (
    Question(
        "Do mismatched captions make neurons mix features?",
        ("overlap-rises", "similar-less"),
        _change_of(OVERLAP), _overlap_limits, figure="small_overlap",
    ),
    Question(
        "Do mismatched captions lower accuracy?",
        (
            "accuracy-falls", "similar-harms-less", "accuracy-follows-overlap",
            "overlap-fixes-accuracy", "published-accuracy-falls", "silhouette-falls",
        ),
        _change_of(ACCURACY), _accuracy_below, _near_misses, figure="small_accuracy",
    ),
    Question(
        "Does overlap show which neurons follow one feature?",
        ("construct-validity",),
        _construct, _of_one_model, _use_features, figure="small_semantics",
    ),
    Question(
        "Do neurons of little overlap classify better?",
        ("pruning-accuracy", "pruning-silhouette"),
        _pruning, _limits_or_one, _what_to_keep, figure="small_pruning",
    ),
    Question(
        "Do models confuse what belongs to what when captions are wrong?",
        ("composition-falls", "composition-falls-more"),
        _change_of(CHOICES), _at_chance, figure="small_composition",
    ),
    Question(
        "What does weighing pairs recover?",
        ("weights-help", "composition-restored"),
        _change_of(WEIGHTED), _limits_or_one, _use_weights, figure="small_weights",
    ),
)  # fmt: skip
"""In the order of the page."""
