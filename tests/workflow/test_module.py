"""mispair as a module of another workflow, whose results have a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.workflow.conftest import ONE_ARM, REPOSITORY, Checkout

SNAKEFILE = f"""
module mispair:
    snakefile: "{REPOSITORY}/Snakefile"
    config: config
    prefix: "clip"

use rule * from mispair

rule everything:
    default_target: True
    input: "clip/reports/index.html"
"""
TINY = {
    "studies": ["image_text"],
    "make_scenes": {"shards": 2, "pairs_per_shard": 60},
    "evaluation_sets": ["scenes-digit"],
    "make_evaluation_set": {"images": 50, "train_images": 40, "retrieval_images": 20},
    **ONE_ARM,
    "measure_semantics": {"rotations": 1},
    "identify_basis": {"rotations": 1},
}  # fmt: skip


@pytest.mark.slow
def test_a_module_with_a_prefix_runs_to_its_report(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    Checkout(tmp_path).snakemake("--configfile", "tiny.yaml")
    made = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert made == {"Snakefile", "tiny.yaml", "clip"}
    # The report lists the run times of the jobs, which are below the prefix too.
    assert "finetune_projection" in (tmp_path / "clip/reports/pages/run.html").read_text()
