"""Captions of the pictures of shards, by a captioner in a process of its own.

A captioner may raise, stall, crash or return nonsense. It runs in a process that is ended when a
batch takes too long. If a batch fails twice, only its pictures have no captions.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.core.provenance import fingerprint
from mispair.pairs.index.image_list import MemberPlace, read_images
from mispair.pairs.shards.supervision import Lost, supervise
from mispair.repair.captioners.faults import EMPTY, FAILED, Caption, Draft, check
from mispair.repair.captioners.functions import CaptionerError

if TYPE_CHECKING:
    from PIL import Image

    from mispair.core.resume import ArrayKeeper, Checkpoints
    from mispair.repair.captioners.recaption_settings import Settings

log = logging.getLogger(__name__)

LOADING_SECONDS = 3600.0
"""Longest time to load a captioner: a large model may be on a slow disk."""

BEAT_SECONDS = 1.0


class Captioner(Protocol):
    """Writes captions for pictures."""

    def caption(self, images: Sequence[Image.Image], seeds: Sequence[int]) -> list[list[Draft]]:
        """Return drafts for each picture, the best first; each picture has a seed of its own."""


class ShardRows(NamedTuple):
    """Rows of the index that are in one shard."""

    shard: str
    rows: tuple[int, ...]

    def __str__(self) -> str:
        return f"{len(self.rows)} pictures of {self.shard}, from row {self.rows[0]}"


@dataclass
class Captioning:
    """The work of a captioner's process: pictures in, checked captions out.

    Attributes
    ----------
    load : callable
        Returns the captioner; it runs in that process, once.
    shards : mapping of str to Path
        The shards, by the names that the index gives them.
    places : sequence of MemberPlace
        Where each picture of the index is.
    settings : Settings
        Settings of the step. The seed of a picture is derived from `seed` and its key.
    """

    load: Callable[[], Captioner]
    shards: Mapping[str, Path]
    places: Sequence[MemberPlace]
    settings: Settings
    _captioner: Captioner | None = field(default=None, repr=False)

    def __call__(self, batch: ShardRows, alive: Callable[[], None]) -> list[Caption]:
        """Return a caption for each picture of a batch.

        Raises
        ------
        UserError
            If the captioner cannot be loaded, or a shard was changed since it was indexed.
        CaptionerError
            If the captioner returns something else than captions.
        """
        if self._captioner is None:
            with _signs_of_life(alive):
                self._captioner = self.load()
        places = [self.places[row] for row in batch.rows]
        images = list(read_images(self.shards[batch.shard], places))
        seed = self.settings.seed
        named = [seeds.integer(seed, "caption", place.key, 0) for place in places]
        drafts = self._captioner.caption(images, named)
        if len(drafts) != len(images):
            raise CaptionerError(f"returned {len(drafts)} of {len(images)} captions")
        return [first_usable(of_picture, self.settings) for of_picture in drafts]


def first_usable(drafts: Sequence[Draft], settings: Settings) -> Caption:
    """Return the first draft that is usable, or else the first one with its reason."""
    limits = settings.max_words, settings.min_words
    checked = [check(draft, *limits) for draft in drafts] or [Caption("", EMPTY)]
    return next((caption for caption in checked if caption.reason is None), checked[0])


@contextlib.contextmanager
def _signs_of_life(alive: Callable[[], None]) -> Iterator[None]:
    """Call `alive` regularly while the block runs, which does not call it."""
    over = threading.Event()

    def beat() -> None:
        for _ in range(int(LOADING_SECONDS / BEAT_SECONDS)):
            alive()
            if over.wait(BEAT_SECONDS):
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class CaptionedPart:
    """Captions of one shard, saved now and then, so that a killed job resumes from there.

    Failures are not saved, so the resumed job tries them again.
    """

    def __init__(self, rows: Sequence[int], keeper: ArrayKeeper | None) -> None:
        self.keeper = keeper
        self.captions: dict[int, Caption] = {}
        self.missing = set(rows)
        if keeper is not None and (kept := keeper.load()) is not None:
            entries = json.loads(kept["captions"].tobytes().decode())
            self.captions = {rows[place]: Caption(*entry) for place, *entry in entries}
            self.missing -= self.captions.keys()
        self._place = {row: place for place, row in enumerate(rows)}

    def add(self, rows: Sequence[int], captions: Sequence[Caption]) -> None:
        """Take the captions of a batch."""
        self.captions.update(zip(rows, captions, strict=True))
        self.missing.difference_update(rows)
        if self.keeper is not None and (not self.missing or self.keeper.due()):
            self.save()

    def save(self) -> None:
        """Save the captions so far."""
        if self.keeper is None:
            return
        entries = [
            (self._place[row], *caption)
            for row, caption in sorted(self.captions.items())
            if caption.reason != FAILED
        ]
        content = json.dumps(entries, ensure_ascii=False).encode()
        self.keeper.save({"captions": np.frombuffer(content, np.uint8)})


def caption_shards(
    captioning: Captioning,
    rows_of_shards: Mapping[str, Sequence[int]],
    states: Checkpoints,
    progress: Callable[[int], None] = lambda number: None,
) -> tuple[list[Caption], int]:
    """Return a caption for each row of an index, and how many an earlier job had written.

    Parameters
    ----------
    captioning : Captioning
        The work.
    rows_of_shards : mapping of str to sequence of int
        Rows of each shard; together they are all rows.
    states : Checkpoints
        Holds the captions of each shard.
    progress : callable, optional
        Takes the number of pictures done.

    Raises
    ------
    UserError
        If too many batches fail, the captioner cannot be loaded, or a shard was changed.
    """
    settings = captioning.settings
    parts = {
        shard: CaptionedPart(rows, states.array_keeper(_name(captioning, shard, rows, states.job)))
        for shard, rows in rows_of_shards.items()
    }
    batches = [
        ShardRows(shard, tuple(missing[start : start + settings.batch_size]))
        for shard, part in parts.items()
        for missing in [sorted(part.missing)]
        for start in range(0, len(missing), settings.batch_size)
    ]
    total = sum(map(len, rows_of_shards.values()))
    resumed = done = total - sum(len(batch.rows) for batch in batches)
    progress(done)

    def ending() -> bool:
        if states.ending():
            for part in parts.values():
                if part.missing and part.captions:
                    part.save()
        return states.ending()

    failed = 0
    results = supervise(
        captioning, batches, workers=1, stall_seconds=settings.stall_seconds, ending=ending
    )
    with contextlib.closing(results):
        for batch, result in results:
            if isinstance(result, Lost):
                failed += len(batch.rows)
                log.warning("%s have no caption: %s", batch, result.detail)
                _refuse_many_failures(failed, total, settings.max_failed_share, result)
                result = [Caption("", FAILED)] * len(batch.rows)
            parts[batch.shard].add(batch.rows, result)
            done += len(batch.rows)
            progress(done)
    captions = {row: caption for part in parts.values() for row, caption in part.captions.items()}
    return [captions[row] for row in range(total)], resumed


def _name(captioning: Captioning, shard: str, rows: Sequence[int], job: str) -> str:
    """Return the name of a shard's state, which has a fingerprint of all that it depends on."""
    places = (captioning.places[row] for row in rows)
    content = fingerprint([job, *(f"{place.key} {place.image_id}" for place in places)])
    return f"{shard.replace('/', '-')}-{content}"


def _refuse_many_failures(failed: int, total: int, share: float, last: Lost) -> None:
    if failed > share * total:
        raise UserError(
            f"recaption_pairs: the captioner failed for {failed} of {total} pictures, more than "
            f"max_failed_share ({share:g}); at last, {last.detail}. Its traceback is above. The "
            "captions so far are kept."
        )
