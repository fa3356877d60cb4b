"""Run trials of the sparse-coding study at one spurious probability, on raw and filtered data."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mispair import settings
from mispair.simulation.study import Study

log = logging.getLogger(__name__)


class Settings(Study):
    """Settings of the simulation study."""

    spurious_probabilities: list[Annotated[float, Field(ge=0, lt=1)]] = settings.sweep(
        [0.1, 0.3, 0.5],
        min_length=1,
        description="Spurious probabilities C_s: share of captions redrawn, 0 to below 1.",
    )
    trials: int = settings.sweep(2, ge=1, description="Trials at each spurious probability.")
    trials_per_job: int = settings.sweep(1, ge=1, description="Trials that one job runs in turn.")


def run(
    settings: Settings, *, spurious_probability: float, trials: list[int], simulation: Path
) -> None:
    """Write the metrics, losses and cosine histograms of both arms of each trial.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    spurious_probability : float
        C_s of this job.
    trials : list of int
        Numbers of the trials, at least 0; each depends on its own number only.
    simulation : Path
        Written: metrics rows with ``trained_on``, ``spurious_probability``, ``trial``, ``seed``.
    """
    import torch

    from mispair.devices import choose_device
    from mispair.files import UserError
    from mispair.metrics import write_metrics
    from mispair.simulation.trial import rows, run_trial

    if not 0 <= spurious_probability < 1:
        raise UserError(f"--spurious-probability: {spurious_probability} is outside [0, 1).")
    if not trials or min(trials) < 0 or len(set(trials)) < len(trials):
        raise UserError(f"--trials: {trials} must be distinct numbers from 0 up, at least one.")
    device = choose_device(settings.device)
    if device == "cpu":
        torch.set_num_threads(1)  # sums in one order, whatever the machine
    found = []
    for trial in trials:
        log.info("C_s = %g, trial %d on %s", spurious_probability, trial, device)
        arms = run_trial(settings, spurious_probability, trial, device)
        found += rows(
            arms, spurious_probability=spurious_probability, trial=trial, seed=settings.seed
        )
    sweeps = {"spurious_probabilities", "trials", "trials_per_job"}
    provenance = {"settings": settings.model_dump(exclude=sweeps), "device": device}
    write_metrics(simulation, found, provenance)
