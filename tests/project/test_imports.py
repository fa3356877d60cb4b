"""Modules import one another in one direction only, and small steps import no large library."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from mispair.core.commands import step_names
from mispair.core.provenance import code_version, step_module_name

ROOT = Path(__file__).parents[2] / "workflow"


@cache
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


def test_no_cycle_of_imports() -> None:
    graph = imports(ROOT)
    assert graph["mispair.__main__"] == {"mispair.cli", "mispair.core.forks", "mispair.forkserver"}
    TopologicalSorter(graph).prepare()


def at_start(module: str, whole: bool = False) -> set[str]:
    """Return what a module imports when it is imported; with `whole` also in its functions."""
    path = ROOT.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    waiting: list[ast.AST] = [ast.parse(source.read_text("utf-8"))]
    names = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.FunctionDef) and not whole:
            continue
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)
    return names


def libraries(step: str) -> set[str]:
    """Return what a step imports before it computes, by the modules that its ``run`` imports."""
    found: set[str] = set()
    waiting = at_start(step_module_name(step), whole=True)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            source = ROOT.joinpath(*name.split(".")) if name.startswith("mispair.") else None
            if source and (source.is_dir() or source.with_suffix(".py").is_file()):
                waiting |= at_start(name)
    return found


LARGE = (
    "torch", "open_clip", "transformers", "sklearn", "scipy.stats", "altair", "pandas", "pyarrow",
    "PIL",
)  # fmt: skip
"""Libraries that take longer to import than a small step computes."""


@pytest.mark.parametrize(("step", "needed"), [
    ("evaluate_zeroshot", set()),
    ("measure_purity", set()),
    ("fit_linear_probe", set()),
    ("extract_projection", set()),
    ("compare_arms", set()),
    ("measure_semantics", {"pandas", "pyarrow"}),
    ("gather_metrics", {"pandas"}),
    ("draw_figures", {"pandas", "altair", "PIL"}),
    ("write_report", {"pandas", "altair", "PIL"}),
    ("finetune_projection", {"torch", "pandas", "pyarrow"}),
    ("encode_prompts", {"torch", "open_clip"}),
])  # fmt: skip
def test_small_steps_import_what_they_need_alone(step: str, needed: set[str]) -> None:
    """Most jobs of the demo take as long to start as to compute."""
    names = libraries(step)
    assert {"numpy", "mispair.core.files"} <= names
    assert {one for one in LARGE if any(f"{n}.".startswith(f"{one}.") for n in names)} == needed


# What is for people makes no result stale.

REPORT = {
    "draw_contact_sheet", "draw_examples", "draw_figures", "draw_neurons", "draw_suspects",
    "export_metrics", "gather_metrics", "record_run", "write_report", "write_review",
}  # fmt: skip
"""Steps that compute nothing new."""


@pytest.mark.parametrize("step", step_names())
def test_only_the_steps_of_the_report_import_it(step: str) -> None:
    """So an edit of words, colours or pages reruns none of the others."""
    modules = [line.split()[0] for line in code_version(step)]
    assert any(".report." in name for name in modules) == (step in REPORT)
    assert step in REPORT or not [n for n in modules if n.startswith("mispair.comparing")]
