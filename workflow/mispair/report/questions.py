"""Questions of a reader, answered by the verdict on one claim named in advance.

A study declares its questions; the sentences that answer them are macros of its template
(`mispair.report.texts`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mispair.report import texts
from mispair.report.judge import Verdict
from mispair.report.rules import OUTCOMES, UNDECIDED, UNMEASURED, Outcome
from mispair.report.tables import Tables
from mispair.report.texts import SHARED, Note

Numbers = Callable[[Tables, float], Mapping[str, Any]]
"""Returns further numbers for the sentences on a question, from tables and confidence."""


def _no_numbers(tables: Tables, confidence: float) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Question:
    """A question of the reader, answered by the verdicts on some claims.

    Attributes
    ----------
    key : str
        Its name; the macros ``answer_KEY``, ``finding_KEY``, ``limit_KEY`` and ``advice_KEY`` of
        the study's template are its sentences. Each is called with the `Answer`, if the lead claim
        was measured; one that is not defined takes the shared macro, or is empty.
    text : str
        The question.
    claims : tuple of str
        Keys of the claims on it, the lead claim first.
    figure : str
        Name of the small figure next to the answer, of those that its study declares as small.
    numbers : callable
        Further numbers for its sentences.
    folded : bool
        Whether the landing page shows the answer only on a click.
    """

    key: str
    text: str
    claims: tuple[str, ...]
    figure: str = ""
    numbers: Numbers = _no_numbers
    folded: bool = False


@dataclass(frozen=True)
class Answer:
    """A question with the measured verdicts on its claims, and numbers for its sentences.

    ``lead`` has the measured verdicts on the lead claim, one for each preset; ``of`` the first
    measured verdict by the key of every claim of the run; ``verdicts`` all verdicts on the claims
    of the question.
    """

    question: Question
    study: str
    lead: tuple[Verdict, ...]
    of: Mapping[str, Verdict]
    verdicts: tuple[Verdict, ...]
    numbers: Mapping[str, Any]
    confidence: float

    @property
    def measured(self) -> bool:
        """Whether the lead claim was measured."""
        return bool(self.lead)

    @property
    def sentence(self) -> str:
        """The sentence on the effect of the lead claim."""
        return self._text("answer")

    @property
    def finding(self) -> str:
        """The finding in a sentence that can be quoted without the question."""
        return self._text("finding")

    @property
    def limit(self) -> str:
        """The strongest finding against a wider reading of the answer."""
        return self._text("limit")

    @property
    def advice(self) -> str:
        """What follows for a user's data."""
        return self._text("advice")

    def _text(self, part: str) -> str:
        return texts.sentence(self.study, part, self.question.key, self) if self.measured else ""

    @property
    def tally(self) -> tuple[tuple[Outcome, int], ...]:
        """How many measured verdicts there are of each outcome."""
        counts = Counter(verdict.outcome for verdict in self.verdicts)
        return tuple((name, counts[name]) for name in OUTCOMES[:-1] if counts[name])


def answered(
    study: str, question: Question, judged: Sequence[Verdict], tables: Tables, confidence: float
) -> Answer:
    """Return the answer to a question of a study from the verdicts on all claims."""
    known = [verdict for verdict in judged if verdict.outcome != UNMEASURED]
    lead = tuple(verdict for verdict in known if verdict.claim.key == question.claims[0])
    return Answer(
        question,
        study,
        lead,
        {verdict.claim.key: verdict for verdict in reversed(known)},
        tuple(verdict for verdict in judged if verdict.claim.key in question.claims),
        question.numbers(tables, confidence) if lead else {},
        confidence,
    )


INTERVAL = re.compile(r"\([^()]* to [^()]*\)")


def brackets(answers: Sequence[Answer]) -> str:
    """Return the sentence on the levels of the intervals in brackets, or "" without any."""
    said = (text for a in answers for text in (a.sentence, a.finding, a.limit, a.advice))
    if not any(map(INTERVAL.search, said)):
        return ""
    levels = {v.claim.primary: v.effect.confidence for a in answers for v in a.lead}
    note = Note(SHARED, "brackets", primary=levels.get(True), others=levels.get(False))
    return texts.text(note)


QUOTED = 3
"""Most findings in the paragraph that a report opens with."""


def strongest(answers: Sequence[Answer], first: bool) -> list[Answer]:
    """Return the findings that a report opens with, in the order of its cards.

    They are the first ones that are decided, those close to another verdict last. With `first` the
    first answer is among them, whatever is decided: it is the one that the run was made for.
    """

    def weakness(number: int) -> tuple[bool, bool]:
        verdict = answers[number].lead[0]
        return not (first and number == 0), verdict.near

    decided = [
        number
        for number, answer in enumerate(answers)
        if (first and number == 0) or answer.lead[0].outcome != UNDECIDED
    ]
    return [answers[number] for number in sorted(sorted(decided, key=weakness)[:QUOTED])]


def strongest_limit(found: Iterable[Answer]) -> str:
    """Return the limit of the control that takes most of an effect, or else the first limit."""

    def taken(answer: Answer) -> float:
        verdict = answer.lead[0]
        return verdict.strongest.taken if verdict.strongest else -1.0 - (not verdict.limited)

    limited = [answer for answer in found if answer.limit]
    return max(limited, key=taken).limit if limited else ""


def keys(questions: Iterable[Question]) -> list[str]:
    """Return the keys of the claims of several questions."""
    return [key for question in questions for key in question.claims]
