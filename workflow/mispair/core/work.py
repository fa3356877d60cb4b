"""How much work a job has: what its time, its memory and its output grow with.

A job costs what a job without work costs (``start``) and a rate for each unit of its work; the
rates are measured (see `mispair.planning.rates`), the units follow from the job's settings and
files. ``mispair/PACKAGE/work.py`` has a function for each step of the package: given the settings,
the files and wildcards of a job and the sizes of files, it returns the work, and notes what the
outputs will hold. A step without one takes the same time for all inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Quantities = Mapping[str, float]


@dataclass(frozen=True)
class Work:
    """What a job is given to do.

    Attributes
    ----------
    seconds, megabytes, disk_megabytes : dict of str to float
        Amounts by unit that its time, its memory and its output grow with.
    variant : str
        Which of several methods of the step it is, each with rates of its own.
    """

    seconds: Quantities = field(default_factory=dict)
    megabytes: Quantities = field(default_factory=dict)
    disk_megabytes: Quantities = field(default_factory=dict)
    variant: str = ""
