"""Measures of sparse autoencoders of a tower's embeddings, and of two kinds of controls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mispair.core.metrics import Row
from mispair.evaluation.bases.autoencoders import (
    GAUSSIAN,
    TRAINED,
    UNTRAINED,
    Autoencoder,
    matched,
    start,
    train,
)
from mispair.evaluation.bases.measures import KNOWN, Inputs
from mispair.evaluation.bases.monosemanticity import monosemanticity, scaled, unit_rows
from mispair.evaluation.identified_basis import (
    RECOVERED,
    correlations,
    covariance,
    halves,
    recovery,
)

SEEDS = 2
"""Autoencoders of each kind: directions that only one of them finds are not features."""


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
        ``basis``, one of `autoencoders.KINDS`, ``metric``, ``value`` and ``n``, the inputs that
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
