"""Declarations of the schemes of corruption: one module each in the folder ``schemes``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

# Imported whole: whoever imports this module depends on the code of every scheme.
import mispair.pairs.corruption.schemes as package
from mispair.core.words import listing

if TYPE_CHECKING:
    from mispair.pairs.captions.caption_texts import CaptionedPairs
    from mispair.pairs.corruption.corrupted import Corrupted, Sources

    Apply = Callable[[CaptionedPairs, float, int, Sources], Corrupted]

MAIN = "random"
"""The scheme of the paper's tables."""


@dataclass(frozen=True)
class Scheme:
    """What is known of a scheme without applying it.

    A module ``schemes/NAME.py`` holds it as ``SCHEME``, next to ``apply(pairs, rate, seed,
    sources)``, which is called at rates above 0 and returns a `Corrupted`. The name of the scheme
    is that of the module, with dashes.

    Attributes
    ----------
    effect : str
        What it does to captions, as the end of a sentence that begins with its name.
    rate : str
        What its rate is, such as "the share of content words".
    reads : frozenset of {"similar", "truth"}
        Tables that it needs: the most similar captions, the known features of the pictures.
    writes : bool
        Whether it writes texts that no pair had before; they are encoded.
    audited : {"", "random", "similar"}
        The captions that its wrong ones are like, if the audit is tried on known shares of them:
        random ones of the corpus, or those most similar to a pair's own.
    """

    effect: str
    rate: str
    reads: frozenset[Literal["similar", "truth"]] = frozenset()
    writes: bool = False
    audited: Literal["", "random", "similar"] = ""


@cache
def schemes() -> dict[str, Scheme]:
    """Return all schemes by name, the main one first, then by name."""
    stems = [path.stem for path in Path(package.__path__[0]).glob("[a-z]*.py")]
    names = {stem.replace("_", "-") for stem in stems} - {MAIN}
    return {name: _module(name).SCHEME for name in (MAIN, *sorted(names))}


def audited() -> dict[str, Literal["random", "similar"]]:
    """Return the schemes on which the audit is tried, each with what its captions are like."""
    return {name: scheme.audited for name, scheme in schemes().items() if scheme.audited}


def can_exchange(rate: float, pairs: int) -> bool:
    """Return whether a share of the captions of some pairs can be exchanged: none, or two and more.

    Examples
    --------
    >>> [can_exchange(rate, 10) for rate in (0, 0.04, 0.1, 0.2)]
    [True, False, False, True]
    """
    return rate == 0 or round(rate * pairs) > 1


def application(name: str) -> Apply:
    """Return the function that applies a scheme."""
    apply: Apply = _module(name).apply
    return apply


def meaning_of_rates() -> str:
    """Return what the rate of each scheme is, as one clause for all schemes that share it."""
    names: dict[str, list[str]] = {}
    for name, scheme in schemes().items():
        names.setdefault(scheme.rate, []).append(name)
    return "; ".join(f"{rate} for {listing(group)}" for rate, group in names.items())


def _module(name: str) -> Any:
    return import_module(f"{package.__name__}.{name.replace('-', '_')}")
