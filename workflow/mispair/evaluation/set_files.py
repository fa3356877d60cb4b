"""Read files of encoded images, and of the prompts next to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mispair.core.files import UserError, read_tensors


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
