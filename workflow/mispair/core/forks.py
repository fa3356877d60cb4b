"""Whether jobs of a run are forks of a process that has imported their libraries."""

import os
import sys

ADDRESS = "MISPAIR_FORKSERVER"
"""The environment variable with the path of the server's socket; who sets it has no server."""


def is_wanted() -> bool:
    """Return whether a run on this machine has a server (`mispair.forkserver`)."""
    return sys.platform == "linux" and ADDRESS not in os.environ
