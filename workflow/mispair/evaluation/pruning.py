"""Keep k neurons of a pair of projections: rankings, and scores at every k in one pass.

Pruning has two forms. *Masked* follows the authors' public code: image embeddings are normalised
over all neurons, then all but k coordinates are set to zero; prompts stay whole, and nothing is
normalised again. *Renormalised* cuts image embeddings and class vectors to the k neurons and
normalises both again. The answer is the argmax of the product. The silhouette is that of the image
embeddings; the cosine distance does not depend on lengths, so it is one number for both forms, and
for all protocols.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from mispair.core import distributions, seeds
from mispair.core.distributions import Row
from mispair.evaluation.classification import CosineSilhouette, check_labels, classifier, embed
from mispair.evaluation.inputs import EncodedSet
from mispair.evaluation.purity import neuron_overlap

PURITY: tuple[str, ...] = ("high-purity", "low-purity")
"""Strategies of the paper other than random, named after the neurons that stay."""

RANKED: tuple[str, ...] = (*PURITY, "high-variance", "low-variance", "high-norm", "low-norm")
"""These and the baselines to compare purity with."""

TOWERS = ("text", "image", "both")
"""Towers that a ranking uses; both is the sum of the two towers' values."""

NORMALISED = ("masked", "renormalised")
"""The two forms of pruning."""

BLOCK_ENTRIES = 1 << 17
"""Entries of a block of logits: one megabyte, which stays in the cache while neurons are added."""


@dataclass(frozen=True)
class Ranking:
    """An order in which neurons are kept; the first is kept longest."""

    strategy: str
    ranked_by: str
    draw: int
    order: np.ndarray


class PrunableModel:
    """An evaluation set under one pair of projections, in one basis.

    Parameters
    ----------
    data : EncodedSet
        A set with classes.
    image, text : (d_image, e) and (d_text, e) arrays
        Projections.

    Raises
    ------
    ValueError
        If features, labels, prompts and projections do not fit, or a value is not finite.
    """

    def __init__(self, data: EncodedSet, image: np.ndarray, text: np.ndarray) -> None:
        labels = data.images.tensors["labels"]
        order = np.argsort(labels, kind="stable")
        self.labels = labels[order]
        self.images = embed(data.images.tensors["image_features"], image)[order]
        self.classes = {
            metadata["protocol"]: classifier(
                prompts["prompt_features"], prompts["prompt_classes"], text
            )
            for _, prompts, metadata in data.prompts
        }
        for classes in self.classes.values():
            check_labels(self.labels, len(classes))
        prompts = np.concatenate(
            [embed(one.tensors["prompt_features"], text) for one in data.prompts]
        )
        self._projections = {"image": image, "text": text}
        self._covariances = {"image": _covariance(self.images), "text": _covariance(prompts)}
        self._silhouette: CosineSilhouette | None = None
        with suppress(ValueError):  # not defined for one class, or one image for each
            self._silhouette = CosineSilhouette(self.labels)

    def rotated(self, rotation: np.ndarray) -> PrunableModel:
        """Return the model in another basis: both projections times an orthogonal (e, e) matrix.

        That changes no similarity while all neurons are kept, but it changes the neurons.
        """
        copied = copy.copy(self)
        copied.images = self.images @ rotation
        copied.classes = {name: classes @ rotation for name, classes in self.classes.items()}
        copied._projections = {
            name: matrix @ rotation for name, matrix in self._projections.items()
        }
        copied._covariances = {
            name: rotation.T @ matrix @ rotation for name, matrix in self._covariances.items()
        }
        return copied

    @property
    def neurons(self) -> int:
        """Number of neurons e."""
        return self.images.shape[1]

    def values(self, what: str, tower: str) -> np.ndarray:
        """Return the values that neurons are ranked by, (e,) float64.

        Parameters
        ----------
        what : {"purity", "variance", "norm"}
            Purity is the mean absolute cosine with the others (low is pure). Variance is that of
            the coordinates of the normalised embeddings, over the images of the set (their labels
            are not used), or over the prompts of all its protocols together, so that every
            protocol is measured on the same neurons. Norm is the length of the projection's column.
        tower : {"text", "image", "both"}
            Tower that the value is of; both adds the two.
        """
        if tower == "both":
            return self.values(what, "text") + self.values(what, "image")
        if what == "variance":
            return np.diagonal(self._covariances[tower])
        projection = self._projections[tower].astype(np.float64, copy=False)
        return (
            neuron_overlap(projection) if what == "purity" else np.linalg.norm(projection, axis=0)
        )

    def ranking(self, strategy: str, ranked_by: str) -> Ranking:
        """Order the neurons by a strategy of `RANKED` and the values of a tower of `TOWERS`."""
        value = self.values(strategy.split("-")[1], ranked_by)
        return Ranking(strategy, ranked_by, 0, order_by(strategy, value))

    def scores(self, order: np.ndarray, ks: Iterable[int]) -> Iterator[Row]:
        """Score the first k neurons of an order for every k, adding neurons from k to k.

        Logits and squared lengths accumulate from k to k, so those of all k together cost as much
        as one evaluation with all neurons. The silhouette's products with the means of the
        clusters change with the lengths and are computed at each k: O(n K k).

        Parameters
        ----------
        order : (e,) int array
            Neurons in the order in which they are kept.
        ks : iterable of int
            Numbers of neurons kept, 1 to e.

        Yields
        ------
        dict
            ``k``, ``metric``, ``value``, ``n``, ``low``, ``high``, ``protocol`` and
            ``normalised``: acc1 for each protocol and form of pruning; silhouette once, with
            protocol None and the form masked.
        """
        ks, n = sorted(set(ks)), len(self.labels)
        images = self.images[:, order]
        for protocol, classes in self.classes.items():
            right = right_answers(images, classes[:, order], self.labels, ks)
            for normalised, hits in zip(NORMALISED, right, strict=True):
                limits = np.stack([hits / n, *distributions.wilson(hits, n)], axis=1)
                for k, (value, low, high) in zip(ks, limits.tolist(), strict=True):
                    yield {
                        "k": k, "metric": "acc1", "value": value, "n": n, "low": low, "high": high,
                        "protocol": protocol, "normalised": normalised,
                    }  # fmt: skip
        kept, squares = 0, np.zeros(n)
        for k in ks:
            new = images[:, kept:k]
            squares += np.einsum("ij,ij->i", new, new)
            kept, value, low, high = k, np.nan, np.nan, np.nan
            if self._silhouette is not None:
                samples = self._silhouette.samples(images[:, :k], squares)
                value, (low, high) = float(samples.mean()), distributions.interval_of_mean(samples)
            yield {
                "k": k, "metric": "silhouette", "value": value, "n": n, "low": low, "high": high,
                "protocol": None, "normalised": NORMALISED[0],
            }  # fmt: skip


def order_by(strategy: str, value: np.ndarray) -> np.ndarray:
    """Return the neurons in the order in which a strategy keeps them; the sort is stable.

    High purity is a low mean absolute cosine.
    """
    ascending = strategy in ("high-purity", "low-variance", "low-norm")
    return np.argsort(value if ascending else -value, kind="stable")


def right_answers(
    images: np.ndarray, classes: np.ndarray, labels: np.ndarray, ks: Sequence[int]
) -> np.ndarray:
    """Return how many images are classified correctly by the first k neurons, for every k.

    Parameters
    ----------
    images : (n, e) array
        Embeddings, neurons in the order in which they are kept.
    classes : (c, e) array
        One vector for each class.
    labels : (n,) int array
        True classes.
    ks : sequence of int
        Numbers of neurons kept, ascending.

    Returns
    -------
    (2, len(ks)) int array
        Masked and renormalised. The length of an image's embedding changes no argmax; that of a
        class's vector does. (With one neuron, renormalised vectors of one sign are all the same,
        and rounding decides between them.)
    """
    lengths = np.sqrt(np.cumsum(np.square(classes), axis=1)[:, np.asarray(ks) - 1].T)
    scales = 1 / np.maximum(lengths, 1e-12)
    by_neuron = np.ascontiguousarray(classes.T)
    right = np.zeros((2, len(ks)), dtype=np.int64)
    block = max(1, BLOCK_ENTRIES // len(classes))
    for start in range(0, len(images), block):
        rows = slice(start, start + block)
        block_labels = labels[rows]
        kept, logits = 0, np.zeros((len(block_labels), len(classes)))
        for number, k in enumerate(ks):
            logits += images[rows, kept:k] @ by_neuron[kept:k]
            kept = k
            right[0, number] += np.count_nonzero(logits.argmax(axis=1) == block_labels)
            right[1, number] += np.count_nonzero(
                (logits * scales[number]).argmax(axis=1) == block_labels
            )
    return right


def sweep(
    model: PrunableModel,
    ks: Iterable[int],
    generators: Iterable[np.random.Generator],
    strategies: Iterable[str] = RANKED,
) -> Iterator[Row]:
    """Score every strategy, ranking and number of neurons kept of a model.

    Parameters
    ----------
    model : PrunableModel
        An evaluation set under projections in one basis.
    ks : iterable of int
        Numbers of neurons kept.
    generators : iterable of numpy.random.Generator
        One for each draw of the strategy random, which has ``ranked_by`` "none".
    strategies : iterable of str
        Other strategies, from `RANKED`.

    Yields
    ------
    dict
        The rows of `PrunableModel.scores` with ``strategy``, ``ranked_by`` and ``draw``. Random
        draws, half of all rows, have no ``low`` and ``high``: their spread over draws is the
        relevant interval.
    """
    ks = list(ks)
    rankings = [model.ranking(strategy, tower) for strategy in strategies for tower in TOWERS]
    rankings += [
        Ranking("random", "none", draw, generator.permutation(model.neurons))
        for draw, generator in enumerate(generators)
    ]
    for ranking in rankings:
        keys = {"strategy": ranking.strategy, "ranked_by": ranking.ranked_by, "draw": ranking.draw}
        for row in model.scores(ranking.order, ks):
            if ranking.strategy == "random":
                del row["low"], row["high"]
            yield {**row, **keys}


def sweep_bases(
    model: PrunableModel, ks: Sequence[int], rotations: Sequence[np.ndarray], draws: int, seed: int
) -> Iterator[Row]:
    """Yield `sweep` in the model's own basis and in rotated ones, with the name of the ``basis``.

    Rotated bases are a control for claims about purity, so they have no other rankings. All of them
    together have as many random draws as the model's own basis.
    """
    for number, rotation in enumerate([None, *rotations]):
        basis = "original" if rotation is None else f"rotated-{number - 1}"
        of_basis, strategies, number_of_draws = model, RANKED, draws
        if rotation is not None:
            of_basis, strategies = model.rotated(rotation), PURITY
            number_of_draws = -(-draws // len(rotations))
        generators = [
            seeds.generator(seed, "prune-neurons", basis, draw) for draw in range(number_of_draws)
        ]
        for row in sweep(of_basis, ks, generators, strategies):
            yield {**row, "basis": basis}


def _covariance(rows: np.ndarray) -> np.ndarray:
    centred = rows - rows.mean(axis=0)
    return centred.T @ centred / len(rows)
