"""What a unit of work costs: measured on recorded jobs, kept in ``rates.json``, and applied.

A rate is a line through recorded jobs: seconds = start + rate x units, for memory and output alike.
No coefficient is negative, and errors count in proportion to what was measured, so that a job of a
second weighs as much as one of an hour.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mispair.core.work import Quantities, Work

RATES = Path(__file__).with_name("rates.json")
START = "start"
ASPECTS = ("seconds", "megabytes", "disk_megabytes")


@dataclass(frozen=True)
class Record:
    """A job that has run: its work, and what it took.

    Attributes
    ----------
    step : str
        Its step.
    work : Work
        What it was given to do.
    seconds : float
        Wall time.
    megabytes : float, optional
        Largest memory; None where nothing was recorded.
    disk_megabytes : float
        Size of its outputs.
    """

    step: str
    work: Work
    seconds: float
    megabytes: float | None
    disk_megabytes: float


@dataclass(frozen=True)
class Rate:
    """What a step costs.

    Attributes
    ----------
    seconds, megabytes, disk_megabytes : dict of str to float
        The cost of a job without work (``start``) and of each unit.
    jobs : int
        Jobs that it was measured on.
    largest : dict of str to float
        The largest amount of work among them, by unit.
    """

    seconds: Quantities
    megabytes: Quantities
    disk_megabytes: Quantities
    jobs: int
    largest: Quantities

    def cost(self, aspect: str, work: Work) -> float:
        """Return what a job takes of an aspect: seconds, megabytes or disk_megabytes."""
        rates: Quantities = getattr(self, aspect)
        amounts: Quantities = {START: 1.0, **getattr(work, aspect)}
        return sum(rates.get(unit, 0.0) * amount for unit, amount in amounts.items())

    def beyond(self, work: Work) -> float:
        """Return how many times the largest recorded work a job's is, in its farthest unit.

        Work in a unit that was never recorded is infinitely far: its rate is not known.
        """
        return max(
            (
                amount / self.largest[unit] if self.largest.get(unit) else float("inf")
                for unit, amount in work.seconds.items()
                if amount > 0
            ),
            default=1.0,
        )


@dataclass(frozen=True)
class Measured:
    """Rates of all steps on one machine.

    Attributes
    ----------
    machine : dict
        What it is: ``processor``, ``cores``, ``device`` (cpu, or the name of a GPU), and what
        `calibrate` took on it in seconds.
    steps : dict of str to Rate
        By step, or by ``step:variant``.
    """

    machine: dict[str, Any]
    steps: dict[str, Rate] = field(default_factory=dict)


def name_of(step: str, work: Work) -> str:
    """Return the name that the rates of a job go by."""
    return f"{step}:{work.variant}" if work.variant else step


def fit(records: Sequence[Record]) -> dict[str, Rate]:
    """Fit a rate to the records of each step and variant."""
    by_name: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_name[name_of(record.step, record.work)].append(record)
    rates = {}
    for name, same in sorted(by_name.items()):
        lines = {}
        for aspect in ASPECTS:
            pairs = [
                (getattr(record.work, aspect), value)
                for record in same
                if (value := getattr(record, aspect)) is not None
            ]
            lines[aspect] = line_through(pairs)
        largest: dict[str, float] = {}
        for record in same:
            for unit, amount in record.work.seconds.items():
                largest[unit] = max(amount, largest.get(unit, 0.0))
        rates[name] = Rate(**lines, jobs=len(same), largest=largest)
    return rates


def line_through(measured: Sequence[tuple[Quantities, float]]) -> Quantities:
    """Fit value = start + sum of rate x amount, with no coefficient below zero.

    Values that are all of the same work have one coefficient only: if their units were all there
    is, nothing says how much is ``start``, and it is put there.

    Examples
    --------
    >>> line = line_through([({"pairs": 10}, 7.0), ({"pairs": 20}, 12.0)])
    >>> round(line["start"], 6), round(line["pairs"], 6)
    (2.0, 0.5)
    """
    import numpy as np
    from scipy.optimize import nnls

    measured = [(amounts, value) for amounts, value in measured if value > 0]
    if not measured:
        return {}
    units = sorted({unit for amounts, _ in measured for unit in amounts})
    values = np.array([value for _, value in measured])
    table = np.array([[amounts.get(unit, 0.0) for unit in units] for amounts, _ in measured])
    table = table.reshape(len(values), len(units))
    varies = [column for column in range(len(units)) if np.ptp(table[:, column]) > 0]
    table = np.column_stack([np.ones(len(values)), table[:, varies]])
    scale = table.max(axis=0)
    coefficients, _ = nnls(table / scale / values[:, None], np.ones(len(values)))
    names = [START, *(units[column] for column in varies)]
    return {
        name: float(f"{value:.4g}")
        for name, value in zip(names, coefficients / scale, strict=True)
        if value > 0
    }


def calibrate(repetitions: int = 30) -> float:
    """Return the seconds that this machine takes for a fixed piece of work: how fast a core is.

    Processor time, and the least of several: another program on the same core costs nothing.
    """
    least = float("inf")
    for _ in range(repetitions):
        started = time.thread_time()
        texts = [str(number * number % 7919) for number in range(50_000)]
        counts: dict[str, int] = {}
        for word in sorted(texts):
            counts[word] = counts.get(word, 0) + 1
        least = min(least, time.thread_time() - started)
    return least


def this_machine(device: str) -> dict[str, Any]:
    """Return the description of this machine."""
    return {
        "device": device,
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "calibration_seconds": float(f"{calibrate():.3g}"),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def read_rates(path: Path = RATES) -> list[Measured]:
    """Read the rates of every machine on which they were measured."""
    from mispair.core.files import read_json

    return [
        Measured(one["machine"], {name: Rate(**rate) for name, rate in one["steps"].items()})
        for one in read_json(path)
    ]


def write_rates(machines: Iterable[Measured], path: Path = RATES) -> None:
    """Write rates, one line a step."""
    from mispair.core.files import write_text

    written = []
    for one in machines:
        lines = [
            f"  {json.dumps(name)}: {json.dumps(asdict(rate))}" for name, rate in one.steps.items()
        ]
        machine = json.dumps(one.machine, ensure_ascii=False)
        written.append(f'{{"machine": {machine},\n "steps": {{\n' + ",\n".join(lines) + "}}")
    write_text(path, "[" + ",\n".join(written) + "]\n")
