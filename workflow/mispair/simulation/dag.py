"""Jobs of the study, and the files of results from which the report is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mispair.core.paths import fill
from mispair.core.settings import command_line
from mispair.simulation.conditions import Condition, conditions, refuse
from mispair.simulation.paths import SIMULATION
from mispair.simulation.study import ARMS

if TYPE_CHECKING:
    from mispair.simulation.steps.simulate import Settings


FIGURE_1 = ("raw", "filtered")
INDEPENDENT_OF_C_S = ("raw", "high-quality-only")
"""Arms that every C_s is compared with: raw at C_s = 0 is the oracle."""


@dataclass(frozen=True)
class SimulationJob:
    """Some trials of one condition at one C_s, on the training data of each of the arms."""

    condition: str
    spurious_probability: float
    trials: range
    arms: tuple[str, ...]


@dataclass(frozen=True)
class _Request:
    """The runs that one key of the configuration requests: first trials, some arms, some C_s."""

    key: str
    probabilities: Iterable[float]
    trials: int
    arms: Iterable[str]


def jobs(settings: Settings, conditions: dict[str, Condition]) -> list[SimulationJob]:
    """Return the jobs of a configuration, with each trial, C_s and arm once.

    A job has at most `trials_per_job` trials, all on the same arms.
    A C_s that only the arms or the bridge name is run in the base condition too, as a comparison.

    Raises
    ------
    UserError
        If a C_s is outside the range of a condition's model of misalignment, or a key requests
        more trials than there are.
    """
    planned: list[SimulationJob] = []
    problems: dict[str, list[str]] = {}
    for key in ("arms_trials", "bridge_trials"):
        if (number := getattr(settings, key)) > settings.trials:
            problems[f"simulate.{key}: {number} are more than the {settings.trials} trials"] = []
    for condition in conditions.values():
        arms_of: dict[float, dict[int, set[str]]] = {}
        for request in _requests(settings, condition):
            for probability in request.probabilities if request.trials else ():
                reason = condition.study.refuse_spurious_probability(probability)
                if reason:
                    problems.setdefault(f"simulate.{request.key}: {reason}", []).append(
                        condition.name
                    )
                for trial in range(request.trials):
                    arms = arms_of.setdefault(probability, {}).setdefault(trial, set())
                    arms.update(request.arms)
        planned += [
            SimulationJob(condition.name, probability, *chunk)
            for probability, trials in arms_of.items()
            for chunk in _chunks(trials, settings.trials_per_job)
        ]
    refuse(problems)
    return planned


def _requests(settings: Settings, condition: Condition) -> Iterator[_Request]:
    s, kind = settings, condition.kind
    if kind == "base" or (kind == "preset" and s.compare_presets):
        yield _Request("spurious_probabilities", s.spurious_probabilities, s.trials, FIGURE_1)
    if kind == "grid":
        yield _Request("grid_probability", [s.grid_probability], s.grid_trials, FIGURE_1)
    elif kind == "scaling":
        yield _Request("scaling_probability", [s.scaling_probability], s.scaling_trials, FIGURE_1)
    else:
        yield _Request("bridge_probabilities", s.bridge_probabilities, s.bridge_trials, FIGURE_1)
    if kind == "base":
        with_every_arm = set(ARMS) - set(INDEPENDENT_OF_C_S) | {"raw"}
        yield _Request("arms_probabilities", s.arms_probabilities, s.arms_trials, with_every_arm)
        yield _Request("arms_trials", [0.0], s.arms_trials, INDEPENDENT_OF_C_S)


def _chunks(trials: dict[int, set[str]], size: int) -> Iterator[tuple[range, tuple[str, ...]]]:
    """Cut trials 0, 1, ... into jobs: at every multiple of `size`, and where the arms change."""
    cuts = groupby(sorted(trials), lambda trial: (trial // size, trials[trial]))
    for (_, arms_of), chunk in cuts:
        first, *following = chunk
        arms = tuple(arm for arm in ARMS if arm in arms_of)
        yield range(first, first + 1 + len(following)), arms


class Simulation:
    """The jobs of a checked configuration; there are none if the study does not run.

    Methods that take wildcards return what one job has.

    Raises
    ------
    UserError
        If the settings do not fit; see `jobs`.
    """

    def __init__(self, dag: Any) -> None:
        runs = dag.runs("simulation")
        self.conditions = conditions(dag.config.simulate) if runs else {}
        planned = jobs(dag.config.simulate, self.conditions) if runs else []
        self._jobs = {_path(job): job for job in planned}

    def files(self) -> list[str]:
        """Return the results of every condition; a file has one C_s and a chunk of trials."""
        return list(self._jobs)

    def flags(self, wildcards: Any) -> str:
        """Return all settings of a condition as one string of command-line flags."""
        return command_line(self.conditions[wildcards.condition].study)

    def arms(self, wildcards: Any) -> list[str]:
        """Return the arms of a job; by default those of figure 1.

        From the wildcards alone: Snakemake compares no params that are derived from the output.
        """
        job = self._jobs.get(fill(SIMULATION, **dict(wildcards.items())))
        return [*(job.arms if job else FIGURE_1)]

    @staticmethod
    def trials(wildcards: Any) -> list[int]:
        """Return the trials of a chunk."""
        return list(range(int(wildcards.first), int(wildcards.last) + 1))


def _path(job: SimulationJob) -> str:
    return fill(
        SIMULATION,
        condition=job.condition,
        spurious_probability=f"{job.spurious_probability:g}",
        first=job.trials[0],
        last=job.trials[-1],
    )


def results(dag: Any) -> list[str]:
    """Return all files of results of a `mispair.dag.Dag`; none if the study does not run."""
    files: list[str] = dag.simulation.files()
    return files
