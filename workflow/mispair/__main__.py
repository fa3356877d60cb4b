"""``python -m mispair`` is ``mispair``; a job asks the server of its run for a process first."""

import os
import signal
import sys
import time

from mispair import forkserver
from mispair.core.forks import ADDRESS


def main() -> int:
    """Run ``mispair``; Ctrl-C while its modules are imported ends it without a traceback."""
    began = time.perf_counter()
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if ADDRESS in os.environ and (code := forkserver.ask(sys.argv[1:])) is not None:
        return code
    from mispair import cli

    if interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main(began=began)


if __name__ == "__main__":
    sys.exit(main())
