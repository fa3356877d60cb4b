"""Provenance of results: ``<result>.run.json`` next to each has its inputs, settings and code.

It is written after every step with results; reports, logs and benchmarks have none. The same job
writes the same bytes on one type of CPU: no times, no host, no number of cores.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core import files
from mispair.core.devices import device_in_use
from mispair.core.provenance import PACKAGE, code_version, file_digest, sampled_digest
from mispair.core.settings import is_sweep
from mispair.core.software import commit, versions
from mispair.core.stamps import remember

if TYPE_CHECKING:
    from mispair.core.settings import Settings

log = logging.getLogger(__name__)

ENDING = ".run.json"
OWN = "mispair:"
"""Prefix of a path in the package, which does not depend on the folder of the checkout."""
NO_RESULTS = ("benchmarks", "logs", "reports")
CHANGE_NO_RESULT = ("workers",)
"""Parameters of jobs that depend on the number of cores."""
STATES = "checkpoint"
"""Parameter of the folder of a job's resume states, which is no result."""
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
        after = {path: _state(path) for path in before if path != job.get(STATES)}
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
