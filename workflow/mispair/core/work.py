"""Amounts of work of a job, on which its time, memory and output depend.

The cost of a job is that of a job without work (``start``) and a measured rate for each unit
(`mispair.planning.rates`). ``mispair/PACKAGE/work.py`` has a function for each step of the package:
given the settings, the files and wildcards of a job and the sizes of files, it returns the work and
notes the sizes of the outputs. A step without a function takes the same time for all inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
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
