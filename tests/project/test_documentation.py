"""README and the documentation site: numbers, links, examples, and a build without a network."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from mkdocs.exceptions import PluginError

from bench import docs_pages, readme
from bench import run as bench_run
from mispair import config
from mispair.audit.rate import LEAST_TRUSTED
from mispair.cli import VERBS
from mispair.config_paths import model_in
from mispair.core.commands import step_names
from mispair.core.files import UserError
from mispair.report.pages.study_pages import every_pages
from tests.browser import broken_links, window

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
OTHERS = [ROOT / name for name in ("CONTRIBUTING.md", "config/README.md", "reports/README.md")]
TEXTS = [README, ROOT / "CHANGELOG.md", *OTHERS, *PAGES]
PROSE = [README, *OTHERS, *PAGES]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# README's numbers --------------------------------------------------------------------------------


def test_readme_names_exactly_the_primary_claims() -> None:
    primary = {one.key for pages in every_pages() for one in pages.claims if one.primary}
    assert set(readme.CLAIMS) == primary


def test_readme_is_short_and_has_measured_numbers_only_where_the_program_writes_them() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 100
    text = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```|\]\([^)]*\)|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = text.replace(f"Python {project['requires-python'].removeprefix('>=')}", "")
    text = text.replace("Apache 2.0", "")
    assert re.findall(r"\d+[.,]\d+|\d+ ?(?:%|s\b|min|hours|[kMG]B)", text) == []


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "index.md"], ids=name)
def test_a_minute_is_enough_for_what_it_is_what_it_found_and_what_to_run(page: Path) -> None:
    """At 230 words a minute, up to the picture below the findings; commands count as words."""
    text, _, rest = page.read_text().partition("\n![")
    assert rest
    assert {"make demo", "<!-- /found -->"} <= {*re.findall("make demo|<!-- /found -->", text)}
    plain = re.sub(r"<[^>]*>|\]\([^)]*\)|[*`\[#]", " ", text)
    assert len(plain.split()) <= 230


# Benchmarks --------------------------------------------------------------------------------------


def test_every_bench_has_a_table_and_replaces_no_other() -> None:
    text = bench_run.PAGE.read_text()
    assert sorted(bench_run.names(text)) == sorted(bench_run.BENCHES)
    table = bench_run.block([("a | b", "2 s", "4 s", "2x")], date(2026, 3, 1), "2 cores of X")
    changed = readme.filled(text, "bench: pruning", table)
    assert "1 March 2026, 2 cores of X:" in changed
    assert "| a \\| b | 2 s | 4 s | 2x |" in changed
    parts = re.compile(r"<!-- bench: pruning -->.*?<!-- /bench: pruning -->", re.DOTALL)
    assert parts.sub("", changed) == parts.sub("", text) != text
    with pytest.raises(UserError, match="nowhere"):
        readme.filled(text, "bench: nowhere", table)


# Links and examples ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_every_local_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`]*`", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PROSE, ids=name)
def test_every_configuration_that_is_named_exists(path: Path) -> None:
    for target in re.findall(r"(?:config|profiles)/[\w/-]+\.yaml", path.read_text()):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("path", PROSE, ids=name)
def test_every_anchor_of_a_page_exists(path: Path) -> None:
    """A forge shows the top of the page in place of an anchor that is not there."""
    for target, anchor in re.findall(r"\]\(([^)#:]*\.md|)#([^)]*)\)", path.read_text()):
        page = path.parent / target if target else path
        titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
        plain = [re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles]
        assert anchor in plain, f"{target}#{anchor}"


SECTIONS = {key: model_in(field.annotation) for key, field in config.Config.model_fields.items()}


@pytest.mark.parametrize("path", PROSE, ids=name)
def test_everything_of_the_program_that_is_named_exists(path: Path) -> None:
    """Verbs, steps, settings, targets of make and files; a page may name what it calls removed."""
    text = path.read_text()
    program = r"^```(?:python|text).*?^```"
    plain = re.sub(program, "", text, flags=re.DOTALL | re.MULTILINE)
    code = "\n".join(re.findall(r"^```.*?^```|`[^`]+`", plain, re.DOTALL | re.MULTILINE))
    removed = {*re.findall(r"`([^`\n]+)`[^.`]* (?:is|are) removed", text)}
    steps = {one.replace("_", "-") for one in step_names()}
    for verb in re.findall(r"(?:^|[`/ (])mispair ([a-z][a-z-]+)(?![\w.=-])", code, re.MULTILINE):
        assert {verb, f"mispair {verb}"} & {*VERBS, *steps, *removed, "measure-something"}, verb
    for section, key in re.findall(r"(?<![\w/.-])([a-z_]+)\.([a-z_]+)\b(?![/.(])", code):
        if model := SECTIONS.get(section):
            assert key in {*model.model_fields, "parquet", "py", "smk"}, f"{section}.{key}"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {*re.findall(r"(?:^|`)make ([a-z-]+)", code, re.MULTILINE)} <= {*targets}
    folders = "bench|docs|envs|profiles|tests|workflow"
    for target in re.findall(rf"(?<![\w./-])((?:{folders})/[\w./-]+\w)(?![\w*{{/])", code):
        assert (ROOT / target).exists() or re.search("[A-Z]{4}|something|toy", target), target


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_texts_of_the_program_are_in_step(path: Path) -> None:
    text = path.read_text()
    assert docs_pages.filled(text) == text, "run `make docs-pages` and commit the result"
    assert text.count("<!-- from ") == text.count("<!-- /from -->")
    assert "--8<--" not in text


EXAMPLES = [
    (path, text)
    for path in PROSE
    for text in re.findall(r"^```yaml[^\n]*\n(.*?)^```$", path.read_text(), re.M | re.S)
]


@pytest.mark.parametrize(("path", "text"), EXAMPLES, ids=[name(path) for path, _ in EXAMPLES])
def test_every_example_is_a_configuration(path: Path, text: str) -> None:
    config.validate(yaml.safe_load(text), path.name)


# The site ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; every warning is an error, such as a broken link or a page in no menu."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return folder


def test_every_page_is_built_and_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()
    for path in PAGES:
        page = path.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / page).exists()
        assert f'href="{page}"' in menu, page


def test_the_site_asks_nothing_of_a_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert re.findall(r"<(?:script|img|iframe)[^>]*src=\"?(?:https?:)?//[^>]*", text) == []
        loaded = re.findall(r"<link[^>]*rel=\"?(?:stylesheet|preconnect|preload)[^>]*", text)
        assert not [link for link in loaded if "//" in link]


def test_search_works_from_the_disk(site: Path) -> None:
    with window() as opened:
        page = opened.open(site / "index.html", drawn=False)
        box = page.locator("input.md-search__input")
        box.focus()
        box.press_sequentially("participation")
        found = page.wait_for_selector(".md-search-result__link", timeout=30_000)
        assert str(found.get_attribute("href")).endswith(".html")
        assert opened.complaints == []
        assert opened.requests == []


@pytest.mark.parametrize("name", ["own-data", "audit"])
def test_guides_to_own_data_name_the_captions_and_the_least_pairs(name: str) -> None:
    text = (ROOT / f"docs/how-to/{name}.md").read_text()
    assert re.search(rf"\b{LEAST_TRUSTED} (pairs|at least)", text)
    assert "NAME.txt" in text


def test_the_last_report_is_an_example_without_its_tables(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    site, report = tmp_path / "site", tmp_path / "reports"
    config = SimpleNamespace(docs_dir=str(tmp_path / "docs"), site_dir=str(site))
    hooks.on_post_build(config)
    assert not site.exists()
    (report / "pages").mkdir(parents=True)
    (report / "table.csv").write_text("a,b")
    (report / "index.html").write_text('<a href="pages/one.html#x">1</a><a href="table.csv">2</a>')
    (report / "pages" / "one.html").write_text('<a href="../index.html">0</a><p id="x">')
    hooks.on_post_build(config)
    pages = sorted((site / "example").rglob("*.*"))
    assert [page.name for page in pages] == ["index.html", "one.html"]
    assert broken_links(site / "example", pages) == []
    assert 'href="table.csv"' not in pages[0].read_text()
    (report / "large.png").write_bytes(bytes(hooks.MOST_BYTES))
    with pytest.raises(PluginError, match=r"6\.0 MB"):
        hooks.on_post_build(config)
