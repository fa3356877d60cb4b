"""Checks of the machine before the first job: programs that send jobs, and GPUs."""

from __future__ import annotations

import atexit
import shutil
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from mispair.core.devices import has_cuda
from mispair.core.files import UserError
from mispair.core.words import count

if TYPE_CHECKING:
    from mispair.dag import Dag

SLURM_PROGRAMS = ("sbatch", "squeue", "sacct", "scancel")
"""Programs by which Snakemake's plugin for SLURM starts jobs and follows them."""

PROFILES = ("--profile", "--workflow-profile")


def refuse_missing_programs(programs: Sequence[str] = SLURM_PROGRAMS) -> None:
    """Refuse a machine from which no job can be sent to SLURM.

    Raises
    ------
    UserError
        Naming all programs that are missing.
    """
    if missing := [name for name in programs if shutil.which(name) is None]:
        raise UserError(
            f"profile: the executor slurm needs {', '.join(missing)}, which this machine does not "
            "have. Run on a login node of the cluster, or without the profile for SLURM."
        )


def warn_of_missing_programs(arguments: Sequence[str]) -> str:
    """Return a warning if Snakemake's arguments or profiles choose SLURM, which is not here.

    A dry run names no executor, so that a real one would stop later.
    """
    words = list(arguments)
    pairs = [*pairwise(words), *(word.split("=", 1) for word in words if "=" in word)]
    chosen = {value for name, value in pairs if name in ("--executor", "-e")}
    for folder in (Path(value) for name, value in pairs if name in PROFILES):
        try:
            content = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if isinstance(content, dict):
            chosen.add(str(content.get("executor")))
    if "slurm" in chosen:
        try:
            refuse_missing_programs()
        except UserError as error:
            return str(error)
    return ""


def missing_gpu(dag: Dag, jobs: Iterable[Any]) -> str:
    """Return why a machine without a GPU runs none of some jobs.

    The text is empty if no job asks for ``cuda``, or the machine has it.
    """
    rules = {job.rule.name: job.rule.resources.get("gpu") for job in jobs}
    named = [getattr(gpu.raw, "section", rule) for rule, gpu in rules.items() if gpu is not None]
    sections = {name: getattr(dag.config, name, None) for name in named}
    asked = [name for name, of in sections.items() if getattr(of, "device", None) == "cuda"]
    if not asked or has_cuda():
        return ""
    others = f" (and of {count(len(asked) - 1, 'more step')})" * (len(asked) > 1)
    return (
        f"{asked[0]}.device: cuda{others}, which this machine does not have. Set it to auto or "
        "cpu, or run where a GPU is."
    )


def warn_of_missing_gpu(dag: Dag, workflow: Any) -> None:
    """Warn at the end of a dry run of jobs that a run on this machine would refuse."""

    def warn() -> None:
        has_jobs = workflow.dag is not None and workflow.dryrun
        jobs = workflow.dag.needrun_jobs(exclude_finished=False) if has_jobs else ()
        if warning := missing_gpu(dag, jobs):
            print(f"\n{warning}", file=sys.stderr)

    if workflow.resource_settings.nodes is None:
        atexit.register(warn)
