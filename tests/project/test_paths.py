"""Each path of a result is declared once, in the module ``paths`` of its package."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from mispair.core.paths import (
    WILDCARD,
    benchmarks_of_report,
    every,
    fill,
    folder_of_output,
    joined,
    of_job,
    pattern,
    resume_state,
)
from mispair.core.provenance import PACKAGE
from mispair.dag import Dag
from mispair.pairs import paths as pairs
from mispair.report import studies

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.parent.name for path in PACKAGE.glob("*/paths.py"))
PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = ("results/", "reports/")


def templates() -> set[str]:
    """Return all templates that packages declare."""
    declared: set[str] = set()
    for name in MODULES:
        for value in vars(import_module(f"mispair.{name}.paths")).values():
            found = value if isinstance(value, list) else [value]
            declared |= {one for one in found if isinstance(one, str) and "/" in one}
    return {one for one in declared if one.startswith((*FOLDERS, "logs/"))}


def test_every_package_with_results_declares_its_paths() -> None:
    assert set(studies.NAMES) < {*MODULES}
    assert len(templates()) > 100


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings, with the beginnings of f-strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_other_module_spells_a_path() -> None:
    """Examples of a path in messages have its wildcards in capitals, or stand in a sentence."""
    spelt = {
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "paths.py" and "results/" in (source := path.read_text("utf-8"))
        for text in texts(ast.parse(source))
        if re.fullmatch(r"results/\S+/\S*", text) and not re.search(r"[A-Z]{4}", text)
    }
    assert spelt == set()


@pytest.mark.parametrize(
    "path", sorted((ROOT / "workflow/rules").glob("*.smk")), ids=lambda p: p.stem
)
def test_rules_import_their_paths(path: Path) -> None:
    assert re.findall(r'"(?:results|reports)/[^"]*"', path.read_text()) == []


def expression(template: str) -> re.Pattern[str]:
    """Return what matches a template, or the beginning of it at the end of a folder's name."""
    parts = [re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(part)) for part in template.split("/")]
    beginnings = ["/".join(parts[:number]) for number in range(1, len(parts) + 1)]
    return re.compile("|".join(f"(?:{one})/?" for one in beginnings))


def test_the_documentation_names_paths_that_exist() -> None:
    every_path = [expression(template) for template in [*templates(), "reports/incomplete/{file}"]]
    every_path += [expression(f"reports/tables/{name}.csv") for name in studies.tables()]
    named = {
        path
        for page in PROSE
        for path in re.findall(r"`((?:results|reports)/[\w/.~{}*-]+)`", page.read_text())
    }
    assert len(named) > 20
    assert {one for one in named if not any(each.fullmatch(one) for each in every_path)} == set()


def test_the_page_of_files_lists_every_folder_of_results() -> None:
    page = (ROOT / "docs/reference/files.md").read_text()
    listed = set(re.findall(r"`results/(\w+)", page))
    assert listed == {one.split("/")[1] for one in templates() if one.startswith("results/")}


def test_the_page_of_reports_names_what_a_run_writes_there_and_nothing_else() -> None:
    page = (ROOT / "reports/README.md").read_text()
    declared = {one.split("/")[1] for one in templates() if one.startswith("reports/")}
    assert {*re.findall(r"^\| `([^`/]+)/?` \|", page, re.MULTILINE)} == declared


def test_every_result_of_a_study_is_a_file_that_a_package_declares() -> None:
    declared = {pattern(template) for template in templates()}
    results = {pattern(one) for study in studies.studies() for one in study.results}
    assert {one.replace("repair-*", "*") for one in results} <= declared


def test_templates_are_filled() -> None:
    tables = {"scheme rate": [("random", "0"), ("drop", "0.5")], "corpus": ["c"], "towers": []}
    assert every(pairs.PAIRING, tables) == [
        "results/pairs/c/pairing/random~0.parquet", "results/pairs/c/pairing/drop~0.5.parquet",
    ]  # fmt: skip
    assert every("results/{corpus}/{towers}", tables) == []
    assert every("a/{x}/{y}", {"y": [1, 2], "x": "ab"}) == ["a/a/1", "a/a/2", "a/b/1", "a/b/2"]
    assert fill(pairs.INDEX, corpus="{c}") == "results/pairs/{c}/index/{group}.parquet"
    job = SimpleNamespace(items=lambda: [("corpus", "c"), ("group", "0001")])
    assert of_job(job, pairs.INDEX, pairs.CORPUS) == [
        "results/pairs/c/index/0001.parquet", "results/pairs/c/corpus.parquet",
    ]  # fmt: skip
    assert joined(lambda of: ["{brace}"], pairs.INDEX)(job) == [
        "{brace}", "results/pairs/c/index/0001.parquet",
    ]  # fmt: skip
    assert resume_state(job, ["clip/a~0.5/b.json", "c.txt"]) == "clip/a~0.5/b.checkpoint"
    assert folder_of_output(job, ["clip/reports/run.json"]) == "clip/reports"
    assert benchmarks_of_report(job, ["clip/reports/run.json"]) == "clip/benchmarks"


def test_a_configuration_fills_its_own_wildcards() -> None:
    dag = Dag({"corpus": "mine", "studies": ["image_text"]}, "x")
    for template in (pairs.INDEX, pairs.CAPTIONS, pairs.PAIRING):
        paths = dag.every(template)
        assert paths
        assert not [path for path in paths if WILDCARD.search(path)]
    assert dag.every(pairs.INDEX, group=["0007"]) == ["results/pairs/mine/index/0007.parquet"]
