"""Train two-layer networks at many stepsizes side by side: phases, margins and speed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.stepsize.grid import Part, refuse_repeated

log = logging.getLogger(__name__)

QUICK: list[dict[str, Any]] = [
    {"part": "sweep", "data_set": "xor4", "stepsizes": [16, 32, 64, 96], "seeds": 2,
     "steps": 3000},
    {"part": "sweep", "data_set": "xor_noise", "activations": ["softplus"],
     "stepsizes": [32, 128, 256, 512], "steps": 2000},
    {"part": "sweep", "data_set": "digits_parity", "activations": ["softplus"], "widths": [40],
     "stepsizes": [16, 32, 64, 96], "seeds": 2, "steps": 1500},
    {"part": "sweep", "data_set": "digits_3v8", "widths": [40], "stepsizes": [64, 256, 512],
     "steps": 1500},
    {"part": "sharpness", "data_set": "xor4", "stepsizes": [16, 40, 64, 96], "steps": 1000},
    {"part": "onset", "data_set": "xor4", "stepsizes": [16, 64], "per_octave": 4, "steps": 1000},
    {"part": "activations", "data_set": "xor4", "activations": ["softplus", "gelu",
     "leaky_softplus", "leaky_gelu"], "stepsizes": [8, 32, 64], "steps": 2000},
    {"part": "widths", "data_set": "xor4", "widths": [4, 20, 100], "stepsizes": [16, 64],
     "steps": 2000},
    {"part": "bounds", "data_set": "two_point", "widths": [10], "stepsizes": [16, 64, 256],
     "steps": 10000},
    {"part": "acceleration", "data_set": "two_point", "widths": [10], "stepsizes": [1, 256],
     "per_octave": 4, "steps": 10000},
    {"part": "neurons", "data_set": "five_point", "activations": ["half_softplus"], "widths": [2],
     "stepsizes": [1.5], "steps": 30000},
]  # fmt: skip
"""The quick profile: every measurement of the study, in half a minute of one core."""


class Settings(settings.Settings):
    """What is trained, and what is read off."""

    grid: list[Part] = settings.sweep(
        [Part.model_validate(part) for part in QUICK],
        min_length=1,
        description="Parts of the study, each with `part` (sweep, sharpness, onset, activations, "
        "widths, bounds, acceleration, neurons), `data_set`, `activations`, `widths`, "
        "`stepsizes` (η; with `per_octave` the ends of a geometric ladder), `seeds` and `steps`.",
    )
    cifar_dir: Annotated[str | None, settings.Located()] = settings.sweep(
        None,
        description="Folder cifar-10-batches-bin of CIFAR-10's binary release, for parts of the "
        "data set cifar2; null leaves these out.",
    )
    points: int = Field(60, ge=10, le=200, description="Points of a curve, on a log scale.")
    sharpness_first: int = Field(
        100, ge=0, description="Steps from the start at each of which the sharpness is measured."
    )
    sharpness_points: int = Field(
        60, ge=2, description="Steps after these, on a log scale, at which it is."
    )
    risk_levels: list[Annotated[float, Field(gt=0)]] = Field(
        [0.1, 0.05, 0.01, 0.002, 0.001],
        min_length=1,
        description="Risks to which steps are counted.",
    )
    budgets: list[Annotated[int, Field(ge=1)]] = Field(
        [100, 200, 500, 1000, 2000, 5000, 10000, 20000],
        min_length=1,
        description="Numbers of steps T after which the acceleration is read off.",
    )

    @model_validator(mode="after")
    def _different_parts(self) -> Settings:
        refuse_repeated(self.grid)
        return self


def run(
    settings: Settings,
    *,
    part: str,
    data_set: str,
    activation: str,
    widths: list[int],
    stepsizes: list[float],
    seeds: int,
    steps: int,
    cifar: list[Path],
    checkpoint: Path,
    measurements: Path,
) -> None:
    """Write what was measured on the runs of one part, data set and activation.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    part, data_set, activation : str
        As `mispair.stepsize.grid.Part` names them.
    widths : list of int
        Numbers of neurons m.
    stepsizes : list of float
        η, increasing.
    seeds, steps : int
        How many seeds, from 0 up; T.
    cifar : list of Path
        The files of CIFAR-10, for the data set cifar2; else none.
    checkpoint : Path
        Folder for the states of runs: a job that was killed goes on from them.
    measurements : Path
        Written: metrics rows, each with its ``kind``.
    """
    from mispair.core.metrics import write_metrics
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.core.stamps import stamp
    from mispair.stepsize.cifar import read_cifar
    from mispair.stepsize.cifar_files import CIFAR
    from mispair.stepsize.data_sets import MADE
    from mispair.stepsize.study import Plan, run_plan

    checked = Part(
        part=part, data_set=data_set, activations=[activation], widths=widths,
        stepsizes=stepsizes, seeds=seeds, steps=steps,
    )  # fmt: skip
    plan = Plan(
        part, data_set, activation, checked.widths, checked.ladder, range(seeds), steps,
        settings.points, (settings.sharpness_first, settings.sharpness_points),
        settings.risk_levels, settings.budgets,
    )  # fmt: skip
    make = (lambda seed: read_cifar(cifar, seed)) if data_set == CIFAR else MADE[data_set]
    job = [checked.model_dump_json(), settings.model_dump_json(), stamp(map(str, cifar)),
           *code_version("train_two_layer")]  # fmt: skip
    with checkpoints(checkpoint, fingerprint(job)) as states:
        rows = run_plan(plan, make, states.array_keeper)
        runs = [row for row in rows if row["kind"] == "run"]
        for row in runs:
            label = f"m {row['width']}, η {row['stepsize']:g}, seed {row['seed']}"
            if row["diverged"] >= 0:
                log.warning("%s: diverged at step %d, and was stopped", label, row["diverged"])
            elif not row["settled"]:
                log.warning("%s: its risk still rose at step %d", label, row["transition"])
        if all(row["rises"] > 0 or row["diverged"] >= 0 for row in runs):
            log.warning("no stepsize is monotone: speed has nothing to be compared with")
        write_metrics(measurements, rows, {"plan": checked.model_dump(mode="json")})
    log.info("%d runs of %d steps", len(runs), steps)
