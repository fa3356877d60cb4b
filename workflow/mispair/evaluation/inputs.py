"""What evaluations read: the projections of an arm, and encoded sets with their prompts."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mispair.core.files import UserError, read_tensors
from mispair.core.provenance import file_digest, fingerprint


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


class Encoded(NamedTuple):
    """A file of features, of images or of the prompts of a protocol."""

    path: Path
    tensors: Mapping[str, np.ndarray]
    metadata: dict[str, str]


class EncodedSet(NamedTuple):
    """The images of an evaluation set, and its prompts by each protocol."""

    images: Encoded
    prompts: list[Encoded]

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.images.metadata["name"]

    def digest(self) -> str:
        """Return a text that changes with the images, the prompts, and their features."""
        return fingerprint(file_digest(one.path) for one in (self.images, *self.prompts))

    @property
    def labels(self) -> np.ndarray | None:
        """Class of each image; None for a set of captioned images."""
        return self.images.tensors.get("labels")


def read_sets(
    images: Sequence[Path], prompts: Sequence[Path], towers: str | None
) -> Iterator[EncodedSet]:
    """Yield the sets in turn; a file of prompts belongs to the images in its folder.

    Parameters
    ----------
    images, prompts : sequence of Path
        Files of features.
    towers : str or None
        Fingerprint of the towers that they must come from.

    Raises
    ------
    UserError
        If prompts have no images or images no prompts, a set is given twice, or a file comes from
        other towers.
    """
    folders = {path.parent for path in images}
    if alone := [path for path in prompts if path.parent not in folders]:
        raise UserError(f"{alone[0]}: has no images next to it, {alone[0].parent}.")
    names = set()
    for path in images:
        encoded = _read(path)
        next_to_it = [each for each in dict.fromkeys(prompts) if each.parent == path.parent]
        of_set = [_read(source) for source in next_to_it]
        name = encoded.metadata["name"]
        if not of_set or name in names:
            raise UserError(f"{path}: has no prompts next to it, or {name} is given twice.")
        names.add(name)
        for each in (encoded, *of_set):
            if each.metadata.get("towers") != towers:
                raise UserError(
                    f"{each.path}: comes from other towers than the projection. Encode it again."
                )
        yield EncodedSet(encoded, of_set)


def origins(sets: Iterable[EncodedSet]) -> dict[str, dict[str, Any]]:
    """Return the provenance of sets: the metadata of their images, and of their prompts."""
    of_images, of_prompts = {}, {}
    for one in sets:
        of_images[one.name] = one.images.metadata
        of_prompts[one.name] = {each.metadata["protocol"]: each.metadata for each in one.prompts}
    return {"evaluation_sets": of_images, "protocols": of_prompts}


def _read(path: Path) -> Encoded:
    return Encoded(path, *read_tensors(path))
