"""Parts of results that later jobs reuse, by all that they were computed from.

A result of many parts (the images of a shard, the runs of a seed) is one file, which a change of
one part makes again. Its other parts are found in the folder ``reuse`` next to it, below a
fingerprint of all that they depend on. Parts in tensors take no room while the result exists: they
are hard links to it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core import files, metrics
from mispair.core.provenance import file_digest, fingerprint

if TYPE_CHECKING:
    import numpy as np

    from mispair.core.metrics import Row

log = logging.getLogger(__name__)

FOLDER = "reuse"
"""Name of the folder of parts, next to the results."""
USED = ".used"
"""Ending of a list of the parts that are in a result."""


class Parts:
    """The parts of one result.

    Parameters
    ----------
    result : Path
        File of the result. The parts of all results in its folder are together.
    job : iterable of str
        What all parts depend on: settings, code, inputs that they share.
    """

    def __init__(self, result: Path, job: Iterable[str]) -> None:
        self.result, self.folder = result, result.parent / FOLDER
        self._job = fingerprint(job)
        self._used: set[str] = set()

    def name(self, content: str) -> str:
        """Return the name of a part with this content of its own."""
        return fingerprint([self._job, content])

    def rows(self, content: str) -> dict[str, np.ndarray] | None:
        """Return the rows of the part in each tensor of a former result, or None."""
        from safetensors import SafetensorError, safe_open

        for path in self.folder.glob(f"{self.name(content)}.*.safetensors"):
            start, _, stop = path.name.split(".")[1].partition("-")
            try:
                with safe_open(path, framework="numpy") as opened:
                    rows = slice(int(start), int(stop))
                    return {name: opened.get_slice(name)[rows] for name in opened.keys()}  # noqa: SIM118
            except (OSError, SafetensorError, ValueError) as error:
                log.warning("%s: not reused (%s)", path, error)
        return None

    def keep_rows(self, rows: Mapping[str, tuple[int, int]]) -> None:
        """Keep the parts of the result, which is written: from and to which row, by content."""
        self.folder.mkdir(exist_ok=True)
        for content, (start, stop) in rows.items():
            name = f"{self.name(content)}.{start}-{stop}.safetensors"
            self._link(self.result, name)

    def keep_named(self, table: Path) -> None:
        """Keep the whole result, and the table that names its rows."""
        self.folder.mkdir(exist_ok=True)
        stem = f"{self.name('')}.{fingerprint([file_digest(table)])}"
        self._link(self.result, f"{stem}.safetensors")
        self._link(table, f"{stem}.parquet")

    def named(self) -> list[tuple[Path, Path]]:
        """Return the former results that `keep_named` kept, each with its table."""
        tables = sorted(self.folder.glob(f"{self.name('')}.*.parquet"))
        results = [(path.with_suffix(".safetensors"), path) for path in tables]
        return [both for both in results if both[0].exists()]

    def measured(
        self, content: str, compute: Callable[[], tuple[list[Row], dict[str, np.ndarray]]]
    ) -> tuple[list[Row], dict[str, np.ndarray]]:
        """Return rows of metrics and arrays of a part, computed now or by a former job."""
        part = self.folder / f"{self.name(content)}.safetensors"
        self._used.add(part.name)
        if part.is_file():
            try:
                arrays, metadata = files.read_tensors(part)
                return json.loads(metadata["rows"]), arrays
            except (files.UserError, ValueError, KeyError) as error:
                log.warning("%s: not reused (%s)", part, error)
        rows, arrays = compute()
        plain = [{key: metrics.plain(value) for key, value in row.items()} for row in rows]
        self.folder.mkdir(exist_ok=True)
        files.write_tensors(part, arrays, {"rows": json.dumps(plain, allow_nan=False)})
        return rows, arrays

    def _link(self, path: Path, name: str) -> None:
        part = self.folder / name
        try:
            part.unlink(missing_ok=True)
            os.link(path, part)
        except OSError as error:
            log.info("%s: not kept for later jobs (%s)", part, error.strerror)
        self._used.add(name)

    def finish(self, parts: Iterable[Path] = ()) -> None:
        """List the parts that the result has, these files among them; the others stay."""
        self.folder.mkdir(exist_ok=True)
        self._used |= {path.name for path in parts}
        names = "".join(f"{name}\n" for name in sorted(self._used))
        files.write_text(self.folder / f"{self.result.name}{USED}", names)

    def replace(self) -> None:
        """Do as `finish`, and remove the parts that only the former result had.

        For results that share no parts with others: another one might still need them.
        """
        former = _names(self.folder / f"{self.result.name}{USED}")
        self.finish()
        for name in former - _in_results(self.folder):
            (self.folder / name).unlink(missing_ok=True)


def forget(result: Path) -> None:
    """Remove the parts that a result has, so that the next job computes all of them."""
    folder = result.parent / FOLDER
    for name in _names(folder / f"{result.name}{USED}"):
        (folder / name).unlink(missing_ok=True)


def tidy(folder: Path) -> None:
    """Remove the parts in a folder of results that none of them has, once all are there."""
    parts = folder / FOLDER
    used = _in_results(parts)
    for path in parts.glob("[!.]*"):  # other jobs write under names that begin with a dot
        if path.name not in used:
            path.unlink(missing_ok=True)


def _in_results(parts: Path) -> set[str]:
    """Return the names of the parts that results have, and of their lists."""
    used: set[str] = set()
    for listed in parts.glob(f"[!.]*{USED}"):
        if parts.with_name(listed.name.removesuffix(USED)).exists():
            used |= {listed.name, *_names(listed)}
    return used


def _names(listed: Path) -> set[str]:
    try:
        return set(listed.read_text(encoding="utf-8").splitlines())
    except OSError:
        return set()
