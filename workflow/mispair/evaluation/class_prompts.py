"""Prompts that a user's file gives for each class, flat or nested under the names of sets."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.core.words import composed
from mispair.evaluation.sets import PLACEHOLDER, canonical


def per_class(path: Path, classnames: Sequence[str], set_name: str) -> list[list[str]]:
    """Read prompts for each class from JSON, ``{class name: [prompt, ...]}``.

    CuPL's files of CLIP_benchmark have such tables of several sets, by the names of the sets.

    Parameters
    ----------
    path : Path
        The file.
    classnames : sequence of str
        Classes of the set; each needs prompts. Names that differ only by Unicode composition are
        the same.
    set_name : str
        Name of the set.

    Returns
    -------
    list of list of str
        Prompts of each class, with its name for ``{c}``.

    Raises
    ------
    UserError
        If it cannot be read, a class has no prompts, or a name is no class of the set.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error}).") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: must hold {{class name: [prompt, ...]}}.")
    given = _of_set(content, set_name, path)
    content = {composed(name): texts for name, texts in given.items()}
    if len(content) < len(given):
        twice = [name for name, times in Counter(map(composed, given)).items() if times > 1]
        raise UserError(f"{path}: {some(twice)} is given twice, in two forms of Unicode.")
    names = [*map(composed, classnames)]
    missing = [name for name in names if name not in content]
    unknown = [name for name in content if name not in names]
    if missing:
        raise UserError(
            f"{path}: has no prompts for {some(missing)}.{hint(missing[0], unknown or content)}"
        )
    if unknown:
        raise UserError(f"{path}: {some(unknown)} is no class of the set.{hint(unknown[0], names)}")
    for name in names:
        texts = content[name]
        usable = isinstance(texts, list) and all(isinstance(t, str) and t.strip() for t in texts)
        if not usable or not texts:
            raise UserError(f"{path}: {name!r} must have a list of at least one prompt.")
    return [
        [text.replace(PLACEHOLDER, name) for text in content[composed(name)]] for name in classnames
    ]


def _of_set(content: dict[str, Any], set_name: str, path: Path) -> dict[str, Any]:
    """Return the table of a set, from a file that may have those of several sets by name."""
    if not content or not all(isinstance(value, dict) for value in content.values()):
        return content
    names = [name for name in content if canonical(name) == canonical(set_name)]
    if len(names) > 1:
        raise UserError(f"{path}: has {some(names)} for the set {set_name}; remove all but one.")
    if len(content) > 1 and not names:
        raise UserError(
            f"{path}: has prompts for the sets {some([*content])}, and none for {set_name}. Name "
            f"the table of this set {set_name!r}."
        )
    # The file is named after the set: a single table in it is the set's.
    table: dict[str, Any] = content[names[0] if names else next(iter(content))]
    return table


def some(names: Sequence[str], most: int = 5) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def hint(word: str, options: Iterable[str]) -> str:
    """Return a sentence with the option nearest to a word; empty if none is near."""
    near = difflib.get_close_matches(word, [*options], n=1, cutoff=0.5)
    return f" The nearest name is {near[0]!r}." if near else ""
