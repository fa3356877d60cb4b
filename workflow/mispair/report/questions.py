"""Questions of a reader, and the sentences that answer them from verdicts.

The first claim of a question is its lead claim: the answer is a sentence on its effect, with its
interval and its verdict. A study writes the sentences of its own questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mispair.core.words import listing, to_size
from mispair.report.statistics import Effect
from mispair.report.tables import Tables
from mispair.report.verdicts import ABSENT, OUTCOMES, UNDECIDED, UNMEASURED, Outcome, Verdict

RULE = (
    "The answer to a question is the verdict on one claim, named in advance, with its effect and "
    "interval. Its limit is the strongest finding against a wider reading of it. The other claims "
    "on the question are counted by verdict, and do not change the answer."
)
"""How a question is answered, as the report prints it."""


@dataclass(frozen=True)
class Findings:
    """Input of the sentences on a question.

    Attributes
    ----------
    tables : Tables
        All measurements.
    verdicts : mapping of str to tuple of Verdict
        Measured verdicts by claim: one, or one for each preset.
    confidence : float
        Of all intervals, between 0 and 1.
    lead : str
        Key of the lead claim.
    """

    tables: Tables
    verdicts: Mapping[str, tuple[Verdict, ...]]
    confidence: float
    lead: str

    def of(self, claim: str) -> tuple[Verdict, ...]:
        """Return the measured verdicts on a claim."""
        return self.verdicts.get(claim, ())

    def first(self, claim: str) -> Verdict | None:
        """Return the first measured verdict on a claim, or None."""
        return next(iter(self.of(claim)), None)

    @property
    def verdict(self) -> Verdict:
        """The first verdict on the lead claim."""
        return self.of(self.lead)[0]


Sentence = Callable[[Findings], str]
"""Returns a sentence from the findings on a question, or ""."""


def lead_sentence(findings: Findings) -> str:
    """Return the lead claim in its own words, with what was measured on it."""
    parts = []
    for verdict in findings.of(findings.lead):
        by = f"{verdict.preset}: " if verdict.preset else ""
        parts.append(f"{by}{verdict.measured or verdict.reason}")
    (claim, *_) = (verdict.claim for verdict in findings.of(findings.lead))
    return f"{claim.text} Measured: {'; '.join(parts)}."


def named_limits(findings: Findings) -> str:
    """Return the names of the controls that limit the lead claim."""
    names = dict.fromkeys(
        name for verdict in findings.of(findings.lead) for name in verdict.limited
    )
    return f"These controls limit it: {listing([*names]).lower()}." if names else ""


def _nothing(findings: Findings) -> str:
    return ""


@dataclass(frozen=True)
class Question:
    """A question of the reader, answered by the verdicts on some claims.

    Attributes
    ----------
    text : str
        The question.
    claims : tuple of str
        Keys of the claims on it, the lead claim first.
    answer, limit, advice : callables
        One sentence each: the effect of the lead claim; what limits it; what follows for a user's
        data. They are called where the lead claim was measured.
    figure : str
        Name of the small figure next to the answer (`mispair.report.study.Figure.small`).
    """

    text: str
    claims: tuple[str, ...]
    answer: Sentence = lead_sentence
    limit: Sentence = named_limits
    advice: Sentence = _nothing
    figure: str = ""


@dataclass(frozen=True)
class Answer:
    """A question with its verdicts and sentences; without a measured lead claim these are "".

    ``lead`` holds the measured verdicts on the lead claim, ``verdicts`` those on all claims.
    """

    question: Question
    lead: tuple[Verdict, ...]
    verdicts: tuple[Verdict, ...]
    sentence: str
    limit: str
    advice: str

    @property
    def measured(self) -> bool:
        """Whether the lead claim was measured."""
        return bool(self.lead)

    @property
    def tally(self) -> tuple[tuple[Outcome, int], ...]:
        """How many verdicts there are of each outcome."""
        counts = ((name, sum(v.outcome == name for v in self.verdicts)) for name in OUTCOMES)
        return tuple((name, amount) for name, amount in counts if amount)

    @property
    def why_unmeasured(self) -> str:
        """Why there is no verdict on the lead claim."""
        key = self.question.claims[0]
        return next((v.reason for v in self.verdicts if v.claim.key == key), "")


def answered(
    question: Question, judged: Sequence[Verdict], tables: Tables, confidence: float
) -> Answer:
    """Return the answer to a question from the verdicts on all claims."""
    measured: dict[str, tuple[Verdict, ...]] = {}
    for verdict in judged:
        if verdict.outcome != UNMEASURED:
            measured[verdict.claim.key] = (*measured.get(verdict.claim.key, ()), verdict)
    findings = Findings(tables, measured, confidence, question.claims[0])
    lead = findings.of(findings.lead)
    sentences = (question.answer, question.limit, question.advice)
    texts = [sentence(findings) if lead else "" for sentence in sentences]
    members = tuple(verdict for verdict in judged if verdict.claim.key in question.claims)
    return Answer(question, lead, members, *texts)


def keys(questions: Iterable[Question]) -> list[str]:
    """Return the keys of the claims of several questions."""
    return [key for question in questions for key in question.claims]


# Effects in words ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quantity:
    """How an effect is printed: a noun with its verbs, a unit, and the factor to this unit."""

    noun: str
    unit: str = ""
    factor: float = 1.0
    rises: str = "rises"
    falls: str = "falls"
    changes: str = "changes"


ACCURACY = Quantity("accuracy", "points", 100)
"""Accuracy in percentage points."""


def said(quantity: Quantity, verdict: Verdict, confidence: float, *, brief: bool = False) -> str:
    """Return verb, size and interval of a verdict's effect; `brief` leaves out "95 % interval".

    Examples
    --------
    >>> from mispair.report.statistics import effect_of_mean
    >>> from mispair.report.verdicts import SUPPORTS, Claim, Verdict
    >>> effect = effect_of_mean([-0.02, -0.03, -0.025], 0.95, "seed")
    >>> verdict = Verdict(Claim("", "", "", "", "", ""), SUPPORTS, "", effect=effect, smallest=0.01)
    >>> said(ACCURACY, verdict, 0.95)
    'falls by 2.5 points (95 % interval 1.3 to 3.7)'
    """
    effect = verdict.effect
    assert effect is not None
    certain = verdict.outcome not in (UNDECIDED, ABSENT)
    negative = effect.value < 0
    sign = -1 if certain and negative else 1
    number = _printed(quantity, verdict, signed=not certain)
    verb = (quantity.falls if negative else quantity.rises) if certain else quantity.changes
    size = number(sign * effect.value)
    if verdict.outcome == ABSENT:
        return (
            f"{verb} by less than {number(verdict.smallest).lstrip('+')}{_unit(quantity)}: {size}"
            + (_interval(effect, sign, number, confidence, brief))
        )
    return f"{verb} by {size}{_unit(quantity)}" + _interval(effect, sign, number, confidence, brief)


def _unit(quantity: Quantity) -> str:
    return f" {quantity.unit}" if quantity.unit else ""


def _printed(quantity: Quantity, verdict: Verdict, *, signed: bool) -> Callable[[float], str]:
    size = verdict.smallest * quantity.factor
    return lambda value: to_size(value * quantity.factor, size, sign=signed)


def _interval(
    effect: Effect, sign: int, number: Callable[[float], str], confidence: float, brief: bool
) -> str:
    if not effect.known:
        return f" (no interval: {effect.replicates})"
    low, high = sorted((sign * effect.low, sign * effect.high))
    name = "" if brief else f"{100 * confidence:g} % interval "
    return f" ({name}{number(low)} to {number(high)})"


def effect_sentence(findings: Findings, quantity: Quantity, when: str = "") -> str:
    """Return a sentence on the lead claim's effect, by preset; "cannot tell" comes first.

    `when` names the condition, such as "With 80 % of the captions shuffled".
    """
    verdicts = findings.of(findings.lead)
    if any(verdict.effect is None for verdict in verdicts):
        return lead_sentence(findings)
    clauses = [
        said(quantity, verdict, findings.confidence, brief=position > 0)
        + (f" ({verdict.preset})" if verdict.preset else "")
        for position, verdict in enumerate(verdicts)
    ]
    start = f"{when}, {quantity.noun}" if when else quantity.noun
    text = f"{start} {'; '.join(clauses)}"
    unknown = {verdict.outcome for verdict in verdicts} == {UNDECIDED}
    text = (
        f"Cannot tell: {text[0].lower()}{text[1:]}" if unknown else f"{text[0].upper()}{text[1:]}"
    )
    reasons = dict.fromkeys(_other_reason(verdict, findings.confidence) for verdict in verdicts)
    return "; ".join([text, *filter(None, reasons)]) + "."


def _other_reason(verdict: Verdict, confidence: float) -> str:
    """Return the reason of a verdict "cannot tell", unless the effect and its interval show it."""
    effect = verdict.effect
    if verdict.outcome != UNDECIDED or effect is None or not effect.known:
        return ""
    uncertain = effect.p > 1 - confidence or verdict.adjusted_p > 1 - confidence
    return "" if uncertain or abs(effect.value) < verdict.smallest else verdict.reason
