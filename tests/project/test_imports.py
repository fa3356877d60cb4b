"""Modules import one another in one direction only."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "workflow"


def imports(folder: Path) -> dict[str, set[str]]:
    """Return what each module below a folder imports, in functions and for types as well."""
    modules = {
        ".".join(path.relative_to(folder).with_suffix("").parts): path
        for path in folder.rglob("*.py")
    }
    graph = {}
    for module, path in modules.items():
        names = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        graph[module] = names & modules.keys()
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of a cycle, the first of them again at the end; none if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1][::-1])
    return []


BELOW = {
    "core": set(),
    "report": {"core"},
    "pairs": {"core", "report"},
    "towers": {"core", "report", "pairs"},
    "evaluation": {"core", "report", "pairs", "towers"},
    "image_text": {"core", "report", "pairs", "towers", "evaluation"},
    "review": {"core", "report", "pairs"},
    "audit": {"core", "report", "pairs", "towers", "review"},
    "repair": {"core", "report", "pairs", "towers", "evaluation", "audit", "review", "pretraining"},
    "laclip": {"core", "report", "pairs", "towers", "evaluation", "image_text"},
    "emoji": {"core", "report", "pairs", "towers", "evaluation"},
    "simulation": {"core", "report"},
    "sufficiency": {"core", "report"},
    "stepsize": {"core", "report"},
    "pretraining": {"core", "report", "pairs", "towers", "evaluation", "sufficiency"},
    "comparing": {"core", "report"},
}
"""What each package may import. Planning, and modules in no package, may import everything."""

FOR_PEOPLE = {"draw_contact_sheet", "draw_neurons", "draw_suspects", "laclip"}
"""Steps of studies that compute nothing: they draw or print."""


@pytest.mark.parametrize("package", BELOW)
def test_packages_import_downwards_only(package: str) -> None:
    graph = imports(ROOT)
    upwards = {
        f"{module} imports {name}"
        for module in graph
        if module.startswith(f"mispair.{package}.")
        for name in graph[module]
        if name.count(".") and name.split(".")[1] not in BELOW[package] | {package}
    }
    assert upwards == set()


def test_what_computes_imports_no_report() -> None:
    graph = imports(ROOT)
    computing = [
        module
        for module in graph
        if module.split(".")[1] in BELOW.keys() - {"report", "comparing"}
        and ".report." not in module
        and module.split(".")[-1] not in FOR_PEOPLE
    ]
    assert {f"{a} imports {b}" for a in computing for b in graph[a] if ".report." in b} == set()


def test_no_cycle_of_imports() -> None:
    graph = imports(ROOT)
    assert graph["mispair.__main__"] == {"mispair.cli"}
    assert " -> ".join(cycle(graph)) == ""


@pytest.mark.parametrize(
    "line",
    ["import p.a", "from p import a", "from p.a import x", "def f():\n    from p.a import x"],
)
def test_a_cycle_is_named(line: str, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "a.py").write_text("from p import b\n")
    (folder / "b.py").write_text(f"{line}\n")
    assert cycle(imports(tmp_path)) in (["p.a", "p.b", "p.a"], ["p.b", "p.a", "p.b"])
