"""Scores and answers of one pair of projections on all sets, for the files of results."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mispair.core.intervals import Row
from mispair.evaluation.encoded_sets.set_files import EncodedSet

log = logging.getLogger(__name__)


class Results:
    """Scores and answers of one pair of projections, collected set by set.

    Attributes
    ----------
    rows : list of dict
        Scores with ``evaluation_set``, ``protocol``, ``seed`` and the fingerprint of the prompts.
    answers : dict of str to array
        ``SET|labels`` or ``SET|pictures``, and ``SET|PROTOCOL|SEED``.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.answers: dict[str, np.ndarray] = {}
        self._chances: dict[str, float] = {}
        self._sets: dict[str, dict[str, str]] = {}
        self._protocols: dict[str, dict[str, dict[str, str]]] = {}

    def add_set(self, encoded: EncodedSet) -> None:
        """Add the metadata and targets of a set, and the metadata of its prompts."""
        name = encoded.name
        self._sets[name] = encoded.images.metadata
        of_protocols = (prompts.metadata for prompts in encoded.prompts)
        self._protocols[name] = {protocol["protocol"]: protocol for protocol in of_protocols}
        for about_images in ("labels", "pictures"):
            if about_images in encoded.images.tensors:
                self.answers[f"{name}|{about_images}"] = encoded.images.tensors[about_images]

    def add(
        self,
        name: str,
        protocol: Mapping[str, str],
        seed: int,
        answers: np.ndarray | None,
        scores: list[Row],
    ) -> None:
        """Add and log the scores of a seed on a set by a protocol, the main one first."""
        of_set = f"{name}|{protocol['protocol']}"
        if answers is not None:
            self.answers[f"{of_set}|{seed}"] = answers
            self._chances[of_set] = scores[0]["chance"]
        keys = {"evaluation_set": name, "protocol": protocol["protocol"], "seed": seed}
        keys["fingerprint"] = protocol["fingerprint"]
        self.rows += [{**keys, **row} for row in scores]
        _log(f"{of_set}|{seed}", scores)

    def provenance(self) -> dict[str, Any]:
        """Return the sets and prompts of the scores, and the headline metric of each protocol."""
        headline = {
            name: {protocol: metadata["metric"] for protocol, metadata in of_set.items()}
            for name, of_set in self._protocols.items()
        }
        return {"evaluation_sets": self._sets, "protocols": self._protocols, "headline": headline}

    def metadata(self, origin: Mapping[str, str]) -> dict[str, str]:
        """Return the metadata of the answers of projections of that origin."""
        of_images = {name: facts["images_fingerprint"] for name, facts in self._sets.items()}
        of_prompts = {
            f"{name}|{protocol}": metadata["fingerprint"]
            for name, of_set in self._protocols.items()
            for protocol, metadata in of_set.items()
        }
        sources = {"sets": of_images, "protocols": of_prompts, "chances": self._chances}
        return {key: json.dumps(one) for key, one in {"projection": origin, **sources}.items()}


def _log(key: str, rows: list[Row]) -> None:
    for row in rows:
        if math.isnan(row["value"]):
            log.warning("%s: no silhouette (images of one class, or one image a class)", key)
        elif "classname" not in row:
            log.info("%s: %s %.4f (n = %d)", key, row["metric"], row["value"], row["n"])
