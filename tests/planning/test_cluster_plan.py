"""How many jobs a cluster is sent, and how many it has to run one after another."""

import pytest

from tests.cluster_plan import Plan

DOT = """digraph snakemake_dag {
    0[label = "all", color = "0.00 0.6 0.85", style="rounded"];
    1[label = "page", color = "0.00 0.6 0.85", style="rounded"];
    2[label = "table", color = "0.00 0.6 0.85", style="rounded"];
    3[label = "measure\\narm: a", color = "0.00 0.6 0.85", style="rounded"];
    4[label = "measure\\narm: b", color = "0.00 0.6 0.85", style="rounded,dashed"];
    5[label = "measure\\narm: c", color = "0.00 0.6 0.85", style="rounded"];
    6[label = "train\\narm: c", color = "0.00 0.6 0.85", style="rounded"];
    1 -> 0
    2 -> 1
    3 -> 2
    4 -> 2
    5 -> 2
    6 -> 5
}"""
GROUPS = {"page": "report", "table": "report", "measure": "arms"}


@pytest.fixture
def plan() -> Plan:
    return Plan.read(DOT)


def test_every_job_is_sent_alone_and_the_local_ones_are_not(plan: Plan) -> None:
    sent = plan.submissions({"all"})
    assert sorted(sent) == [1, 2, 3, 4, 5, 6]
    assert len(set(sent.values())) == 6
    assert plan.longest_chain(sent) == ["train", "measure", "table", "page"]


def test_neighbours_of_a_group_are_sent_together_and_others_are_not(plan: Plan) -> None:
    sent = plan.submissions({"all"}, GROUPS)
    assert sent[1] == sent[2]
    assert len({sent[3], sent[4], sent[5]}) == 3
    assert plan.longest_chain(sent) == ["train", "measure", "page+table"]


@pytest.mark.parametrize(("components", "expected"), [(2, 2), (3, 1), (20, 1)])
def test_as_many_components_as_asked_for_are_one_submission(
    plan: Plan, components: int, expected: int
) -> None:
    sent = plan.submissions({"all"}, GROUPS, {"arms": components})
    assert len({sent[3], sent[4], sent[5]}) == expected
    assert len(set(sent.values())) == expected + 2


def test_a_local_rule_costs_no_submission(plan: Plan) -> None:
    sent = plan.submissions({"all", "page", "table"})
    assert plan.longest_chain(sent) == ["train", "measure"]
    assert plan.longest_chain({}) == []
