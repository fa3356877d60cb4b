"""What a run on the command line ends with, from the tables of its report."""

import json
import shutil
from pathlib import Path

import pytest

from mispair.audit.rate import Rate
from mispair.audit.report.claims import numbers
from mispair.report import studies, texts
from mispair.report.pages import study_pages
from mispair.report.pages.content import ending
from mispair.report.tables import Tables, read_csvs
from mispair.report.texts import Note

SHOWN = ("audit", "repair", "image_text")


@pytest.fixture(scope="module")
def made(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tables]:
    """Return the folder of a run before it writes its report, and its tables."""
    folder = tmp_path_factory.mktemp("ending")
    shutil.copytree(whole / "tables", folder / "tables")
    (folder / "run.json").write_text(json.dumps({"write_report": {"confidence": 0.9}}))
    (folder / "tables/claims.csv").write_text("claim\n")  # a table of the report, not of results
    return folder, read_csvs((whole / "tables").glob("*.csv"))


def test_an_audit_ends_with_its_share_and_the_condition_of_it(made: tuple[Path, Tables]) -> None:
    folder, tables = made
    found = numbers(tables)
    assert found["rate"]
    expected = [texts.text(Note("audit", key, n=found)) for key in ("page_headline", "condition")]
    assert ending(folder, ["audit"]) == expected


def test_the_condition_is_that_of_the_headline(made: tuple[Path, Tables]) -> None:
    """Labels hold without the model; what contradicts the trusted pairs is said here, too."""
    share = Rate(0.1, 0.05, 0.14)
    found = {**numbers(made[1]), "rate": share, "trusted": True}
    labels = {"labels": 200, "low": 0.0, "high": 0.02}
    said = {
        key: texts.text(Note("audit", "condition_of_headline", n={**found, **more}))
        for key, more in {
            "model": {}, "labels": {"by_eye": labels}, "random": {"like_random": share},
            "contradicted": {"excess": 0.2, "storey": share, "given": share, "trusted": False},
        }.items()
    }  # fmt: skip
    assert "random ones" in said["model"]
    assert "random ones" not in said["labels"]
    assert "labels" in said["labels"]
    assert said["random"].startswith(said["model"])
    assert said["random"] != said["model"]
    assert "No lower limit" in said["contradicted"]
    assert "contradict" in said["contradicted"]


def test_other_studies_end_with_their_answers_and_limits(made: tuple[Path, Tables]) -> None:
    folder, _ = made
    lines_of = {study: ending(folder, [study]) for study in SHOWN}
    for study in SHOWN[1:]:
        lines = lines_of[study]
        asked = [question.text for question in study_pages.pages(study).questions]
        *lines, levels = lines
        assert levels.startswith("Brackets: ")
        answers = [line for line in lines if not line.startswith("Limit: ")]
        assert answers
        for line in answers:
            assert [text for text in asked if line.startswith(f"{text} ")] != []
        assert len(lines) > len(answers)
    both = ("audit", "repair")
    assert ending(folder, both) == [line for study in both for line in lines_of[study]]
    assert ending(folder, [name for name in studies.NAMES if name == "stepsize"]) != []
