"""What README shows is what the workflow is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.workflow.conftest import Checkout

README = Path(__file__).parents[2] / "README.md"


def test_the_diagram_is_the_rule_graph(empty: Checkout) -> None:
    printed = empty.snakemake("--rulegraph", "mermaid-js", "--configfile", "config.yaml")
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", printed))
    arrows = re.findall(r"(id\d+) --> (id\d+)", printed)
    expected = {(names[a], names[b]) for a, b in arrows if names[b] != "all"}
    diagram = README.read_text().split("```mermaid")[1].split("```")[0]
    found = {
        (source, target)
        for source, targets in re.findall(r"(\w+) --> ([\w &]+)", diagram)
        for target in targets.split(" & ")
    }
    assert found == expected


def test_no_placeholder_is_left() -> None:
    assert not re.findall(r"@[A-Z_]+@", README.read_text())


def test_every_local_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
