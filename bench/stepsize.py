"""The stepsize study's engine against a plain loop over runs, on the full grid.

The naive twin does what a first script does: one run after another, φ and φ' by the usual functions
of NumPy and SciPy. Both take the first steps of every part of config/stepsize.yaml that
needs no files; what these take is scaled to the full number of steps. The study's jobs go to two
cores, as Snakemake sends them; the twin is one script. The multi-layer perceptron is
left out: it would do the same there.
"""

import concurrent.futures
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit

from mispair.stepsize.data_sets import MADE, DataSet, output_signs
from mispair.stepsize.descent import descend
from mispair.stepsize.measures import stacks
from mispair.stepsize.networks import Activation
from mispair.stepsize.paths import CIFAR
from mispair.stepsize.settings import Part

Row = tuple[str, str, str, str]
CONFIG = Path(__file__).parents[1] / "config" / "stepsize.yaml"
SHARE = 40
"""One step in so many of the full grid is taken."""
LEAST = 20
CORES = 2
AGREEMENT = 1e-9
LEAK, SCALE = 0.5, 0.125


def naive(
    data: DataSet, activation: Activation, stepsize: float, start: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Train one network by a plain loop; return the risk at each step and the last weights."""
    name = activation.name

    def both(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if name == "softplus":
            return np.logaddexp(0, z), expit(z)
        if name == "leaky_softplus":
            return LEAK * z + SCALE * np.logaddexp(0, z), LEAK + SCALE * expit(z)
        return activation.value(z), activation.slope(z)

    w, width = start.copy(), len(start)
    signs, risks = output_signs(width), []
    for step in range(steps + 1):
        value, slope = both(data.points @ w.T)
        q = data.labels * (value @ signs) / width
        risks.append(np.logaddexp(0, -q).mean())
        np.linalg.norm(w), q.min(), expit(-q).mean()  # what is logged besides
        if step < steps:
            pulls = (expit(-q) * data.labels)[:, None] * slope * signs
            w += width * stepsize * (pulls.T @ data.points) / (len(q) * width)
    return np.array(risks), w


def jobs() -> list[Part]:
    """Return the jobs of the full grid: its parts, each with one activation."""
    import yaml

    grid = yaml.safe_load(CONFIG.read_text())["train_two_layer"]["grid"]
    parts = [Part.model_validate(part) for part in grid if part["data_set"] != CIFAR]
    return [
        part.model_copy(update={"activations": [activation]})
        for part in parts
        for activation in part.activations
    ]


def _steps(job: Part) -> int:
    return max(LEAST, job.steps // SHARE)


def _engine(job: Part) -> float:
    found = 0.0
    for _, stack, _ in stacks(job, MADE[job.data_set]):
        started = time.perf_counter()
        descend(stack, _steps(job))
        found += time.perf_counter() - started
    return found * job.steps / _steps(job)


def _naive(job: Part) -> float:
    found = 0.0
    for _, stack, _ in stacks(job, MADE[job.data_set]):
        risks = []
        started = time.perf_counter()
        for start, stepsize in zip(stack.start, stack.stepsizes, strict=True):
            risks.append(naive(stack.data, stack.activation, stepsize, start, _steps(job))[0])
        found += time.perf_counter() - started
        ours = descend(stack, _steps(job)).risk[:LEAST]
        theirs = np.stack(risks, axis=1)[:LEAST]
        if not np.allclose(ours, theirs, rtol=AGREEMENT, atol=0):
            raise SystemExit(f"the twins do not train alike: {job}")
    return found * job.steps / _steps(job)


def measure() -> Iterator[Row]:
    """Measure the full grid by both."""
    every = sorted(jobs(), key=lambda job: job.steps, reverse=True)
    theirs = sum(map(_naive, every))
    one = sum(map(_engine, every))
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(CORES, mp_context=context) as pool:
        list(pool.map(_engine, every[:CORES]))  # what is imported once counts for none
        each = list(pool.map(_engine, every))
    busy = [0.0] * CORES
    for seconds in sorted(each, reverse=True):
        busy[busy.index(min(busy))] += seconds
    runs = sum(len(job.widths) * len(job.ladder) * job.seeds for job in every)
    yield (
        f"stepsize, full grid ({runs} runs, {len(every)} jobs), on one core",
        f"{one:.0f} s",
        f"{theirs:.0f} s by a plain loop over the runs (same risks to {AGREEMENT:g}); both from a "
        f"{SHARE}th of the steps",
        f"{theirs / one:.2f}x",
    )
    yield (
        f"stepsize, full grid, {CORES} jobs at a time",
        f"{max(busy):.0f} s",
        f"{theirs:.0f} s by the loop",
        f"{theirs / max(busy):.2f}x",
    )
