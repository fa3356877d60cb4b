"""Keeping k neurons of a pair of projections: rankings, and scores at every k in one pass.

What pruning does follows the authors' public code. Image embeddings are normalised over all
neurons; then all but k coordinates are set to zero. Prompts stay whole, and nothing is
normalised again. The answer is the argmax of the product; the silhouette is that of the masked
embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from mispair.evaluation import intervals
from mispair.evaluation.purity import neuron_overlap
from mispair.evaluation.silhouette import CosineSilhouette
from mispair.evaluation.zeroshot import check_labels, classifier, embed

Row = dict[str, Any]

RANKED = ("high-purity", "low-purity", "high-variance", "low-variance")
"""Strategies beside random, named after the neurons that stay."""

TOWERS = ("text", "image", "both")
"""What a ranking looks at; both is the sum of the two towers' values."""


@dataclass(frozen=True)
class Ranking:
    """An order in which neurons are kept, the first first."""

    strategy: str
    ranked_by: str
    draw: int
    order: np.ndarray


@dataclass(frozen=True)
class EvaluationSet:
    """Cached features of an evaluation set: images (n, d_image), labels (n,), prompts (k, t, d)."""

    image_features: np.ndarray
    labels: np.ndarray
    prompt_features: np.ndarray


class PrunableModel:
    """An evaluation set under one pair of projections, in one basis.

    Parameters
    ----------
    data : EvaluationSet
        Cached features.
    image, text : (d_image, e) and (d_text, e) arrays
        Projections.
    rotation : (e, e) array, optional
        Orthogonal matrix that both projections are multiplied by. It changes no similarity while
        all neurons are kept, but it changes what a neuron is.
    """

    def __init__(
        self,
        data: EvaluationSet,
        image: np.ndarray,
        text: np.ndarray,
        rotation: np.ndarray | None = None,
    ) -> None:
        check_labels(data.labels, len(data.prompt_features))
        self.labels = data.labels
        self.images = embed(data.image_features, image)
        self.classes = classifier(data.prompt_features, text)
        prompts = embed(data.prompt_features, text).reshape(-1, image.shape[1])
        if rotation is not None:
            self.images, self.classes = self.images @ rotation, self.classes @ rotation
            image, text, prompts = image @ rotation, text @ rotation, prompts @ rotation
        self._overlap = {"image": neuron_overlap(image), "text": neuron_overlap(text)}
        self._variance = {"image": self.images.var(axis=0), "text": prompts.var(axis=0)}
        self._silhouette: CosineSilhouette | None = None
        with suppress(ValueError):  # not defined for one class, or one image for each
            self._silhouette = CosineSilhouette(data.labels)

    @property
    def neurons(self) -> int:
        """Number of neurons e."""
        return self.images.shape[1]

    def ranking(self, strategy: str, ranked_by: str) -> Ranking:
        """Order the neurons by their mean absolute cosine, or by how much their activation varies.

        The variance is that of the coordinates of the normalised embeddings, over the images of
        the set (their labels are not used) and over its prompts: the baseline that purity has to
        beat. Equal neurons keep their order.

        Parameters
        ----------
        strategy : {"high-purity", "low-purity", "high-variance", "low-variance"}
            Neurons that are kept. High purity is a low mean absolute cosine.
        ranked_by : {"text", "image", "both"}
            Tower of which the value is taken; both adds the two.
        """
        values = self._overlap if strategy.endswith("purity") else self._variance
        value = sum(values.values()) if ranked_by == "both" else values[ranked_by]
        ascending = strategy in ("high-purity", "low-variance")
        return Ranking(
            strategy, ranked_by, 0, np.argsort(value if ascending else -value, kind="stable")
        )

    def scores(self, order: np.ndarray, ks: Sequence[int]) -> Iterator[Row]:
        """Score the first k neurons of an order for every k, adding neurons from k to k.

        The logits of all k together cost one product with all neurons. The silhouette does not
        add up so (the length of a masked embedding changes with k), and costs O(n K k) each.

        Parameters
        ----------
        order : (e,) int array
            Neurons in the order in which they are kept.
        ks : sequence of int
            Numbers of neurons kept, at most e.

        Yields
        ------
        dict
            ``k``, ``metric`` (acc1, silhouette), ``value``, ``n``, ``low``, ``high``.
        """
        images = self.images[:, order]
        classes = np.ascontiguousarray(self.classes[:, order].T)
        logits = np.zeros((len(images), classes.shape[1]))
        kept, n = 0, len(images)
        for k in sorted(ks):
            logits += images[:, kept:k] @ classes[kept:k]
            kept = k
            hits = int((logits.argmax(axis=1) == self.labels).sum())
            low, high = intervals.wilson(hits, n)
            yield _row(k, "acc1", hits / n, n, low.item(), high.item())
            if self._silhouette is None:
                yield _row(k, "silhouette", np.nan, n, np.nan, np.nan)
            else:
                samples = self._silhouette.samples(images[:, :k])
                yield _row(k, "silhouette", samples.mean(), n, *intervals.mean(samples))


def sweep(
    model: PrunableModel, ks: Sequence[int], generators: Sequence[np.random.Generator]
) -> Iterator[Row]:
    """Score every strategy, ranking and number of neurons kept of a model.

    Parameters
    ----------
    model : PrunableModel
        An evaluation set under projections in one basis.
    ks : sequence of int
        Numbers of neurons kept.
    generators : sequence of numpy.random.Generator
        One for each draw of the strategy random, which has ``ranked_by`` "none".

    Yields
    ------
    dict
        The rows of `PrunableModel.scores` with ``strategy``, ``ranked_by`` and ``draw``.
    """
    rankings = [model.ranking(strategy, tower) for strategy in RANKED for tower in TOWERS]
    rankings += [
        Ranking("random", "none", draw, generator.permutation(model.neurons))
        for draw, generator in enumerate(generators)
    ]
    for ranking in rankings:
        about = {
            "strategy": ranking.strategy,
            "ranked_by": ranking.ranked_by,
            "draw": ranking.draw,
        }
        for row in model.scores(ranking.order, ks):
            yield {**about, **row}


def _row(k: int, metric: str, value: float, n: int, low: float, high: float) -> Row:
    return {"k": k, "metric": metric, "value": value, "n": n, "low": low, "high": high}
