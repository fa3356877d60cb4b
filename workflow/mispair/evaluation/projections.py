"""Read files of projections for the steps that measure neurons."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mispair.core.files import UserError, read_tensors


@dataclass(frozen=True)
class Stack:
    """The projections of one arm: one pair for each seed of its fine-tuning.

    Attributes
    ----------
    tensors : mapping of str to (s, ...) array
        The arrays of their file: ``image_projection`` (s, d_image, e), ``text_projection``
        (s, d_text, e) and ``logit_scale`` (s,) at least.
    seeds : sequence of int
        s seeds.
    origin : dict of str to str
        Metadata of the file.
    """

    tensors: Mapping[str, np.ndarray]
    seeds: Sequence[int]
    origin: dict[str, str]

    @property
    def neurons(self) -> int:
        """Number of neurons e."""
        return int(self.tensors["image_projection"].shape[2])

    @property
    def towers(self) -> str | None:
        """Fingerprint of the towers that the projections belong to."""
        return self.origin.get("towers")

    def of_seeds(self, most: int | None = None) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Return the first seeds, each with its image and its text projection."""
        stacks = (self.tensors[f"{tower}_projection"] for tower in ("image", "text"))
        return list(zip(self.seeds, *stacks, strict=True))[:most]


def read_projections(path: Path) -> Stack:
    """Read a file of projections."""
    tensors, origin = read_tensors(path)
    seeds = json.loads(origin.get("seeds", "null")) or range(len(tensors["image_projection"]))
    return Stack(tensors, seeds, origin)


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Turn a ValueError into a UserError that names the place, such as a file."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{place}: {error}.") from error
