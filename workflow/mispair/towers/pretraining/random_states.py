"""States of the random generators of a training, so that it resumes as if it had never ended.

The processes that read pictures draw crops and the order of samples from generators of their own,
which run on from epoch to epoch. So each sends their states with every batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

from mispair.core.files import replacing

State = dict[str, Any]


def random_state(shuffle: random.Random) -> State:
    """Return the state of every generator of this process, as tensors and plain containers."""
    numpy: Any = np.random.get_state(legacy=False)
    state: State = {
        "shuffle": shuffle.getstate(),
        "python": random.getstate(),
        "numpy": torch.from_numpy(numpy["state"]["key"].astype(np.int64)),
        "numpy_rest": (numpy["state"]["pos"], numpy["has_gauss"], numpy["gauss"]),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore(state: State, shuffle: random.Random) -> None:
    """Restore every generator of this process to a result of `random_state`."""
    shuffle.setstate(_tuples(state["shuffle"]))
    random.setstate(_tuples(state["python"]))
    position, has_gauss, gauss = state["numpy_rest"]
    key = state["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", key, position, has_gauss, gauss))
    torch.set_rng_state(state["torch"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])


def _tuples(state: Any) -> Any:
    """Return a state of `random.Random` as it was: torch's loader makes lists of its tuples."""
    version, numbers, gauss = state
    return version, tuple(numbers), gauss


@dataclass
class Reading:
    """Last stage of open_clip's data pipeline: adds reader and state of the reader to a batch."""

    shuffle: random.Random
    resumed: dict[int, State] = field(default_factory=dict)

    def __call__(self, batches: Any) -> Iterator[tuple[Any, Any, int, State]]:
        """Yield pictures, texts, the number of the reader and its state after the batch."""
        info = get_worker_info()
        reader = 0 if info is None else info.id
        # Restored here, because this runs in the process that reads.
        if (state := self.resumed.pop(reader, None)) is not None:
            restore(state, self.shuffle)
        for images, texts in batches:
            yield images, texts, reader, random_state(self.shuffle)


class ResumableLoader:
    """open_clip's loader of training data, which can be saved between epochs.

    Parameters
    ----------
    loader : webdataset.WebLoader
        As open_clip makes it, with its number of reading `workers`; with 0 the main process reads.
    shuffle : random.Random
        Generator of the order of samples, which the pipeline holds.
    path : Path, optional
        File of `save` to resume from.
    """

    def __init__(
        self, loader: Any, workers: int, shuffle: random.Random, path: Path | None = None
    ) -> None:
        self.loader, self.workers, self.shuffle = loader, workers, shuffle
        self.num_batches, self.num_samples = loader.num_batches, loader.num_samples
        self.readers: dict[int, State] = {}
        self.seen: Callable[[], None] = lambda: None
        self.main: State | None = None
        stage = Reading(shuffle)
        if path is not None:
            saved = torch.load(path, map_location="cpu", weights_only=True)
            stage.resumed, self.main = saved["readers"], saved["main"]
        loader.pipeline[0].dataset.append(stage)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield the batches of an epoch."""
        if not self.workers:
            self._go_on()
        for images, texts, reader, state in self.loader:
            # Only now: starting the readers drew their seeds from this process's generator.
            self._go_on()
            self.readers[reader] = state
            yield images, texts
            self.seen()

    def _go_on(self) -> None:
        if self.main is not None:
            restore(self.main, self.shuffle)
            self.main = None

    def save(self, path: Path) -> None:
        """Write the states after an epoch."""
        # Without workers the reader is this process, and has gone on since the last batch.
        readers = self.readers if self.workers else {}
        with replacing(path) as temporary:
            torch.save({"main": random_state(self.shuffle), "readers": readers}, temporary)
