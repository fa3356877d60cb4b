"""The package as others install it: built from the sources, and run without the repository."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "workflow" / "mispair"
PLUGIN = REPOSITORY / "workflow" / "snakemake_logger_plugin_mispair"
SOURCES = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both forms from a copy of the sources, as a release does."""
    import shutil

    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        shutil.copy2(REPOSITORY / name, copy)
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for package in (PACKAGE, PLUGIN):
        shutil.copytree(package, copy / "workflow" / package.name, ignore=ignore)
    build = "from setuptools import build_meta as build; build.build_sdist('dist')"
    command = [sys.executable, "-c", f"{build}; build.build_wheel('dist')"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return copy / "dist"


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


def test_the_wheel_runs_without_the_repository(built: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    wheel = next(built.glob("*.whl"))
    subprocess.run([*pip, "--target", target, wheel], check=True, timeout=300)
    asked = "import mispair; from mispair.cli import main; print(mispair.__file__); main(['steps'])"
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path, env={"PYTHONPATH": str(target)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.startswith(str(target)), done.stderr
    assert "finetune-projection" in done.stdout


def test_what_is_told_to_others_agrees() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    archived = json.loads((REPOSITORY / ".zenodo.json").read_text())
    assert archived["title"] == citation["title"]
    assert archived["license"] == citation["license"]
    assert archived["keywords"] == citation["keywords"]
    from mispair import __version__

    assert citation["version"] == __version__
    release = (REPOSITORY / ".github/workflows/release.yaml").read_text()
    assert yaml.safe_load(release)["jobs"].keys() == {"build", "publish", "image", "release"}
    first = (PACKAGE / "__init__.py").read_text()
    assert f'__version__ = "{__version__}"' in first.splitlines()
