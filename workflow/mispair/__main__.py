"""``python -m mispair`` is ``mispair``."""

import sys

from mispair.cli import main

if __name__ == "__main__":
    sys.exit(main())
