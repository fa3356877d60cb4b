"""What is for people never makes a result stale."""

import pytest

from mispair.core.commands import step_names
from mispair.core.provenance import code_version

REPORT = {
    "draw_contact_sheet", "draw_examples", "draw_figures", "draw_neurons", "draw_suspects",
    "export_metrics", "gather_metrics", "record_run", "write_report", "write_review",
}  # fmt: skip
"""Steps that compute nothing new."""


@pytest.mark.parametrize("step", sorted(set(step_names()) - REPORT))
def test_no_step_that_computes_imports_the_report(step: str) -> None:
    """So an edit of words, colours or pages reruns none of them."""
    modules = [line.split()[0] for line in code_version(step)]
    assert [name for name in modules if ".report." in name] == []
    assert [name for name in modules if name.startswith("mispair.comparing")] == []


def test_the_steps_of_the_report_do_import_it() -> None:
    for step in REPORT:
        assert any(".report." in line for line in code_version(step)), step
