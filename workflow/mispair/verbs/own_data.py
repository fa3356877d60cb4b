"""The verbs that run the workflow on your own data, or plan such a run."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from mispair.verbs.verb import OWN_DATA, verb


def _of_plan(parser: ArgumentParser) -> None:
    from mispair.planning.rates import RATES

    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser.add_argument("--rates", type=Path, default=RATES, help="a file of rates of your own")


@verb(OWN_DATA, "mispair plan --cores 8 --configfile mine.yaml", _of_plan, of_snakemake=True)
def plan(options: Namespace) -> int:
    """Estimate the cost of a run before it starts; takes the options of snakemake.

    It prints the jobs that `snakemake` would run with the same options, and their estimated cost:
    time of cores and GPUs, wall time, memory and disk, from recorded benchmarks. Nothing is run.
    All other options and targets are Snakemake's, such as --cores 8, --configfile mine.yaml (after
    the targets), --workflow-profile slurm.
    """
    from mispair.planning.plan import plan as planned
    from mispair.planning.table import text_of

    result = planned(options.rest, options.rates)
    print(json.dumps(asdict(result), indent=1) if options.json else text_of(result))
    return 0
