"""A captioner of the user's own: a function ``package.module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mispair.core.files import UserError
from mispair.repair.captioners.faults import Draft

if TYPE_CHECKING:
    from PIL import Image


class CaptionerError(Exception):
    """A captioner returned something else than captions."""


@dataclass(frozen=True)
class FunctionCaptioner:
    """A function from pictures and seeds to captions.

    Attributes
    ----------
    function : callable
        ``caption(images: list[PIL.Image], seeds: list[int]) -> list[list[str]]``: for each RGB
        picture the captions that may be used, the best first.
    """

    function: Callable[[list[Any], list[int]], Any]

    def caption(self, images: Sequence[Image.Image], seeds: Sequence[int]) -> list[list[Draft]]:
        """Return the drafts of each picture.

        Raises
        ------
        CaptionerError
            If the function returns something else.
        """
        captions = self.function(list(images), list(seeds))
        if not isinstance(captions, Sequence) or isinstance(captions, str | bytes):
            raise CaptionerError(f"returned {type(captions).__name__}, not a list")
        if len(captions) != len(images):
            raise CaptionerError(f"returned {len(captions)} lists for {len(images)} pictures")
        return [_drafts(texts) for texts in captions]


def _drafts(texts: Any) -> list[Draft]:
    """Check the captions of one picture; a single text is taken as a list of one."""
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, Sequence) or isinstance(texts, bytes):
        raise CaptionerError(f"returned {type(texts).__name__} for a picture, not a list of texts")
    for text in texts:
        if not isinstance(text, str):
            raise CaptionerError(f"returned {type(text).__name__} as a caption, not text")
    return [Draft(text) for text in texts]


def load_function(name: str) -> FunctionCaptioner:
    """Load a function by ``package.module:function``; it runs with the rights of the user.

    Raises
    ------
    UserError
        If there is no such module or function.
    """
    module, _, function = name.partition(":")
    try:
        loaded = getattr(importlib.import_module(module), function)
    except Exception as error:  # of any kind: the module is the user's
        raise UserError(
            f"recaption_pairs: captioner: {name} cannot be loaded ({type(error).__name__}: "
            f"{error}). The module must be on PYTHONPATH, or in the folder that runs Snakemake."
        ) from error
    if not callable(loaded):
        raise UserError(f"recaption_pairs: captioner: {name} is no function.")
    return FunctionCaptioner(loaded)
