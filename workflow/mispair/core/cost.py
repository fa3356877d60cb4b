"""Amounts of work of a job, on which its time, memory and output depend.

The cost of a job is that of a job without work (``start``) and a measured rate for each unit
(`mispair.planning.estimates`). ``mispair/PACKAGE/cost.py`` has a function for each step of
the package: given the settings, the files and wildcards of a job and the sizes of files, it returns
the work and notes the sizes of the outputs. A step without a function takes the same time for all
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Quantities = Mapping[str, float]


@dataclass(frozen=True)
class Work:
    """Amounts by unit on which time, memory and output depend.

    ``variant`` is one of several methods of the step, each with its rates.
    """

    seconds: Quantities = field(default_factory=dict)
    megabytes: Quantities = field(default_factory=dict)
    disk_megabytes: Quantities = field(default_factory=dict)
    variant: str = ""

    def __add__(self, other: Work) -> Work:
        """Return the work of a job that does one after the other: memory is that of the larger."""
        return Work(
            _by_unit(sum, self.seconds, other.seconds),
            _by_unit(max, self.megabytes, other.megabytes),
            _by_unit(sum, self.disk_megabytes, other.disk_megabytes),
            self.variant or other.variant,
        )


def _by_unit(combined: Callable[[list[float]], float], *works: Quantities) -> Quantities:
    units = dict.fromkeys(unit for work in works for unit in work)
    return {unit: combined([work.get(unit, 0.0) for work in works]) for unit in units}
