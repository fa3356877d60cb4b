"""The machine before the first job: its Python, programs, GPUs and clock, and former runs on it."""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from mispair.core import run_record
from mispair.core.copied import TOLERANCE, date_back, restore_times
from mispair.core.devices import has_cuda
from mispair.core.files import UserError, refuse_full_or_read_only
from mispair.core.provenance import PACKAGE
from mispair.core.words import count
from mispair.report import paths as reports

if TYPE_CHECKING:
    from mispair.dag import Dag

SLURM_PROGRAMS = ("sbatch", "squeue", "sacct", "scancel")
"""Programs by which Snakemake's plugin for SLURM starts jobs and follows them."""

PROFILES = ("--profile", "--workflow-profile")


def use_this_python() -> None:
    """Make ``python -m mispair`` in a rule mean this interpreter and this checkout.

    So neither an activated environment nor an installed package is needed, and
    ``snakemake --directory`` works. An installed package is found without help: its folder holds
    the packages of this interpreter, which the interpreter of ``--sdm conda`` must not see.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    folder = PACKAGE.parent
    if (folder / "Snakefile").exists():
        path = [str(folder), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in path if part)


def names_gpus(settings: Any) -> bool:
    """Return whether the profile of a cluster names a kind of GPU.

    Its nodes have GPUs then, whatever the machine has on which Snakemake runs.

    Parameters
    ----------
    settings : snakemake.settings.types.ResourceSettings
        Of the run; a run on one machine has no number of jobs.
    """
    if settings.nodes is None:
        return False
    of_rules = [settings.default_resources, *settings.overwrite_resources.values()]
    return any("gpu_model" in (resources or ()) for resources in of_rules)


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
    folders = (Path(value) for name, value in pairs if name in PROFILES)
    for path in (path for folder in folders for path in sorted(folder.glob("config*.yaml"))):
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
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


def refuse_to_start(dag: Dag, workflow: Any, recorder: Any, logger: Any) -> None:
    """Refuse a run of which this machine or the cluster lacks something; plan its requests.

    Parameters
    ----------
    dag : Dag
        A checked configuration.
    workflow : snakemake.workflow.Workflow
        The run, with its jobs.
    recorder : planning.failed_run.Recorder
        Of the failures of the run.
    logger : logging.Logger
        For warnings.

    Raises
    ------
    UserError
        If programs, GPUs, partitions or memory are missing.
    """
    executor = workflow.executor_plugin.name
    if executor == "local":
        if missing := missing_gpu(dag, workflow.dag.needrun_jobs()):
            raise UserError(missing)
    elif workflow.resource_settings.nodes is not None:
        from mispair.planning import cluster

        requests = cluster.Requests(recorder)
        if executor == "slurm":
            refuse_missing_programs()
            requests.limit(workflow.rules)
            settings = workflow.executor_settings
            cluster.refuse_what_the_cluster_lacks(workflow.dag, settings, logger)
        requests.plan(workflow.dag)
        if warning := requests.gpu_work_on_cpus():
            logger.warning(warning)


# Runs that were here before.


def compare_with_record(dag: Dag) -> str:
    """Return a warning if code or type of CPU differ from those of a recorded run.

    Raises
    ------
    UserError
        If that run was made from other data or models.
    """
    if dag.record is None:
        return ""
    run_record.refuse_other_data(dag.record)
    changed = run_record.changed_steps(dag.record)
    code = f"the code of {', '.join(changed)} is not that of the recorded run"
    reasons = [code] if changed else []
    if processor := run_record.other_processor(dag.record):
        reasons.append(processor)
    if not reasons:
        return ""
    return f"record: {'; '.join(reasons)}: other bytes are to be expected"


def replaced_report(dag: Dag) -> str:
    """Return a warning if `reports` holds the report of other data, models or studies."""
    try:
        former = json.loads(Path(reports.RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    content = dag.config.model_dump(mode="json")
    keys = ("corpus", "pairs", "shards", "captions", "towers", "trusted", "groups", "models")
    changed = [key for key in keys if former.get(key, content[key]) != content[key]]
    if not set(former.get("studies", [])) <= set(dag.config.studies):
        changed.append("studies")
    if not changed:
        return ""
    return (
        f"reports: this run replaces the report of another configuration, which has other "
        f"{', '.join(changed)}. To keep that report, give this run a folder: --directory DIR"
    )


# The user's own files as inputs of rules: their names are taken as they are, and their times.

LITERAL = "mispair-literal"
"""Flag of an input whose braces are no wildcards."""


def time_of_new_files(folder: Path = Path()) -> float:
    """Return the time that a file gets which is written now, by the clock of the folder's disk."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"0")
        probe.flush()
        return os.fstat(probe.fileno()).st_mtime


def refuse_dated_ahead(paths: Iterable[str], now: float) -> None:
    """Refuse files that are dated later than files that jobs write.

    Snakemake deletes an output that is older than one of its inputs.

    Raises
    ------
    UserError
        With the first such file, and how far it is ahead.
    """
    for path in map(Path, map(os.path.abspath, paths)):
        try:
            ahead = max(path.stat().st_mtime, path.lstat().st_mtime) - now
        except OSError:
            continue  # Snakemake reports that it is missing
        if ahead > TOLERANCE:
            named = shlex.quote(str(path))
            raise UserError(
                f"{path}: is dated {timedelta(seconds=round(ahead))} (hours:minutes:seconds) ahead "
                "of this machine's clock, so all results made from it would count as outdated and "
                f"be deleted. Correct the clock, or date the file now: touch -h {named} and "
                f"touch {named}."
            )


def take_literally() -> Callable[[str], str]:
    """Return a function that marks a path whose braces are no wildcards.

    Snakemake has no escape for braces in inputs, so the function that fills in wildcards leaves
    marked paths as they are.
    """
    from snakemake import io

    fill_in = io.apply_wildcards

    def fill_in_unmarked(pattern: Any, wildcards: Any) -> Any:
        return pattern if io.is_flagged(pattern, LITERAL) else fill_in(pattern, wildcards)

    io.apply_wildcards = fill_in_unmarked
    return lambda path: io.flag(path, LITERAL) if "{" in path else path


def date_results(logger: Any) -> float:
    """Give the results of a copied folder their dates; return the time that new files get.

    Raises
    ------
    UserError
        If the disk is full or cannot be written: even a dry run writes there.
    """
    refuse_full_or_read_only(".snakemake")
    now = time_of_new_files()
    if copied := restore_times(now=now):
        logger.info(
            f"results: this folder is new, so the times of {copied} files follow their bytes"
        )
    if ahead := date_back(now):
        logger.warning(
            f"results: {ahead} files were dated ahead of this machine's clock, and are dated now"
        )
    return now
