"""``reports/run.json``: the configuration and the record of a run, from which it can run again.

It is a configuration with all keys of ``config.yaml``; its key ``record`` has the code, versions,
data and results of the run.
"""

from __future__ import annotations

import logging
import math
import os
import platform
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair import __version__
from mispair.core import files, provenance
from mispair.core.cost import rows_by_step
from mispair.core.devices import device_in_use, device_name
from mispair.core.files import UserError
from mispair.core.provenance import (
    PACKAGE,
    code_version,
    commit,
    file_digest,
    fingerprint,
    sampled_digest,
    versions,
)
from mispair.core.settings import NONE, is_sweep
from mispair.core.stamps import remember

if TYPE_CHECKING:
    from mispair.core.settings import Settings


# Provenance of results: ``<result>.run.json`` next to each has its inputs, settings and code.
#
# It is written after every step with results; reports, logs and benchmarks have none. The same job
# writes the same bytes on one type of CPU: no times, no host, no number of cores.

log = logging.getLogger(__name__)

ENDING = ".run.json"
OWN = "mispair:"
"""Prefix of a path in the package, which does not depend on the folder of the checkout."""
NO_RESULTS = ("benchmarks", "logs", "reports")
CHANGE_NO_RESULT = ("workers",)
"""Parameters of jobs that depend on the number of cores."""
STATES = "checkpoint"
"""Parameter of the folder of a job's resume states, which is no result."""
SHARDS = "shards"
"""Parameter of the shards that a job reads."""
BUDGET = 64_000_000
"""Bytes that a job reads for whole digests (a tenth of a second); other files are sampled."""

Facts = dict[str, Any]
"""Facts of a file: ``bytes``, and ``sha256`` of all bytes or ``sha256_of_samples``."""


@contextmanager
def recorded(step: str, settings: Settings, job: Mapping[str, Any]) -> Iterator[None]:
    """Write the provenance of the results of a step once the work inside has succeeded.

    `job` has the keyword arguments of the step's ``run``: files and wildcards. A record that cannot
    be written is a warning: the results exist. If a file is gone, there is no record: Snakemake was
    killed, and the job that it started anew has removed the results and will record its own.
    """
    for path in _paths(job):
        remember(path)
    before = {path: _state(path) for path in _paths(job)}
    # Before the step runs: later edits of a module do not change the code that runs.
    code = code_version(step)
    yield
    try:
        # Remote shards have no files here.
        remote = {path for path in job.get(SHARDS) or [] if before.get(path) is None}
        tracked = [path for path in before if path != job.get(STATES) and path not in remote]
        after = {path: _state(path) for path in tracked}
        written = [path for path, state in after.items() if state not in (None, before[path])]
        results = [path for path in written if path.parts[0] not in NO_RESULTS]
        if results and None not in after.values():
            inputs = [path for path in after if before[path] and path not in written]
            record = _describe(step, settings, job, code, inputs, results)
            files.write_json(sidecar(results[0]), record)
    except Exception as error:
        log.warning("the provenance of the results could not be recorded: %s", error)


def sidecar(result: Path) -> Path:
    """Return the name of the record of a step whose first result is `result`.

    That is ``NAME.run.json`` for ``NAME.parquet``, and for a folder ``NAME`` unless there are files
    such as ``NAME.parquet``: then it is ``NAME.folder.run.json``.
    """
    if not result.is_dir():
        return result.with_name(result.stem + ENDING)
    files_beside = (path.stem for path in result.parent.iterdir() if path.is_file())
    kind = ".folder" if result.name in files_beside else ""
    return result.with_name(result.name + kind + ENDING)


def _describe(
    step: str,
    settings: Settings,
    job: Mapping[str, Any],
    code: list[str],
    inputs: list[Path],
    results: list[Path],
) -> dict[str, Any]:
    sweeps = {name for name, field in type(settings).model_fields.items() if is_sweep(field)}
    values = settings.model_dump(mode="json", exclude=sweeps)
    digests = Digests()
    return {
        "step": step,
        "job": {key: _plain(value) for key, value in job.items() if key not in CHANGE_NO_RESULT},
        "settings": values,
        "seeds": {key: value for key, value in values.items() if key in ("seed", "seeds")},
        "outputs": digests.of(results),
        "inputs": digests.of(inputs),
        "code": dict(line.split() for line in code),
        "git": commit(),
        "versions": versions(),
        "device": device_in_use(),
    }


def _paths(job: Mapping[str, Any]) -> list[Path]:
    """Return the files and folders among the arguments of a job, in order, each once."""
    lists = (value if isinstance(value, list) else [value] for value in job.values())
    values = (item for items in lists for item in items)
    return list(dict.fromkeys(item for item in values if isinstance(item, Path)))


def _state(path: Path) -> tuple[int, int] | None:
    """Return the inode and modification time of a file or folder, or None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return portable(value) if isinstance(value, Path) else value


def portable(path: Path) -> str:
    """Return a path as in records: as given, or relative to the package if it is in the package."""
    whole = Path(os.path.abspath(path))
    if whole.is_relative_to(PACKAGE):
        return OWN + whole.relative_to(PACKAGE).as_posix()
    return path.as_posix()


def local_path(name: str) -> Path:
    """Return the path that a record names."""
    if name.startswith(OWN):
        return Path(os.path.relpath(PACKAGE / name.removeprefix(OWN)))
    return Path(name)


class Digests:
    """Digests of files; large ones are sampled, because jobs may read hundreds of gigabytes."""

    def __init__(self) -> None:
        self.left = BUDGET

    def of(self, paths: Iterable[Path]) -> dict[str, Facts]:
        """Return the facts of files, and of all files in folders, by portable path."""
        return {portable(path): self._facts(path) for path in files_in(paths)}

    def _facts(self, path: Path) -> Facts:
        size = path.stat().st_size
        if size > self.left:
            return {"bytes": size, "sha256_of_samples": sampled_digest(path)}
        self.left -= size
        return {"bytes": size, "sha256": file_digest(path)}


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield files, and all files in folders."""
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        # Hidden ones are Snakemake's.
        yield from (one for one in inside if one.is_file() and not one.name.startswith("."))


def difference(name: str, facts: Facts) -> str | None:
    """Describe how a file differs from its record, or return None if it agrees."""
    path = local_path(name)
    if not path.is_file():
        return f"{path} does not exist (below {Path.cwd()})"
    if agrees(path, facts):
        return None
    size, former = path.stat().st_size, facts["bytes"]
    how = "other content of that size" if size == former else f"{size} bytes instead of {former}"
    return f"{path} has changed: {how}"


def agrees(path: Path, facts: Facts) -> bool:
    """Return whether a file exists with the bytes of a record."""
    if not path.is_file() or path.stat().st_size != facts["bytes"]:
        return False
    if "sha256" in facts:
        return file_digest(path) == facts["sha256"]
    return sampled_digest(path) == facts["sha256_of_samples"]


def read(path: Path) -> dict[str, Any]:
    """Read the record of a result.

    Raises
    ------
    UserError
        If the file is not a record.
    """
    content = files.read_json(path)
    if not isinstance(content, dict) or not {"step", "job", "inputs", "outputs"} <= content.keys():
        raise files.UserError(f"{path}: is not a record of a result. Name a file *{ENDING}.")
    return content


def ancestry(results: Iterable[Path], folder: Path) -> list[dict[str, Any]]:
    """Return the records of results (files and folders) and of all results they were made from.

    Only records below `folder` count; those of other results are left out.
    """
    writers: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.rglob(f"*{ENDING}")):
        record = read(path)
        for output in record["outputs"]:
            writers[output] = record
    records: dict[str, dict[str, Any]] = {}
    waiting = [portable(path) for path in files_in(results)]
    while waiting:
        record = writers.get(waiting.pop(), {})
        for first in list(record.get("outputs", {}))[:1]:
            if first not in records:
                records[first] = record
                waiting += record["inputs"]
    return [records[first] for first in sorted(records)]


RECORD = "record"


def describe(
    origins_of_results: Iterable[Mapping[str, Any]],
    unrecorded: Mapping[str, Facts],
    benchmarks: Mapping[str, str],
) -> dict[str, Any]:
    """Return the record of a run from the records of all its results.

    Parameters
    ----------
    origins_of_results : iterable of mapping
        The records (`ancestry`).
    unrecorded : mapping
        Facts of results that have no record.
    benchmarks : mapping of str to str
        benchmark files (`mispair.core.cost.texts_of`).
    """
    steps: dict[str, dict[str, Any]] = {}
    facts_by_file: dict[str, Facts] = {}
    inputs: dict[str, Facts] = {}
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
        "git": (provenance.commit() or {}) | {"difference": provenance.difference()},
        "versions": provenance.versions(),
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
    differ = (difference(name, facts) for name, facts in record["data"].items())
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


# Whether the pairs of a run are a user's own.


GENERATED = "generated"
"""The value of ``pairs`` and ``shards`` that makes pictures in place of reading any."""


def own_corpus(run: Mapping[str, Any]) -> str:
    """Return the name of a user's own pairs from the content of ``run.json``; "" without any.

    Examples
    --------
    >>> own_corpus({"corpus": "photos", "pairs": "/data/photos", "shards": "generated"})
    'photos'
    >>> own_corpus({"corpus": "scenes", "pairs": "generated", "shards": "generated"})
    ''
    """
    given = (run.get("pairs", GENERATED), run.get("shards", GENERATED))
    return str(run["corpus"]) if any(source != GENERATED for source in given) else ""
