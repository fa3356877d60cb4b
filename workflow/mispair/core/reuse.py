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
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core import files, metrics
from mispair.core.devices import device_in_use
from mispair.core.provenance import file_digest, fingerprint, versions

if TYPE_CHECKING:
    import numpy as np

    from mispair.core.metrics import Row

log = logging.getLogger(__name__)

FOLDER = "reuse"
"""Name of the folder of parts, next to the results."""
ROWS = ".rows.json"
"""Ending of a table of the parts in a result: from and to which row, by the name of the part."""
USED = ".used"
"""Ending of a list of the parts that are in a result."""


class Parts:
    """The parts of one result, each by a name that has all that it depends on.

    They are kept in one of three forms, for one kind of result each:

    - rows of the result's tensors (`keep_rows`, `rows`), with a table of whose they are;
    - the result as a whole, with the table that names its rows (`keep_named`, `named`);
    - rows of metrics with arrays, a file each (`measured`).

    At the end, `finish` or `replace` lists the parts that the result has.

    Parameters
    ----------
    result : Path
        File of the result. The parts of all results in its folder are together.
    job : iterable of str
        What all parts depend on: settings, code, inputs that they share.
    """

    def __init__(self, result: Path, job: Iterable[str]) -> None:
        self.result, self.folder = result, result.parent / FOLDER
        self._given = [*job]
        self._used: set[str] = set()
        self._asked = self._found = 0

    @cached_property
    def _job(self) -> str:
        """What all parts depend on, with the software and the device that computes."""
        return fingerprint([*self._given, *software(), device_in_use()])

    @cached_property
    def _rows(self) -> dict[str, tuple[Path, slice]]:
        """Of each part in a former result: the file, and its rows."""
        rows: dict[str, tuple[Path, slice]] = {}
        for table in sorted(self.folder.glob(f"*{ROWS}")):
            result = table.with_name(table.name.replace(ROWS, ".safetensors"))
            if not result.exists():  # a file system without hard links
                continue
            try:
                places = files.read_json(table)
                rows |= {part: (result, slice(*places[part])) for part in places}
            except (files.UserError, TypeError, LookupError) as error:
                log.warning("%s: not reused (%s)", table, error)
        return rows

    def name(self, content: str) -> str:
        """Return the name of a part with this content of its own."""
        return fingerprint([self._job, content])

    def rows(self, content: str) -> dict[str, np.ndarray] | None:
        """Return the rows of the part in each tensor of a former result, or None."""
        from safetensors import SafetensorError, safe_open

        self._asked += 1
        if (name := self.name(content)) not in self._rows:
            return None
        path, rows = self._rows[name]
        try:
            with safe_open(path, framework="numpy") as opened:
                values = {tensor: opened.get_slice(tensor)[rows] for tensor in opened.keys()}  # noqa: SIM118
            if any(len(value) != rows.stop - rows.start for value in values.values()):
                raise ValueError(f"it ends before row {rows.stop}")
        except (OSError, SafetensorError, TypeError, ValueError, OverflowError) as error:
            log.warning("%s: not reused (%s)", path, error)
            return None
        self._found += 1
        return values

    def keep_rows(self, rows: Mapping[str, tuple[int, int]]) -> None:
        """Keep the parts of the result, which is written: from and to which row, by content."""
        self.folder.mkdir(exist_ok=True)
        places = {self.name(content): places for content, places in rows.items()}
        stem = fingerprint([self.result.name, json.dumps(places)])
        self._link(self.result, f"{stem}.safetensors")
        files.write_json(self.folder / f"{stem}{ROWS}", places)
        self._used.add(f"{stem}{ROWS}")

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
        self._asked += 1
        if part.is_file():
            try:
                arrays, metadata = files.read_tensors(part)
                measured = json.loads(metadata["rows"]), arrays
            except (files.UserError, ValueError, KeyError) as error:
                log.warning("%s: not reused (%s)", part, error)
            else:
                self._found += 1
                return measured
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
        if self._found:
            log.info("%d of %d parts were computed before", self._found, self._asked)
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


def software() -> list[str]:
    """Return the packages that parts depend on, with their versions; our code has digests."""
    return [f"{name} {version}" for name, version in versions().items() if name != "mispair"]


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
    """Return the names of the parts that results have, and of their lists.

    A result that is missing is being made again, or was removed with all others.
    """
    lists = [*parts.glob(f"[!.]*{USED}")]
    return {listed.name for listed in lists}.union(*map(_names, lists))


def _names(listed: Path) -> set[str]:
    try:
        return set(listed.read_text(encoding="utf-8").splitlines())
    except OSError:
        return set()
