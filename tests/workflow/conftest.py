"""A finished run of the smoke configuration, made once, for tests to look at and copy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import pytest
import yaml

from mispair.core import copied, reuse
from tests.fork_server import python
from tests.once import made_once

REPOSITORY = Path(__file__).parents[2]
CHECKOUT = ("Snakefile", "config.yaml", "config", "workflow", "profiles", "envs")
SMOKE = "config/smoke.yaml"
ONE_ARM = {
    "corrupt_captions": {"schemes": ["random"], "rates": [0.5]},
    "finetune_projection": {
        "starts": ["pretrained"], "pairs": None, "seeds": 1, "epochs": 2, "batch_size": 32,
    },
    "prune_neurons": {"ks": [16], "draws": 1},
    "measure_purity": {"rotations": 1},
}  # fmt: skip
"""Sections of the image-text study with one fine-tuned arm, and little measured of it."""
FEWER = {
    "studies": ["simulation", "image_text"],
    "corrupt_captions": {"schemes": ["random"], "rates": [0.5]},
    "finetune_projection": {"starts": ["pretrained"]},
    "simulate": {
        "trials": 1, "compare_presets": False, "bridge_trials": 0, "grid_trials": 0,
    },
}  # fmt: skip
"""The smoke configuration with a quarter of its jobs, for runs through faults. All but
`compare_arms` have the settings and inputs that they have in the smoke configuration."""


LONGEST = (
    "test_slurm.py", "test_faults.py", "test_rerun.py", "test_corpora.py", "test_audit.py",
    "test_repair.py", "test_tutorials.py", "test_failures.py", "test_corrected_captions.py",
    "test_plan.py", "test_emoji.py",
)  # fmt: skip
"""Modules that start first, so that no process is left with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest modules start first; needs ``--no-loadscope-reorder``."""
    items.sort(key=lambda item: (*LONGEST, item.path.name).index(item.path.name))


def counts(printed: str) -> dict[str, int]:
    """Return how many jobs of each rule a dry run printed."""
    if "Nothing to be done" in printed:
        return {}
    found = dict(re.findall(r"^(\w+)\s+(\d+)$", printed.split("Job stats:")[1], re.MULTILINE))
    return {rule: int(n) for rule, n in found.items() if rule not in ("total", "default")}


@dataclass
class Checkout:
    """A copy of the project in a folder of its own, and what Snakemake did in it."""

    folder: Path

    def snakemake(self, *arguments: str, check: bool = True, fresh: bool = False) -> str:
        """Run Snakemake on the smoke configuration and return all that it printed.

        Jobs are forked from a process that has imported the libraries, if not wanted `fresh`.
        """
        # Targets stand first: --configfile takes every word that follows it.
        command = [*arguments]
        command += [] if "--cores" in arguments else ["--cores", "2"]
        command += [] if "--configfile" in arguments else ["--configfile", SMOKE]
        planned = fresh or not {"--dry-run", "--lint", "--summary"}.isdisjoint(arguments)
        with TemporaryFile("w+") as printed:  # no pipe: processes that are left behind may hold it
            done = subprocess.run(
                [python(None if planned else ()), "-m", "snakemake", *command], cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, timeout=900, check=False,
            )  # fmt: skip
            printed.seek(0)
            text = printed.read()
        assert done.returncode == 0 or not check, text
        return text

    def planned(self, *arguments: str) -> dict[str, int]:
        """Return how many jobs of each rule a dry run would start."""
        return counts(self.snakemake(*arguments, "--dry-run", "--quiet", "host"))

    def copy(self, to: Path) -> Checkout:
        """Return a copy with the same times, as a moved folder has."""
        shutil.copytree(self.folder, to, symlinks=True)
        return Checkout(to)

    def results(self) -> dict[str, bytes]:
        """Return the bytes of every result, by path.

        Not what Snakemake marks folders with, nor parts for later jobs, which are named by times.
        """
        written = (path for path in (self.folder / "results").rglob("*") if path.is_file())
        files = sorted(
            path
            for path in written
            if path.name != ".snakemake_timestamp" and path.parent.name != reuse.FOLDER
        )
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in files}


def fewer_jobs(checkout: Checkout) -> list[str]:
    """Return the options of Snakemake for the smoke configuration with `FEWER` jobs."""
    (checkout.folder / "fewer.yaml").write_text(yaml.safe_dump(FEWER))
    return ["--configfile", SMOKE, "fewer.yaml"]


def other_bytes(through_faults: Checkout, undisturbed: Checkout) -> list[str]:
    """Return the results of a run of `FEWER` jobs that differ from those of an undisturbed run."""
    found, expected = through_faults.results(), undisturbed.results()
    assert len(found) > 60
    return [name for name in found if found[name] != expected.get(name)]


def new_checkout(folder: Path) -> Checkout:
    """Copy what git tracks of the project that a run needs, and its compiled modules."""
    folder.mkdir(parents=True)
    ignore = shutil.ignore_patterns(".snakemake", "*.egg-info")
    for name in CHECKOUT:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignore)
        else:
            shutil.copy2(source, folder / name)
    return Checkout(folder)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Run the smoke configuration to the end; tests must not change this folder."""

    def make(folder: Path) -> Checkout:
        checkout = new_checkout(folder)
        printed = checkout.snakemake("simulation", "image_text", "--verbose")
        folder.with_name("verbose.log").write_text(printed)
        # Steps of these two have processes of their own in the runs through faults.
        printed = checkout.snakemake("--logger", "mispair", fresh=True)
        folder.with_name("printed.log").write_text(printed)
        return checkout

    return Checkout(made_once(tmp_path_factory, "finished", make))


@pytest.fixture(scope="session")
def undisturbed(finished: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Run what `FEWER` computes otherwise than the smoke configuration; nothing disturbs it."""

    def make(folder: Path) -> Checkout:
        checkout = finished.copy(folder)
        checkout.snakemake("simulation", "image_text", *fewer_jobs(checkout))
        return checkout

    return Checkout(made_once(tmp_path_factory, "undisturbed", make))


class Lent(Checkout):
    """A copy of a checkout that one test after another may change."""

    def __init__(self, original: Checkout, folder: Path) -> None:
        super().__init__(folder)
        self._original = original.folder
        original.copy(folder)
        self._changed = self._settled()

    def _settled(self) -> dict[str, int]:
        """Let its results be no copy for mispair, which would date them anew at each start."""
        notes = self.folder / copied.PLACE.parent
        if notes.exists():
            (self.folder / copied.PLACE).write_text(f"{notes.resolve()} {notes.stat().st_ino}")
        return self._changes()

    def _changes(self) -> dict[str, int]:
        """Return when each file and folder was changed in any way, times included."""
        return {
            os.path.relpath(path, self.folder): os.lstat(path).st_ctime_ns
            for folder, folders, files in os.walk(self.folder)
            for path in (os.path.join(folder, name) for name in (*folders, *files))
        }

    def restore(self) -> None:
        """Make it equal to the original again, times included."""
        now = self._changes()
        for name in sorted(now.keys() - self._changed.keys(), reverse=True):
            path = self.folder / name
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        again = [name for name in sorted(self._changed) if now.get(name) != self._changed[name]]
        folders = [name for name in again if (self._original / name).is_dir()]
        for name in again:
            if name in folders:
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            else:
                shutil.copy2(self._original / name, self.folder / name, follow_symlinks=False)
        for name in reversed(folders):
            shutil.copystat(self._original / name, self.folder / name)
        self._changed = self._settled()


@pytest.fixture(scope="session")
def lent(finished: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Lent:
    return Lent(finished, tmp_path_factory.mktemp("run") / "copy")


@pytest.fixture
def run(lent: Lent) -> Iterator[Checkout]:
    """Give a test a finished run that it may change."""
    yield lent
    lent.restore()


@pytest.fixture(scope="session")
def lent_empty(tmp_path_factory: pytest.TempPathFactory) -> Lent:
    folder = tmp_path_factory.mktemp("empty")
    return Lent(new_checkout(folder / "original"), folder / "empty")


@pytest.fixture
def empty(lent_empty: Lent) -> Iterator[Checkout]:
    """Give a test a checkout in which nothing has run."""
    yield lent_empty
    lent_empty.restore()
