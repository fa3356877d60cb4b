"""Train two-layer networks at many stepsizes side by side: phases, margins and speed."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mispair.stepsize.settings import Part
from mispair.stepsize.settings import TwoLayerSettings as Settings

log = logging.getLogger(__name__)


def run(
    settings: Settings, *, part: str, data_set: str, activation: str, widths: list[int],
    stepsizes: list[float], seeds: int, steps: int, cifar: list[Path], checkpoint: Path,
    measurements: Path,
) -> None:  # fmt: skip
    """Write what was measured on the runs of one part, data set and activation.

    `mispair.stepsize.settings.Part` explains the parameters of the job; seeds count from 0. `cifar`
    are the files of CIFAR-10, for the data set cifar2. A job that is killed continues from the
    states in the folder `checkpoint`. Each row has its ``kind``.
    """
    from mispair.core.metrics import write_metrics
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.core.stamps import stamp
    from mispair.stepsize.data_sets import data_maker
    from mispair.stepsize.measures import run_part

    checked = Part(
        part=part, data_set=data_set, activations=[activation], widths=widths,
        stepsizes=stepsizes, seeds=seeds, steps=steps,
    )  # fmt: skip
    job = [checked.model_dump_json(), settings.model_dump_json(), stamp(map(str, cifar)),
           *code_version("train_two_layer")]  # fmt: skip
    with checkpoints(checkpoint, fingerprint(job)) as states:
        rows = run_part(checked, settings, data_maker(data_set, cifar), states.array_keeper)
        _warn_of_failures([row for row in rows if row["kind"] == "run"])
        write_metrics(measurements, rows, {"plan": checked.model_dump(mode="json")})


def _warn_of_failures(runs: Sequence[dict[str, Any]]) -> None:
    """Log the runs that diverge or do not settle, and a list of stepsizes that all oscillate."""
    for row in runs:
        label = f"m {row['width']}, η {row['stepsize']:g}, seed {row['seed']}"
        if row["diverged"] >= 0:
            log.warning("%s: diverged at step %d, and was stopped", label, row["diverged"])
        elif not row["settled"]:
            log.warning("%s: its risk still rose at step %d", label, row["transition"])
    if all(row["rises"] > 0 or row["diverged"] >= 0 for row in runs):
        log.warning("no stepsize is monotone: speed has nothing to be compared with")
    log.info("%d runs of %d steps", len(runs), runs[0]["steps"])
