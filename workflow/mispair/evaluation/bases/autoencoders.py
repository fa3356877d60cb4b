"""Sparse autoencoders of embeddings: more directions than neurons, few of them active at a time.

A TopK autoencoder (Gao et al. 2024, "Scaling and evaluating sparse autoencoders") writes an
embedding as a sum of few directions out of many, which are learned. It needs no labels, and other
work uses it to find features. Two controls show how far its features can be trusted: a second one
from another seed (Paulo and Belrose 2025) and one that was not trained (Heap et al. 2025).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TRAINED, UNTRAINED, GAUSSIAN = "autoencoder", "untrained autoencoder", "Gaussian autoencoder"
"""Autoencoders of the embeddings; the same before training; and autoencoders of normal draws with
the mean and the covariance of the embeddings, which have no features."""

KINDS = (TRAINED, UNTRAINED, GAUSSIAN)

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
