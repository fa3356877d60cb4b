"""Labels and digests of the images of a set, next to their features."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from mispair.core.provenance import fingerprint
from mispair.evaluation.sets import EvaluationSet
from mispair.towers.encoding import Picture


class ImageFacts:
    """Labels and digests of the images of a split, collected while they are encoded."""

    def __init__(self, opened: EvaluationSet) -> None:
        self.opened = opened
        self.labels: list[int] = []
        self._contents: list[bytes] = []

    def pictures(self) -> Iterator[Picture]:
        """Yield every image for the tower, and collect its facts."""
        for example in self.opened.samples():
            self.labels.append(example.label)
            self._contents.append(hashlib.sha256(example.image).digest())
            yield Picture(f"{example.shard}: {example.key}", example.image, example.decode)

    def targets(self) -> dict[str, np.ndarray]:
        """Return the targets that answers are compared with, each (n,) of int64.

        For classification these are ``labels``. For the choice of captions they are ``pictures``:
        images with the same number are the same picture, because several questions may be about
        one. Retrieval has none.
        """
        if self.opened.kind == "image_caption_selection":
            pictures = np.unique(self._contents, return_inverse=True)[1]
            return {"pictures": pictures.astype(np.int64)}
        if self.opened.kind != "classification":
            return {}
        return {"labels": np.asarray(self.labels, np.int64)}

    def fingerprint(self) -> str:
        """Return the fingerprint of the images and their labels."""
        return fingerprint([*self._contents, *map(str, self.labels)])
