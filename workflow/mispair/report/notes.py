"""Sentences of the report as data: what is stated, with its numbers and names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHARED = "report"
"""The package of notes that belong to no study."""


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
