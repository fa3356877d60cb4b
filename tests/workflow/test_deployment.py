"""mispair in the Snakemake workflow catalogue, and in projects of others."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from mispair.pairs.paths import SCENES
from tests.workflow.conftest import REPOSITORY, Checkout, new_checkout

PLACES = ("README.md", "LICENSE", ".test", ".snakemake-workflow-catalog.yml")
HEAVY = {
    "PIL", "altair", "open_clip", "pyarrow", "pylatexenc", "safetensors", "scipy", "sklearn",
    "tensorboardX", "timm", "tokenizers", "torch", "torchvision", "tqdm", "transformers",
    "vl_convert", "webdataset",
}  # fmt: skip
"""What the catalogue's environment lacks."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Give the tests what a clone has, in a folder of its own."""
    import shutil

    made = new_checkout(tmp_path_factory.mktemp("deployment") / "mispair")
    for name in PLACES:
        copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy2
        copy(REPOSITORY / name, made.folder / name)
    return made


@pytest.fixture(scope="module")
def few_packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment for ``python -S`` in which only light packages are installed."""
    folder = tmp_path_factory.mktemp("packages")
    for place in (Path(path) for path in sys.path if path.endswith("site-packages")):
        for entry in place.iterdir():
            ours = entry.name.startswith(("mispair", "__editable__")) or entry.suffix == ".pth"
            if entry.name not in HEAVY and not ours and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(folder: Path, *arguments: str, **given: Any) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, text=True, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **given,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


# What the catalogue does with a repository -------------------------------------------------------


def test_the_catalogue_finds_what_it_asks_for(checkout: Checkout) -> None:
    assert (checkout.folder / "workflow/Snakefile").is_file()
    assert (checkout.folder / "config/README.md").is_file()
    words = (checkout.folder / "README.md").read_text().lower()
    assert "snakemake" in words
    assert "workflow" in words
    about = yaml.safe_load((checkout.folder / ".snakemake-workflow-catalog.yml").read_text())
    usage = about["usage"]
    assert usage["report"] is usage["software-stack-deployment"]["report"] is True
    assert set(usage["software-stack-deployment"]) == {
        "conda", "apptainer", "apptainer+conda", "report",
    }  # fmt: skip


def test_the_catalogues_lint_passes_where_little_is_installed(checkout, few_packages) -> None:
    printed = run(checkout.folder, "-S", "-m", "snakemake", "--lint", env=few_packages)
    assert "good condition" in printed


def test_pairs_of_a_user_are_planned_where_little_is_installed(checkout, few_packages, tmp_path):
    for number in range(200):
        (tmp_path / f"pairs/{number}.jpg").parent.mkdir(exist_ok=True)
        (tmp_path / f"pairs/{number}.jpg").write_bytes(b"\xff\xd8\xff")
        (tmp_path / f"pairs/{number}.txt").write_text(f"a cup with the number {number}")
    command = ("-S", "-m", "snakemake", "--dry-run", "-c", "1", "--directory", str(tmp_path))
    settings = ("--config", "pairs=pairs", "corpus=mine", "studies=[audit]")
    assert "pack_pairs" in run(checkout.folder, *command, *settings, env=few_packages)


def test_the_catalogues_graph_of_rules_is_there_in_time(checkout, few_packages) -> None:
    command = ("-S", "-m", "snakemake", "-s", "workflow/Snakefile", "-d", ".test", "-c", "1",
               "--forceall", "--rulegraph")  # fmt: skip
    before = time.monotonic()
    printed = run(checkout.folder, *command, env=few_packages)
    assert time.monotonic() - before < 15
    assert "finetune_projection" in printed
    assert "digraph" in printed


def test_the_catalogues_table_of_settings_has_every_section() -> None:
    schema = yaml.safe_load((REPOSITORY / "workflow/schemas/config.schema.yaml").read_text())
    assert "$ref" not in str(schema)
    rows = []  # as its program walks
    nodes = [("", schema)]
    while nodes:
        place, node = nodes.pop()
        for name, part in node.get("properties", {}).items():
            rows.append((f"{place}{name}", part.get("description"), "default" in part))
            nodes.append((f"{place}{name}.", part))
    described = {name: (text, default) for name, text, default in rows}
    assert described["finetune_projection.epochs"][1]
    assert [name for name, (text, _) in described.items() if not text] == []


def test_both_snakefiles_plan_the_same_jobs(checkout: Checkout) -> None:
    own = checkout.planned()
    other = checkout.planned("--snakefile", "workflow/Snakefile")
    other.pop("all")
    assert own == other


# What others do with it --------------------------------------------------------------------------


def test_a_deployed_project_plans_its_jobs(checkout: Checkout, tmp_path: Path) -> None:
    """`snakedeploy deploy-workflow` copies the configurations and writes a Snakefile."""
    pytest.importorskip("snakedeploy", reason="not for this Python")
    project = tmp_path / "project"
    deploy = ["deploy-workflow", str(checkout.folder), str(project), "--branch", "main"]
    run(tmp_path, "-c", "from snakedeploy.client import main; main()", *deploy)
    assert (project / "config/config.yaml").read_text()
    assert (project / "profiles/slurm/config.yaml").exists()
    # For a folder, in place of an address, it writes a path that leads to the new Snakefile itself.
    snakefile = project / "workflow/Snakefile"
    text = snakefile.read_text()
    assert text.count('"workflow/Snakefile"') == 1
    snakefile.write_text(
        text.replace('"workflow/Snakefile"', f'"{checkout.folder}/workflow/Snakefile"')
    )
    planned = Checkout(project).planned("--configfile", "config/config.yaml")
    assert planned["audit_pairs"] >= 1
    assert planned["filter_captions"] >= 1
    assert "simulate" not in planned


@pytest.mark.slow
def test_a_module_from_an_address_uses_the_installed_package(checkout: Checkout, tmp_path: Path):
    repository = tmp_path / "repository"
    checkout.copy(repository)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], cwd=repository, check=True)
    project = tmp_path / "project"
    project.mkdir()
    (project / "Snakefile").write_text(
        f"""
module mispair:
    snakefile: "git+file://{repository}/workflow/Snakefile@HEAD"
    config: config

use rule * from mispair
"""
    )
    (project / "tiny.yaml").write_text(
        yaml.safe_dump({"make_scenes": {"shards": 2, "pairs_per_shard": 5}})
    )
    shard = f"{SCENES}/00000.tar"
    Checkout(project).snakemake(shard, "--configfile", "tiny.yaml")
    assert (project / shard).exists()
