"""Progress of a long step: a bar on a terminal, one line a minute in a log."""

import logging
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Any, Self

from mispair.core.words import duration

log = logging.getLogger(__name__)

LINE_SECONDS = 60.0
"""Time between two lines of a log; shorter work logs nothing."""

MANY = 10_000
"""Totals from which a bar counts in thousands and millions."""


class Progress:
    """Shows how much is done, the rate, and the time left.

    Parameters
    ----------
    what : str
        What is done.
    total : float or None
        Amount in all; None if unknown.
    unit : str
        Unit of the amount, in the plural.
    stream : text file, optional
        Where a bar is drawn if it is a terminal; stderr by default.
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
        """Set progress to `done`; the first call sets the starting point."""
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
        """Add to the progress."""
        self.reach(self.done + more)

    def line(self, now: float) -> str:
        """Return a line for a log: done, total, rate and time left."""
        assert self._began is not None
        since, first = self._began
        rate = (self.done - first) / max(now - since, 1e-9)
        if self.total is None:
            return f"{self.what}: {self.done:,.0f} {self.unit}, {speed(rate, self.unit)}"
        share = 100 * self.done / self.total if self.total else 100
        rest = f"{duration((self.total - self.done) / rate)} left" if rate > 0 else ""
        return (
            f"{self.what}: {self.done:,.0f} of {self.total:,.0f} {self.unit} ({share:.0f} %), "
            f"{speed(rate, self.unit)}, {rest or 'time left unknown'}"
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
    """Format a rate per second, minute or hour, whichever is at least 1.

    Examples
    --------
    >>> speed(1234.5, "steps"), speed(0.05, "shards"), speed(0.001, "epochs")
    ('1,234.5 steps/s', '3.0 shards/min', '3.6 epochs/h')
    """
    for seconds, name in ((1, "s"), (60, "min")):
        if rate * seconds >= 1:
            return f"{rate * seconds:,.1f} {unit}/{name}"
    return f"{rate * 3600:,.1f} {unit}/h"
