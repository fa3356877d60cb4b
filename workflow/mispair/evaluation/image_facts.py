"""Labels, groups and digests of the images of a set, next to their features."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from mispair.core.provenance import fingerprint
from mispair.evaluation.groups import Group, numbered
from mispair.evaluation.sets import EvaluationSet
from mispair.towers.encoding import Picture


class ImageFacts:
    """Labels, groups and digests of the images of a split, collected while they are encoded."""

    def __init__(self, opened: EvaluationSet) -> None:
        self.opened = opened
        self.labels: list[int] = []
        self._groups: list[Group] = []
        self._contents: list[bytes] = []

    def pictures(self) -> Iterator[Picture]:
        """Yield every image for the tower, and collect its facts."""
        for example in self.opened.samples():
            self.labels.append(example.label)
            self._groups.append(example.group)
            self._contents.append(hashlib.sha256(example.image).digest())
            yield Picture(f"{example.shard}: {example.key}", example.image, example.decode)

    def targets(self) -> tuple[dict[str, np.ndarray], list[str]]:
        """Return the targets that answers are compared with, and the names of all groups.

        Returns
        -------
        targets : dict of str to (n,) int64 array
            For classification ``labels``, and ``groups`` if the images have any. For the choice
            of captions ``pictures``: images with the same number are the same picture, because
            several questions may be about one. Empty for retrieval.
        names : list of str
            Names of the groups by number; empty without groups.
        """
        if self.opened.kind == "image_caption_selection":
            pictures = np.unique(self._contents, return_inverse=True)[1]
            return {"pictures": pictures.astype(np.int64)}, []
        if self.opened.kind != "classification":
            return {}, []
        labels = {"labels": np.asarray(self.labels, np.int64)}
        of_images = numbered(self._groups, self.opened.grouped_task)
        if of_images is None:
            return labels, []
        groups, names = of_images
        return {**labels, "groups": groups}, names

    def fingerprint(self) -> str:
        """Return the fingerprint of the images, their labels and their groups."""
        groups = [str(group) for group in self._groups if group]
        return fingerprint([*self._contents, *map(str, self.labels), *groups])
