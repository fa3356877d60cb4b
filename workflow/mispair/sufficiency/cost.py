"""How much work the steps of this package have: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import Quantities, Sizes, Work


def draw_trees(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"trees": 1})


def _trees(job: Any) -> Any:
    """Return the size of trees, which is in the path of their file."""
    from mispair.sufficiency.settings import Size

    return Size.of(job.trees.parent.parent.name)


def _passes(number: int, size: Any, times: float = 1) -> Quantities:
    """Return the products of belief propagation, up and down, over `number` pairs."""
    return {"BP GFLOP": 4e-9 * times * number * size.nodes * size.symbols**2}


def measure_bayes(settings: Any, job: Any, sizes: Sizes) -> Work:
    size = _trees(job)
    return Work(
        _passes(settings.samples * len(settings.flips), size, 4),
        {"MB": size.bytes_of_samples(settings.samples) / 1e6},
    )


def transformer_operations(tokens: int, width: int, blocks: int) -> float:
    """Return the operations of a transformer on one sequence, forward and twice backward."""
    return 3 * blocks * tokens * 2 * (11 * width**2 + 2 * tokens * width)


def train_encoders(settings: Any, job: Any, sizes: Sizes) -> Work:
    leaves = _trees(job).leaves
    blocks = settings.blocks_of(job.variant)
    pairs = settings.steps * settings.batch_size
    return Work(
        {
            "steps": settings.steps,
            "GFLOP": 2e-9 * pairs * transformer_operations(leaves, settings.width, blocks),
        }
    )


def measure_sufficiency(settings: Any, job: Any, sizes: Sizes) -> Work:
    size, encoders = _trees(job), len(job.encoders) + 1
    prompts = size.symbols * max(settings.per_class)
    encoded = 2 * settings.samples + settings.classified + prompts
    return Work(
        {"million leaves": 1e-6 * encoders * encoded * size.leaves},
        {"MB": size.bytes_of_samples(settings.samples) / 1e6},
    )


def train_head(settings: Any, job: Any, sizes: Sizes) -> Work:
    trees = _trees(job)
    width, blocks = settings.width_of(job.task), settings.blocks_of(job.arm)
    tokens = 2 * trees.leaves if job.arm == "joint" else trees.leaves + 1
    flops = settings.steps * settings.batch_size * transformer_operations(tokens, width, blocks)
    return Work({"steps": settings.steps, "GFLOP": 1e-9 * flops})


def measure_transfer(settings: Any, job: Any, sizes: Sizes) -> Work:
    size = _trees(job)
    return Work(
        {**_passes(2 * settings.samples, size, 2), "heads": settings.samples * len(job.heads)},
        {"MB": size.bytes_of_samples(settings.samples) / 1e6},
    )
