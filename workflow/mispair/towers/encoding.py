"""Run frozen towers over images and texts, up to but without the final projections."""

from __future__ import annotations

import functools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from mispair.core.devices import Precision, choose_device, is_out_of_memory
from mispair.core.files import UserError
from mispair.core.provenance import code_version, fingerprint
from mispair.core.resume import Checkpoints, checkpoints
from mispair.core.settings import command_line
from mispair.towers.encoding_record import EncodingRecord, EncodingSettings
from mispair.towers.loading import Towers, load_towers
from mispair.towers.preparation import COMPUTED, STORED, PixelForm, autocast

if TYPE_CHECKING:
    from PIL import Image

    from mispair.core.resume import FileKeeper


log = logging.getLogger(__name__)

MEMORY_FORMAT = {"cpu": torch.contiguous_format, "cuda": torch.channels_last}
"""Order of pixels in memory; tensor cores want the channels together, a CPU gains little."""

Progress = Callable[[int], None]
"""Takes the number of images or texts that are done."""

TEXTS_OF_A_PART, IMAGES_OF_A_PART = 8192, 1024
"""Rows of one file of resume states; the images of a part are all in memory, still encoded."""

ADVICE: dict[Precision, str] = {
    "fp32": "The towers' weights are broken, or belong to another configuration: fetch them again.",
    "bf16": "Set precision to fp32, which shows whether the weights are broken.",
    "fp16": "Half precision ends at 65504: set precision to bf16 or fp32.",
}
"""What to do about features that are not finite."""


class Tower:
    """One tower, which takes batches of any length in pieces that fit into memory.

    Parameters
    ----------
    kind, forward
        "image" or "text", for messages; the function from inputs (n, ...) on the device to features
        (n, `width`).
    batch_size : int
        Inputs of a forward pass; halved where memory runs out, until `restart`. `smallest` is
        the least value so far.
    precision : {"fp32", "bf16", "fp16"}
        Number format of the products; features are float32 for fp32, else float16.
    """

    def __init__(
        self,
        kind: str,
        forward: Callable[[torch.Tensor], torch.Tensor],
        width: int,
        batch_size: int,
        precision: Precision,
        device: str,
    ) -> None:
        self.kind, self.forward, self.width = kind, forward, width
        self.batch_size = self.size = self.smallest = batch_size
        self.precision, self.device = precision, device
        self.stored = STORED[precision]

    def restart(self) -> None:
        """Return to the whole batch size, so that one shard does not influence the next."""
        self.size = self.batch_size

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the features (n, d) of inputs (n, ...), on the device, without synchronising it.

        Raises a UserError if memory does not even hold a batch of one.
        """
        blocks = [torch.empty((0, self.width), dtype=self.stored, device=self.device)]
        done = 0
        while done < len(inputs):
            piece = inputs[done : done + self.size]
            try:
                blocks.append(self._features(piece))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                reason = str(error).partition("\n")[0]
            else:
                done += len(piece)
                continue
            # Outside `except`, because the error's frames hold the memory that is missing.
            self._halve(len(piece), reason)
        return torch.cat(blocks)

    def _features(self, piece: torch.Tensor) -> torch.Tensor:
        if self.device == "cuda":
            piece = piece.pin_memory()  # the transfer would wait for memory that is not pinned
        piece = piece.to(self.device, non_blocking=True)
        with torch.inference_mode(), autocast(self.precision, self.device):
            features = self.forward(piece)
        return features.to(self.stored)

    def _halve(self, tried: int, reason: str) -> None:
        if tried == 1:
            raise UserError(
                f"batch_size: memory does not hold a single {self.kind} ({reason}). Take precision "
                "bf16, or a device with more memory."
            )
        self.size = tried // 2
        self.smallest = min(self.smallest, self.size)
        log.warning(
            "out of memory with a batch of %d: going on with %d (%s)", tried, self.size, reason
        )
        if self.device == "cuda":
            torch.cuda.empty_cache()


class Picture(NamedTuple):
    """An image that is decoded when it is needed."""

    name: str
    content: bytes
    """As encoded."""
    decode: Callable[[], Image.Image]


class Growing:
    """Features of a part of the inputs, saved now and then, so that a killed job can resume.

    They stay on the device until the part ends or is saved: copying each batch to the host would
    synchronise the GPU once a batch.

    Parameters
    ----------
    tower, names
        The tower, and the names of the inputs for messages.
    rows : int
        Number of features at the end: a multiple of the number of names.
    keeper, progress
        The keeper has the rows of a killed job; progress takes the number of rows.
    former : array, optional
        All rows, if a former job computed them.
    """

    def __init__(
        self,
        tower: Tower,
        names: Sequence[str],
        rows: int,
        keeper: FileKeeper | None,
        progress: Progress = lambda number: None,
        former: np.ndarray | None = None,
    ) -> None:
        self.tower, self.names = tower, names
        self.features = torch.empty((rows, tower.width), dtype=tower.stored, device=tower.device)
        self.keeper, self.done, self.progress = keeper, 0, progress
        if former is not None and len(former) == rows:
            self.done = len(former)
            self.features[:] = torch.from_numpy(former)
        elif keeper is not None and (kept := keeper.load()) is not None:
            self.done = len(kept["features"])
            self.features[: self.done] = kept["features"]
        progress(self.done)

    def add(self, features: torch.Tensor) -> None:
        """Append the features of a batch; raise a UserError if they are saved and not finite."""
        self.features[self.done : self.done + len(features)] = features
        self.done += len(features)
        self.progress(self.done)
        if self.keeper is not None and (self.done == len(self.features) or self.keeper.due()):
            self.keeper.save({"features": self.on_host()})

    def on_host(self) -> torch.Tensor:
        """Return the features on the host; raise a UserError if one of them is not finite."""
        features = self.features[: self.done].cpu()
        finite = features.isfinite().all(dim=1)
        if not finite.all():
            name = self.names[int(finite.int().argmin()) * len(self.names) // len(self.features)]
            raise UserError(
                f"the features of {self.tower.kind} {name!r} are not finite in "
                f"{self.tower.precision}. " + ADVICE[self.tower.precision]
            )
        return features


class Encoder:
    """Frozen towers, ready to run: `image` and `text` are each a `Tower`.

    The memory format of the weights is set in place. `batch_size` are the images or texts of a
    forward pass, `precision` the format of the products.
    """

    def __init__(self, towers: Towers, batch_size: int, precision: Precision = "fp32") -> None:
        self.towers, self.batch_size = towers, batch_size
        self.device = towers.image_projection.device.type
        self.form = PixelForm(COMPUTED[precision], MEMORY_FORMAT[self.device])
        for tower in (towers.image_tower, towers.text_tower):
            tower.to(memory_format=self.form.memory_format)
        self.image, self.text = (
            Tower(kind, forward, projection.shape[0], batch_size, precision, self.device)
            for kind, forward, projection in [
                ("image", towers.image_features, towers.image_projection),
                ("text", towers.text_features, towers.text_projection),
            ]
        )

    def encode_texts(
        self,
        texts: Sequence[str],
        names: Sequence[str],
        record: EncodingRecord,
        states: Checkpoints | None = None,
        progress: Progress = lambda number: None,
    ) -> torch.Tensor:
        """Return features (c, d_text) of texts; the record counts those that the tokenizer cut.

        Features are saved in `states`, part by part. `progress` takes the number of texts done.
        """
        blocks = [self.text(torch.empty(0)).cpu()]
        size = self._part(TEXTS_OF_A_PART)
        with record.timing("captions"):
            for start in range(0, len(texts), size):
                part, report = slice(start, start + size), _from(start, progress)
                blocks.append(self._part_of_texts(texts[part], names[part], record, states, report))
        return torch.cat(blocks)

    def _part_of_texts(
        self,
        texts: Sequence[str],
        names: Sequence[str],
        record: EncodingRecord,
        states: Checkpoints | None,
        progress: Progress,
    ) -> torch.Tensor:
        part = Growing(self.text, names, len(texts), _keeper(states, texts), progress)
        record.resumed_captions += part.done
        record.captions += len(texts)
        if states is not None:
            self.text.restart()
        for start in range(0, len(texts), self.batch_size):
            batch = slice(start, start + self.batch_size)
            tokens = self.towers.tokenizer(list(texts[batch]))
            record.truncated += int(self.towers.truncated(texts[batch], tokens).sum())
            if start >= part.done:
                part.add(self.text(tokens))
        return part.on_host()

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Return how many texts the tokenizer cuts."""
        batches = [texts[start : start + self.batch_size]
                   for start in range(0, len(texts), self.batch_size)]  # fmt: skip
        tokenizer, truncated = self.towers.tokenizer, self.towers.truncated
        return sum(int(truncated(batch, tokenizer(list(batch))).sum()) for batch in batches)

    def encode_images(
        self,
        images: Iterable[Picture],
        record: EncodingRecord,
        states: Checkpoints | None = None,
        progress: Progress = lambda number: None,
        workers: int = 0,
    ) -> torch.Tensor:
        """Return features (n, d_image) of images, prepared the model's own way.

        `workers` threads decode and resize pictures while the tower runs; with 0 this happens
        between batches. The features are the same bytes.

        Features are saved in `states`, part by part. Images of saved parts are read, but not
        decoded. `progress` takes the number of images done.
        """
        blocks, remaining, done = [self.image(torch.empty(0)).cpu()], iter(images), 0
        size = self.batch_size if states is None else self._part(IMAGES_OF_A_PART)
        record.workers = workers
        with record.timing("images"):
            while True:
                with record.timing("waiting"):
                    some = list(islice(remaining, size))
                if not some:
                    return torch.cat(blocks)
                report = _from(done, progress)
                blocks.append(self._part_of_images(some, record, states, report))
                done += len(some)

    def _part_of_images(
        self,
        images: Sequence[Picture],
        record: EncodingRecord,
        states: Checkpoints | None,
        progress: Progress,
    ) -> torch.Tensor:
        keeper = _keeper(states, [image.content for image in images])
        names = [image.name for image in images]
        part = Growing(self.image, names, len(images), keeper, progress)
        record.resumed += part.done
        if states is not None:
            self.image.restart()
        prepared = self._prepared(images[part.done :], record.workers)
        while part.done < len(images):
            with record.timing("waiting"):
                pixels = self.form(list(islice(prepared, self.batch_size)))
            part.add(self.image(pixels))
        record.images += len(images)
        return part.on_host()

    def _prepared(self, images: Sequence[Picture], workers: int) -> Iterator[torch.Tensor]:
        """Yield pixels (1, 3, side, side) of images in order, prepared up to two batches ahead."""

        def prepare(image: Picture) -> torch.Tensor:
            return self.towers.preprocess(image.decode())[None]

        if not workers:
            yield from map(prepare, images)
            return
        pool, remaining = ThreadPoolExecutor(workers), iter(images)
        try:
            ahead = deque(pool.submit(prepare, image)
                          for image in islice(remaining, 2 * self.batch_size))  # fmt: skip
            while ahead:
                pixels = ahead.popleft().result()
                ahead.extend(pool.submit(prepare, image) for image in islice(remaining, 1))
                yield pixels
        finally:
            pool.shutdown(cancel_futures=True)

    def _part(self, rows: int) -> int:
        """Return `rows` rounded down to whole batches, at least one batch."""
        return max(1, rows // self.batch_size) * self.batch_size


def _from(start: int, progress: Progress) -> Progress:
    return lambda number: progress(start + number)


def _keeper(states: Checkpoints | None, content: Sequence[str | bytes]) -> FileKeeper | None:
    # Named by all that it depends on, besides the job.
    return None if states is None else states.keeper(fingerprint(content))


def encode_images(
    towers: Towers, images: Iterable[Image.Image], batch_size: int, precision: Precision = "fp32"
) -> np.ndarray:
    """Return pre-projection features (n, d_image) of RGB images, prepared the model's own way."""
    encoder = Encoder(towers, batch_size, precision)
    pictures = (
        Picture(str(number), b"", partial(_as_it_is, image)) for number, image in enumerate(images)
    )
    return encoder.encode_images(pictures, EncodingRecord(encoder.device)).numpy()


def _as_it_is(image: Image.Image) -> Image.Image:
    return image


def encode_texts(
    towers: Towers, texts: Sequence[str], batch_size: int, precision: Precision = "fp32"
) -> np.ndarray:
    """Return pre-projection features (c, d_text) of texts."""
    encoder = Encoder(towers, batch_size, precision)
    return encoder.encode_texts(texts, texts, EncodingRecord(encoder.device)).numpy()


# What the steps that run a frozen tower have in common.


@contextmanager
def encoding_job(
    step: str, settings: EncodingSettings, towers: Sequence[Path], result: Path
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
    encoder = Encoder(frozen, settings.batch_size, settings.precision)
    job = [command_line(settings), encoder.device, frozen.fingerprint, *code_version(step)]
    parts = result.with_name(f"{result.name}.parts")
    with checkpoints(parts, fingerprint(job)) as states:
        yield encoder, EncodingRecord(encoder.device), states


@functools.lru_cache(maxsize=1)
def _load_once(folder: Path, device: str, written: tuple[tuple[str, int], ...]) -> Towers:
    """Load towers, or return those of the step before if one process runs several with them."""
    return load_towers(folder, device)
