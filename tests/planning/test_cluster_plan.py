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


@pytest.mark.parametrize(("local", "grouped", "components", "number", "chain"), [
    ({"all"}, False, {}, 6, ["train", "measure", "table", "page"]),
    ({"all"}, True, {}, 5, ["train", "measure", "page+table"]),
    ({"all"}, True, {"arms": 2}, 4, ["train", "measure", "page+table"]),
    ({"all"}, True, {"arms": 20}, 3, None),  # all three arms in one
    ({"all", "page", "table"}, False, {}, 4, ["train", "measure"]),
])  # fmt: skip
def test_submissions_and_the_longest_chain(local, grouped, components, number, chain) -> None:
    plan = Plan.read(DOT)
    sent = plan.submissions(local, GROUPS if grouped else {}, components)
    assert len({*sent.values()}) == number
    assert grouped == (1 in sent and sent[1] == sent[2])
    assert chain is None or plan.longest_chain(sent) == chain
    assert plan.longest_chain({}) == []
