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
