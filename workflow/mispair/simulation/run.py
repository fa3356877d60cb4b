"""Run the trials of one condition through all of their arms, at one C_s or at several.

On a CPU trials run one after the other, each on one thread. On a GPU trials of all C_s are trained
side by side, as many as its memory holds, because a single trial leaves it idle.
"""

import logging
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from mispair.core.devices import MEMORY_SHARE, free_memory, in_portions
from mispair.core.progress import Progress
from mispair.core.provenance import fingerprint
from mispair.core.resume import Keeper
from mispair.simulation.sampling.draws import TrialDraws
from mispair.simulation.study import Study
from mispair.simulation.training.encoder import Diverged, Silenced
from mispair.simulation.training.training import (
    Trained,
    TrainingEnd,
    TrainingLength,
    train_side_by_side,
)
from mispair.simulation.trial import PreparedTraining, Row, Trial, rows_of

log = logging.getLogger(__name__)

RETRAINED = ("filtered", "replace-all", "generated-only", "random-decoder")
"""Arms that S4 trains."""

Which = Sequence[tuple[float, int]]
"""Trials, each by its C_s and number."""

Keepers = Callable[[Which, str], Keeper[Tensor] | None]
"""Returns the keeper of a training on an arm, of one trial or of several side by side."""

RowsOfTrials = dict[tuple[float, int], dict[str, list[Row]]]
"""Rows by C_s and trial, and by arm."""


def training_name(which: Which, arm: str) -> str:
    """Return a name for the training of trials on an arm, short for any number of trials."""
    names = [f"{probability:g}-{trial}" for probability, trial in which]
    trials = names[0] if len(names) == 1 else f"{len(names)}-trials-{fingerprint(names)}"
    return f"{trials}-{arm}"


def run_trials(
    study: Study,
    spurious_probabilities: Sequence[float],
    trials: Sequence[int],
    arms: Sequence[str] = ("raw", "filtered"),
    device: str = "cpu",
    keepers: Keepers = lambda which, arm: None,
) -> RowsOfTrials:
    """Run trials of one condition, at each C_s.

    Parameters
    ----------
    study : Study
        All settings.
    spurious_probabilities : sequence of float
        Each C_s, within the range of the study's model of misalignment.
    trials : sequence of int
        With the seed, the number of a trial determines every draw of it.
    arms : sequence of str
        Training data, of `mispair.simulation.study.ARMS`; ``raw`` is always run. With any but
        ``raw`` and ``filtered``, the run is detailed: alignments of single neurons are recorded.
    device : str
        ``cpu`` or ``cuda``.
    keepers : callable, optional
        Returns the keeper of each training.

    Returns
    -------
    dict of (float, int) to dict of str to list of dict
        By C_s and trial, and by arm, rows of ``metric``, ``value`` and distinguishing keys. An arm
        whose training diverged or fell silent has only the row ``diverged_at_step`` or
        ``silenced_at_step``; arms that depend on it have none.
    """
    dtype = torch.float64 if study.precision == "float64" else torch.float32
    runs = list(product(spurious_probabilities, trials))

    def run(which: Which) -> RowsOfTrials:
        group = [
            Trial(study, probability, TrialDraws(study.seed, trial, device, dtype))
            for probability, trial in which
        ]
        Runner(group, arms, keepers).run()
        return dict(zip(which, (trial.rows for trial in group), strict=True))

    outcomes: RowsOfTrials = {}
    for rows_of_portion in in_portions(runs, trials_at_once(study, device), "trials", run):
        outcomes |= rows_of_portion
    return outcomes


def trials_at_once(study: Study, device: str) -> int:
    """Return the number of trials that are trained at the same time: on a CPU, one."""
    if device == "cpu":
        return 1
    return max(1, int(MEMORY_SHARE * free_memory(device) / bytes_of_trial(study)))


def bytes_of_trial(study: Study) -> int:
    """Return an upper bound of the memory of one trial in a stack, in bytes."""
    high, low = study.high_quality_pairs, study.low_quality_pairs
    raw = low if study.data == "fixed" and study.retrain_with_raw else 0
    # Both samples and what S4 trains on, each with images and captions; generated captions; test
    # images; a batch with its noise; weights, gradients and moments of both encoders.
    rows = 2 * (high + low) + 2 * (high + low + raw) + low + 2 * study.test_images
    rows += 6 * study.batch_size + 20 * study.m
    itemsize = 8 if study.precision == "float64" else 4
    return itemsize * (rows * study.d1 + 16 * study.batch_size**2)


class Runner:
    """Takes trials of one study, at any C_s, through their arms; the trials hold their rows.

    Arms and keepers are those of `run_trials`. Trainings that differ in their data only are
    stacked into one.
    """

    def __init__(self, trials: Sequence[Trial], arms: Sequence[str], keepers: Keepers) -> None:
        self.trials, self.arms, self.keepers = trials, arms, keepers
        self.detailed = bool(set(arms) - {"raw", "filtered"})

    def run(self) -> None:
        """Run all arms."""
        # No name holds the samples of S1, so that they are freed before S4.
        self._train("raw", [(trial, trial.pretraining()) for trial in self.trials])
        if "high-quality-only" in self.arms:
            self._train(
                "high-quality-only",
                [(trial, trial.pretraining_on_high_quality()) for trial in self.trials],
            )
        for arm in self.arms:
            if arm in RETRAINED:
                self._retrain(arm)

    def _retrain(self, arm: str) -> None:
        trainings = []
        for trial in self.trials:
            if "raw" not in trial.trained:
                continue
            try:
                trainings.append((trial, trial.retraining(arm)))
            except Diverged as failure:
                _mark(trial, arm, failure, "the decoder")
        self._train(arm, trainings)
        if arm in ("replace-all", "generated-only"):
            return  # their captions are those of the filtered arm, which are reported there
        for trial, _ in trainings:
            if arm in trial.trained:
                trial.rows[arm] += trial.captions(arm).rows

    def _train(self, arm: str, trainings: Sequence[tuple[Trial, PreparedTraining]]) -> None:
        by_length: dict[tuple[int, int], list[tuple[Trial, PreparedTraining]]] = {}
        for trial, training in trainings:
            plan = training.plan
            length = plan.epochs, plan.steps_per_epoch
            by_length.setdefault(length, []).append((trial, training))
        for group in by_length.values():
            plan = group[0][1].plan
            began = time.perf_counter()
            outcomes = self._outcomes(arm, group, plan)
            seconds = time.perf_counter() - began
            log.info(
                "%s: %d x %d steps in %.1f s (%.2f ms a step)",
                arm, len(group), plan.steps, seconds, 1000 * seconds / plan.steps / len(group),
            )  # fmt: skip
            for (trial, training), outcome in zip(group, outcomes, strict=True):
                if isinstance(outcome, Trained):
                    trial.trained[arm] = outcome
                    trial.rows[arm] = self._measure(trial, arm, training, outcome)
                else:
                    _mark(trial, arm, outcome, "training")

    def _outcomes(
        self, arm: str, group: Sequence[tuple[Trial, PreparedTraining]], plan: TrainingLength
    ) -> list[TrainingEnd]:
        """Train a group side by side."""
        trials, sources = [trial for trial, _ in group], [training.source for _, training in group]
        cells = [(trial.spurious_probability, trial.draws.trial) for trial in trials]
        keeper = self.keepers(cells, arm)
        label = f"C_s {cells[0][0]:g}, trial {cells[0][1]}"
        if len(group) > 1:
            label = f"{len(group)} trials"
        with Progress(f"{arm}, {label}", plan.steps, "steps") as progress:
            starts = [training.start for _, training in group]
            return train_side_by_side(starts, sources, plan, keeper, progress.reach)

    def _measure(
        self, trial: Trial, arm: str, training: PreparedTraining, trained: Trained
    ) -> list[Row]:
        examiner, study, encoders = trial.examiner, trial.study, trained.encoders
        rows = [*examiner.figure1(encoders), *examiner.protocols(encoders)]
        rows += examiner.neurons(encoders, self.detailed)
        steps = {"phase2_step": trained.phases.second, "phase3_step": trained.phases.third}
        rows += rows_of({name: step for name, step in steps.items() if step is not None})
        for epoch, losses in enumerate(trained.losses, start=1):
            rows += rows_of({"loss": float(losses.mean())}, epoch=epoch)
        if arm == "raw":
            for tower in ("image", "text"):
                ratio = study.noise_to_signal(f"{tower}_noise")
                rows += rows_of({"noise_to_signal": ratio}, tower=tower)
        return rows


def _mark(trial: Trial, arm: str, failure: Diverged | Silenced, what: str) -> None:
    log.warning(
        "C_s = %g, trial %d, %s arm: %s: %s; the other trials continue",
        trial.spurious_probability, trial.draws.trial, arm, what, failure,
    )  # fmt: skip
    metric = "silenced_at_step" if isinstance(failure, Silenced) else "diverged_at_step"
    trial.rows[arm] = rows_of({metric: failure.step})


def rows(outcomes: RowsOfTrials, **keys: Any) -> list[Row]:
    """Return all rows of `run_trials` with their arm (``trained_on``), C_s, trial and `keys`."""
    return [
        {**row, "trained_on": arm, "spurious_probability": probability, "trial": trial, **keys}
        for (probability, trial), arms in outcomes.items()
        for arm, measured in arms.items()
        for row in measured
    ]
