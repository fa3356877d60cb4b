"""Kills in a run of the workflow, at random moments from a seed, and what became of it."""

import os
import random
import signal
import subprocess
import sys
import time
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

from mispair.core.forks import ADDRESS

SPY = Path(__file__).parent / "spy"

LONG = {
    "simulate", "finetune-projection", "encode-features", "encode-captions", "encode-prompts",
    "encode-evaluation", "find-similar-captions", "index-shards",
}  # fmt: skip
"""Steps that keep states."""


class Event(NamedTuple):
    """What a step told; see ``spy/sitecustomize.py``."""

    seconds: float
    process: int
    kind: str
    details: tuple[str, ...]


class Kill(NamedTuple):
    """A signal that ended a process."""

    how: signal.Signals
    seconds: float
    process: int
    verb: str
    """The step, or snakemake."""


@dataclass
class Faults:
    """Kills steps of a run, and Snakemake itself, until a number of kills have landed.

    Parameters
    ----------
    folder : Path
        A checkout in which nothing has run.
    arguments : sequence of str
        Of Snakemake.
    jobs : int
        How many jobs the run has: the kills are spread over them.
    seed : int
        Of what is killed, and when.
    kills : int
        How many of each signal, SIGTERM and SIGKILL.
    of_snakemake : int
        How many of each meet Snakemake itself.
    verbs : sequence of str
        Steps that meet one of each; the other kills meet any step. A job of theirs waits for its
        kill where it has saved a state, or written a file that it has not yet renamed.
    save_seconds : float
        How often steps save their states.
    at_a_state : float
        Share of the kills of long steps that wait for a state: else most meet imports.
    """

    folder: Path
    arguments: Sequence[str]
    jobs: int
    seed: int
    kills: int = 20
    of_snakemake: int = 2
    verbs: Sequence[str] = ()
    save_seconds: float = 0.0
    at_a_state: float = 0.7
    landed: list[Kill] = field(default_factory=list)
    done_again: set[int] = field(default_factory=set)
    """Processes whose work Snakemake cannot know to be done: those killed when they had nothing
    left but to exit, and those that a killed Snakemake left behind."""
    printed: str = ""

    @property
    def told(self) -> Path:
        """The file of events."""
        return self.folder / "told.tsv"

    @property
    def held(self) -> Path:
        """The file of steps whose jobs wait for their kill."""
        return self.folder / "held.txt"

    def run(self) -> None:
        """Run to the end, through all kills; whoever kills Snakemake starts it again."""
        draw = random.Random(self.seed)
        both = (signal.SIGTERM, signal.SIGKILL)
        others = self.kills - self.of_snakemake - len(self.verbs)
        whom = [*["snakemake"] * self.of_snakemake, *["any"] * others]
        plan = [(how, what) for how in both for what in whom]
        draw.shuffle(plan)
        # After so many jobs; the last are few, and a kill that misses one has to find another.
        moments = sorted(draw.randrange(max(1, int(0.85 * self.jobs))) for _ in plan)
        named = [(how, verb) for how in both for verb in self.verbs]
        self._hold(named)
        while True:
            process = self._start()
            while (plan or named) and process.poll() is None:
                self._kill_the_named(process, named, draw)
                if not plan or self._begun() <= moments[-len(plan)]:
                    time.sleep(0.05)
                    continue
                time.sleep(draw.uniform(0, 1.5))
                how, what = plan[0]
                if what == "snakemake":
                    due = {verb for _, verb in named}
                    if any(_verb(step) in due for step in _steps(process)):
                        continue  # a job that is left behind meets no kill
                    plan.pop(0)
                    self._kill_snakemake(process, how)
                    break
                if self._kill_a_step(_steps(process), how, draw):
                    plan.pop(0)
            else:
                process.wait()
                assert process.returncode == 0, self.printed_by_now()
                return

    def printed_by_now(self) -> str:
        """Return all that Snakemake printed."""
        return (self.folder / "printed.log").read_text()

    def events(self) -> list[Event]:
        """Return what steps told by now."""
        if not self.told.exists():
            return []
        lines = [line.split("\t") for line in self.told.read_text().splitlines()]
        return [Event(float(s), int(p), kind, tuple(rest)) for s, p, kind, *rest in lines]

    def work_lost(self) -> list[tuple[Kill, float]]:
        """Return for each killed step the seconds since its last state, or since its start."""
        lost = []
        for kill in self.landed:
            own = [e for e in self.events() if e.process == kill.process]
            kept = [e.seconds for e in own if e.kind in ("began", "saved")]
            if kept:
                lost.append((kill, max(0.0, kill.seconds - max(kept))))
        return lost

    def progress(self) -> dict[str, list[int]]:
        """Return how far each state was whenever it was saved, in the order of time."""
        found = defaultdict(list)
        for event in self.events():
            if event.kind == "saved":
                path, done = event.details
                found[path].append(int(done))
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "snakemake", *self.arguments]
        environment = {
            **os.environ,
            "PYTHONPATH": str(SPY),
            "SPY": str(self.told),
            "SPY_HELD": str(self.held),
            "SPY_SAVE_SECONDS": str(self.save_seconds),
            ADDRESS: "off",  # so the process that is killed is the one that told
        }
        with (self.folder / "printed.log").open("a") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def _begun(self) -> int:
        return len({event.details for event in self.events() if event.kind == "began"})

    def _kill_the_named(
        self,
        snakemake: subprocess.Popen[bytes],
        named: list[tuple[signal.Signals, str]],
        draw: random.Random,
    ) -> None:
        """Kill a running step that still has to meet a signal, and strike that off the list."""
        for step in _steps(snakemake):
            verb = _verb(step)
            if how := next((how for how, other in named if other == verb), None):
                time.sleep(draw.uniform(0, 0.5))
                if self._kill_a_step([step], how, draw):
                    named.remove((how, verb))
                    self._hold(named)
                return

    def _hold(self, named: list[tuple[signal.Signals, str]]) -> None:
        temporary = self.held.with_suffix(".new")
        temporary.write_text("\n".join(verb for _, verb in named))
        temporary.replace(self.held)

    def _kill_a_step(
        self, running: list[psutil.Process], how: signal.Signals, draw: random.Random
    ) -> bool:
        if not running:
            return False
        process = draw.choice(running)
        verb = _verb(process)
        if verb in (*LONG, *self.verbs) and draw.random() < self.at_a_state:
            _until(lambda: self._waits(process.pid) or not _verb(process), 60)
        try:
            now = time.time()
            self.held.with_suffix(f".{process.pid}").touch()
            process.send_signal(how)
            process.wait(60)
        except psutil.NoSuchProcess:
            pass
        if not verb or self._has(process.pid, "returned", "0") or self._cleared(process.pid):
            self.done_again.add(process.pid)
            return False  # it was done before, or had nothing left but to exit
        self.landed.append(Kill(how, now, process.pid, verb))
        return True

    def _kill_snakemake(self, process: subprocess.Popen[bytes], how: signal.Signals) -> None:
        # Jobs of a Snakemake that is killed go on without it.
        left = {child.pid for child in _children(process.pid) if _verb(child)}
        self.done_again |= left
        for child in left:
            self.held.with_suffix(f".{child}").touch()  # nobody kills it any more
        process.send_signal(how)
        self.landed.append(Kill(how, time.time(), process.pid, "snakemake"))
        jobs: set[psutil.Process] = set()
        _until(lambda: jobs.update(_jobs(process.pid)) or process.poll() is not None, 120)
        if process.poll() is None:
            # Its handler of SIGTERM waits for a lock that its main thread may hold (9.27): a user
            # kills it then, as here.
            process.kill()
        assert process.wait() != 0
        if process.returncode == -signal.SIGKILL:
            subprocess.run(
                [sys.executable, "-m", "snakemake", "--unlock", *self.arguments],
                cwd=self.folder, check=True, capture_output=True,
            )  # fmt: skip
        # So are those that had just ended, or that have a shell and no Python yet. What they write
        # is marked as incomplete, and none that reads it has begun.
        _until(lambda: all(map(self._has_begun_or_is_gone, jobs)), 60)
        marked = self._marked_as_incomplete()
        self.done_again |= {
            event.process
            for event in self.events()
            if event.kind == "began" and marked & set(event.details)
        }

    def _has_begun_or_is_gone(self, job: psutil.Process) -> bool:
        """Tell whether the step of a job's shell has told that it began, or will not any more."""
        begun = {event.process for event in self.events() if event.kind == "began"}
        return not _is_alive(job) or any(one.pid in begun for one in [job, *_children(job.pid)])

    def _marked_as_incomplete(self) -> set[str]:
        """Return the outputs of jobs that Snakemake has begun and does not know to be done."""
        notes = self.folder / ".snakemake" / "incomplete"
        names = [
            "".join(path.relative_to(notes).parts) for path in notes.rglob("*") if path.is_file()
        ]
        return {urlsafe_b64decode(name.replace("@", "")).decode() for name in names}

    def _cleared(self, process: int) -> bool:
        """Tell whether a process had removed a state, with all that it was asked for written."""
        own = [event for event in self.events() if event.process == process]
        states = [event.details[0] for event in own if event.kind == "saved"]
        return any(event.kind == "cleared" and not event.details for event in own) and not all(
            (self.folder / path).exists() for path in states
        )

    def _waits(self, process: int) -> bool:
        return self._has(process, "saved") or self._has(process, "held")

    def _has(self, process: int, kind: str, *details: str) -> bool:
        return any(
            e.process == process and e.kind == kind and (not details or e.details == details)
            for e in self.events()
        )


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _children(process: int, recursive: bool = True) -> list[psutil.Process]:
    try:
        return psutil.Process(process).children(recursive)
    except psutil.NoSuchProcess:
        return []


def _jobs(snakemake: int) -> list[psutil.Process]:
    """Return the shells of jobs, which have no step yet for a moment."""
    return _children(snakemake, recursive=False)


def _steps(snakemake: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return [process for process in _children(snakemake.pid) if _verb(process)]


def _verb(process: psutil.Process) -> str:
    """Return the step that a process runs; of its shell and its workers, nothing."""
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return ""
    return (
        words[3]
        if _is_alive(process) and words[1:3] == ["-m", "mispair"] and len(words) > 3
        else ""
    )


def _until(there: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not there() and time.monotonic() < deadline:
        time.sleep(0.01)
