"""What the steps that run a frozen tower have in common."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mispair.core.devices import choose_device
from mispair.core.provenance import code_version, fingerprint
from mispair.core.resume import Checkpoints, checkpoints
from mispair.core.settings import command_line
from mispair.towers.encoding import Encoder
from mispair.towers.encoding_record import EncodingRecord
from mispair.towers.encoding_settings import EncodingSettings
from mispair.towers.loading import Towers, load_towers


@contextmanager
def encoding_job(
    step: str,
    settings: EncodingSettings,
    towers: Sequence[Path],
    result: Path,
    compile: bool = False,
) -> Iterator[tuple[Encoder, EncodingRecord, Checkpoints]]:
    """Yield the encoder of a step, an empty record of its counts and times, and resume states.

    The states are in the folder ``RESULT.parts``, which is removed if the block succeeds. States of
    other settings, towers, devices or code are not used.

    Raises
    ------
    UserError
        If the towers cannot be loaded, there is no such device, another copy of the job is running,
        or the folder cannot be written.
    """
    folder = towers[0].parent
    written = tuple(sorted((path.name, path.stat().st_mtime_ns) for path in folder.glob("*")))
    frozen = _load_once(folder, choose_device(settings.device), written)
    encoder = Encoder(frozen, settings.batch_size, settings.precision, compile)
    job = [command_line(settings), encoder.device, frozen.fingerprint, *code_version(step)]
    parts = result.with_name(f"{result.name}.parts")
    with checkpoints(parts, fingerprint(job)) as states:
        yield encoder, EncodingRecord(encoder.device), states


@functools.lru_cache(maxsize=1)
def _load_once(folder: Path, device: str, written: tuple[tuple[str, int], ...]) -> Towers:
    """Load towers, or return those of the step before if one process runs several with them."""
    return load_towers(folder, device)
