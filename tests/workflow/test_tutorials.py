"""The tutorials of the documentation, run as a reader runs them, at a small size."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import yaml

from mispair.core.files import read_json
from tests.fork_server import python
from tests.workflow.conftest import REPOSITORY, SMOKE, Checkout, new_checkout

TUTORIALS = REPOSITORY / "docs" / "tutorials"
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TINY = {
    "calibrate_audit": {"rates": [0.0, 0.3], "pairs": 1000, "trusted": 40},
    "make_evaluation_set": {"images": 100, "train_images": 20},
    "recaption_pairs": {
        "steps": 60,
        "train_batch_size": 32,
        "max_same_share": 1.0,
        "use_if_not_better": True,
    },
    "finetune_projection": {"pairs": None, "seeds": 1, "epochs": 2, "batch_size": 64},
    "measure_purity": {"rotations": 1},
}
SMALLER = {
    "--pairs-per-shard 1000": "--pairs-per-shard 300",
    "--configfile data/mine/mine.yaml": "--configfile data/mine/mine.yaml tiny.yaml",
    "--cores 2 --configfile data/mine": "--cores 2 repair --configfile data/mine",
}
"""What replaces parts of commands, so that the run is short: smaller sizes, and no report."""


def install(checkout: Checkout) -> None:
    """Give a checkout the files of make, and a .venv whose programs are those of the tests."""
    programs = checkout.folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "setup.py"):
        shutil.copy2(REPOSITORY / name, checkout.folder)
    modules = {"python": "", "snakemake": "-m snakemake", "mispair": "-m mispair"}
    for name, module in modules.items():
        (programs / name).write_text(
            f"#!/bin/sh\nPYTHONPATH={str(checkout.folder / 'workflow')!r} "
            f'exec {python()} {module} "$@"\n'
        )
        (programs / name).chmod(0o755)
    (programs / "pip").write_text(f"#!{programs / 'python'}\n")
    (checkout.folder / ".venv" / "set-up").touch()


def follow(tutorial: str, checkout: Checkout, smaller: dict[str, str]) -> list[str]:
    """Write the files of a tutorial and run its commands, in their order; return the commands."""
    ran = []
    for language, title, text in BLOCK.findall((TUTORIALS / tutorial).read_text()):
        if title:
            path = checkout.folder / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if language != "console":
            continue
        for command in re.findall(r"^\$ (.+)$", text, re.MULTILINE):
            for part, replacement in smaller.items():
                command = command.replace(part, replacement)
            done = subprocess.run(
                command, shell=True, cwd=checkout.folder, text=True, timeout=600,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            assert done.returncode == 0, f"{command}\n{done.stdout}"
            ran.append(command)
    return ran


def test_every_tutorial_is_run_by_a_test_of_this_file() -> None:
    tested = re.findall(r'follow\("([\w-]+\.md)"', Path(__file__).read_text())
    assert {path.name for path in TUTORIALS.glob("*.md")} == set(tested)


def test_audit_and_repair_find_the_wrong_captions_of_the_tutorial(tmp_path: Path) -> None:
    checkout = new_checkout(tmp_path / "mispair")
    install(checkout)
    (checkout.folder / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    assert len(follow("audit-and-repair.md", checkout, SMALLER)) == 8
    results = checkout.folder / "data/mine/results"
    rows = read_json(results / "audit/mine/scenes-small/audit.json")["rows"]
    rate = next(row for row in rows if row["metric"] == "wrong_captions")
    assert rate["value"] == pytest.approx(0.3, abs=0.05)
    rows = read_json(results / "review/mine/scenes-small/review.json")["rows"]
    measured = next(row for row in rows if row["metric"] == "checked_share")
    assert measured["n"] == 200
    assert measured["low"] < 0.3 < measured["high"]
    repaired = pd.read_parquet(
        results / "repair/mine/scenes-small/random~0/factor/captions.parquet"
    ).set_index("key")["caption"]
    old = pd.read_csv(checkout.folder / "data/mine/captions.csv", dtype=str).set_index("key")
    wrong = (checkout.folder / "data/mine/wrong.txt").read_text().split()
    replaced = repaired != old["caption"].reindex(repaired.index)
    assert len(wrong) == 360
    assert replaced[wrong].sum() > 10 * replaced.drop(wrong).sum()


def test_the_paper_is_reproduced_as_the_tutorial_does_it(run: Checkout) -> None:
    install(run)
    content = yaml.safe_load((run.folder / "config.yaml").read_text())
    for key, value in yaml.safe_load((run.folder / SMOKE).read_text()).items():
        content[key] = {**content.get(key, {}), **value} if isinstance(value, dict) else value
    (run.folder / "config.yaml").write_text(yaml.safe_dump(content))
    assert "make demo" in follow("reproduce-the-paper.md", run, {})
