"""The report of a real run, opened from disk in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mispair.reporting.catalogue import FIGURES
from tests.workflow.conftest import Checkout

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def opened(finished: Checkout, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the page after its scripts have run, and what the browser logged."""
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    profile = tmp_path_factory.mktemp("profile")
    page = (finished.folder / "reports/index.html").as_uri()
    done = subprocess.run(
        # A window as high as the page: charts are drawn when they come near it.
        [BROWSER, *QUIET, f"--user-data-dir={profile}", "--window-size=1280,60000",
         "--virtual-time-budget=30000", "--enable-logging=stderr", "--dump-dom", page],
        capture_output=True, text=True, check=True, timeout=180,
    )  # fmt: skip
    return done.stdout, done.stderr


def test_every_figure_is_drawn(opened: tuple[str, str]) -> None:
    plots = re.findall(r'<div class="plot"[^>]*>', opened[0])
    run = (
        "image_text",
        "simulation",
        "sufficiency",
    )  # laclip needs checkpoints, and has a test of its own
    assert len(plots) == sum(len(FIGURES[study]) for study in run)
    assert [plot for plot in plots if 'data-drawn="yes"' not in plot] == []


def test_the_console_is_silent(opened: tuple[str, str]) -> None:
    assert [line for line in opened[1].splitlines() if "CONSOLE" in line] == []


def test_links_to_pictures_and_numbers_resolve(finished: Checkout) -> None:
    page = finished.folder / "reports/index.html"
    targets = re.findall(r'href="(figures/[^"]+|tables/[^"]+)"', page.read_text())
    assert len(targets) > 20
    assert [target for target in targets if not (page.parent / Path(target)).is_file()] == []


def test_the_page_is_small_and_asks_for_nothing_outside(finished: Checkout) -> None:
    page = (finished.folder / "reports/index.html").read_text()
    assert len(page.encode()) < 3_500_000  # of which the gallery of neurons has 0.6 MB
    assert re.findall(r'(?:src|<link[^>]*href)="(?:https?:)?//', page) == []
