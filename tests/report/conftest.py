"""The report of the small made-up run, made once, for tests to look at."""

from pathlib import Path

import pytest

from tests.made_up_tables import EVIL
from tests.once import made_once
from tests.report.small_run import make_run, report

TITLE = f"Title {EVIL}"


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of all studies; tests must not change this folder."""

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        report(make_run(folder), folder, title=TITLE)

    return made_once(tmp_path_factory, "whole", make)
