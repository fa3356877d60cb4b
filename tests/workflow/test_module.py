"""mispair as a module of another workflow, whose results have a folder of their own."""

from pathlib import Path

import yaml

from tests.workflow.conftest import REPOSITORY, Checkout

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
    "studies": ["stepsize"],
    "train_two_layer": {
        "grid": [{"part": "sweep", "data_set": "xor4", "stepsizes": [16], "seeds": 1, "steps": 50}]
    },
}


def test_a_module_with_a_prefix_runs_to_its_report(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    Checkout(tmp_path).snakemake("--configfile", "tiny.yaml")
    made = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert made == {"Snakefile", "tiny.yaml", "clip"}
    # The report lists the run times of the jobs, which are below the prefix too.
    assert "train_two_layer" in (tmp_path / "clip/reports/pages/run.html").read_text()


def test_every_file_of_every_study_is_below_the_prefix(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    studies = ["image_text", "simulation", "sufficiency", "stepsize", "audit", "repair"]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump({"studies": studies}))
    printed = Checkout(tmp_path).snakemake("--summary", "--configfile", "all.yaml")
    lines = printed.split("output_file\t")[1].splitlines()[1:]
    files = [path for line in lines for path in (line.split("\t")[0], line.split("\t")[3])]
    assert len(files) > 500
    assert [path for path in files if not path.startswith(("clip/", "-"))] == []
