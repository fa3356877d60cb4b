"""Declarations of the captioners: a new one that reads pictures is one entry of `KINDS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Kind:
    """What is known of a captioner without loading it.

    Attributes
    ----------
    effect : str
        What writes the captions, for the reference of the settings.
    load : str
        ``module.function`` of this package, for a captioner of pictures: given the settings and
        ``cpu`` or ``cuda``, it returns a `mispair.repair.captioners.pictures.Captioner`. The two
        that read no pictures have a function of their own in `mispair.repair.captioners.runs`.
    model : str
        What the setting ``model`` names: nothing, ``a model``, or ``tables``.
    """

    effect: str
    load: str = ""
    model: Literal["", "a model", "tables"] = ""


TRAINED, GIVEN = "trained", "given"

KINDS: dict[str, Kind] = {
    TRAINED: Kind("a small decoder that learns from trusted pairs and reads cached features"),
    "transformers": Kind(
        "BLIP, BLIP-2, GIT, Florence-2", "hugging_face.load_hugging_face", "a model"
    ),
    GIVEN: Kind("a table of captions", model="tables"),
}

FUNCTION = Kind(
    "a function of yours, package.module:function, which takes a list of PIL images and a list of "
    "seeds and returns a list of lists of texts",
    "functions.load_named_function",
)

PATTERN = rf"^({'|'.join(KINDS)}|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$"
"""Of the setting ``captioner``."""


def kind_of(captioner: str) -> Kind:
    """Return the declaration of a captioner by the setting ``captioner``."""
    return KINDS.get(captioner, FUNCTION)
