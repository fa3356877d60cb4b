"""Plans of shipped configurations: CC12M on a cluster, five towers, and rules of the demo."""

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from bench import docs_pages
from bench.dag import at_home
from tests.cluster_plan import Plan
from tests.workflow.conftest import REPOSITORY, Checkout

MOST_SUBMISSIONS = 180
LONGEST_CHAIN = 10
"""Submissions one after another: the scheduler is asked every 40 seconds or less often."""


@pytest.mark.parametrize("shards", [1100, 2176])
def test_cc12m_is_few_submissions_and_a_short_chain(empty: Checkout, tmp_path: Path, shards):
    config = at_home("cc12m", tmp_path / "home")
    config.write_text(config.read_text().replace("{0000..2175}", f"{{0000..{shards - 1:04d}}}"))
    profile = yaml.safe_load((REPOSITORY / "profiles/slurm/config.yaml").read_text())
    planned = ["--configfile", str(config), "--workflow-profile", "profiles/slurm"]
    plan = Plan.read(empty.snakemake("--dag", "dot", *planned))
    sent = plan.submissions({"default"}, profile["groups"], profile["group-components"])
    assert {"list_images", "index_shards", "encode_features", "write_report"} <= set(
        plan.rules.values()
    )
    assert len(set(sent.values())) <= MOST_SUBMISSIONS
    chain = plan.longest_chain(sent)
    assert chain[0] == "list_images"
    assert len(chain) <= LONGEST_CHAIN


@pytest.mark.parametrize("name", ["cc3m", "cc12m"])
def test_the_jobs_that_a_configuration_states_are_those_of_its_plan(empty, tmp_path, name) -> None:
    config = at_home(name, tmp_path / "home")
    stated = re.findall(r"^#   (\w+) +(\d+) jobs", config.read_text(), re.MULTILINE)
    plan = Plan.read(empty.snakemake("--dag", "dot", "--configfile", str(config)))
    planned = Counter(plan.rules.values())
    assert stated == [(rule, str(planned[rule])) for rule, _ in stated] != []


def test_one_run_trains_three_pairs_and_measures_every_arm_on_five(empty: Checkout) -> None:
    planned = empty.planned("--configfile", "config/five-towers.yaml")
    assert planned["make_scenes_of_towers"] == planned["make_scenes"] == 1
    assert planned["pretrain_towers_of_seed"] == 3
    assert "pretrain_towers" not in planned
    rates, towers = 5, 5
    assert planned["finetune_projection"] == rates * towers
    assert planned["measure_arm"] == (1 + rates) * towers
    assert planned["measure_semantics"] == 3 * towers
    assert planned["compare_towers"] == planned["measure_covariance"] / towers == 1


def test_the_picture_of_the_rules_is_the_rule_graph(empty: Checkout) -> None:
    printed = empty.snakemake("--rulegraph", "mermaid-js", "--configfile", "config.yaml")
    rules = docs_pages.rule_graph(printed)
    drawn = docs_pages.picture(rules, docs_pages.packages())
    assert docs_pages.PICTURE.read_text() == drawn, "run `make docs-pages` and commit the result"
