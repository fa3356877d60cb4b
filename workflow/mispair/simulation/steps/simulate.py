"""Run trials of the sparse-coding study at spurious probabilities, on raw and filtered data."""

import logging
from pathlib import Path

from mispair.core.provenance import fingerprint
from mispair.simulation.settings import Settings
from mispair.simulation.study import ARMS

log = logging.getLogger(__name__)


def run(
    settings: Settings,
    *,
    condition: str,
    spurious_probabilities: list[float],
    trials: list[int],
    arms: list[str],
    checkpoint: Path,
    simulation: Path,
) -> None:
    """Train and measure all arms of each trial, and write metrics rows to `simulation`.

    Parameters
    ----------
    settings : Settings
        Complete for the condition, whose name the rows carry.
    spurious_probabilities : list of float
        Every C_s of this job.
    trials : list of int
        Distinct numbers from 0 up; each trial depends on its own number only.
    arms : list of str
        Training data; see `mispair.simulation.run.run_trials`.
    checkpoint : Path
        Folder of resume states, from which a killed job continues; removed at the end.
    """
    import torch

    from mispair.core.devices import choose_device
    from mispair.core.files import UserError
    from mispair.core.metrics import write_metrics
    from mispair.core.provenance import code_version
    from mispair.core.resume import checkpoints
    from mispair.simulation.run import rows, run_trials, training_name
    from mispair.simulation.sampling.data import NoSuchImages

    for probability in spurious_probabilities:
        if reason := settings.refuse_spurious_probability(probability):
            raise UserError(f"--spurious-probabilities: {reason}.")
    if not trials or min(trials) < 0 or len(set(trials)) < len(trials):
        raise UserError(f"--trials: {trials} must be distinct numbers from 0 up, at least one.")
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise UserError(f"--arms: there is no arm {', '.join(unknown)}.")
    device = choose_device(settings.device)
    if device == "cpu":
        torch.set_num_threads(1)  # sums in one order on every machine
    study = settings.study()
    for name in ("image_noise", "text_noise"):
        ratio = study.noise_to_signal(name)
        log.info("%s: %g times the energy of the signal", name, round(ratio, 4))
    job = [study.model_dump_json(), device, *code_version("simulate")]
    log.info("%s, C_s %s, trials %s on %s", condition, spurious_probabilities, trials, device)
    with checkpoints(checkpoint, fingerprint(job)) as states:
        try:
            results = run_trials(
                study, spurious_probabilities, trials, arms, device,
                lambda which, arm: states.keeper(training_name(which, arm)),
            )  # fmt: skip
        except NoSuchImages as error:
            raise UserError(f"simulate.{error}.") from error
        keys = {"condition": condition, "seed": settings.seed}
        provenance = {"settings": study.model_dump(), "device": device, "condition": condition}
        write_metrics(simulation, rows(results, **keys), provenance)
