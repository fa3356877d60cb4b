"""What a run costs more through SLURM than on the same two cores without it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.slurm_cluster import Cluster, missing_programs
from tests.workflow.conftest import SMOKE, Checkout, new_checkout

SECONDS_BETWEEN_LOOKS = 5

Row = tuple[str, str, str, str]


def measure() -> Iterator[Row]:
    """Run the smoke configuration both ways and yield the row."""
    name = "smoke configuration through SLURM"
    if lacking := missing_programs():
        yield name, "not measured", f"no {lacking[0]} here", ""
        return
    with tempfile.TemporaryDirectory() as temporary:
        local, remote = (new_checkout(Path(temporary) / folder) for folder in ("local", "slurm"))
        started = time.perf_counter()
        local.snakemake("--quiet", "all")
        without = time.perf_counter() - started
        with Cluster() as cluster:
            started = time.perf_counter()
            _through(cluster, remote)
            through = time.perf_counter() - started
            submitted = int(cluster.run("scontrol", "show", "jobs", "-o").count("JobId="))
        assert local.results() == remote.results()
    extra = (through - without) / submitted
    yield (
        name,
        f"{through:.0f} s, {submitted} submissions, a look every {SECONDS_BETWEEN_LOOKS} s",
        f"{without:.0f} s with --cores 2, same bytes",
        f"{extra:.1f} s a submission",
    )


def _through(cluster: Cluster, checkout: Checkout) -> None:
    command = [
        *(sys.executable, "-m", "snakemake", "--workflow-profile", "slurm", "--jobs", "4"),
        *("--slurm-init-seconds-before-status-checks", str(SECONDS_BETWEEN_LOOKS)),
        *("--quiet", "all", "--configfile", SMOKE),
    ]
    subprocess.run(command, cwd=checkout.folder, env=cluster.environment, check=True)
