"""Which trials, C_s and arms a configuration of the simulation study runs."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mispair.simulation.conditions import conditions
from mispair.simulation.dag import ARMS, SimulationJob, jobs
from mispair.simulation.steps.simulate import Settings

TWO = ("raw", "filtered")
EVERY = (
    "raw", "filtered", "replace-all", "generated-only", "random-decoder",
)  # fmt: skip


def run(**content: Any) -> list[SimulationJob]:
    settings = Settings(**{"trials_per_job": 1, **content})
    return jobs(settings, conditions(settings))


def test_arms_are_run_in_the_first_trials_and_cut_a_job_where_they_end() -> None:
    found = run(trials=5, trials_per_job=3, spurious_probabilities=[0.0, 0.1, 0.3], arms_trials=1)
    found.sort(key=lambda job: (job.spurious_probability, job.trials.start))
    assert found == [
        SimulationJob("as-run", 0.0, range(0, 1), ("raw", "filtered", "high-quality-only")),
        SimulationJob("as-run", 0.0, range(1, 3), TWO),
        SimulationJob("as-run", 0.0, range(3, 5), TWO),
        SimulationJob("as-run", 0.1, range(0, 3), TWO),
        SimulationJob("as-run", 0.1, range(3, 5), TWO),
        SimulationJob("as-run", 0.3, range(0, 1), EVERY),
        SimulationJob("as-run", 0.3, range(1, 3), TWO),
        SimulationJob("as-run", 0.3, range(3, 5), TWO),
    ]


def test_sizes_are_run_on_both_arms() -> None:
    found = run(
        preset="as-written", trials=1, spurious_probabilities=[0.3], scaling_trials=4,
        scaling_dimensions=[50, 100], scaling_probability=0.4,
        trials_per_job=2,
    )  # fmt: skip
    assert found == [
        SimulationJob("as-written", 0.3, range(0, 1), TWO),
        *(
            job
            for d in (50, 100)
            for job in (
                SimulationJob(f"scaling~{d}", 0.4, range(0, 2), TWO),
                SimulationJob(f"scaling~{d}", 0.4, range(2, 4), TWO),
            )
        ),
    ]


def test_arms_bring_the_oracle_with_them() -> None:
    found = run(trials=2, spurious_probabilities=[0.3], arms_trials=1)
    assert found[-1] == SimulationJob("as-run", 0.0, range(0, 1), ("raw", "high-quality-only"))
    assert len(found) == 3


def test_the_bridge_brings_its_two_ends_with_it() -> None:
    found = run(
        trials=4, trials_per_job=9, spurious_probabilities=[0.1], bridge_trials=2,
        bridge_probabilities=[0.3], bridge_switches=["loss"],
    )  # fmt: skip
    assert found == [
        SimulationJob("as-run", 0.1, range(0, 4), TWO),
        SimulationJob("as-run", 0.3, range(0, 2), TWO),
        SimulationJob("as-written", 0.3, range(0, 2), TWO),
        SimulationJob("bridge~loss", 0.3, range(0, 2), TWO),
    ]


def test_the_grid_has_its_own_trials() -> None:
    found = run(trials=1, grid_trials=2, grid_probability=0.2, grid_noises=[0.02],
                grid_misalignments=["groups"], grid_bias_schedules=["zero"])  # fmt: skip
    assert [job for job in found if job.condition != "as-run"] == [
        SimulationJob("grid~0.02~groups~zero", 0.2, range(0, 1), TWO),
        SimulationJob("grid~0.02~groups~zero", 0.2, range(1, 2), TWO),
    ]


@given(
    trials=st.integers(1, 7),
    size=st.integers(1, 4),
    arms=st.integers(0, 7),
    bridge=st.integers(0, 7),
    probabilities=st.lists(st.sampled_from([0.0, 0.1, 0.3]), min_size=1, unique=True),
)
def test_no_arm_is_trained_twice(trials, size, arms, bridge, probabilities) -> None:
    found = run(
        trials=trials, trials_per_job=size, spurious_probabilities=probabilities,
        compare_presets=True, arms_trials=min(arms, trials), arms_probabilities=[0.3, 0.0],
        bridge_trials=min(bridge, trials), bridge_switches=["filter"],
    )  # fmt: skip
    trained = Counter(
        (job.condition, job.spurious_probability, trial, arm)
        for job in found
        for trial in job.trials
        for arm in job.arms
    )
    assert set(trained.values()) == {1}
    assert all(0 < len(job.trials) <= size for job in found)
    for trial in range(min(arms, trials)):
        at_0 = {arm for *rest, arm in trained if rest == ["as-run", 0.0, trial]}
        assert at_0 == set(ARMS)
