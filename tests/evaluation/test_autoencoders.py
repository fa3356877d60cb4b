"""Sparse autoencoders on planted features, on none, and at the edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mispair.core import metrics
from mispair.core.seeds import generator
from mispair.evaluation.bases.autoencoders import (
    GAUSSIAN,
    KINDS,
    TRAINED,
    UNTRAINED,
    autoencoder_rows,
    matched,
    start,
    train,
)
from mispair.evaluation.bases.measures import KNOWN, Inputs
from mispair.evaluation.steps import identify_basis
from tests.evaluation.test_step_neurons import corpus  # noqa: F401

FEATURES, NEURONS, LATENTS, ACTIVE, UPDATES = 24, 16, 48, 4, 800


def _planted() -> tuple[Inputs, np.ndarray]:
    """Return more sparse features than there are neurons, and their directions."""
    draw = generator("planted")
    codes = draw.random((4000, FEATURES)) < 0.08
    directions = draw.standard_normal((FEATURES, NEURONS))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    embeddings = codes @ directions + 0.02 * draw.standard_normal((4000, NEURONS))
    names = [f"f{place}" for place in range(FEATURES)]
    return Inputs(embeddings, codes + 0.0, [""] * 4000, codes, names), directions


def _rows(inputs: Inputs, updates: int = UPDATES) -> dict[tuple[Any, ...], float]:
    rows = autoencoder_rows(inputs, LATENTS, ACTIVE, updates, generator("draws"))
    assert {row["n"] for row in rows} == {len(inputs.embeddings) // 2}
    found = {(row["basis"], row["metric"], row.get("reference")): row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.fixture(scope="module")
def planted() -> dict[tuple[Any, ...], float]:
    return _rows(_planted()[0])


def test_planted_features_are_found_and_no_others_agree(planted) -> None:
    recovered = {basis: planted[basis, "mean_recovery", None] for basis in (TRAINED, UNTRAINED)}
    assert recovered[TRAINED] > max(0.7, recovered[UNTRAINED] + 0.2)
    assert planted[TRAINED, "features_recovered", None] > FEATURES - 2
    for metric in ("explained_variance", "seed_agreement"):
        value = {basis: planted[basis, metric, None] for basis in KINDS}
        assert value[TRAINED] > value[GAUSSIAN] + 0.1, metric
        assert value[GAUSSIAN] > value[UNTRAINED], metric
    for judge in ("features", KNOWN):
        score = {b: planted[b, "mean_monosemanticity", judge] for b in (TRAINED, UNTRAINED)}
        assert score[TRAINED] > score[UNTRAINED] + 0.1
    assert all(0 < planted[basis, "l0", None] <= ACTIVE for basis in KINDS)
    assert all(0 <= planted[basis, "dead_share", None] < 0.3 for basis in KINDS)


def test_normal_draws_are_what_the_gaussian_autoencoder_takes_them_for() -> None:
    draws = generator("normal").standard_normal((4000, NEURONS)) * np.linspace(0.5, 2, NEURONS)
    found = _rows(Inputs(draws, draws, [""] * 4000, None, []))
    assert not any(metric == "mean_recovery" for _, metric, _ in found)
    for metric in ("explained_variance", "seed_agreement"):
        assert abs(found[TRAINED, metric, None] - found[GAUSSIAN, metric, None]) < 0.03


def test_directions_are_learned_whatever_the_scale_and_the_centre() -> None:
    inputs, directions = _planted()
    learned = {}
    for scale in (1.0, 1e-3):
        sample = scale * (inputs.embeddings + 5)
        untrained = start(sample, LATENTS, ACTIVE, generator("start"))
        trained = train(sample, untrained, UPDATES, generator("order"))
        learned[scale] = trained.explained_variance(sample, trained.activations(sample))
        assert (directions @ trained.decoder.T).max(axis=1).mean() > 0.9
        np.testing.assert_allclose(np.linalg.norm(trained.decoder, axis=1), 1, rtol=1e-5)
    assert abs(learned[1.0] - learned[1e-3]) < 0.01


def test_at_most_k_latents_are_active_and_none_below_zero() -> None:
    sample = generator("sample").standard_normal((50, 6))
    autoencoder = start(sample, 9, 3, generator("start"))
    autoencoder = replace(autoencoder, threshold=np.full(9, -0.5, np.float32))
    activations = autoencoder.activations(sample)
    for row, found in zip(sample, activations, strict=True):
        raw = [float(column @ (row - autoencoder.centre)) - 0.5 for column in
               autoencoder.encoder.T]  # fmt: skip
        best = sorted(range(9), key=lambda latent: raw[latent])[-3:]
        expected = [max(value, 0) if latent in best else 0 for latent, value in enumerate(raw)]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    residual = sample - autoencoder.centre - activations @ autoencoder.decoder
    share = 1 - residual.var(axis=0).sum() / sample.var(axis=0).sum()
    mean = np.square(residual.mean(axis=0)).sum() / sample.var(axis=0).sum()
    assert abs(autoencoder.explained_variance(sample, activations) - (share - mean)) < 1e-6


def test_matching_undoes_an_order() -> None:
    decoder = start(np.zeros((1, 8)), 20, 3, generator("start")).decoder
    assert matched(decoder, decoder[generator("order").permutation(20)]) == pytest.approx(1)
    assert matched(decoder, -decoder) < 0.9


def test_constant_embeddings_explain_nothing_and_raise_nothing() -> None:
    inputs, _ = _planted()
    found = _rows(replace(inputs, embeddings=np.ones_like(inputs.embeddings)), updates=3)
    assert np.isnan(found[TRAINED, "explained_variance", None])
    assert found[TRAINED, "dead_share", None] == 1


def test_the_step_measures_autoencoders(corpus, tmp_path) -> None:  # noqa: F811
    names = ("projection", "index", "features", "feature_rows", "corpus", "truth")
    for name in ("first", "second"):
        identify_basis.run(
            identify_basis.Settings(inputs=100, rotations=3, components=3, words=0, latents=6,
                                    active=9, updates=4),
            **{key: corpus[key] for key in names}, basis=tmp_path / name,
        )  # fmt: skip
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    rows, _ = metrics.read_metrics(tmp_path / "first")
    assert {(row["tower"], row["basis"]) for row in rows if row["metric"] == "l0"} == {
        (tower, basis) for tower in ("image", "text") for basis in KINDS
    }
