"""The table of rules in the documentation is the graph of the rules."""

from __future__ import annotations

import re

from tests.workflow.conftest import REPOSITORY, Checkout

DESIGN = REPOSITORY / "docs" / "explanation" / "design.md"


def test_the_table_of_rules_is_the_rule_graph(empty: Checkout) -> None:
    printed = empty.snakemake("--rulegraph", "mermaid-js", "--configfile", "config.yaml")
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", printed))
    arrows = re.findall(r"(id\d+) --> (id\d+)", printed)
    expected = {(names[a], names[b]) for a, b in arrows if names[b] != "default"}
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", DESIGN.read_text(), re.MULTILINE)
    listed = {
        (source, rule) for rule, sources in rows for source in re.findall(r"`(\w+)`", sources)
    }
    assert listed == expected
    assert sorted(rule for rule, _ in rows) == sorted(set(names.values()) - {"default"})
