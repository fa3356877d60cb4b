"""The simulation study by itself: its jobs and arms, and what a change of its sweeps reruns."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.workflow.conftest import SMOKE, Checkout, new_checkout

SIZES = {
    key: value
    for key, value in yaml.safe_load((Path(__file__).parents[2] / SMOKE).read_text())[
        "simulate"
    ].items()
    if isinstance(value, int) and not isinstance(value, bool)
}
SWEEPS = {
    "spurious_probabilities": [0.4],
    "trials": 2,
    "trials_per_job": 2,
    "arms_trials": 1,
    "arms_probabilities": [0.4],
    "bridge_trials": 1,
    "bridge_probabilities": [0.4],
    "bridge_switches": ["filter", "loss"],
    "grid_trials": 0,
}
JOBS = {
    "as-run/cs~0/trials~0-0": {"raw", "high-quality-only"},
    "as-run/cs~0.4/trials~0-0": {
        "raw", "filtered", "replace-all", "generated-only", "random-decoder",
    },
    "as-run/cs~0.4/trials~1-1": {"raw", "filtered"},
    "as-written/cs~0.4/trials~0-0": {"raw", "filtered"},
    "bridge~filter/cs~0.4/trials~0-0": {"raw", "filtered"},
    "bridge~loss/cs~0.4/trials~0-0": {"raw", "filtered"},
}  # fmt: skip
ENDS_AND_SWITCHES = ("as-written", "bridge~filter", "bridge~loss")


def configure(checkout: Checkout, **changes: Any) -> tuple[str, str]:
    """Write a configuration of this study alone; return the options that name it."""
    content = {"studies": ["simulation"], "simulate": {**SIZES, **SWEEPS, **changes}}
    (checkout.folder / "simulation.yaml").write_text(yaml.safe_dump(content))
    return "--configfile", "simulation.yaml"


def planned(checkout: Checkout, **changes: Any) -> set[str]:
    """Return the jobs of this study that a dry run would start, as condition/C_s/trials."""
    options = configure(checkout, **changes)
    printed = checkout.snakemake("simulation", "--dry-run", "--printshellcmds", *options)
    assert "double '/'" not in printed  # in the paths of a study that is not run
    return set(re.findall(r"--simulation '?results/simulation/(\S+)\.json", printed))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Run the study to the end; tests only plan in this folder."""
    checkout = new_checkout(tmp_path_factory.mktemp("simulated") / "mispair")
    checkout.snakemake("simulation", *configure(checkout))
    return checkout


def test_every_job_has_its_arms(simulated: Checkout) -> None:
    results = simulated.folder / "results/simulation"
    paths = results.rglob("trials~?-?.json")
    found = {str(path.relative_to(results).with_suffix("")): path for path in paths}
    assert found.keys() == JOBS.keys()
    for name, path in found.items():
        rows = json.loads(path.read_text())["rows"]
        assert {row["trained_on"] for row in rows} == JOBS[name], name
        assert {row["condition"] for row in rows} == {name.split("/")[0]}
    assert list(results.rglob("*.checkpoint")) == []


def test_the_report_is_made_of_these_results(simulated: Checkout) -> None:
    jobs = simulated.planned(*configure(simulated))
    assert jobs.keys() == {"gather_metrics", "record_run", "draw_figures", "export_metrics",
                           "write_report"}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "jobs"),
    [
        ({}, set()),
        (
            {"spurious_probabilities": [0.2, 0.4]},
            {"as-run/cs~0.2/trials~0-1"},
        ),
        # One trial more on the bridge: the base and its arms stay.
        (
            {"bridge_trials": 2},
            {f"{name}/cs~0.4/trials~0-1" for name in ENDS_AND_SWITCHES},
        ),
        ({"bridge_switches": ["filter", "loss", "test"]}, {"bridge~test/cs~0.4/trials~0-0"}),
        ({"bridge_trials": 0}, set()),
        # The same file with other arms.
        ({"arms_probabilities": [0.1]}, {"as-run/cs~0.1/trials~0-0", "as-run/cs~0.4/trials~0-1"}),
        ({"trials_per_job": 1, "arms_trials": 2},
         {"as-run/cs~0/trials~1-1", "as-run/cs~0.4/trials~1-1"}),
        ({"compare_presets": True}, {"as-written/cs~0.4/trials~0-1"}),
        # A setting of the base condition that the far end does not share, and one that it does.
        ({"filter_factor": 1.1}, JOBS.keys() - {"as-written/cs~0.4/trials~0-0",
                                                "bridge~filter/cs~0.4/trials~0-0"}),
        ({"seed": 1}, set(JOBS)),
    ],
)  # fmt: skip
def test_a_change_reruns_what_it_changes(simulated: Checkout, changes, jobs) -> None:
    assert planned(simulated, **changes) == jobs
