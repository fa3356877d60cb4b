"""What clusters do to a run: kills, full disks, folders that cannot be written."""

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mispair.core.forks import ADDRESS
from tests.faults import Faults
from tests.workflow.conftest import SMOKE, Checkout, fewer_jobs, new_checkout, other_bytes
from tests.workflow.test_plan import is_within_a_factor_of_two, plans_of

KILLED = ("simulate", "finetune-projection", "encode-features", "measure-purity")
"""Three steps that keep states, and one that keeps none."""
PAIRING = "results/pairs/scenes/pairing/random~0.5.parquet"


def same(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Faults:
    """Run to the end through ten kills."""
    checkout = new_checkout(tmp_path_factory.mktemp("killed") / "mispair")
    faults = Faults(
        checkout.folder,
        # Not the two cores of the other run: results do not depend on them.
        ["simulation", "image_text", "--cores", "3", "--retries", "60", *fewer_jobs(checkout)],
        jobs=26,
        seed=6,
        kills=len(KILLED) + 1,
        of_snakemake=1,
        verbs=KILLED,
    )
    faults.run()
    return faults


@pytest.mark.slow
def test_ten_kills_change_no_byte_and_nothing_is_done_twice(undisturbed: Checkout, faults: Faults):
    assert other_bytes(Checkout(faults.folder), undisturbed) == []

    assert Counter((kill.how, kill.verb) for kill in faults.landed) == {
        (how, verb): 1
        for how in (signal.SIGTERM, signal.SIGKILL)
        for verb in (*KILLED, "snakemake")
    }
    # Snakemake saw a failed job for each kill of a step, but those it was killed too soon for;
    # beside them are jobs that met a copy of themselves, which a killed Snakemake had left.
    failed = len(re.findall("^Error in rule", faults.printed_by_now(), re.MULTILINE))
    assert failed >= 2 * len(KILLED) - 2

    # No job removes its states before all that it was asked for is written. From one that a killed
    # Snakemake left, the next Snakemake takes a result that was there.
    cleared = [
        event
        for event in faults.events()
        if event.kind == "cleared" and event.process not in faults.done_again
    ]
    assert cleared
    assert [event for event in cleared if event.details] == []

    # A state never falls back: what was encoded or trained once is not done again. Only a job
    # that Snakemake cannot know to be done is run again.
    jobs = Counter()
    began = {e.process: e.details for e in faults.events() if e.kind == "began"}
    for event in faults.events():
        if event.kind == "returned" and event.details == ("0",):
            jobs[began[event.process]] += 1
    twice = {command for command, times in jobs.items() if times > 1}
    unknown = {began[process] for process in faults.done_again if process in began}
    assert twice <= unknown
    saved_by = {(e.process, e.details[0]) for e in faults.events() if e.kind == "saved"}
    again = {path for process, path in saved_by if began[process] in unknown}
    for path, done in faults.progress().items():
        assert path in again or done == sorted(set(done)), path
    assert len(faults.progress()) > 6
    gone_on = [path for path in {p for _, p in saved_by} if sum(q == path for _, q in saved_by) > 1]
    assert gone_on, "no kill met a job that had a state"


@pytest.mark.slow
def test_these_jobs_are_planned_within_a_factor_of_two(faults, empty, monkeypatch) -> None:
    """Each was a process of its own, as those of a cluster are."""
    monkeypatch.setenv(ADDRESS, "off")
    plans = plans_of(empty.folder, "simulation", "image_text", *fewer_jobs(empty))
    is_within_a_factor_of_two(plans, Checkout(faults.folder))


@pytest.fixture
def small_disk(finished: Checkout, tmp_path: Path) -> Iterator[Path]:
    """A disk of its own of 3 MB, on which a run has its results, its logs and Snakemake's notes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small file system")
    yield disk
    subprocess.run(["umount", "--recursive", disk], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


def told(printed: str) -> str:
    """Return what the user is told last, in one message."""
    assert "Traceback" not in printed
    assert "Logging error" not in printed
    return printed


def test_a_disk_that_fills_is_one_message_and_the_next_run_ends_with_the_same_bytes(
    empty: Checkout, finished: Checkout, small_disk: Path
) -> None:
    arguments = (PAIRING, "--directory", str(small_disk), "--configfile", SMOKE)
    # 1.2 MB are left: enough to begin, and less than the 1.3 MB of the shards.
    (small_disk / "filler").write_bytes(bytes(1_950_000))
    printed = told(empty.snakemake(*arguments, check=False))
    assert printed.count("the disk is full") == 1
    assert "free some space" in printed
    results = small_disk / "results"
    assert [path for path in results.rglob("*") if path.is_file()] == []

    # Not even room for notes: nothing is begun.
    with (small_disk / "filler").open("ab", buffering=0) as filler, pytest.raises(OSError):
        while True:
            filler.write(bytes(4096))
    printed = told(empty.snakemake(*arguments, check=False))
    assert printed.count("the disk is full") == 1
    assert "make_scenes" not in printed

    (small_disk / "filler").unlink()
    remount(small_disk, "size=100m")
    empty.snakemake(*arguments)
    found = Checkout(small_disk).results()
    assert PAIRING in found
    same(found, {name: content for name, content in finished.results().items() if name in found})


def test_what_cannot_be_written_is_one_message(empty: Checkout, small_disk: Path) -> None:
    arguments = (PAIRING, "--directory", str(small_disk), "--configfile", SMOKE)
    results = small_disk / "results"
    results.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", results], check=True)
    printed = told(empty.snakemake(*arguments, check=False))
    assert printed.count("results: cannot be written (Read-only file system)") == 1
    assert "make_scenes" in empty.snakemake("--dry-run", *arguments)  # to look is allowed
    remount(results, "rw,size=100m")
    empty.snakemake(*arguments)
    assert (small_disk / PAIRING).exists()
    remount(small_disk, "ro")
    printed = told(empty.snakemake(*arguments, check=False))
    assert printed.count("cannot be written (Read-only file system)") == 1
