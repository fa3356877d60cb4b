"""Train perceptrons of four layers with GELU at several stepsizes, stacked."""

import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """What is trained; nothing unless stepsizes are given."""

    data_sets: list[Literal["digits_parity", "cifar2"]] = settings.sweep(
        ["digits_parity"],
        min_length=1,
        description="Data sets; cifar2 needs train_two_layer.cifar_dir.",
    )
    stepsizes: list[Annotated[float, Field(gt=0)]] = Field(
        [], description="Steps on the weights; with [] nothing is trained."
    )
    width: int = Field(64, ge=1, description="Neurons of each hidden layer; the paper has 200.")
    steps: int = Field(4000, ge=10, description="Steps of gradient descent T.")
    seed: int = Field(0, ge=0, description="Seed of the first weights and of the split.")
    points: int = Field(60, ge=10, le=200, description="Points of a curve, on a log scale.")


def run(
    settings: Settings, *, data_set: str, cifar: list[Path], checkpoint: Path, measurements: Path
) -> None:
    """Write what was measured on the runs of one data set; see `train_two_layer`."""
    import torch

    from mispair.core.files import UserError
    from mispair.core.metrics import write_metrics
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.core.stamps import stamp
    from mispair.stepsize.data_sets import data_maker
    from mispair.stepsize.multilayer import train

    if not settings.stepsizes:
        raise UserError("train_multilayer.stepsizes: is empty, so there is nothing to train.")
    torch.set_num_threads(1)  # sums in one order on every machine
    data = data_maker(data_set, cifar)(settings.seed)
    job = [settings.model_dump_json(), data_set, stamp(map(str, cifar)),
           *code_version("train_multilayer")]  # fmt: skip
    with checkpoints(checkpoint, fingerprint(job)) as states:
        with Progress(f"training on {data_set}", settings.steps, "steps") as progress:
            rows = train(
                data, settings.width, settings.stepsizes, settings.steps, settings.seed,
                settings.points, states.array_keeper(data_set), progress.reach,
            )  # fmt: skip
        rows = [{**row, "data_set": data_set} for row in rows]
        write_metrics(measurements, rows, {"settings": settings.model_dump(mode="json")})
    for row in rows:
        if row["kind"] == "run" and row["diverged"] >= 0:
            log.warning("stepsize %g: diverged at step %d", row["stepsize"], row["diverged"])
