"""Run the trials of one condition through all of their arms, at one C_s or at several.

On a CPU trials are run one after the other, each on one thread; on a GPU those of all C_s are
trained side by side, as many as its memory holds, because a single one leaves it idle.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import torch

from mispair.core.devices import MEMORY_SHARE, free_memory, in_portions
from mispair.core.progress import Progress
from mispair.simulation.dynamics import relative_loss_gap
from mispair.simulation.measure import Row
from mispair.simulation.sampling.draws import Draws
from mispair.simulation.study import Study
from mispair.simulation.training.encoder import Diverged, Encoders, Silenced
from mispair.simulation.training.training import Keeper, Plan, Trained, train, train_side_by_side
from mispair.simulation.training.transformer import TransformerEncoders, train_transformer
from mispair.simulation.trial import ROUND, Training, Trial, WatchingKeeper, before

log = logging.getLogger(__name__)

LONGER = "longer"
"""Asks, among the arms, for raw and filtered trainings to go on after their end."""

RETRAINED = ("filtered", "replace-all", "generated-only", "random-decoder")
"""Arms that S4 trains, besides those of further rounds."""

Which = Sequence[tuple[float, int]]
"""Trials, each by its C_s and number."""

Keepers = Callable[[Which, str], Keeper | None]
"""Gives the keeper of the training of trials, side by side if they are several, on an arm."""

Found = dict[tuple[float, int], dict[str, list[Row]]]
"""Rows by C_s and trial, and by arm."""


def is_arm(name: str) -> bool:
    """Tell whether something is the name of an arm."""
    number = name.removeprefix(ROUND)
    further = name.startswith(ROUND) and number.isdecimal() and int(number) > 1
    return further or name in ("raw", "high-quality-only", LONGER, *RETRAINED)


def run_trials(
    study: Study,
    spurious_probabilities: Sequence[float],
    trials: Sequence[int],
    arms: Sequence[str] = ("raw", "filtered"),
    device: str = "cpu",
    keepers: Keepers = lambda which, arm: None,
) -> Found:
    """Run trials of one condition.

    Parameters
    ----------
    study : Study
        All settings.
    spurious_probabilities : sequence of float
        Each C_s, within the range of the study's model of misalignment.
    trials : sequence of int
        Numbers of the trials, run at each C_s; with the seed, a number determines every draw of
        its trial.
    arms : sequence of str
        On what to train: ``raw`` (always run), ``filtered`` and further rounds ``filtered-2``, ...,
        ``replace-all``, ``generated-only``, ``random-decoder``, ``high-quality-only``. With any but
        the first two, the run is detailed: it also trains on, to see how much lower losses get,
        and gives the alignments of single neurons and, of trial 0, an embedding of the test images.
        ``longer`` is no arm: it asks for the first of these only.
    device : str
        ``cpu`` or ``cuda``.
    keepers : callable, optional
        Gives the keeper of each training.

    Returns
    -------
    dict of (float, int) to dict of str to list of dict
        By C_s and trial, and by arm, rows of ``metric``, ``value`` and what tells them apart. An
        arm whose training diverged or fell silent has the one row ``diverged_at_step`` or
        ``silenced_at_step``; arms that would have to be made from it have none.
    """
    if study.encoder == "transformer":
        # Only a one-layer encoder sees noise through products with its weights.
        study = study.model_copy(update={"noise_draws": "full"})
    dtype = torch.float64 if study.precision == "float64" else torch.float32
    runs = list(product(spurious_probabilities, trials))

    def run(which: Which) -> Found:
        group = [
            Trial(study, probability, Draws(study.seed, trial, device, dtype))
            for probability, trial in which
        ]
        run_side_by_side(group, arms, keepers)
        return dict(zip(which, (trial.rows for trial in group), strict=True))

    outcomes: Found = {}
    for rows_of_portion in in_portions(runs, trials_at_once(study, device), "trials", run):
        outcomes |= rows_of_portion
    return outcomes


def trials_at_once(study: Study, device: str) -> int:
    """Return how many trials are to be trained at the same time: on a CPU, one."""
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


def run_side_by_side(
    trials: Sequence[Trial],
    arms: Sequence[str] = ("raw", "filtered"),
    keepers: Keepers = lambda which, arm: None,
) -> None:
    """Take trials of one study, at any C_s, through their arms; their rows are found in them.

    Arms and keepers are those of `run_trials`. Trainings that are alike in all but their data are
    stacked into one.
    """
    _Runner(trials, arms, keepers).run()


class _Runner:
    """Takes trials of one condition through their arms, side by side where that is faster."""

    def __init__(self, trials: Sequence[Trial], arms: Sequence[str], keepers: Keepers) -> None:
        self.trials, self.arms, self.keepers = trials, arms, keepers
        self.detailed = bool(set(arms) - {"raw", "filtered", LONGER})

    def run(self) -> None:
        # No name holds the samples of S1, so that they are freed before S4.
        self._train("raw", [(trial, trial.pretraining()) for trial in self.trials])
        for trial in self.trials:
            if "raw" in trial.trained:
                trial.rows["raw"] += trial.trajectories()
        if "high-quality-only" in self.arms:
            self._train(
                "high-quality-only",
                [(trial, trial.pretraining_on_high_quality()) for trial in self.trials],
            )
        for arm in self.arms:
            if arm in RETRAINED or arm.startswith(ROUND):
                self._retrain(arm)

    def _retrain(self, arm: str) -> None:
        needed = before(arm) if arm.startswith(ROUND) else "raw"
        trainings = []
        for trial in self.trials:
            if needed not in trial.trained:
                continue
            try:
                trainings.append((trial, trial.retraining(arm)))
            except Diverged as failure:
                _mark(trial, arm, failure, "the decoder")
        self._train(arm, trainings)
        if arm in ("replace-all", "generated-only"):
            return  # made of the captions of the filtered arm, which are reported there
        for trial, _ in trainings:
            if arm in trial.trained:
                trial.rows[arm] += trial.captions(arm).rows

    def _train(self, arm: str, trainings: Sequence[tuple[Trial, Training]]) -> None:
        for plan, group in _by_plan(trainings).items():
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
        self, arm: str, group: Sequence[tuple[Trial, Training]], plan: Plan
    ) -> list[Trained | Diverged | Silenced]:
        starts = [training.start for _, training in group]
        sources = [training.source for _, training in group]
        watching = [trial for trial, _ in group if arm == "raw" and trial.follows_theory]
        one_layer = [start for start in starts if isinstance(start, Encoders)]
        if len(group) > 1 and len(one_layer) == len(starts):
            watches = [trial.watch for trial in watching]
            keeper = self._keeper(arm, [trial for trial, _ in group], watching)
            with Progress(f"{arm}, {len(group)} trials", plan.steps, "steps") as progress:
                return train_side_by_side(one_layer, sources, plan, watches, keeper, progress.reach)
        outcomes: list[Trained | Diverged | Silenced] = []
        for (trial, training), start in zip(group, starts, strict=True):
            keeper = self._keeper(arm, [trial], [trial] if trial in watching else [])
            batch = training.source.batch
            which = f"{arm}, C_s {trial.spurious_probability:g}, trial {trial.draws.trial}"
            try:
                with Progress(which, plan.steps, "steps") as progress:
                    if isinstance(start, TransformerEncoders):
                        outcomes.append(
                            train_transformer(start, batch, plan, keeper, progress.reach)
                        )
                    else:
                        watch = trial.watch if trial in watching else None
                        outcomes.append(train(start, batch, plan, keeper, watch, progress.reach))
            except (Diverged, Silenced) as failure:
                outcomes.append(failure)
        return outcomes

    def _keeper(
        self, arm: str, trials: Sequence[Trial], watching: Sequence[Trial]
    ) -> Keeper | None:
        which = [(trial.spurious_probability, trial.draws.trial) for trial in trials]
        keeper = self.keepers(which, arm)
        return WatchingKeeper(keeper, watching) if keeper is not None and watching else keeper

    def _measure(self, trial: Trial, arm: str, training: Training, trained: Trained) -> list[Row]:
        examiner, study, encoders = trial.examiner, trial.study, trained.encoders
        rows = [*examiner.figure1(encoders), *examiner.protocols(encoders)]
        if isinstance(encoders, Encoders):
            rows += examiner.neurons(encoders, self.detailed)
        steps = {"phase2_step": trained.phases.second, "phase3_step": trained.phases.third}
        rows += [{"metric": key, "value": step} for key, step in steps.items() if step is not None]
        rows += [
            {"metric": "loss", "value": float(of_epoch.mean()), "epoch": epoch}
            for epoch, of_epoch in enumerate(trained.losses, start=1)
        ]
        if arm == "raw":
            rows += [
                {"metric": "noise_to_signal", "value": study.noise_to_signal(f"{tower}_noise"),
                 "tower": tower}
                for tower in ("image", "text")
            ]  # fmt: skip
        if arm in ("raw", "filtered"):
            if self.detailed or LONGER in self.arms:
                rows += self._loss_gap(trial, arm, training, trained)
            if self.detailed and trial.draws.trial == 0:
                rows += examiner.embedding(encoders)
        return rows

    def _loss_gap(self, trial: Trial, arm: str, training: Training, trained: Trained) -> list[Row]:
        """Train on, and compare with the lower of the two losses.

        This is a local reference for Theorem 4.1: the same run continued, with its thresholds
        held. How far its loss lies above the optimum L* is not known.
        """
        if trial.study.longer_steps == 0:
            return []
        longer = trial.longer(training, trained)
        (outcome,) = self._outcomes(f"{arm}-longer", [(trial, longer)], longer.plan)
        if not isinstance(outcome, Trained):
            return []
        loss = trial.loss(trained.encoders, training.source)
        reference = min(loss, trial.loss(outcome.encoders, training.source))
        rows: list[Row] = [{"metric": "loss_longer", "value": reference}]
        if reference != 0:
            rows.append({"metric": "loss_gap", "value": relative_loss_gap(loss, reference)})
        return rows


def _by_plan(
    trainings: Iterable[tuple[Trial, Training]],
) -> dict[Plan, list[tuple[Trial, Training]]]:
    groups: dict[Plan, list[tuple[Trial, Training]]] = {}
    for trial, training in trainings:
        groups.setdefault(training.plan, []).append((trial, training))
    return groups


def _mark(trial: Trial, arm: str, failure: Diverged | Silenced, what: str) -> None:
    log.warning(
        "C_s = %g, trial %d, %s arm: %s: %s; the other trials go on",
        trial.spurious_probability, trial.draws.trial, arm, what, failure,
    )  # fmt: skip
    metric = "silenced_at_step" if isinstance(failure, Silenced) else "diverged_at_step"
    trial.rows[arm] = [{"metric": metric, "value": failure.step}]


def rows(outcomes: Found, **keys: Any) -> list[Row]:
    """Return all rows of `run_trials` with their arm (``trained_on``), C_s, trial and `keys`."""
    return [
        {**row, "trained_on": arm, "spurious_probability": probability, "trial": trial, **keys}
        for (probability, trial), arms in outcomes.items()
        for arm, measured in arms.items()
        for row in measured
    ]
