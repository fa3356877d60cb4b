"""Which processes are forks, and so need not import their libraries again."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

ADDRESS = "MISPAIR_FORKSERVER"
"""The environment variable with the path of the server's socket; who sets it has no server."""


def is_wanted() -> bool:
    """Return whether a run on this machine has a server (`mispair.forkserver`)."""
    return sys.platform == "linux" and ADDRESS not in os.environ


def has_one_thread() -> bool:
    """Return whether this process has one thread on Linux: then a fork of it lacks nothing."""
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1


def context_of_workers() -> BaseContext:
    """Return how worker processes begin: as forks where they are safe, which saves their imports.

    A fork has no other thread than the one that forks, but copies of all locks that they hold.
    """
    import multiprocessing  # each client of the server imports this module

    return multiprocessing.get_context("fork" if has_one_thread() else "spawn")
