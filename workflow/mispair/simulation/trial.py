"""One trial: pre-train (S1), fit the decoder (S2), filter (S3), retrain (S4), and measure both."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from mispair.simulation.data import (
    Batch,
    Dictionaries,
    Draws,
    TestSet,
    draw_dictionaries,
    draw_fresh_batch,
    draw_test_set,
)
from mispair.simulation.decoder import start_decoder, train_decoder
from mispair.simulation.encoder import Diverged, Encoders, draw_encoders
from mispair.simulation.filtering import filter_pairs, filtered_batches
from mispair.simulation.metrics import (
    Purified,
    alignments,
    cosine_silhouette,
    histogram,
    purified,
    zero_shot_accuracy,
)
from mispair.simulation.study import Study
from mispair.simulation.training import Plan, train

log = logging.getLogger(__name__)


@dataclass
class Arm:
    """What was measured on one arm of a trial.

    Attributes
    ----------
    values : dict of str to float
        Metrics by name.
    losses : ndarray (epochs, steps_per_epoch)
        Training loss before each step; empty if training diverged.
    histograms : dict of str to ndarray
        For ``image`` and ``text``, counts of |cos| of neurons with dictionary.
    diverged_at : int or None
        The step at which training left the finite numbers.
    """

    values: dict[str, float] = field(default_factory=dict)
    losses: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    histograms: dict[str, np.ndarray] = field(default_factory=dict)
    diverged_at: int | None = None


def run_trial(
    study: Study, spurious_probability: float, trial: int, device: str = "cpu"
) -> dict[str, Arm]:
    """Run one trial of one condition.

    Both arms share the dictionaries and the test set. An arm that diverges is returned with the
    step at which it did; the filtered arm cannot be made from a raw one that diverged.

    Parameters
    ----------
    study : Study
        All settings.
    spurious_probability : float
        C_s: probability that a raw caption is redrawn, at least 0 and below 1.
    trial : int
        Number of the trial; with the seed it determines every draw.
    device : str
        ``cpu`` or ``cuda``.

    Returns
    -------
    dict of str to Arm
        ``raw`` and, unless that one diverged, ``filtered``.
    """
    dtype = torch.float64 if study.precision == "float64" else torch.float32
    draws = Draws(study.seed, trial, device, dtype)
    dictionaries = draw_dictionaries(draws, study.d1, study.d)
    test = draw_test_set(draws, dictionaries, study)
    raw, filtered = Arm(), Arm()
    try:
        encoders, count = _raw_arm(raw, draws, dictionaries, test, study, spurious_probability)
    except Diverged as stop:
        return {"raw": _mark(raw, stop, "raw", spurious_probability, trial)}
    try:
        _filtered_arm(
            filtered, draws, encoders, count, dictionaries, test, study, spurious_probability
        )
    except Diverged as stop:
        _mark(filtered, stop, "filtered", spurious_probability, trial)
    return {"raw": raw, "filtered": filtered}


def _raw_arm(
    arm: Arm,
    draws: Draws,
    dictionaries: Dictionaries,
    test: TestSet,
    study: Study,
    spurious_probability: float,
) -> tuple[Encoders, Purified]:
    """Pre-train on raw pairs (S1) and measure."""
    batch = partial(
        draw_fresh_batch,
        draws,
        "raw",
        dictionaries=dictionaries,
        study=study,
        spurious_probability=spurious_probability,
    )
    start = draw_encoders(draws, "raw", study.m, study.d1, study.start_std)
    return _train_and_measure(
        arm, start, batch, study.epochs, study.steps_per_epoch, dictionaries, test, study
    )


def _filtered_arm(
    arm: Arm,
    draws: Draws,
    pretrained: Encoders,
    count: Purified,
    dictionaries: Dictionaries,
    test: TestSet,
    study: Study,
    spurious_probability: float,
) -> None:
    """Fit the decoder (S2), filter (S3), retrain (S4) and measure."""
    enough = count.features > study.purified_share_needed * study.d
    decoder = start_decoder(draws, pretrained if enough else None, study)
    decoder = train_decoder(draws, decoder, dictionaries, study)
    pairs = filter_pairs(draws, pretrained, decoder, dictionaries, study, spurious_probability)
    arm.values.update(pairs.shares(), decoder_from_encoders=float(enough))
    all_pairs = study.steps_per_epoch * study.batch_size
    raw_pairs = all_pairs - study.filtered_pairs if enough else 0
    batch, steps_per_epoch = filtered_batches(
        draws, pairs, raw_pairs, dictionaries, study, spurious_probability
    )
    start = draw_encoders(
        draws,
        "filtered" if study.retrain_weights == "fresh" else "raw",
        study.m,
        study.d1,
        study.start_std,
    )
    epochs = study.retrain_epochs if enough else study.retrain_epochs_filtered_only
    _train_and_measure(arm, start, batch, epochs, steps_per_epoch, dictionaries, test, study)


def _train_and_measure(
    arm: Arm,
    start: Encoders,
    batch: Callable[[int], Batch],
    epochs: int,
    steps_per_epoch: int,
    dictionaries: Dictionaries,
    test: TestSet,
    study: Study,
) -> tuple[Encoders, Purified]:
    plan = Plan(
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        lr=study.lr,
        lr_decay=study.lr_decay,
        lr_decay_every=study.lr_decay_every,
        temperature=study.temperature,
        weight_penalty=study.weight_penalty,
    )
    began = time.perf_counter()
    encoders, arm.losses = train(start, batch, plan)
    seconds = time.perf_counter() - began
    log.info(
        "%d steps in %.1f s (%.2f ms a step)",
        arm.losses.size,
        seconds,
        1000 * seconds / arm.losses.size,
    )
    of_images = alignments(encoders.weights[0], dictionaries.image)
    of_texts = alignments(encoders.weights[1], dictionaries.text)
    count = purified(of_images, study.threshold_low, study.threshold_high, study.threshold_step)
    features = encoders.image_features(test.images)
    prompts = encoders.text_features(test.prompts)
    arm.values.update(
        purified_features=float(count.features),
        purified_magnitude=count.magnitude,
        purified_threshold=count.threshold,
        accuracy=zero_shot_accuracy(features, prompts, test.labels),
        silhouette=cosine_silhouette(features, test.labels),
    )
    arm.histograms = {"image": histogram(of_images), "text": histogram(of_texts)}
    return encoders, count


def rows(arms: dict[str, Arm], **keys: Any) -> list[dict[str, Any]]:
    """Return what was measured as flat rows, each with `keys`.

    Metrics have ``value``; ``loss`` (mean over an epoch) also has ``epoch``, counted from 1;
    ``cosine_histogram`` has ``tower``, the bin's edges ``from`` and ``to``, and the count as value;
    ``diverged_at_step`` stands where an arm has no other metric.
    """
    found: list[dict[str, Any]] = []
    for name, arm in arms.items():
        shared = {"trained_on": name, **keys}
        found += [{"metric": key, "value": value, **shared} for key, value in arm.values.items()]
        if arm.diverged_at is not None:
            found.append({"metric": "diverged_at_step", "value": arm.diverged_at, **shared})
        found += [
            {"metric": "loss", "value": float(of_epoch.mean()), "epoch": epoch, **shared}
            for epoch, of_epoch in enumerate(arm.losses, start=1)
        ]
        for tower, counts in arm.histograms.items():
            edges = np.linspace(0, 1, len(counts) + 1).round(6).tolist()
            found += [
                {
                    "metric": "cosine_histogram",
                    "value": value,
                    "tower": tower,
                    "from": low,
                    "to": high,
                    **shared,
                }
                for value, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True)
            ]
    return found


def _mark(arm: Arm, stop: Diverged, name: str, spurious_probability: float, trial: int) -> Arm:
    log.warning(
        "C_s = %g, trial %d, %s arm: %s; the other trials go on",
        spurious_probability,
        trial,
        name,
        stop,
    )
    arm.diverged_at = stop.step
    return arm
