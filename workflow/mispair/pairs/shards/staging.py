"""Copies of shards for one job: of remote ones, and on a node's own disk if the shared is slow."""

import atexit
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from mispair.core.files import UserError, temporary_name
from mispair.core.progress import Progress
from mispair.core.resume import Interrupted, asked_to_end
from mispair.pairs.shards.remote import fetch, listed

SCRATCH = "MISPAIR_SCRATCH"
"""Environment variable with a folder on each node, such as ``$TMPDIR``. It is no setting, because
it changes no result."""


def fetched(shards: Sequence[Path]) -> list[Path]:
    """Return shards in their order, copies of those that are remote and have none.

    The copies are in the folder that `SCRATCH` names, or else next to where a lasting copy would
    be. They serve all steps of this process, and are removed when it ends.

    Raises
    ------
    UserError
        If there is no such folder, it has no room, or a shard cannot be read or has changed.
    """
    far = {shard: one for shard in shards if (one := listed(shard))}
    missing = {shard: one for shard, one in far.items() if not _copy(shard).is_file()}
    if missing:
        size = sum(one.size for one in missing.values())
        _refuse_lack_of_room(_folder(next(iter(missing)).parent), size)
        with asked_to_end() as ending, Progress("fetching", size, "bytes") as progress:

            def advance(done: int) -> None:
                progress.advance(done)
                if ending():
                    raise Interrupted(
                        "ended early, as it was asked to; the same command fetches again what was "
                        "not read yet."
                    )

            for shard, one in missing.items():
                fetch(one, _copy(shard), advance)
    return [_copy(shard) if shard in far else shard for shard in shards]


def _copy(shard: Path) -> Path:
    return _folder(shard.parent) / shard.name


@cache
def _folder(place: Path) -> Path:
    """Return a folder of this process, in which copies of the shards of a folder are."""
    folder = temporary_name((_scratch() or place) / place.parent.name)
    folder.mkdir(parents=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _scratch() -> Path | None:
    named = os.environ.get(SCRATCH, "")
    folder = Path(os.path.expandvars(named)) if named else None
    if folder is not None and not folder.is_dir():
        raise UserError(
            f"{SCRATCH}={named}: there is no folder {folder} on this node. Name one that it has."
        )
    return folder


def _refuse_lack_of_room(folder: Path, needed: int) -> None:
    if needed > (free := shutil.disk_usage(folder).free):
        raise UserError(
            f"{folder} has {free / 1e9:.1f} GB free, and the shards of this job have "
            f"{needed / 1e9:.1f} GB. Lower index_shards.shards_per_job, or name another folder by "
            f"the environment variable {SCRATCH}."
        )


@contextmanager
def staged(shards: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield copies of shards in the folder that `SCRATCH` names, or the shards if it names none.

    The copies have the names and the order of the shards, and are removed at the end. Remote
    shards are `fetched`.

    Raises
    ------
    UserError
        If there is no such folder, it has no room for the shards, or a shard cannot be copied.
    """
    folder, local = _scratch(), fetched(shards)
    on_disk = [shard for shard, copy in zip(shards, local, strict=True) if shard == copy]
    if folder is None or not on_disk:
        yield local
        return
    _refuse_lack_of_room(folder, sum(shard.stat().st_size for shard in on_disk if shard.is_file()))
    with TemporaryDirectory(prefix="mispair-", dir=folder) as temporary:
        copies = []
        for number, shard in enumerate(local):
            copy = Path(temporary, f"{number:05d}", shard.name)
            copy.parent.mkdir()
            try:
                shutil.copyfile(shard, copy)
            except OSError as error:
                raise UserError(
                    f"{shard}: cannot be copied to {copy} ({error}). Name another folder by the "
                    f"environment variable {SCRATCH}, or none."
                ) from error
            copies.append(copy)
        yield copies
