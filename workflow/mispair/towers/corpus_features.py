"""Features of the pictures of shards and of captions, so that none is encoded twice."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, Dataset

from mispair.core import files
from mispair.core.devices import usable_cores
from mispair.core.files import UserError
from mispair.core.provenance import fingerprint
from mispair.pairs.index.image_list import locations, read_images
from mispair.pairs.shards.staging import staged
from mispair.towers.encoding import Encoder, Growing, Progress

if TYPE_CHECKING:
    from mispair.core.resume import Checkpoints
    from mispair.core.reuse import Parts
    from mispair.towers.encoding_record import EncodingRecord
    from mispair.towers.preparation import PixelForm, Preparation

log = logging.getLogger(__name__)

STALL_SECONDS = 600
"""Longest time to read and decode a batch; only a file system that hangs takes longer."""

CHECKED = 64
"""Captions that are encoded again to see whether their features are still the same bytes."""


class ShardImages(Dataset[torch.Tensor | UserError]):
    """Images of an index, ready for a tower: ``images[[4, 5]]`` are rows 4 and 5 of the index.

    Rows that are requested together are in one shard. Shards have the names that the index gives
    them; `prepare` makes tensors of picture and key.

    Raises
    ------
    UserError
        If a shard of the index is not given.
    """

    def __init__(
        self,
        shards: Mapping[str, Path],
        index: pd.DataFrame,
        prepare: Preparation,
        form: PixelForm,
    ) -> None:
        self.paths = dict(shards)
        self.shards: list[str] = index["shard"].tolist()
        self.locations = locations(index)
        self.prepare, self.form = prepare, form
        if missing := sorted(set(self.shards) - self.paths.keys()):
            raise UserError(f"the index names {missing[0]}, which is not among the shards given.")

    def __getitem__(self, rows: list[int]) -> torch.Tensor | UserError:
        """Return pixels (rows * crops, 3, side, side), the crops of an image together.

        A UserError is returned, not raised: torch would hide it below the traceback of the worker
        process.
        """
        positions = [self.locations[row] for row in rows]
        shard = self.paths[self.shards[rows[0]]]
        prepared = []
        try:
            for position, image in zip(positions, read_images(shard, positions), strict=True):
                prepared.append(self.prepare(image, position.key))
        except UserError as error:
            return error
        except (MemoryError, OverflowError) as error:
            return UserError(
                f"{shard}: the image of {positions[len(prepared)].key!r} cannot be resized for the "
                f"tower ({error!r}). Lower index_shards.max_aspect_ratio, or give the job more "
                "memory."
            )
        return self.form(prepared)

    @contextmanager
    def staged(self, names: Sequence[str]) -> Iterator[None]:
        """Read some of the shards from copies in the block; see `mispair.pairs.shards.staging`."""
        with staged([self.paths[name] for name in names]) as copies:
            self.paths |= dict(zip(names, copies, strict=True))
            yield

    def keys(self, rows: Sequence[int]) -> list[str]:
        """Return the keys of some rows."""
        return [self.locations[row].key for row in rows]

    def rows_of_shards(self) -> dict[str, list[int]]:
        """Return the numbers of the rows of each shard."""
        rows: dict[str, list[int]] = {}
        for number, shard in enumerate(self.shards):
            rows.setdefault(shard, []).append(number)
        return rows

    def rows_by_content(self) -> dict[str, tuple[int, int]]:
        """Return from and to which row the features of each shard are, by `content`."""
        crops = self.prepare.crops
        return {
            self.content(rows): (rows[0] * crops, (rows[-1] + 1) * crops)
            for rows in self.rows_of_shards().values()
        }

    def content(self, rows: Sequence[int]) -> str:
        """Return a fingerprint of the images of some rows, with their keys."""
        return fingerprint(
            f"{self.locations[row].key} {self.locations[row].image_id}" for row in rows
        )


def encode_shards(
    encoder: Encoder,
    images: ShardImages,
    parts: Checkpoints,
    record: EncodingRecord,
    workers: int = 0,
    progress: Progress = lambda number: None,
    kept: Parts | None = None,
) -> torch.Tensor:
    """Return pre-projection features (n * crops, d_image) of the images, in the index's order.

    `workers` processes (at most one for each core and each batch) read, decode and resize pictures
    while the tower runs; with 0 this happens between batches. No batch reaches over the end of a
    shard. The features of a shard are saved in `parts`, now and then and once it is done, until the
    caller removes them. They are the same bytes with any number of workers, and when a killed job
    resumes. `progress` takes the number of images done. Shards of former jobs whose features are
    among `kept` are not encoded.

    Raises
    ------
    UserError
        If a shard was changed since it was indexed, features are not finite, memory does not hold
        a single image, or a worker dies.
    """
    crops, tower = images.prepare.crops, encoder.image
    features = torch.empty((len(images.locations), crops, tower.width), dtype=tower.stored)
    record.images += len(features)
    unfinished = []
    for shard, rows in images.rows_of_shards().items():
        # Named by all that it depends on, so states of other jobs are ignored.
        content = images.content(rows)
        keeper = parts.keeper(f"{shard.replace('/', '-')}-{fingerprint([parts.job, content])}")
        former = (kept.rows(content) or {}).get("image_features") if kept else None
        part = Growing(tower, images.keys(rows), len(rows) * crops, keeper, former=former)
        record.resumed += part.done // crops
        if part.done < len(part.features):
            unfinished.append((shard, rows, part))
        else:
            features[rows] = part.on_host().view(-1, crops, tower.width)
    size = max(1, encoder.batch_size // crops)
    batches = [
        rows[start : start + size]
        for _, rows, part in unfinished
        for start in range(part.done // crops, len(rows), size)
    ]
    record.workers = min(workers, usable_cores(), len(batches))
    if record.workers < workers:
        log.info("%d workers in place of %d: for %d batches on %d cores",
                 record.workers, workers, len(batches), usable_cores())  # fmt: skip
    done = record.resumed
    progress(done)
    with (
        images.staged([shard for shard, _, _ in unfinished]),
        record.timing("images"),
        closing(_loaded(images, batches, encoder.device == "cuda", record)) as pixels,
    ):
        while unfinished:  # a part that is done takes no memory any more
            _, rows, part = unfinished.pop(0)
            tower.restart()
            for start in range(part.done // crops, len(rows), size):
                batch = rows[start : start + size]
                part.add(tower(next(pixels)))
                done += len(batch)
                progress(done)
            features[rows] = part.on_host().view(-1, crops, tower.width)
    return features.reshape(-1, tower.width)


def _loaded(
    images: ShardImages, batches: list[list[int]], pin: bool, record: EncodingRecord
) -> Generator[torch.Tensor]:
    """Yield the pixels of batches of rows, in their order, and record the time waited for them."""
    loader = DataLoader(
        images,
        batch_size=None,  # a sample of the sampler is a batch already
        sampler=batches,
        num_workers=record.workers,
        pin_memory=pin,
        timeout=STALL_SECONDS if record.workers else 0,
    )
    with record.timing("waiting"):
        waiting = iter(loader)
    try:
        for batch in batches:  # noqa: B007 (the message names it)
            with record.timing("waiting"):
                pixels = next(waiting)
            if isinstance(pixels, UserError):
                raise pixels
            yield pixels
    except RuntimeError as error:
        if "DataLoader" not in str(error):
            raise
        raise UserError(
            f"{images.shards[batch[0]]}: a process that decodes images was killed or is stuck "
            f"({error}). Mostly memory ran out, or /dev/shm is small: give the job more memory, or "
            "fewer workers. The features so far are kept."
        ) from error
    finally:
        # Workers end at once now. In the order of the garbage collector, torch would wait five
        # seconds for each of them.
        del waiting


def feature_rows(kind: str, ids: Sequence[str], crops: int = 1) -> pd.DataFrame:
    """Return the table of the rows of features: kind, id, and the first row of each id."""
    rows = range(0, len(ids) * crops, crops)
    table = pd.DataFrame({"kind": [kind] * len(ids), "id": [*ids], "row": [*rows]})
    return table.astype({"kind": "str", "id": "str", "row": "int64"})


# Captions, of which a former job may have encoded some.


def encode_new(
    encoder: Encoder,
    texts: Mapping[str, str],
    kept: Parts,
    record: EncodingRecord,
    states: Checkpoints,
    progress: Progress = lambda number: None,
) -> np.ndarray:
    """Return features (c, d_text) of captions, and encode only those that no former job encoded.

    Rounding depends on the size of a batch, and on some processors on its other captions. So what
    is in a last batch that is not full is neither reused nor taken over, other batches are filled
    up with captions that are known, and `CHECKED` of the former features are made again: if they
    are not the same bytes, all are.

    Parameters
    ----------
    encoder : Encoder
        The towers.
    texts : mapping of str to str
        c captions, by identity.
    kept : Parts
        Features of former jobs with the same towers, settings and code.
    record, states, progress
        As `Encoder.encode_texts` has them.
    """
    ids = [*texts]
    is_reused, features = _former(kept, pd.Index(ids), encoder)
    whole = len(ids) // encoder.batch_size * encoder.batch_size
    is_reused[whole:] = False
    again = np.flatnonzero(is_reused)
    again = again[np.linspace(0, len(again) - 1, min(CHECKED, len(again))).astype(int)]
    if len(again):
        encoded = np.union1d(np.flatnonzero(~is_reused[:whole]), again)
        further = np.setdiff1d(np.arange(whole), encoded)[: -len(encoded) % encoder.batch_size]
        encoded = np.concatenate([np.union1d(encoded, further), np.arange(whole, len(ids))])
        some = [ids[number] for number in encoded]
        before = record.captions, record.truncated
        new = encoder.encode_texts(
            [texts[name] for name in some], some, record, states, progress
        ).numpy()
        same = np.isin(encoded, again)
        if np.array_equal(new[same], features[encoded[same]]):
            features[encoded] = new
            reused = [texts[ids[number]] for number in np.setdiff1d(np.arange(len(ids)), encoded)]
            record.captions += len(reused)
            record.resumed_captions += len(reused)
            record.truncated += encoder.count_truncated(reused)
            progress(len(ids))
            log.info("%d of %d captions were encoded before", len(reused), len(ids))
            return features
        log.info("features of captions depend on their batch here, so all are encoded again")
        record.captions, record.truncated = before
    return encoder.encode_texts([*texts.values()], ids, record, states, progress).numpy()


def _former(kept: Parts, ids: pd.Index, encoder: Encoder) -> tuple[np.ndarray, np.ndarray]:
    """Return which captions have features of former jobs, and an array with these features."""
    is_reused = np.zeros(len(ids), bool)
    features = np.empty((0, encoder.text.width))
    for path, table in kept.named():
        try:
            former, _ = files.read_parquet(table)
            former = former[: len(former) // encoder.batch_size * encoder.batch_size]
            places = ids.get_indexer(pd.Index(former["id"]))
            new = (places >= 0) & ~is_reused[places]
            if not new.any():
                continue
            tensors, _ = files.read_tensors(path)
            rows = tensors["text_features"][former["row"].to_numpy()[new]]
        except (UserError, KeyError, IndexError) as error:
            log.warning("%s: not reused (%s)", path, error)
            continue
        if not len(features):
            features = np.empty((len(ids), encoder.text.width), rows.dtype)
        features[places[new]] = rows
        is_reused[places[new]] = True
    return is_reused, features
