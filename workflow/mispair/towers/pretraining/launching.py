"""One training in one process or in several: torchrun here, or on each node of a SLURM job."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core import files
from mispair.core.provenance import PACKAGE
from mispair.core.resume import asked_to_end
from mispair.towers.pretraining import trainer
from mispair.towers.pretraining.training_size import cores_of_a_process

if TYPE_CHECKING:
    from mispair.towers.pretraining.pretraining_settings import Settings

FIRST_PORT, PORTS = 20000, 10000
POLL_SECONDS = 0.2


def refuse_too_few_gpus(device: str, processes: int) -> None:
    """Raise a UserError if there are fewer GPUs than processes: each computes on one of its own."""
    if device == "cuda":
        import torch

        if (gpus := torch.cuda.device_count()) < processes:
            raise files.UserError(
                f"pretrain_towers.processes: {processes}, but this machine has {gpus} GPUs for "
                "this job. Lower processes, or ask for more GPUs."
            )


def refuse_other_nodes(nodes: int) -> None:
    """Raise a UserError if a number of nodes is not that of the SLURM job."""
    if nodes > 1 and (given := _nodes_here()) != nodes:
        job = f"a SLURM job of {given}" if given else "no SLURM job"
        raise files.UserError(
            f"pretrain_towers.nodes: {nodes}, but this is {job}. Run it with Snakemake's SLURM "
            "executor, which asks for the nodes, or set nodes to 1."
        )


def train(settings: Settings, arguments: list[str], logs: Path) -> None:
    """Run open_clip's trainer in as many processes as the settings have; `logs` is its ``--logs``.

    Raises
    ------
    UserError
        If a process ends early.
    """
    processes, nodes = settings.processes, settings.nodes
    if processes * nodes == 1:
        import torch

        torch.set_num_threads(settings.threads)
        trainer.train(arguments, logs, seed=settings.seed)
        return
    job = logs / "job.json"
    job_record = {"arguments": arguments, "logs": str(logs), "seed": settings.seed}
    files.write_json(job, {**job_record, "threads": settings.threads})
    cores = processes * cores_of_a_process(settings.threads, settings.workers)
    if run(command(job, processes=processes, nodes=nodes, cores=cores)):
        finished = trainer.finished_epochs(logs, processes * nodes)
        raise files.UserError(
            f"pretrain_towers: one of {processes * nodes} processes ended early; see torchrun's "
            f"message above for the first one. The same command goes on after epoch {finished} "
            f"of {settings.epochs}, as {logs.parent} holds the state."
        )


def command(job: Path, *, processes: int, nodes: int, cores: int) -> list[str]:
    """Return the command that starts the trainer in every process; `cores` are those of a node.

    `job` is the file for `mispair.towers.pretraining.trainer`, which every node can read.
    """
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    program = ["-m", "mispair.towers.pretraining.trainer", str(job)]
    if nodes == 1:
        return [*torchrun, "--standalone", *program]
    srun = ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    # srun does not inherit the job's cores per task. No node may wait for a dead one.
    srun += [f"--cpus-per-task={cores}", "--kill-on-bad-exit=1"]
    # Trainings that share a node need ports of their own.
    number = os.environ["SLURM_JOB_ID"]
    # This process is on the first node: SLURM starts a job's script there.
    meeting = f"{socket.gethostname()}:{FIRST_PORT + int(number) % PORTS}"
    rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint={meeting}", f"--rdzv-id={number}"]
    return [*srun, *torchrun, f"--nnodes={nodes}", *rendezvous, *program]


def _nodes_here() -> int:
    """Return how many nodes this SLURM job has; 0 outside of one."""
    number = os.environ.get("SLURM_JOB_ID")
    if number is None:
        return 0
    command = ["squeue", "--noheader", "--jobs", number, "--format=%D"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run(command: Sequence[str]) -> int:
    """Run a command from `command` until it ends; return its exit status.

    A request to end is passed on to the command. The command also ends with this process.
    """
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with (
        asked_to_end() as ending,
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": path},
            preexec_fn=lambda: trainer.end_with_parent(signal.SIGTERM),
        ) as process,
    ):
        while True:
            try:
                return process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if ending():
                    process.terminate()
