"""``reports/run.json``: the configuration and the record of a run, from which it can run again.

It is a configuration with all keys of ``config.yaml``; its key ``record`` has the code, versions,
data and results of the run.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Container, Iterable, Mapping
from typing import Any

from mispair import __version__
from mispair.core import origins, software
from mispair.core.benchmarks import rows_by_step
from mispair.core.devices import device_name
from mispair.core.files import UserError
from mispair.core.provenance import code_version, fingerprint
from mispair.core.settings import NONE

RECORD = "record"


def describe(
    origins_of_results: Iterable[Mapping[str, Any]],
    unrecorded: Mapping[str, origins.Facts],
    benchmarks: Mapping[str, str],
) -> dict[str, Any]:
    """Return the record of a run from the records of all its results.

    Parameters
    ----------
    origins_of_results : iterable of mapping
        The records (`mispair.core.origins.ancestry`).
    unrecorded : mapping
        Facts of results that have no record.
    benchmarks : mapping of str to str
        Snakemake's benchmark files (`mispair.core.benchmarks.texts_of`).
    """
    steps: dict[str, dict[str, Any]] = {}
    facts_by_file: dict[str, origins.Facts] = {}
    inputs: dict[str, origins.Facts] = {}
    seconds = _seconds(benchmarks)
    for one in origins_of_results:
        wall, core = seconds.get(one["step"], (0.0, 0.0))
        none = {"jobs": 0, "wall_seconds": wall, "core_seconds": core, "seeds": []}
        step = steps.setdefault(one["step"], none)
        step["jobs"] += 1
        _add(step, "code", fingerprint(f"{key} {value}" for key, value in one["code"].items()))
        _add(step, "devices", one["device"])
        for key, seed in one["seeds"].items():
            _add(step, "seeds", f"{key} {seed}")
        _add(step, "commits", (one["git"] or {}).get("commit"))
        facts_by_file |= one["outputs"]
        inputs |= one["inputs"]
    results = {**unrecorded, **facts_by_file}
    files = dict(sorted((inputs | results).items()))
    return {
        "mispair": __version__,
        "git": (software.commit() or {}) | {"difference": software.difference()},
        "versions": software.versions(),
        "platform": {"system": platform.platform(), "cores": os.cpu_count()},
        "steps": dict(sorted(steps.items())),
        "data": {name: facts for name, facts in files.items() if not _is_result(name, results)},
        "results": {name: facts for name, facts in files.items() if _is_result(name, results)},
        # Made by hand, or by a version of mispair without records.
        "unrecorded": [
            name for name in files if _is_result(name, results) and name not in facts_by_file
        ],
    }


def _is_result(name: str, results: Container[str]) -> bool:
    return name in results or name.startswith("results/")


def _add(step: dict[str, Any], key: str, value: Any) -> None:
    """Add a value to a list of distinct values; usually the jobs of a step share one."""
    values = step.setdefault(key, [])
    if value not in values:
        values.append(value)


def _seconds(benchmarks: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """Sum the wall and core seconds of each step over its jobs.

    Steps that share a job (``a+b``) have equal parts of its time.
    """
    times: dict[str, tuple[float, float]] = {}
    for name, row in rows_by_step(benchmarks):
        steps = name.split("+")
        # A job that is too quick to be measured has no processor time.
        more = [value if math.isfinite(value) else 0.0 for value in (row["s"], row["cpu_time"])]
        for step in steps:
            before = times.get(step, (0.0, 0.0))
            wall, core = (a + b / len(steps) for a, b in zip(before, more, strict=True))
            times[step] = round(wall, 2), round(core, 2)
    return times


def refuse_other_version(record: Any) -> None:
    """Refuse the record of another version of mispair, whose results may differ.

    Raises
    ------
    UserError
        Naming both versions and the remedies.
    """
    version = record.get("mispair") if isinstance(record, dict) else None
    if version is None:
        raise UserError(f"{RECORD}: is no record of a run. Delete the key.")
    if version != __version__:
        commit = (record.get("git") or {}).get("commit")
        raise UserError(
            f"{RECORD}: the run was made by mispair {version}, and this is {__version__}, "
            f"whose results may differ. Use that version{f' (commit {commit})' if commit else ''}, "
            f"or only the configuration: --config {RECORD}={NONE}"
        )


def refuse_other_data(record: Mapping[str, Any]) -> None:
    """Refuse to run again on data or models that are not those of the record.

    Raises
    ------
    UserError
        Naming at most ten of the files.
    """
    differ = (origins.difference(name, facts) for name, facts in record["data"].items())
    faults = [fault for fault in differ if fault]
    if faults:
        more = [f"... and {len(faults) - 10} more"] if len(faults) > 10 else []
        raise UserError(
            f"{RECORD}: the run was made from other files:\n  "
            + "\n  ".join(faults[:10] + more)
            + f"\nRestore them, or use only the configuration: --config {RECORD}={NONE}"
        )


def devices(record: Mapping[str, Any]) -> set[str]:
    """Return the types of CPU and GPU on which the results of a run were computed."""
    return {device for step in record.get("steps", {}).values() for device in step["devices"]}


def other_processor(record: Mapping[str, Any]) -> str:
    """Return how the CPU here differs from those of a record, or an empty string."""
    processors = {device for device in devices(record) if device.startswith("cpu")}
    here = device_name("cpu")
    if not processors or here in processors:
        return ""
    return f"the recorded run was made on {', '.join(sorted(processors))}, and here is {here}"


def changed_steps(record: Mapping[str, Any]) -> list[str]:
    """Return the steps whose code differs from the record: their results may differ, too."""
    return [
        step
        for step, description in record["steps"].items()
        if description["code"] != [fingerprint(code_version(step))]
    ]
