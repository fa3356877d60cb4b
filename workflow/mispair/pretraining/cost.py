"""How much work the steps of this package have: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import ModelCosts, Sizes, Work


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


def encode_small_towers(settings: Any, job: Any, sizes: Sizes) -> Work:
    from mispair.pretraining.settings import TowerSettings

    # Towers that do not exist yet are taken to have the widths of the default settings.
    width, neurons = (TowerSettings.model_fields[name].default for name in ("width", "embedding"))
    pairs, captions = sizes.total(job.corpus), sizes.total(job.captions)
    parts = {str(path): pairs / len(job.image_features) for path in job.image_features}
    for path, rows in {**parts, str(job.text_features): captions}.items():
        sizes.planned[path] = round(rows)
    for path in job.projection:
        sizes.set_projection(path, ModelCosts(0, 0, width, width, neurons, 0), 1)
    work = {"pairs": pairs, "captions": captions}
    return Work(work, work, {"MB of features": 4e-6 * width * (pairs + captions)})


def measure_mixing(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.rows(job.corpus)})
