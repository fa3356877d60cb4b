"""Copies of shards on a node's own disk, for jobs on a cluster whose shared disk is slow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mispair.core.files import UserError

SCRATCH = "MISPAIR_SCRATCH"
"""Environment variable with a folder on each node, such as ``$TMPDIR``. It is no setting, because
it changes no result."""


@contextmanager
def staged(shards: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield copies of shards in the folder that `SCRATCH` names, or the shards if it names none.

    The copies have the names and the order of the shards, and are removed at the end.

    Raises
    ------
    UserError
        If there is no such folder, it has no room for the shards, or a shard cannot be copied.
    """
    named = os.environ.get(SCRATCH, "")
    if not named:
        yield list(shards)
        return
    folder = Path(os.path.expandvars(named))
    needed = sum(shard.stat().st_size for shard in shards if shard.is_file())
    if not folder.is_dir():
        raise UserError(f"{SCRATCH}={named}: there is no folder {folder} on this node.")
    if needed > (free := shutil.disk_usage(folder).free):
        raise UserError(
            f"{SCRATCH}={named}: {folder} has {free / 1e9:.1f} GB free, and the shards of this job "
            f"have {needed / 1e9:.1f} GB. Lower index_shards.shards_per_job, or unset {SCRATCH}."
        )
    with TemporaryDirectory(prefix="mispair-", dir=folder) as temporary:
        copies = []
        for number, shard in enumerate(shards):
            copy = Path(temporary, f"{number:05d}", shard.name)
            copy.parent.mkdir()
            try:
                shutil.copyfile(shard, copy)
            except OSError as error:
                raise UserError(f"{shard}: cannot be copied to {copy} ({error}).") from error
            copies.append(copy)
        yield copies
