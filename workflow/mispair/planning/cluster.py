"""Requests of jobs to a cluster: less than the profile gives if the planned work needs less.

The first attempt of a job requests the estimate of `mispair plan`, with a margin and at most what
the profile gives; later attempts request what the profile gives. An attempt that a user cancelled
does not count.
"""

import math
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mispair.core.cost import Sizes
from mispair.core.files import UserError
from mispair.planning.estimates import FAR, HERE, NONE, Estimate, Estimator, read_rates, work_of
from mispair.planning.failed_run import Recorder
from mispair.planning.jobs import Job
from mispair.planning.plan import gpu_work_on_cpus, recorded_benchmark

ROOM = {"mem_mb": 2, "runtime": 4}
"""Factors from expected to requested megabytes and minutes."""
LEAST = {"mem_mb": 1000, "runtime": 15}
"""Least megabytes and minutes of a request: Snakemake starts twice, and disks may be slow."""

Key = tuple[str, tuple[tuple[str, str], ...]]
"""A job: its rule and its wildcards."""


class Requests:
    """The memory and time of jobs, by the planned work and within the profile's bounds."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._planned: dict[Key, dict[str, int]] = {}
        self._estimated: list[tuple[Job, Estimate]] = []

    def limit(self, rules: Iterable[Any]) -> None:
        """Let the rules of a workflow request less than their profile gives them.

        Only rules that request a GPU keep its kind. For others the plugin for SLURM would request
        zero GPUs of that kind, which some clusters refuse.
        """
        for rule in rules:
            if str(rule.resources.get("gpu").raw or 0) == "0":
                rule.resources["gpu_model"] = ""
            for name in ROOM:
                if name in rule.resources:
                    rule.resources[name] = self._within(name, rule.resources[name])

    def _within(self, name: str, bound: Any) -> Any:
        def requested(
            wildcards: Any, input: Any, attempt: int, threads: int, rulename: str, async_run: Any
        ) -> Any:
            key = key_of(rulename, wildcards)
            attempt -= self._recorder.cancelled[key]
            aux = {"threads": threads, "rulename": rulename, "async_run": async_run}
            most = bound.evaluate(wildcards, input=input, attempt=attempt, **aux).value
            planned = self._planned.get(key, {}).get(name)
            return most if attempt > 1 or planned is None else min(planned, most)

        return requested

    def plan(self, dag: Any) -> None:
        """Estimate every job that is about to run."""
        sizes, estimator = Sizes(Path(".")), Estimator(read_rates())
        needed = {job for job in dag.needrun_jobs() if job.shellcmd}
        for job in (job for layer in dag.toposorted(needed) for job in layer):
            planned = Job.of(job.rule.name, job)
            if not planned.command:
                continue
            benchmark = recorded_benchmark(planned, Path("."))
            work = work_of(planned.command, sizes, planned.fetched)
            estimate = estimator.estimate(planned, work, benchmark)
            if request := request_for(estimate, planned.gpus):
                self._planned[key_of(job.rule.name, job.wildcards_dict)] = request
            self._estimated.append((planned, estimate))

    def gpu_work_on_cpus(self) -> str:
        """Return a warning if planned work for GPUs takes more than an hour on CPUs."""
        return gpu_work_on_cpus(self._estimated)


def key_of(rule: str, wildcards: Mapping[str, str]) -> Key:
    """Return a key that a job keeps from its start to its last attempt."""
    return rule, tuple(sorted((name, str(value)) for name, value in wildcards.items()))


def request_for(estimate: Estimate, gpus: int) -> dict[str, int]:
    """Return the memory and time of a first request; nothing if the estimate is poor.

    Examples
    --------
    >>> request_for(Estimate("reference", seconds=3600, megabytes=4000), gpus=0)
    {'mem_mb': 8000, 'runtime': 240}
    >>> request_for(Estimate("reference", seconds=3600, megabytes=4000), gpus=1)
    {}
    """
    # Rates of a CPU do not include the memory of CUDA.
    is_poor = estimate.source == NONE or estimate.beyond > FAR
    if is_poor or (gpus > 0 and estimate.source != HERE):
        return {}
    expected = {"mem_mb": estimate.megabytes, "runtime": estimate.seconds / 60}
    return {
        name: max(LEAST[name], math.ceil(ROOM[name] * value)) for name, value in expected.items()
    }


def refuse_what_the_cluster_lacks(dag: Any, settings: Any, logger: Any) -> None:
    """Compare the accounts and kinds of GPU that jobs name with those of the cluster.

    Parameters
    ----------
    dag : snakemake.dag.DAG
        Of the run.
    settings : snakemake_executor_plugin_slurm.ExecutorSettings
        Of the executor.
    logger : logging.Logger
        Snakemake's.

    Raises
    ------
    UserError
        If the cluster lacks one. The message has the kinds of GPU that exist.
    """
    jobs = [job.resources for job in dag.needrun_jobs() if not job.is_local]
    for account in sorted({str(job.get("slurm_account") or "") for job in jobs} - {""}):
        _refuse_account(account, logger)
    models = {str(job.get("gpu_model") or "") for job in jobs if job.get("gpu")} - {""}
    if models:
        listed = subprocess.run(
            ["sinfo", "--noheader", "--format=%G"], capture_output=True, text=True, check=False
        )
        _refuse_models(models, gpu_models(listed.stdout), "the cluster (sinfo --format=%G)")
    file = settings.partition_config
    if models and file is not None:
        from snakemake_executor_plugin_slurm.partitions import read_partition_file

        limits = [one.limits for one in read_partition_file(file) if one.limits.max_gpu]
        if all(one.available_gpu_models for one in limits):
            of_partitions = {name for one in limits for name in one.available_gpu_models}
            _refuse_models(models, of_partitions, f"{file} (available_gpu_models)")


def _refuse_account(account: str, logger: Any) -> None:
    from snakemake.exceptions import WorkflowError
    from snakemake_executor_plugin_slurm.accounts import validate_account

    try:
        validate_account(account, logger)
    except (WorkflowError, OSError) as error:
        raise UserError(
            f"slurm_account: {account} is not accepted: {error}\nName an account of yours in your "
            "profile (default-resources), or take the line out if the cluster has no accounts."
        ) from error


def gpu_models(generic_resources: str) -> set[str]:
    r"""Return the kinds of GPU in the output of ``sinfo --format=%G``.

    Examples
    --------
    >>> sorted(gpu_models("(null)\ngpu:a100:8(S:0-1),nvme:1\ngpu:v100:2\ngpu:4"))
    ['a100', 'v100']
    """
    return set(re.findall(r"\bgpu:([A-Za-z_][\w.-]*)", generic_resources))


def _refuse_models(requested: set[str], available: set[str], where: str) -> None:
    if missing := sorted(requested - available):
        offer = f"has {', '.join(sorted(available))}" if available else "names no kind of GPU"
        raise UserError(
            f"gpu_model: {', '.join(missing)} is requested, but {where} {offer}. Change "
            "gpu_model in your profile (default-resources), or remove it if any GPU will do."
        )
