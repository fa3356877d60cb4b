"""How much work the steps of this package have: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import Sizes, Work


def train_two_layer(settings: Any, job: Any, sizes: Sizes) -> Work:
    from mispair.stepsize.data_sets import MADE
    from mispair.stepsize.paths import CIFAR

    points, dimensions = (
        (6000, 3072) if job.data_set == CIFAR else MADE[job.data_set](0).points.shape
    )
    runs = len(job.stepsizes) * job.seeds
    activations = points * sum(job.widths) * runs * job.steps
    return Work(
        {"million activations": 1e-6 * activations,
         "GFLOP": 4e-9 * activations * dimensions,
         "thousand steps of a stack": 1e-3 * len(job.widths) * job.steps},
        {"MB of curves": 4e-5 * runs * job.steps},
    )  # fmt: skip


def train_multilayer(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"thousand steps": 1e-3 * settings.steps * len(settings.stepsizes)})
