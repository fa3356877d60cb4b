"""Settings of every step that runs a frozen tower, and its counts and times.

The record shows whether a job waited for its data. Nothing here imports torch at the start.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from mispair.core import settings
from mispair.core.devices import Precision, device_name, peak_memory


class EncodingSettings(settings.Settings):
    """How a frozen tower is run."""

    batch_size: int = Field(
        256, ge=1, description="Images or texts per forward pass; halved where memory runs out."
    )
    precision: Precision = Field(
        "fp32", description="Number format in the tower; bf16 and fp16 are faster on GPUs."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where the tower runs; auto takes a GPU when there is one."
    )


log = logging.getLogger(__name__)

MOST_WAITING = 0.3
"""Share of time waiting for data above which a GPU gets a warning."""


@dataclass
class EncodingRecord:
    """Counts and times of an encoding, filled in as it goes on.

    Attributes
    ----------
    device : str
        ``cpu`` or ``cuda``.
    images, resumed, captions, resumed_captions, truncated : int
        Images, those that a killed job had encoded already; texts, those that a killed job had
        encoded already, and those that the tokenizer cut off.
    workers : int
        Processes or threads that prepared images.
    seconds : dict
        Of ``images``, of ``captions``, and of ``waiting`` for pixels (a part of ``images``).
    """

    device: str
    images: int = 0
    resumed: int = 0
    resumed_captions: int = 0
    captions: int = 0
    truncated: int = 0
    workers: int = 0
    seconds: dict[str, float] = field(
        default_factory=lambda: {"images": 0.0, "captions": 0.0, "waiting": 0.0}
    )

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        """Add the time of the block to ``seconds[what]``."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - started

    def finish(self, **about: Any) -> dict[str, Any]:
        """Log the record in one line, warn of a GPU that waits, and return it for JSON."""
        seconds = self.seconds["images"] + self.seconds["captions"]
        content = {
            "device": device_name(self.device),
            "images": self.images,
            "resumed": self.resumed + self.resumed_captions,
            "captions": self.captions,
            "truncated": self.truncated,
            "seconds": seconds,
            "images_per_s": _ratio(self.images - self.resumed, self.seconds["images"]),
            "captions_per_s": _ratio(
                self.captions - self.resumed_captions, self.seconds["captions"]
            ),
            "waiting_share": _ratio(self.seconds["waiting"], seconds),
            "memory_bytes": peak_memory(self.device),
            "workers": self.workers,
            **about,
        }
        log.info("encoded: %s", ", ".join(f"{name} {_short(v)}" for name, v in content.items()))
        if self.device == "cuda" and content["waiting_share"] > MOST_WAITING:
            log.warning(
                "the GPU waited for data %.0f%% of the time: more workers (with as many CPU "
                "cores) or a faster disk would feed it better",
                100 * content["waiting_share"],
            )
        return content


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
