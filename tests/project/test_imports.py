"""Modules import one another in one direction only, and small steps import no large library."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
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

FOR_PEOPLE = {
    "draw_contact_sheet", "draw_examples", "draw_neurons", "draw_suspects", "write_review",
}  # fmt: skip
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
    assert graph["mispair.__main__"] == {"mispair.cli", "mispair.core.forks", "mispair.forkserver"}
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


def text_of(module: str) -> str:
    """Return the text of a module."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")


def steps_that_reach(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the modules that each step depends on, directly or not."""
    reached = {}
    for step in (module for module in graph if ".steps." in module):
        waiting, found = [step], set()
        while waiting:
            module = waiting.pop()
            if module not in found:
                found.add(module)
                waiting += graph[module]
        reached[step] = found
    return reached


NAMES_ALONE = {
    "image_text.steps.compare_towers": "a step of seconds, whose settings name shipped towers",
    "image_text.tower_replicates": "a step of seconds",
    "pairs.shards.remote": "its steps record their provenance",
    "pretraining.measure": "its one protocol",
    "towers.dag": "compare_towers alone depends on it",
}
"""Modules that may take constants alone from a module of functions of another package."""


def test_no_step_depends_on_functions_of_another_package_for_a_constant_alone() -> None:
    """An edit of these functions would run the step, and what follows it, again."""
    graph = imports(ROOT)
    reached, enlarging = steps_that_reach(graph), set()
    for module in graph:
        names: dict[str, list[str]] = {}
        tree = ast.parse(text_of(module))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in graph:
                names.setdefault(node.module, []).extend(alias.name for alias in node.names)
        for source, taken in names.items():
            has_functions = re.search(r"^def ", text_of(source), re.MULTILINE)
            is_data = not has_functions or source.endswith(".arms")
            if is_data or not all(map(str.isupper, taken)):
                continue
            if source.split(".")[1] == module.split(".")[1]:
                continue
            users = [step for step, found in reached.items() if module in found]
            without = steps_that_reach({**graph, module: graph[module] - {source}})
            if any(source not in without[step] for step in users):
                enlarging.add(module.removeprefix("mispair."))
    assert enlarging <= {*NAMES_ALONE}
    assert {*NAMES_ALONE} <= enlarging


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


@pytest.mark.parametrize(
    ("step", "needed"),
    [
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
    ],
)
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


@pytest.mark.parametrize("step", sorted(set(step_names()) - REPORT))
def test_no_step_that_computes_imports_the_report(step: str) -> None:
    """So an edit of words, colours or pages reruns none of them."""
    modules = [line.split()[0] for line in code_version(step)]
    assert [name for name in modules if ".report." in name] == []
    assert [name for name in modules if name.startswith("mispair.comparing")] == []


def test_the_steps_of_the_report_do_import_it() -> None:
    for step in REPORT:
        assert any(".report." in line for line in code_version(step)), step
