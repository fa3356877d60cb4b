"""How much work the steps of this package have: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import Sizes, Work


def simulate(settings: Any, job: Any, sizes: Sizes) -> Work:
    runs = len(job.trials)
    first = set(job.arms) & {"raw", "high-quality-only"}
    epochs = settings.epochs * len(first)
    epochs += settings.retrain_epochs * len(set(job.arms) - first)
    steps = settings.steps_per_epoch * epochs
    # Two encoders, forward and twice backward.
    products = 12 * settings.batch_size * settings.m * settings.d1
    pairs = settings.low_quality_pairs + settings.high_quality_pairs
    return Work(
        {"GFLOP": 1e-9 * runs * steps * products},
        {"MB of pairs": 4e-6 * runs * settings.d1 * pairs},
    )
