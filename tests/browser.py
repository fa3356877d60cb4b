"""A real browser for tests: Debian's Chromium, driven by Playwright."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import html5lib
from playwright.sync_api import Page, sync_playwright

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Window:
    """A window of the browser, with what it complains of and asks the network for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", lambda request: self.complaints.append(f"failed: {request.url}"))
        page.on("request", self._asked)

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:", "about:")):
            self.requests.append(request.url)

    def open(self, path: Path, drawn: bool = True) -> Page:
        """Open a file; return the page once its charts are drawn."""
        self.page.goto(path.as_uri())
        if drawn:
            done = "[...document.querySelectorAll('.plot')].every((p) => p.dataset.drawn === 'yes')"
            self.page.wait_for_function(done, timeout=120_000)
        return self.page

    def first_paint(self) -> float:
        """Return when the browser first painted the page, in seconds after it was asked for."""
        times = "performance.getEntriesByType('paint').map((entry) => entry.startTime)"
        self.page.wait_for_function(f"{times}.length > 0", timeout=10_000)
        return float(self.page.evaluate(f"Math.max(...{times})")) / 1000


@contextmanager
def window(width: int = 1280, height: int = 900) -> Iterator[Window]:
    """Open a browser with one window."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        try:
            context = browser.new_context(viewport={"width": width, "height": height})
            yield Window(context.new_page())
        finally:
            browser.close()


def reload(page: Page) -> None:
    """Reload a page of a file once a new process of the browser reads what the page has stored.

    Chromium loads a file anew in another process, which under load may ask for the storage
    before the last writes of the old one have arrived there.
    """
    stored = "() => JSON.stringify(Object.entries(localStorage).sort())"
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_function(f"(text) => ({stored})() === text", arg=page.evaluate(stored))
    other.close()
    page.reload()


def empty_plots(page: Page) -> list[str]:
    """Return the names of the charts in which no mark can be seen."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.plot')].filter((plot) => {
          const marks = [...plot.querySelectorAll('svg .role-mark :is(path, rect, line, text)')];
          return marks.filter((mark) => {
            const box = mark.getBoundingClientRect();
            return box.width + box.height > 0;
          }).length < 2;
        }).map((plot) => plot.dataset.figure)"""
    )


def broken_links(folder: Path, pages: list[Path], without: str = "") -> list[str]:
    """Return the links and anchors of pages that lead nowhere.

    Parameters
    ----------
    folder : Path
        Links out of it are broken.
    pages : list of Path
        The pages.
    without : str
        Class of links that are not looked at.
    """
    roots = {
        path.resolve(): html5lib.parse(path.read_text(), namespaceHTMLElements=False)
        for path in pages
    }
    ids = {path: {node.get("id") for node in root.iter()} for path, root in roots.items()}
    broken = []
    for path, root in roots.items():
        for node in root.iter():
            if without and without in (node.get("class") or "").split():
                continue
            link = node.get("href") or node.get("src") or ""
            if not link or re.match("data:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / unquote(name)).resolve() if name else path
            inside = target.is_relative_to(folder.resolve())
            if not (inside and target.is_file()) or (anchor and anchor not in ids.get(target, ())):
                broken.append(f"{path.name}: {link}")
    return broken
