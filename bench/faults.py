"""What a run survives: 20 kills by SIGTERM and 20 by SIGKILL, and the work that they cost.

The smoke configuration is run once in peace and once under fire, with kills at any moment;
results are compared byte by byte.
"""

import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.faults import Faults, Kill
from tests.workflow.conftest import new_checkout

CONFIG = ("--cores", "2", "--configfile", "config/smoke.yaml")
SAVE_SECONDS = 60.0
"""As outside tests."""

Row = tuple[str, str, str, str]


def measure() -> Iterator[Row]:
    """Yield a row for each kind of fault."""
    with tempfile.TemporaryDirectory() as temporary:
        quiet = new_checkout(Path(temporary) / "quiet")
        loud = quiet.copy(Path(temporary) / "loud")  # not from files that may be edited meanwhile
        quiet.snakemake(*CONFIG, fresh=True)
        jobs = len(list((quiet.folder / "benchmarks").rglob("*.tsv")))
        arguments = ["--retries", "60", *CONFIG]
        faults = Faults(
            loud.folder, arguments, jobs, seed=1, save_seconds=SAVE_SECONDS, at_a_state=0.0
        )
        faults.run()
        expected, found = quiet.results(), loud.results()
        other = [name for name in expected | found if expected.get(name) != found.get(name)]
        survived = not other
        if not survived:
            print(*(f"not the same: {name}" for name in other), sep="\n", file=sys.stderr)
            kept = shutil.copytree(temporary, tempfile.mkdtemp(), symlinks=True, dirs_exist_ok=True)
            print(f"both runs are kept in {kept}", file=sys.stderr)
        for how in (signal.SIGTERM, signal.SIGKILL):
            for what in ("a step", "Snakemake"):
                yield _row(faults, how, what, survived)


def _row(faults: Faults, how: signal.Signals, what: str, survived: bool) -> Row:
    def meant(kill: Kill) -> bool:
        return kill.how is how and (kill.verb == "snakemake") == (what == "Snakemake")

    kills = [kill for kill in faults.landed if meant(kill)]
    lost = [seconds for kill, seconds in faults.work_lost() if meant(kill)]
    return (
        f"fault: {what} is ended by {how.name}",
        f"{len(kills)} injected",
        f"{len(kills) if survived else 0} survived, with the same bytes",
        f"work lost: {statistics.median(lost):.1f} s in the median, {max(lost):.1f} s at most"
        if lost
        else "work lost: that of the jobs which ran",
    )
