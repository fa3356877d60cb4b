"""What a run on the command line ends with, from the tables of its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mispair.audit.report.claims import numbers
from mispair.report import studies, texts
from mispair.report.notes import Note
from mispair.report.pages import study_pages
from mispair.report.pages.content import ending
from mispair.report.tables import Tables
from tests.made_up_tables import gather
from tests.report.test_reporting_page import NOTHING, make_run

SHOWN = ("audit", "repair", "image_text")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tables]:
    """Gather made-up results, as a run does before it writes its report."""
    folder = tmp_path_factory.mktemp("ending")
    run = {kind: paths for kind, paths in make_run(folder).items() if kind != "shards"}
    tables = gather({**NOTHING, **run}, folder)
    (folder / "run.json").write_text(json.dumps({"write_report": {"confidence": 0.9}}))
    (folder / "tables/claims.csv").write_text("claim\n")  # a table of the report, not of results
    return folder, tables


def test_an_audit_ends_with_its_share_and_the_condition_of_it(made: tuple[Path, Tables]) -> None:
    folder, tables = made
    found = numbers(tables)
    assert found["rate"]
    expected = [texts.text(Note("audit", key, n=found)) for key in ("page_headline", "condition")]
    assert ending(folder, ["audit"]) == expected


def test_other_studies_end_with_their_answers_and_limits(made: tuple[Path, Tables]) -> None:
    folder, _ = made
    lines_of = {study: ending(folder, [study]) for study in SHOWN}
    for study in SHOWN[1:]:
        lines = lines_of[study]
        asked = [question.text for question in study_pages.pages(study).questions]
        answers = [line for line in lines if not line.startswith("Limit: ")]
        assert answers
        for line in answers:
            assert [text for text in asked if line.startswith(f"{text} ")] != []
        assert len(lines) > len(answers)
    both = ("audit", "repair")
    assert ending(folder, both) == [line for study in both for line in lines_of[study]]
    assert ending(folder, [name for name in studies.NAMES if name == "stepsize"]) != []
