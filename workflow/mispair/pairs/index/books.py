"""The books of a run: read = kept + rejected + excluded; how much may be lost; DataComp's uids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mispair.core.files import UserError, parquet_metadata
from mispair.pairs.index.faults import Fault

Tables = dict[str, Path]
"""A file of each group."""

DAMAGED = (Fault.DAMAGED_SHARD, Fault.LOST_WORKER)
"""Reasons for a shard that was not read to its end; each such shard has one row."""

KEY = "key-in-several-shards"
IMAGE = "image-in-several-pairs"
"""Reasons for which pairs are excluded; all others are reasons of rejection."""

SETTINGS = {
    Fault.NO_CAPTION: "index_shards: caption_from",
    Fault.NOT_IN_TABLE: "read_captions: join, key_column",
    Fault.EMPTY_CAPTION: "index_shards: empty_captions",
    Fault.CONTROL_CHARACTERS: "index_shards: control_characters",
    Fault.UNDECODABLE_CAPTION: "index_shards: caption_from",
    Fault.CAPTION_LENGTH: "index_shards: min_words, max_words, max_characters",
    Fault.TOO_MANY_PIXELS: "index_shards: max_image_pixels",
    Fault.TOO_SMALL_IMAGE: "index_shards: min_image_side",
    Fault.EXTREME_SHAPE: "index_shards: max_aspect_ratio",
    KEY: "gather_index: duplicate_keys",
    IMAGE: "gather_index: duplicate_images",
}
"""The settings that decide on a reason, where any do; the others are faults of the files."""


DETAIL_LENGTH = 160
"""Characters of a detail in a message."""


@dataclass(frozen=True)
class Reason:
    """How many samples a reason took, and the first of them, with its detail."""

    count: int
    key: str
    shard: str
    group: str
    detail: str = ""


@dataclass(frozen=True)
class Books:
    """What became of every sample of a run.

    Attributes
    ----------
    read, kept, rejected, excluded : int
        Samples; those that `index_shards` quarantined are rejected, those that policies of the
        whole corpus took out are excluded, and read = kept + rejected + excluded.
    shards, damaged : int
        Shards in which any sample or fault was found, and those that were not read to their end.
    reasons : mapping of str to Reason
        Why samples were rejected or excluded.
    """

    read: int = 0
    kept: int = 0
    rejected: int = 0
    excluded: int = 0
    shards: int = 0
    damaged: int = 0
    reasons: Mapping[str, Reason] = field(default_factory=dict)

    def counts(self) -> dict[str, str]:
        """Return the four counts of samples as Parquet metadata."""
        names = ("read", "kept", "rejected", "excluded")
        return {name: str(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        sums = f"{self.kept:,} kept + {self.rejected:,} rejected + {self.excluded:,} excluded"
        return f"{self.read:,} samples read = {sums}" + (f"\n{self.table()}" * bool(self.reasons))

    def with_excluded(self, excluded_for: Mapping[str, Reason]) -> Books:
        """Return the books after kept pairs were excluded for these reasons."""
        excluded = sum(reason.count for reason in excluded_for.values())
        return replace(
            self,
            kept=self.kept - excluded,
            excluded=self.excluded + excluded,
            reasons={**self.reasons, **excluded_for},
        )

    @property
    def quarantined_share(self) -> float:
        """Samples rejected or excluded, over samples read."""
        return (self.rejected + self.excluded) / max(self.read, 1)

    @property
    def damaged_share(self) -> float:
        """Shards not read to their end, over shards."""
        return self.damaged / max(self.shards, 1)

    def table(self) -> str:
        """Return the reasons as lines of text, the commonest first, each with an example.

        Keys and details are printed as Python literals, so that a name from a file never controls
        a terminal.
        """
        ranked = sorted(self.reasons.items(), key=lambda item: (-item[1].count, item[0]))
        rows = [
            (
                name,
                f"{reason.count:,}",
                f"{100 * reason.count / max(self.read, 1):.2f} %",
                _example(reason),
                SETTINGS.get(name, "-"),
            )
            for name, reason in ranked
        ]
        cells = [("reason", "samples", "share", "for example", "settings that decide"), *rows]
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for name, count, share, example, setting in cells:
            numbers = f"{name:<{wide[0]}}  {count:>{wide[1]}}  {share:>{wide[2]}}"
            lines.append(f"  {numbers}  {example:<{wide[3]}}  {setting}")
        return "\n".join(lines)


def _example(reason: Reason) -> str:
    """Return where the first sample of a reason is, and what is wrong with it."""
    site = f"{reason.shard!r} (group {reason.group})"
    where = f"{reason.key!r} in {site}" if reason.key else site
    detail = reason.detail[:DETAIL_LENGTH]
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in detail)
    return f"{where}: {''.join(shown)}" if detail else where


def by_group(index: Sequence[Path], rejected: Sequence[Path]) -> tuple[Tables, Tables]:
    """Return the two tables of each group, ``GROUP.parquet`` and ``GROUP.rejected.parquet``.

    They are in the order of the groups' names, for any order of the arguments.

    Raises
    ------
    UserError
        If there is none, two files have one name, or a group has one table only.
    """
    both: list[Tables] = []
    for paths in (index, rejected):
        stems = [path.name.removesuffix(".parquet").removesuffix(".rejected") for path in paths]
        named = dict(sorted(zip(stems, paths, strict=True)))
        if len(named) < len(paths):
            raise UserError(
                f"gather_index: of {len(paths)} files only {len(named)} differ in name: a group "
                "of shards is given twice."
            )
        both.append(named)
    if lonely := sorted(both[0].keys() ^ both[1].keys()):
        raise UserError(
            f"gather_index: group {', '.join(lonely[:5])}: give both its index and its table of "
            "rejected samples."
        )
    if not index:
        raise UserError("gather_index: there is no index. Give at least one group of shards.")
    return both[0], both[1]


def read_books(index: Mapping[str, Path], rejected: Mapping[str, Path]) -> Books:
    """Add up the books of all groups (in the order of `by_group`), and compare them with the rows.

    Raises
    ------
    UserError
        If a file cannot be read, or its rows are not those that its metadata counts.
    """
    read, kept, shards, damaged = 0, 0, 0, 0
    first_reasons: dict[str, Reason] = {}
    for group in index:
        whole, metadata = read_columns(index[group], ["shard"])
        broken, repeated = read_columns(rejected[group], ["key", "shard", "reason", "detail"])
        _check(index[group], rejected[group], metadata, repeated, len(whole), len(broken))
        read += len(whole) + len(broken)
        kept += len(whole)
        names = pc.unique(broken["shard"]).to_pylist()
        shards += len({*pc.unique(whole["shard"]).to_pylist(), *names})
        unread = pc.is_in(broken["reason"], value_set=pa.array(DAMAGED, pa.string()))
        damaged += len(pc.unique(broken["shard"].filter(unread)))
        for row in broken["reason"].value_counts().to_pylist():
            name = row["values"]
            first = pc.index(broken["reason"], name).as_py()
            key, shard, detail = (
                broken[column][first].as_py() for column in ("key", "shard", "detail")
            )
            example = Reason(0, key, shard, group, detail)
            former = first_reasons.get(name, example)
            first_reasons[name] = replace(former, count=former.count + row["counts"])
    return Books(read, kept, read - kept, 0, shards, damaged, first_reasons)


def check_loss(books: Books, limit: float, tables: Path) -> None:
    """Refuse a corpus that lost too much, before anything is computed from it.

    The share of lost samples counts only what was seen: a shard that breaks off is one row. So the
    share of shards that were not read to their end has the same limit, 0 to 1, and the larger share
    decides. `tables` is the folder that the message names.

    Raises
    ------
    UserError
        If more was lost, or if no pair is left at all.
    """
    lost = books.rejected + books.excluded
    if books.kept and max(books.quarantined_share, books.damaged_share) <= limit:
        return
    if not books.read:
        raise UserError(
            "gather_index: no shard holds any sample. Check that `shards` names tar files of "
            "images with captions."
        )
    seen = (
        f"{lost:,} of {books.read:,} samples ({100 * books.quarantined_share:.2f} %) were rejected "
        f"or excluded, and {books.damaged:,} of {books.shards:,} shards "
        f"({100 * books.damaged_share:.2f} %) hold no sample or could not be read to their end"
    )
    named = books.reasons.keys()
    remedies = []
    if not named or named - SETTINGS.keys():
        remedies.append("repair the shards or fetch them again")
    if Fault.NOT_IN_TABLE in named:
        remedies.append("name all files of the caption table by `captions`")
    if named & SETTINGS.keys():
        remedies.append("change a setting of the last column")
    allowed = "no pair is left"
    if books.kept:
        allowed = f"at most {100 * limit:g} % of either may be"
        remedies.append("raise `gather_index: max_quarantined_share` if you want such a corpus")
    remedy = ", or ".join(remedies)
    raise UserError(
        f"gather_index: {seen}; {allowed}. {remedy[0].upper()}{remedy[1:]}.\n{books.table()}\n"
        f"The files {tables}/*.rejected.parquet list every rejected sample with its reason."
    )


def read_columns(path: Path, columns: list[str]) -> tuple[pa.Table, dict[str, str]]:
    """Read columns of an index or of a table of rejected samples, and its metadata.

    Raises
    ------
    UserError
        If the file is missing, is not Parquet or lacks a column.
    """
    try:
        with pq.ParquetFile(path) as opened:
            missing = sorted(set(columns) - set(opened.schema_arrow.names))
            if missing:
                raise UserError(
                    f"{path}: has no column {', '.join(missing)}, so it was not written by this "
                    "version. Delete it and run again."
                )
            metadata = parquet_metadata(opened.schema_arrow)
            table = opened.read(columns=columns)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(
            f"{path}: cannot be read as Parquet ({error}). Delete it and run again."
        ) from error
    return table, metadata


def _check(
    index: Path,
    rejected: Path,
    recorded: Mapping[str, str],
    repeated: Mapping[str, str],
    kept: int,
    lost: int,
) -> None:
    counted = {"read": kept + lost, "kept": kept, "rejected": lost}
    for path, metadata in ((index, recorded), (rejected, repeated)):
        claimed = {name: metadata.get(name) for name in counted}
        if claimed != {name: str(count) for name, count in counted.items()}:
            raise UserError(
                f"{path}: its books do not balance: they have {claimed}, but {index.name} has "
                f"{kept} rows and {rejected.name} {lost}. Delete both files and run again."
            )


# DataComp's uids of pairs: the subset file of its resharder.

NAME = "kept.npy"
"""Name of the subset file."""

UID = re.compile(r"[0-9a-f]{32}")
"""Form of a uid."""


def uids_of(keys: Iterable[str], index: Sequence[Path]) -> tuple[np.ndarray | None, str]:
    """Return the uids of pairs as DataComp's resharder reads them, sorted, each once.

    A pair's uid is the text ``uid`` of its JSON, which the index has; or else its key, without the
    name of a source.

    Parameters
    ----------
    keys : iterable of str
        Keys of the pairs.
    index : sequence of Path
        The index of each group; may be empty.

    Returns
    -------
    uids : (n,) array of two uint64, or None
        None if a pair has no uid.
    note : str
        A sentence for a card: that the file is there, or why it is not.

    Examples
    --------
    >>> uids_of(["000000000000000a000000000000000b"], [])[0]
    array([(10, 11)], dtype=[('f0', '<u8'), ('f1', '<u8')])
    """
    uid_of = {key: _uid(key.rpartition("/")[2]) for key in keys}
    for path in index:
        table, _ = read_columns(path, ["key", "uid"])
        for key, uid in zip(table["key"].to_pylist(), table["uid"].to_pylist(), strict=True):
            if key in uid_of and (found := _uid(uid)):
                uid_of[key] = found
    missing = [key for key, uid in uid_of.items() if uid is None]
    if missing or not uid_of:
        count = f"{len(missing):,} of {len(uid_of):,} pairs that stay have"
        return None, (
            f"`{NAME}`, the subset file of DataComp's resharder, is not written: {count} no uid "
            "(32 hexadecimal digits as `uid` of KEY.json, or as the key)."
        )
    halves = {(int(uid[:16], 16), int(uid[16:], 16)) for uid in uid_of.values() if uid}
    note = f"`{NAME}` is the subset file of DataComp's resharder: the uids of the pairs that stay."
    return np.sort(np.array([*halves], np.dtype("u8,u8"))), note


def _uid(text: str | None) -> str | None:
    lower = (text or "").strip().lower()
    return lower if UID.fullmatch(lower) else None
