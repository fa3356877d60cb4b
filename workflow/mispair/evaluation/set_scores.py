"""The scores of sets from the embeddings of their images and texts, and the results of all sets.

How a set is scored depends on its kind.
"""

import json
import logging
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mispair.core.distributions import Row
from mispair.evaluation.classification import accuracies, classifier_of, classify
from mispair.evaluation.inputs import EncodedSet, origins
from mispair.evaluation.retrieval import Questions, recalls, selections

log = logging.getLogger(__name__)

Scored = tuple[np.ndarray | None, list[Row]]
"""Answers, if they can be compared image by image, and scores, the main one first."""


class Asked(NamedTuple):
    """The embeddings of a set and of its texts, with the metadata of both."""

    images: np.ndarray
    of_images: Mapping[str, np.ndarray]
    """Labels or pictures."""
    texts: np.ndarray
    of_texts: Mapping[str, np.ndarray]
    """Class of each prompt, or image of each caption."""
    protocol: Mapping[str, str]
    """Metadata of the texts."""


def classification(asked: Asked) -> Scored:
    """Return the answers and the scores.

    Raises
    ------
    ValueError
        If a class has no prompt.
    """
    classnames, labels = json.loads(asked.protocol["classnames"]), asked.of_images["labels"]
    classes = classifier_of(asked.texts, asked.of_texts["prompt_classes"])
    if len(classnames) != len(classes):
        raise ValueError(f"only {len(classes)} of {len(classnames)} classes have prompts")
    answers, ranks = classify(asked.images, classes, labels)
    rows = accuracies(ranks, labels, len(classes))
    for row in rows:
        if "class" in row:
            row["classname"] = classnames[row.pop("class")]
    return answers.astype(np.int32), rows


def retrieval(asked: Asked) -> Scored:
    """Return the recalls; there are no answers to compare."""
    return None, recalls(asked.images, asked.texts, asked.of_texts["prompt_classes"])


def selection(asked: Asked) -> Scored:
    """Return the credits of the answers (not classes), and the scores."""
    names, of_texts = tuple(json.loads(asked.protocol["categories"])), asked.of_texts
    questions = Questions(
        of_texts["prompt_classes"], of_texts["categories"], names, of_texts["pairs"]
    )
    credit, rows = selections(asked.images, asked.texts, questions, asked.of_images["pictures"])
    return credit.astype(np.float32), rows


SCORES = {
    "classification": classification,
    "retrieval": retrieval,
    "image_caption_selection": selection,
}
"""Function that scores a set, by its kind."""


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
        self._origins = origins([])

    def add_set(self, encoded: EncodedSet) -> None:
        """Add the metadata and targets of a set, and the metadata of its prompts."""
        for key, metadata in origins([encoded]).items():
            self._origins[key] |= metadata
        tensors = encoded.images.tensors
        for about_images in ("labels", "pictures"):
            if about_images in tensors:
                self.answers[f"{encoded.name}|{about_images}"] = tensors[about_images]

    def add(self, rows: list[Row], answers: Mapping[str, np.ndarray]) -> None:
        """Add the scores of a set, and its answers."""
        self.rows += rows
        self.answers |= answers

    def provenance(self) -> dict[str, Any]:
        """Return the sets and prompts of the scores, and the headline metric of each protocol."""
        headline = {
            name: {protocol: metadata["metric"] for protocol, metadata in of_set.items()}
            for name, of_set in self._origins["protocols"].items()
        }
        return {**self._origins, "headline": headline}

    def metadata(self, origin: Mapping[str, str]) -> dict[str, str]:
        """Return the metadata of the answers of projections of that origin."""
        sets, of_protocols = self._origins["evaluation_sets"], self._origins["protocols"]
        of_images = {name: facts["images_fingerprint"] for name, facts in sets.items()}
        of_prompts = {
            f"{name}|{protocol}": metadata["fingerprint"]
            for name, of_set in of_protocols.items()
            for protocol, metadata in of_set.items()
        }
        sources = {"sets": of_images, "protocols": of_prompts}
        return {key: json.dumps(one) for key, one in {"projection": origin, **sources}.items()}


def scores_of(
    name: str, protocol: Mapping[str, str], seed: int, scores: list[Row]
) -> tuple[str, list[Row]]:
    """Return the name of a seed's answers on a set by a protocol, and its scores with all keys."""
    keys = {"evaluation_set": name, "protocol": protocol["protocol"], "seed": seed}
    keys["fingerprint"] = protocol["fingerprint"]
    of_answers = f"{name}|{protocol['protocol']}|{seed}"
    _log(of_answers, scores)
    return of_answers, [{**keys, **row} for row in scores]


def _log(key: str, rows: list[Row]) -> None:
    for row in rows:
        if math.isnan(row["value"]):
            log.warning("%s: no silhouette (images of one class, or one image a class)", key)
        elif "classname" not in row:
            log.info("%s: %s %.4f (n = %d)", key, row["metric"], row["value"], row["n"])
