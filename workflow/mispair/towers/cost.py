"""How much work the steps of this package have: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import ModelCosts, Sizes, Work


def encoding(
    number: int, what: str, gflop: float, width: int, towers: ModelCosts, workers: int
) -> Work:
    """Return the work of running a tower over images or texts."""
    return Work(
        {what: number / max(1, workers), f"{what}: GFLOP": number * gflop},
        {"MB of weights": towers.megabytes},
        {"MB of features": 4e-6 * number * width},
    )


def encode_features(settings: Any, job: Any, sizes: Sizes) -> Work:
    images, towers = sizes.total(job.shards) * settings.crops, sizes.towers(job.towers)
    sizes.planned[str(job.features)] = sizes.planned[str(job.rows)] = images
    gflop, width = towers.image_gflop, towers.image_width
    return encoding(images, "images", gflop, width, towers, job.workers)


def encode_captions(settings: Any, job: Any, sizes: Sizes) -> Work:
    captions, towers = sizes.rows(job.captions), sizes.towers(job.towers)
    sizes.planned[str(job.features)] = sizes.planned[str(job.rows)] = captions
    return encoding(captions, "captions", towers.text_gflop, towers.text_width, towers, 1)


def _projections(towers: ModelCosts, seeds: int) -> float:
    return 4e-6 * seeds * towers.neurons * (towers.image_width + towers.text_width)


def extract_projection(settings: Any, job: Any, sizes: Sizes) -> Work:
    towers = sizes.towers(job.towers)
    sizes.set_projection(job.projection, towers, 1)
    weights = {"MB of weights": towers.megabytes}
    return Work(weights, weights, {"MB of projections": _projections(towers, 1)})


def convert_checkpoint(settings: Any, job: Any, sizes: Sizes) -> Work:
    weights = {"MB of the checkpoint": sizes.bytes(job.checkpoint) / 1e6}
    return Work(weights, weights, weights)


def finetune_projection(settings: Any, job: Any, sizes: Sizes) -> Work:
    from mispair.towers.finetuning.finetuning_settings import (
        FIRST_NEWTON_STEPS,
        MEASURED_PAIRS,
        arm,
        resolve,
    )

    all_pairs = sizes.rows(job.pairing)
    pairs = min(all_pairs, settings.pairs or all_pairs)
    training = arm(job.start, resolve(settings, pairs)).training
    towers = sizes.projection(job.untouched)
    sizes.set_projection(job.projection, towers, settings.seeds)
    solves = training.epochs + FIRST_NEWTON_STEPS if training.logit_scale == "solved" else 0
    measured = min(pairs, MEASURED_PAIRS) * (1 + solves) * settings.seeds
    # A third of a step, without the gradients.
    samples = pairs * training.epochs * settings.seeds + measured / 3
    widths = towers.image_width + towers.text_width
    # Each seed has its own pairs.
    held = min(all_pairs, settings.seeds * pairs)
    texts = 1.0
    if settings.draw_captions == "each-step":
        # All captions of a pair are held; one of its rows of features is the image.
        texts = max(1.0, sizes.total(job.feature_rows) / max(1, all_pairs) - 1)
    # Forward and twice backward: both projections, and each with all others of its batch.
    products = 6 * towers.neurons * (widths + 2 * training.batch_size)
    return Work(
        {"rows read": sizes.total(job.feature_rows), "GFLOP": 1e-9 * samples * products},
        {"MB of features": 4e-6 * held * (towers.image_width + texts * towers.text_width)},
        {"MB of projections": _projections(towers, settings.seeds)},
    )


def measure_covariance(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"rows read": sizes.total(job.features)})


def pretrain_towers(settings: Any, job: Any, sizes: Sizes) -> Work:
    samples = {"samples": sizes.total(job.shards) * settings.epochs}
    return Work(samples)
