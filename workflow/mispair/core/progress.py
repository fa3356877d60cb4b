"""How far a long step is: a bar on a terminal, and in a log one sober line a minute."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Any, Self

log = logging.getLogger(__name__)

LINE_SECONDS = 60.0
"""Time between two lines of a log; what is done sooner says nothing."""


MANY = 10_000
"""From here on a bar counts in thousands and millions."""


class Progress:
    """Says how far something is, how fast it goes, and how long the rest will take.

    Parameters
    ----------
    what : str
        What is done.
    total : float or None
        How much there is of it; None if nobody knows.
    unit : str
        Of what, in the plural.
    stream : text file, optional
        Where a bar is drawn if it is a terminal: stderr unless another is given.
    clock : callable
        Returns seconds.

    Examples
    --------
    >>> with Progress("counting", total=3, unit="sheep") as progress:
    ...     for number in range(3):
    ...         progress.reach(number + 1)
    """

    def __init__(
        self,
        what: str,
        total: float | None,
        unit: str,
        *,
        stream: IO[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.stream = sys.stderr if stream is None else stream
        self.clock, self.done = clock, 0.0
        self._bar: Any = None
        self._stack = ExitStack()
        self._began: tuple[float, float] | None = None
        self._spoke: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if kind is None:
            self.close()

    def close(self) -> None:
        """Log the total time if progress was logged."""
        self._stack.close()
        if self._began is not None and self._spoke != self._began[0]:
            since, first = self._began
            done, seconds = f"{self.done - first:,.0f}", duration(self.clock() - since)
            log.info("%s: %s %s in %s", self.what, done, self.unit, seconds)

    def reach(self, done: float) -> None:
        """Say that so much is done; what the first call names was done before."""
        self.done = done
        if self._began is None:
            now = self.clock()
            self._began, self._spoke = (now, done), now
            if self.stream.isatty():
                self._bar = self._drawn(done)
        elif self._bar is not None:
            self._bar.update(done - self._bar.n)
        else:
            now = self.clock()
            if self._spoke is None or now - self._spoke >= LINE_SECONDS:
                self._spoke = now
                log.info("%s", self.line(now))

    def advance(self, more: float = 1) -> None:
        """Say that more is done."""
        self.reach(self.done + more)

    def line(self, now: float) -> str:
        """Return what a log says: done, total, rate and time that is left."""
        assert self._began is not None
        since, first = self._began
        rate = (self.done - first) / max(now - since, 1e-9)
        if self.total is None:
            return f"{self.what}: {self.done:,.0f} {self.unit}, {speed(rate, self.unit)}"
        share = 100 * self.done / self.total if self.total else 100
        left = (
            f"{duration((self.total - self.done) / rate)} left" if rate > 0 else "no end in sight"
        )
        return (
            f"{self.what}: {self.done:,.0f} of {self.total:,.0f} {self.unit} ({share:.0f} %), "
            f"{speed(rate, self.unit)}, {left}"
        )

    def _drawn(self, done: float) -> Any:
        from tqdm import tqdm
        from tqdm.contrib.logging import logging_redirect_tqdm

        class Bar(tqdm):
            monitor_interval = 0  # no thread of its own: steps fork

        # Lines of a log go above the bar instead of into it.
        self._stack.enter_context(logging_redirect_tqdm())
        bar = Bar(
            desc=self.what, total=self.total, initial=done, unit=f" {self.unit}",
            unit_scale=self.total is None or self.total >= MANY,
            file=self.stream, leave=False, dynamic_ncols=True,
        )  # fmt: skip
        self._stack.callback(bar.close)
        return bar


def speed(rate: float, unit: str) -> str:
    """Return a rate in words, in a unit of time in which it is no tiny number.

    Examples
    --------
    >>> speed(1234.5, "steps"), speed(0.05, "shards"), speed(0.001, "epochs")
    ('1,234.5 steps/s', '3.0 shards/min', '3.6 epochs/h')
    """
    for seconds, name in ((1, "s"), (60, "min")):
        if rate * seconds >= 1:
            return f"{rate * seconds:,.1f} {unit}/{name}"
    return f"{rate * 3600:,.1f} {unit}/h"


def duration(seconds: float) -> str:
    """Return a time in words, with its two largest units.

    Examples
    --------
    >>> duration(3.2), duration(62), duration(3 * 3600 + 120), duration(100 * 3600)
    ('3 s', '1 min 2 s', '3 h 2 min', '4 d 4 h')
    """
    whole = round(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"),
             (whole % 60, "s")]  # fmt: skip
    first = next((position for position, (number, _) in enumerate(parts) if number), 3)
    shown = [f"{n} {unit}" for n, unit in parts[first : first + 2] if n]
    return " ".join(shown) or "0 s"
