"""Sentences on verdicts, and notes: macros of templates, which format numbers with filters.

A note is a sentence as data: what is stated, with its numbers and names.

``report/templates/verdicts.j2`` has the sentences on verdicts that all studies share, and
``report/templates/notes.j2`` notes; those of a package are in ``PACKAGE/report/texts.md.j2``. A
sentence is plain text: pages escape it.
"""

import functools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jinja2

from mispair.core import words
from mispair.report.judge import PRIMARY, Verdict

SHARED = "report"
"""The package of notes that belong to no study."""

VERDICTS = "report/templates/verdicts.j2"
NOTES = "report/templates/notes.j2"


@dataclass(frozen=True, init=False)
class Note:
    """A sentence, or a part of a list, whose words are a macro of a template.

    Attributes
    ----------
    package : str
        The template is that of this package: ``PACKAGE/report/texts.md.j2``, or
        ``report/templates/notes.j2`` for `SHARED`.
    key : str
        Name of the macro.
    values : mapping of str to object
        Its arguments: numbers and names, or sequences and mappings of them.

    Examples
    --------
    >>> Note("pairs", "warning_lost", missing=3, written=100).values["missing"]
    3
    """

    package: str
    key: str
    values: Mapping[str, Any]

    def __init__(self, package: str, key: str, /, **values: Any) -> None:
        object.__setattr__(self, "package", package)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "values", values)


def in_unit(value: float, verdict: Verdict, sign: bool = True, named: bool = True) -> str:
    """Format a number of a claim in its unit, with the digits that its bound needs.

    The name of the unit is left out unless `named`, as for the first number of an interval.

    Examples
    --------
    >>> from mispair.report.claims import Claim, MeasuredClaim
    >>> claim = Claim("", "", "", "", "", lambda *_: MeasuredClaim(), unit="points")
    >>> in_unit(-0.0316, Verdict(claim, "supports", "size shown", MeasuredClaim(), 0.02))
    '−3.2 points'
    """
    if not math.isfinite(value):
        return words.MISSING
    unit, size = verdict.claim.unit, abs(verdict.bound)
    if not math.isfinite(size) or size == 0:
        size = abs(verdict.effect.value) / 10
    if unit == "points":
        return f"{words.to_size(100 * value, 100 * size, sign=sign)}{' points' if named else ''}"
    if unit == "log":
        change = words.number(100 * math.expm1(value), 0, sign)
        return f"{change}{' %' if named else ''}"
    return f"{words.to_size(value, size, sign=sign)} {unit if named else ''}".rstrip()


def bound(verdict: Verdict, size: float | None = None) -> str:
    """Format the bound of a verdict, or of a part of it (`size`), in its unit; a dash without one.

    A relative change has the sign of the effect that reaches it: a fall by a third is no rise by
    a half. An effect of either sign has a factor.

    Examples
    --------
    >>> from mispair.report.claims import Claim, MeasuredClaim
    >>> claim = Claim("", "", "", "", "", lambda *_: MeasuredClaim(), sign=-1, unit="log")
    >>> bound(Verdict(claim, "supports", "size shown", MeasuredClaim(), 0.455))
    '−37 %'
    >>> bound(Verdict(claim, "no such effect", "equivalent", MeasuredClaim(), 0.455))
    'a factor of 1.58'
    """
    size = verdict.bound if size is None else size
    if not math.isfinite(size):
        return "–"
    if verdict.claim.unit != "log":
        return in_unit(size, verdict, sign=False)
    if verdict.claim.rule == "equivalence" or verdict.reason == "equivalent":
        return f"a factor of {words.number(math.exp(size), 2)}"
    opposite = verdict.reason.startswith("opposite")
    return in_unit((-1 if opposite else 1) * verdict.claim.sign * size, verdict)


def separator(loop: Any) -> str:
    """Return what follows an item of a loop in a sentence: a comma, an "and", or nothing."""
    return "" if loop.last else " and " if loop.revindex == 2 else ", "


@functools.cache
def environment() -> jinja2.Environment:
    """Return the environment of the sentences: plain text, and no undefined name."""
    created = jinja2.Environment(
        loader=jinja2.PackageLoader("mispair", ""),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    created.filters |= {
        "number": words.number,
        "significant": words.significant,
        "to_size": words.to_size,
        "p_value": words.p_value,
        "percent": words.percent,
        "general": "{:g}".format,
        "whole": "{:,.0f}".format,
        "bound": bound,
        "in_unit": in_unit,
        "listing": words.listing,
    }
    created.globals |= {
        "count": words.count, "isfinite": math.isfinite, "primary": PRIMARY, "separator": separator,
    }  # fmt: skip
    return created


@functools.cache
def _module(path: str) -> Any:
    try:
        return environment().get_template(path).module
    except jinja2.TemplateNotFound:
        return None


def _macro(path: str, name: str, /, *arguments: Any, **named: Any) -> str | None:
    macro = getattr(_module(path), name.replace("-", "_"), None)
    if macro is None:
        return None
    # Lines of a template end in blanks, also before punctuation.
    return _BEFORE_PUNCTUATION.sub("", " ".join(str(macro(*arguments, **named)).split()))


_BEFORE_PUNCTUATION = re.compile(r" (?=[.,;:)])")
_AT_RISK = re.compile(r" (?=[ .,;:)])|(?<= ) ")
_KEPT = "\ue000"
"""Stands for a blank of a name until the blanks of the template are gone."""


def _kept(value: Any) -> Any:
    """Protect blanks before punctuation, and several in a row, in names."""
    if isinstance(value, str):
        return _AT_RISK.sub(_KEPT, value)
    if isinstance(value, Mapping):
        return {_kept(key): _kept(item) for key, item in value.items()}
    return [_kept(item) for item in value] if isinstance(value, (list, tuple)) else value


def path_of(package: str) -> str:
    """Return the template with the notes of a package."""
    return NOTES if package == SHARED else f"{package}/report/texts.md.j2"


def text(note: Note) -> str:
    """Return the words of a note.

    Raises
    ------
    LookupError
        If its template has no such macro.

    Examples
    --------
    >>> text(Note("report", "some_values", name="a  .b", shown=2, of=3))
    'Of 3 values of a  .b 2 are drawn.'
    """
    path = path_of(note.package)
    words_of_note = _macro(path, note.key, **_kept(note.values))
    if words_of_note is None:
        raise LookupError(f"{path} has no macro {note.key}")
    return words_of_note.replace(_KEPT, " ")


def joined(several: Iterable[Note]) -> str:
    """Return the words of notes, one after the other."""
    return " ".join(filter(None, map(text, several)))


def shared(name: str, *arguments: Any) -> str:
    """Return the sentence of a shared macro."""
    text = _macro(VERDICTS, name, *arguments)
    assert text is not None, f"{VERDICTS} has no macro {name}"
    return text


def sentence(study: str, part: str, key: str, *arguments: Any) -> str:
    """Return the sentence of the macro ``PART_KEY`` of a study, or of the shared ``PART``."""
    text = _macro(f"{study}/report/texts.md.j2", f"{part}_{key}", *arguments)
    return shared(part, *arguments) if text is None else text


def remark(verdict: Verdict) -> str:
    """Return what a study adds to a verdict (its macro ``remark_CLAIM``), or ""."""
    path = f"{verdict.claim.study}/report/texts.md.j2"
    return _macro(path, f"remark_{verdict.claim.key}", verdict) or ""
