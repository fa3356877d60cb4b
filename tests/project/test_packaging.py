"""The package as others install it: built from the sources, and run without the repository."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from bench import release
from mispair.core.files import UserError
from tests.fork_server import python

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "workflow" / "mispair"
PLUGIN = REPOSITORY / "workflow" / "snakemake_logger_plugin_mispair"
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "Snakefile", "config.yaml")
FOLDERS = ("config", "profiles", "envs", "workflow")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution from a copy of the sources, and the wheel from that."""
    folder = tmp_path_factory.mktemp("sources")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", ".snakemake")
    for name in SOURCES:
        shutil.copy2(REPOSITORY / name, folder)
    for name in FOLDERS:
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignore)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=a"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], cwd=folder, capture_output=True, check=True)
    (folder / "head").write_bytes(head.stdout)
    _build("sdist", folder)
    (source,) = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    _build("wheel", folder / "unpacked" / source.name.removesuffix(".tar.gz"))
    shutil.move(next(folder.glob("unpacked/*/dist/*.whl")), folder / "dist")
    return folder / "dist"


def _build(kind: str, folder: Path) -> None:
    build = f"from setuptools import build_meta as build; build.build_{kind}('dist')"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone into a folder; what it needs is that of this interpreter."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    (wheel,) = built.glob("*.whl")
    subprocess.run([*pip, "--target", target, wheel], check=True, timeout=300)
    return target


FORKING = """
import runpy, sys
sys.executable = {python!r}
runpy.run_module("mispair", run_name="__main__", alter_sys=True)
"""
"""The package, whose jobs are forked from a process that has imported the libraries."""


def mispair(
    installed: Path, folder: Path, *arguments: str, forks: bool = False
) -> subprocess.Popen[str]:
    """Start the installed package in a folder."""
    started = ["-c", FORKING.format(python=str(python()))] if forks else ["-m", "mispair"]
    return subprocess.Popen(
        [sys.executable, *started, *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(installed)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a program; return its exit code and what it printed to both streams."""
    printed, told = process.communicate(timeout=600)
    return process.returncode, printed, told


def test_both_forms_hold_every_file_of_the_package(built: Path) -> None:
    files = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in [*PACKAGE.rglob("*"), *PLUGIN.rglob("*")]
        if path.is_file() and "__pycache__" not in path.parts and path.name != "README.md"
    }
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        assert files <= set(wheel.namelist())
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        assert files <= {name.partition("/workflow/")[2] for name in source.getnames()}


def test_the_wheel_has_the_workflow_as_it_is_in_a_checkout(installed: Path) -> None:
    folder = installed / "mispair/workflow_files"
    copied = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    copied.remove(Path("commit.json"))
    for path in copied:
        assert (folder / path).read_bytes() == (REPOSITORY / path).read_bytes()
    needed = [
        path
        for place in ("config", "profiles", "workflow/rules", "workflow/schemas")
        for path in (REPOSITORY / place).rglob("*.*")
    ]
    needed += [REPOSITORY / name for name in ("Snakefile", "config.yaml", "workflow/Snakefile")]
    # What the rules refer to by paths from their own folder.
    for rules in (REPOSITORY / "workflow/rules").glob("*.smk"):
        for named in re.findall(r'"(\.\./[^"]+)"', rules.read_text("utf-8")):
            needed.append((rules.parent / named).resolve())
    assert {path.relative_to(REPOSITORY) for path in needed} <= copied


def test_the_wheel_has_the_commit_that_it_was_built_from(built: Path, installed: Path) -> None:
    asked = "from mispair.core import provenance; print(provenance.commit()['commit'])"
    done = subprocess.run(
        [sys.executable, "-c", asked], env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == (built.parent / "head").read_text()
    stored = json.loads((installed / "mispair/workflow_files/commit.json").read_text())
    assert stored["changed"] is False


@pytest.mark.slow
def test_the_wheel_audits_pairs_in_a_foreign_folder(built, installed, tmp_path):
    """From an empty folder to the sentence, through Ctrl-C; then again, with nothing to do."""
    make = ["make-scenes", "--corpus", "pairs", "--shards", "2", "--pairs-per-shard", "200"]
    assert ended(mispair(installed, tmp_path, *make, "--seed", "7"))[0] == 0
    audit = ("audit", "pairs", "--towers", "shipped", "--cores", "2")

    with mispair(installed, tmp_path, *audit) as started:
        assert started.stderr is not None
        for line in started.stderr:
            if line.startswith(" 1 of "):
                break
        os.killpg(started.pid, signal.SIGINT)  # as a terminal does
        told = started.stderr.read()
    assert "Interrupted: " in told
    assert started.returncode == 1

    code, printed, told = ended(mispair(installed, tmp_path, *audit, forks=True))
    assert code == 0, told
    folder = tmp_path / "mispair-pairs"
    assert told.rstrip().endswith(f"The report: {(folder / 'reports/index.html').as_uri()}")
    record = json.loads((folder / "reports/run.json").read_text())
    assert record["record"]["git"]["commit"] == (built.parent / "head").read_text().strip()
    audited = json.loads((folder / "results/audit/pairs/scenes-small/audit.json").read_text())
    rates = {row["metric"]: row for row in audited["rows"]}
    sentence, limit = printed.strip().splitlines()
    (high,) = re.findall(r"[\d.]+(?= %)", sentence)
    assert float(high) == pytest.approx(100 * rates["wrong_captions"]["high"], abs=0.5)
    assert "no lower limit" in limit

    code, again, told = ended(mispair(installed, tmp_path, *audit, forks=True))
    assert (code, again) == (0, printed)
    assert "Nothing to be done" in told
    assert str(installed) in told  # its profile
    assert ended(mispair(installed, folder, "run", "--dry-run", forks=True))[0] == 0
    assert ended(mispair(installed, folder, "run", "no_such_target", forks=True))[0] == 1


def test_what_is_told_to_others_agrees() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    archived = json.loads((REPOSITORY / ".zenodo.json").read_text())
    assert archived["title"] == citation["title"]
    assert archived["license"] == citation["license"]
    assert archived["keywords"] == citation["keywords"]
    assert archived["description"] == citation["abstract"].strip()
    assert archived["creators"] == citation["authors"]
    catalogue = yaml.safe_load((REPOSITORY / ".snakemake-workflow-catalog.yml").read_text())
    told, rules = catalogue["usage"], [*(REPOSITORY / "workflow/rules").glob("*.smk")]
    needed = {"conda": "    conda:\n", "report": "report("}
    for name, directive in needed.items():
        used = any(directive in path.read_text() for path in rules)
        assert told["software-stack-deployment"][name] == used, name
    assert told["report"] == told["software-stack-deployment"]["report"]
    from mispair import __version__

    assert citation["version"] == __version__
    assert f"mispair {__version__}\n" in (REPOSITORY / "docs/reference/commands.md").read_text()
    published = (REPOSITORY / ".github/workflows/release.yaml").read_text()
    jobs = {"build", "publish", "image", "site", "release"}
    assert yaml.safe_load(published)["jobs"].keys() == jobs
    first = (PACKAGE / "__init__.py").read_text()
    assert f'__version__ = "{__version__}"' in first.splitlines()


def test_a_release_sets_the_version_in_all_places_once(tmp_path: Path) -> None:
    for name in (*release.PLACES, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    release.release(tmp_path, "12.3.4", "2030-01-02")
    assert yaml.safe_load((tmp_path / "CITATION.cff").read_text())["version"] == "12.3.4"
    assert '__version__ = "12.3.4"' in (tmp_path / "workflow/mispair/__init__.py").read_text()
    open_notes, notes = (tmp_path / "CHANGELOG.md").read_text().split("## [12.3.4] - 2030-01-02\n")
    assert open_notes.endswith("## [Unreleased]\n\n")
    assert notes in (REPOSITORY / "CHANGELOG.md").read_text()
    assert "v12.3.4" in release.steps("12.3.4")
    for refused in ("12.3.4", "12.3.3", "1.2", "v1.2.3"):
        with pytest.raises(UserError, match=re.escape(refused)):
            release.release(tmp_path, refused, "2030-01-03")
    assert "2030-01-03" not in (tmp_path / "CHANGELOG.md").read_text()
