"""The jobs that Snakemake would run, as it says itself in a dry run.

All options are Snakemake's own. Each job of a dry run is an event of its log, with its command,
files, threads and resources; what depends on what follows from the files.
"""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.planning.schedule import FIRST_CHECK

OTHER_WORK = ("Params have changed", "Set of input files has changed")
"""Reasons to run a job again after which its old benchmark is one of other work."""


@dataclass(frozen=True)
class Job:
    """A job that would run.

    Attributes
    ----------
    rule : str
        Its rule.
    command : tuple of str
        What follows ``python -m mispair``; empty for a target, which runs nothing.
    inputs, outputs : tuple of str
        Its files, relative to the folder of the run.
    benchmark, log : str, optional
        Where its benchmark is recorded, and what it says.
    threads, gpus : int
        What it takes of a machine.
    group : str, optional
        The group with which it is submitted to a cluster.
    is_other_work : bool
        Whether its settings or inputs are others than when it ran last.
    """

    rule: str
    command: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    benchmark: str | None = None
    log: str | None = None
    threads: int = 1
    gpus: int = 0
    group: str | None = None
    is_other_work: bool = False

    @property
    def step(self) -> str:
        """The step that it runs: rules that share a step share its name of the benchmarks."""
        return self.command[0].replace("-", "_") if self.command else ""


@dataclass(frozen=True)
class Machine:
    """What the jobs would run on, as Snakemake's options and profiles say.

    Attributes
    ----------
    folder : Path
        Where the run takes place.
    cores : int
        Cores that jobs share on one machine.
    gpus : int, optional
        GPUs that jobs share; None for no limit.
    executor : str
        ``local``, or the executor of a cluster.
    jobs : int, optional
        Jobs that are on a cluster at a time; None on one machine.
    first_check : float
        Seconds until Snakemake looks at the jobs of a cluster for the first time.
    """

    folder: Path
    cores: int
    gpus: int | None = None
    executor: str = "local"
    jobs: int | None = None
    first_check: float = FIRST_CHECK


def planned_jobs(arguments: Sequence[str]) -> tuple[list[Job], Machine]:
    """Ask Snakemake which jobs it would run.

    Parameters
    ----------
    arguments : sequence of str
        As for ``snakemake``: targets, ``--cores``, ``--configfile``, a profile.

    Returns
    -------
    jobs : list of Job
        Each after those that it needs.
    machine : Machine
        What they would run on.

    Raises
    ------
    UserError
        If Snakemake refuses; it has said why.
    """
    from snakemake.cli import args_to_api, parse_args
    from snakemake.logging import logger

    events: list[Any] = []

    def keep(record: logging.LogRecord) -> bool:
        if getattr(record, "event", None) is not None:
            events.append(record)
        if record.levelno >= logging.WARNING:
            # A dry run of Snakemake's complains on standard output, where the plan is to stand.
            print(record.getMessage(), file=sys.stderr)
        return False

    options = [*arguments, "--dry-run"]
    logger.addFilter(keep)
    try:
        parser, args = parse_args(options)
        is_local = args.executor in (None, "local", "dryrun")
        cores = args.cores or args.jobs
        if args.cores is None:
            # A dry run limits threads to the cores of this machine, which a cluster does not.
            enough = "all" if args.jobs is None else str(args.jobs if is_local else sys.maxsize)
            parser, args = parse_args([*options, "--cores", enough])
        done = args_to_api(args, parser)
    finally:
        logger.removeFilter(keep)
    if not done:
        raise UserError("Snakemake would not run this; what it said stands above.")
    limit = (args.resources or {}).get("gpu")
    first_check = getattr(args, "slurm_init_seconds_before_status_checks", None)
    machine = Machine(
        folder=Path(args.directory or "."),
        cores=cores or args.cores,
        gpus=None if limit is None or limit.value is None else int(limit.value),
        executor=args.executor or "local",
        jobs=None if is_local else args.jobs,
        first_check=first_check if isinstance(first_check, int) else FIRST_CHECK,
    )
    return _jobs(events), machine


def _jobs(events: list[Any]) -> list[Job]:
    jobs: list[Job] = []
    group = None
    for number, event in enumerate(events):
        match str(getattr(event.event, "value", event.event)):
            case "group_info":
                # Groups of one name are submitted each for itself.
                group = f"{event.group_id} {number}"
            case "job_info":
                command = event.shellcmd or ""
                jobs.append(
                    Job(
                        rule=event.rule_name,
                        command=command_words(command),
                        inputs=tuple(map(str, event.input)),
                        outputs=tuple(map(str, event.output)),
                        benchmark=event.benchmark,
                        log=next(map(str, event.log), None),
                        threads=event.threads,
                        gpus=int(dict(event.resources.items()).get("gpu") or 0),
                        group=group if event.indent else None,
                        is_other_work=any(reason in event.reason for reason in OTHER_WORK),
                    )
                )
    return jobs


def command_words(command: str) -> tuple[str, ...]:
    """Return what follows ``mispair`` in the command of a rule.

    Examples
    --------
    >>> command_words("python -m mispair index-shards --workers $((3 - 1)) > log 2>&1")
    ('index-shards', '--workers', '2')
    >>> command_words("python -m mispair laclip --text a.txt 2> log")
    ('laclip', '--text', 'a.txt')
    """
    _, separator, rest = command.partition("-m mispair ")
    if not separator:
        return ()
    rest = re.sub(r"\$\(\((\d+) - (\d+)\)\)", lambda m: str(int(m[1]) - int(m[2])), rest)
    rest = re.sub(r" 2?> \S+( 2>&1)?$", "", rest)
    # shlex takes a second for the commands of a large corpus, which have nothing to unquote.
    return tuple(shlex.split(rest) if re.search(r"['\"\\]", rest) else rest.split())
