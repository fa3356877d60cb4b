"""``python -m mispair`` is ``mispair``."""

import signal
import sys


def main() -> int:
    """Run ``mispair``; Ctrl-C while its modules are imported ends it without a traceback."""
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mispair import cli

    if interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
