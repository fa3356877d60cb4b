"""A SLURM cluster on this machine, of one node or more, for tests and for trying things out.

It needs the programs of Debian's packages ``slurm-wlm`` and ``munge`` and no rights: daemons, keys,
sockets and logs live in one folder, under the user who starts it, and nothing of a cluster that
the machine may belong to is touched. By hand: ``python -m tests.slurm_cluster bash`` starts one,
runs a shell in which ``sbatch`` and ``squeue`` speak to it, and ends it with the shell.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")
PROGRAMS = (*COMMANDS, "slurmctld", "slurmd", "munged")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])

# config_overrides: the node has as many cores and as much memory as we say, so that requests of
# a real cluster fit. MinJobAge: tests ask for jobs that ended early in a run, however slow it is.
# linuxproc and task/none: no control groups, which containers do not give.
CONFIGURATION = """
ClusterName=mispair
SlurmctldHost={host}
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MinJobAge=7200
KillWait=10
OverTimeLimit=0
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0
GresTypes=gpu
{node}
PartitionName=cpu Nodes=ALL Default=YES MaxTime=2-00:00:00 State=UP
PartitionName=gpu Nodes=ALL Default=NO MaxTime=1-00:00:00 State=UP
"""


NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} "
    "RealMemory={memory_mb} Gres=gpu:{gpu_model}:{gpus} State=UNKNOWN"
)


def missing_programs() -> list[str]:
    """Return the programs of SLURM and munge that this machine lacks."""
    return [name for name in PROGRAMS if not shutil.which(name, path=PATH)]


class Cluster:
    """A running cluster: partitions ``cpu`` and ``gpu``, GPUs that are files.

    Parameters
    ----------
    cpus, memory_mb, gpus : int
        What its node, this machine, claims to have.
    account : str, optional
        An account that this user has. To keep accounts SLURM needs a database; here a command
        in place of ``sacctmgr`` says what that would.
    """

    def __init__(
        self, cpus: int = 8, memory_mb: int = 500_000, gpus: int = 2, account: str = ""
    ) -> None:
        # Not below pytest's folders: the path of a socket has room for about a hundred letters.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        host = socket.gethostname().split(".")[0]
        self.node = "node0"
        self.gpu_model = "fake"
        self._daemons: list[subprocess.Popen[bytes]] = []
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        self.configuration = self.folder / "slurm.conf"
        node = NODE.format(
            name=self.node, host=host, port=_free_port(), cpus=cpus, memory_mb=memory_mb, gpus=gpus,
            gpu_model=self.gpu_model,
        )  # fmt: skip
        self.configuration.write_text(
            CONFIGURATION.format(
                host=host, user=getpass.getuser(), folder=self.folder, node=node,
                controller_port=_free_port(),
            )
        )  # fmt: skip
        devices = [self.folder / f"gpu{number}" for number in range(gpus)]
        for device in devices:
            device.touch()
        (self.folder / "gres.conf").write_text(
            f"Name=gpu Type={self.gpu_model} File={self.folder}/gpu[0-{gpus - 1}]\n"
        )
        self._write_commands()
        if account:
            self._write_command("sacctmgr", f"echo {account}")

    def _write_commands(self) -> None:
        """Write commands that know where this cluster's configuration is.

        Not by the variable SLURM_CONF: Snakemake's plugin takes what begins with SLURM out of the
        environment before it calls srun, as on a real cluster the file lies in a place of its own.
        """
        (self.folder / "bin").mkdir()
        for name in (*COMMANDS, "slurmctld", "slurmd"):
            program = shutil.which(name, path=PATH)
            assert program is not None, name
            self._write_command(name, f'SLURM_CONF={self.configuration} exec {program} "$@"')

    def _write_command(self, name: str, line: str) -> None:
        script = self.folder / "bin" / name
        script.write_text(f"#!/bin/sh\n{line}\n")
        script.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs so that SLURM's commands speak to this cluster."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH"))}
        return inherited | {"PATH": os.pathsep.join([str(self.folder / "bin"), PATH])}

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        # munged refuses a socket in a folder that others may not enter.
        self.folder.chmod(0o755)
        munge = {"key-file": key, "socket": self.folder / "munge.socket",
                 "pid-file": self.folder / "munged.pid", "log-file": self.folder / "munged.log",
                 "seed-file": self.folder / "munged.seed"}  # fmt: skip
        self._daemon(
            "munged", "--foreground", "--force", *(f"--{key}={path}" for key, path in munge.items())
        )
        self._wait(lambda: munge["socket"].exists(), "munged")
        self._daemon("slurmctld", "-D", "-i")
        self._daemon("slurmd", "-D", "-N", self.node)
        idle = ("sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
        self._wait(lambda: self.node in self.run(*idle, check=False).split(), "the node")

    def _daemon(self, *command: str) -> subprocess.Popen[bytes]:
        program = shutil.which(command[0], path=self.environment["PATH"])
        assert program is not None, command[0]
        with (self.folder / f"{command[0]}.out").open("ab") as log:
            daemon = subprocess.Popen(
                [program, *command[1:]], env=self.environment, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._daemons.append(daemon)
        return daemon

    def _wait(self, ready: object, what: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not ready():  # type: ignore[operator]
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}"
                    for pattern in ("*.log", "*.out")
                    for path in sorted(self.folder.glob(pattern))
                )
                raise RuntimeError(f"SLURM: {what} did not come up in {seconds:g} s.\n{logs}")
            time.sleep(0.1)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command of SLURM and return what it printed."""
        done = subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]], env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def __exit__(self, *_: object) -> None:
        self.run("scancel", "--user", getpass.getuser(), "--signal=KILL", check=False)
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("", 0))
        port: int = opened.getsockname()[1]
        return port


if __name__ == "__main__":
    if lacking := missing_programs():
        sys.exit(f"SLURM: no {', '.join(lacking)} here. On Debian: apt install slurm-wlm munge")
    with Cluster() as cluster:
        print(f"SLURM runs on {cluster.configuration}", file=sys.stderr)
        sys.exit(subprocess.call(sys.argv[1:] or ["bash"], env=cluster.environment))
