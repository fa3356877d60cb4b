"""Sparse autoencoders of embeddings: more directions than neurons, few of them active at a time.

A TopK autoencoder (Gao et al. 2024, "Scaling and evaluating sparse autoencoders") writes an
embedding as a sum of few directions out of many, which are learned. It needs no labels, and other
work uses it to find features. Two controls show how far its features can be trusted: a second one
from another seed (Paulo and Belrose 2025) and one that was not trained (Heap et al. 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mispair.core.metrics import Row
from mispair.evaluation.bases.measures import KNOWN, Inputs
from mispair.evaluation.bases.monosemanticity import monosemanticity, scaled, unit_rows
from mispair.evaluation.identified_basis import (
    RECOVERED,
    correlations,
    covariance,
    halves,
    recovery,
)

TRAINED, UNTRAINED, GAUSSIAN = "autoencoder", "untrained autoencoder", "Gaussian autoencoder"
"""Autoencoders of the embeddings; the same before training; and autoencoders of normal draws with
the mean and the covariance of the embeddings, which have no features."""

KINDS = (TRAINED, UNTRAINED, GAUSSIAN)

SEEDS = 2
"""Autoencoders of each kind: directions that only one of them finds are not features."""

BATCH, RATE = 256, 5e-3
"""Inputs of an update, and Adam's first learning rate, which falls to 0 linearly."""


@dataclass(frozen=True)
class Autoencoder:
    """A TopK autoencoder; all arrays have single precision.

    Attributes
    ----------
    encoder : (e, m) array
        Directions that an embedding is compared with.
    threshold : (m,) array
        Added to the products with the encoder.
    decoder : (m, e) array
        Directions at length one that are added up.
    centre : (e,) array
        Subtracted from an embedding, and added to the decoded one.
    active : int
        k: the most latents that are active for an input.
    """

    encoder: np.ndarray
    threshold: np.ndarray
    decoder: np.ndarray
    centre: np.ndarray
    active: int

    def activations(self, embeddings: np.ndarray) -> np.ndarray:
        """Return the activations of the latents, (n, m): at most k a row are above zero."""
        raw = (embeddings - self.centre).astype(np.float32) @ self.encoder + self.threshold
        least = np.partition(raw, -self.active, axis=1)[:, -self.active, None]
        return np.where(raw >= np.maximum(least, 0), raw, 0)

    def explained_variance(self, embeddings: np.ndarray, activations: np.ndarray) -> float:
        """Return the share of the variance of `embeddings` that `activations` explain."""
        left = embeddings - self.centre - activations @ self.decoder
        total = np.square(embeddings - embeddings.mean(axis=0)).sum()
        return float(1 - np.square(left).sum() / total) if total > 0 else np.nan


def start(
    embeddings: np.ndarray, latents: int, active: int, generator: np.random.Generator
) -> Autoencoder:
    """Return an autoencoder before training: the same random directions encode and decode."""
    directions = generator.standard_normal((latents, embeddings.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    decoder = directions.astype(np.float32)
    centre = embeddings.mean(axis=0).astype(np.float32)
    return Autoencoder(
        decoder.T.copy(), np.zeros(latents, np.float32), decoder, centre, min(active, latents)
    )


def train(
    embeddings: np.ndarray, untrained: Autoencoder, updates: int, generator: np.random.Generator
) -> Autoencoder:
    """Return the autoencoder after `updates` on the squared error of `embeddings`, (n, e).

    The order of the inputs comes from `generator`. During training, embeddings are scaled to a mean
    squared length of one, so that one learning rate suits all. After each update the decoder's
    directions are scaled to length one.
    """
    import torch

    centred = (embeddings - untrained.centre).astype(np.float32)
    scale = float(np.sqrt(np.square(centred).sum(axis=1).mean()))
    if scale == 0:
        return untrained
    inputs = torch.from_numpy(centred / np.float32(scale))
    names = ("encoder", "threshold", "decoder")
    weights = [torch.from_numpy(getattr(untrained, name).copy()) for name in names]
    encoder, threshold, decoder = (weight.requires_grad_() for weight in weights)
    optimiser = torch.optim.Adam([encoder, threshold, decoder], lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1, 0, total_iters=updates)
    for _ in range(updates):
        rows = generator.integers(len(inputs), size=BATCH)
        batch = inputs[torch.from_numpy(rows)]
        largest, places = (batch @ encoder + threshold).topk(untrained.active, dim=1)
        # Only k latents of each input are decoded.
        decoded = torch.nn.functional.embedding_bag(
            places, decoder, per_sample_weights=largest.relu(), mode="sum"
        )
        loss = (decoded - batch).square().sum(dim=1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            decoder /= decoder.norm(dim=1, keepdim=True)
    trained = [weight.detach().numpy() for weight in weights]
    return Autoencoder(
        trained[0], trained[1] * np.float32(scale), trained[2], untrained.centre, untrained.active
    )


def matched(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean cosine of the directions of two decoders, (m, e) and (m', e).

    Of the directions, min(m, m') are matched one to one; NaN if there are none.
    """
    from scipy.optimize import linear_sum_assignment

    cosines = first @ second.T
    best = cosines[linear_sum_assignment(cosines, maximize=True)]
    return float(best.mean()) if len(best) else np.nan


def autoencoder_rows(
    inputs: Inputs, latents: int, active: int, updates: int, generator: np.random.Generator
) -> list[Row]:
    """Return the measures of sparse autoencoders of a sample, as rows.

    They are trained on one half of the inputs and measured on the other.

    Parameters
    ----------
    inputs : Inputs
        A sample.
    latents, active : int
        m, latents of an autoencoder, and k, how many of them may be active for an input.
    updates : int
        Updates of the training of each.
    generator : numpy.random.Generator
        Draws halves, starts, orders and the Gaussian inputs.

    Returns
    -------
    list of dict
        ``basis``, one of `KINDS`, ``metric``, ``value`` and ``n``, the inputs that
        it is measured on; mean over `SEEDS` autoencoders. ``l0``: latents active for an input;
        ``explained_variance``; ``dead_share``: latents that no input activates;
        ``seed_agreement``: mean cosine of the directions of two decoders, without those of dead
        latents, matched one to one. Except for `GAUSSIAN`: ``mean_monosemanticity`` over latents
        that are not dead, with ``reference``, and with known features ``mean_recovery`` and
        ``features_recovered``.
    """
    learned, held_out = halves(len(inputs.embeddings), generator)
    embeddings = inputs.embeddings[held_out]
    seeds = generator.spawn(SEEDS)
    untrained = [start(inputs.embeddings[learned], latents, active, seed) for seed in seeds]
    trained = [
        train(inputs.embeddings[learned], before, updates, seed)
        for before, seed in zip(untrained, seeds, strict=True)
    ]
    same = _gaussian(inputs.embeddings, generator)
    gaussian = [
        train(same[learned], start(same[learned], latents, active, seed), updates, seed)
        for seed in seeds
    ]
    judges = {"features": unit_rows(inputs.features[held_out].astype(np.float32))}
    codes = None
    if inputs.codes is not None:
        codes = inputs.codes[held_out].astype(np.float64)
        judges[KNOWN] = unit_rows(codes.astype(np.float32))
        codes = codes[:, codes.std(axis=0) > 0]
    rows: list[Row] = []
    for basis, pair in ((TRAINED, trained), (UNTRAINED, untrained)):
        activations = [each.activations(embeddings) for each in pair]
        measured = _sparsity(pair, activations, embeddings)
        if codes is not None and codes.shape[1]:
            found = [recovery(correlations(np.eye(latents), each, codes)) for each in activations]
            measured["mean_recovery"] = float(np.mean(found))
            above = [(each > RECOVERED).sum() for each in found]
            measured["features_recovered"] = float(np.mean(above))
        rows += [{"basis": basis, "metric": key, "value": each} for key, each in measured.items()]
        for reference, judge in judges.items():
            scores = np.concatenate([monosemanticity(scaled(each), judge) for each in activations])
            scores = scores[np.isfinite(scores)]
            value = float(scores.mean()) if len(scores) else np.nan
            rows.append({"basis": basis, "metric": "mean_monosemanticity", "reference": reference,
                         "value": value})  # fmt: skip
    activations = [each.activations(same[held_out]) for each in gaussian]
    measured = _sparsity(gaussian, activations, same[held_out])
    rows += [{"basis": GAUSSIAN, "metric": key, "value": each} for key, each in measured.items()]
    return [{**row, "n": len(held_out)} for row in rows]


def _sparsity(
    autoencoders: Sequence[Autoencoder], activations: Sequence[np.ndarray], embeddings: np.ndarray
) -> dict[str, float]:
    explained = [
        autoencoder.explained_variance(embeddings, each)
        for autoencoder, each in zip(autoencoders, activations, strict=True)
    ]
    live = [(each > 0).any(axis=0) for each in activations]
    decoders = [each.decoder[used] for each, used in zip(autoencoders, live, strict=True)]
    return {
        "l0": float(np.mean([(each > 0).sum(axis=1).mean() for each in activations])),
        "explained_variance": float(np.mean(explained)),
        "dead_share": 1 - float(np.mean(live)),
        "seed_agreement": matched(*decoders),
    }


def _gaussian(embeddings: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return as many normal draws, with the mean and the covariance of `embeddings`."""
    centre = embeddings.mean(axis=0, dtype=np.float64)
    size = len(embeddings)
    return generator.multivariate_normal(centre, covariance(embeddings), size, method="eigh")
