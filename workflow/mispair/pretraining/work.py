"""How much work the steps of this package have: see `mispair.core.work`."""

from __future__ import annotations

from typing import Any

from mispair.core.sizes import Sizes
from mispair.core.work import Work


def decode_pictures(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = sizes.planned[str(job.pictures)] = sizes.rows(job.corpus)
    held = {"megabytes of pictures": 3e-6 * pairs * settings.side**2}
    return Work({"pairs": pairs}, held, held)


def train_small_towers(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = max(0, sizes.rows(job.pairing) - settings.held_out)
    quarter = (settings.crop // 4) ** 2
    # Products of the two convolutions, the layer behind them and the projection.
    products = (
        settings.crop // 2
    ) ** 2 * 48 * settings.channels + quarter * 32 * settings.channels**2
    products += (
        quarter * 2 * settings.channels * settings.width + settings.width * settings.embedding
    )
    return Work(
        {"pairs": pairs * settings.epochs, "GFLOP": 6e-9 * pairs * settings.epochs * products},
        {"pairs": sizes.rows(job.pairing)},
    )


def measure_mixing(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.rows(job.corpus), "rotations": settings.rotations})
