"""The picture of the rules in the documentation is the graph of the rules."""

from bench import docs_pages
from tests.workflow.conftest import Checkout


def test_the_picture_of_the_rules_is_the_rule_graph(empty: Checkout) -> None:
    printed = empty.snakemake("--rulegraph", "mermaid-js", "--configfile", "config.yaml")
    rules = docs_pages.rule_graph(printed)
    drawn = docs_pages.picture(rules, docs_pages.packages())
    assert docs_pages.PICTURE.read_text() == drawn, "run `make docs-pages` and commit the result"
