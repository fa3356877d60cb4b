"""What docstrings name is there: modules and their members; and no class by two names."""

import ast
import re
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "workflow" / "mispair"
MODULES = {
    ".".join(("mispair", *path.relative_to(PACKAGE).with_suffix("").parts)): ast.parse(
        path.read_text(encoding="utf-8")
    )
    for path in sorted(PACKAGE.rglob("*.py"))
}


def documented(tree: ast.Module) -> list[str]:
    """Return the docstrings of a module, its classes and functions, and of its constants."""
    return [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def named(tree: ast.Module) -> set[str]:
    """Return all names that a module has, imports or refers to."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found |= {*node.name.split("."), node.asname or ""}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
    return found


NAMED = {module: named(tree) for module, tree in MODULES.items()}


def test_members_of_mispair_that_docstrings_name_are_there():
    def is_there(name: str) -> bool:
        module = max(
            (one for one in NAMED if f"{name}.".startswith(f"{one}.")), key=len, default=""
        )
        members = name.removeprefix(module).split(".")
        return name in packages or (bool(module) and NAMED[module].issuperset(members[1:]))

    packages = {module.rsplit(".", 1)[0] for module in MODULES}
    wrong = [
        f"{module}: {name}"
        for module, tree in MODULES.items()
        for text in documented(tree)
        for name in re.findall(r"`(mispair\.[\w.]+)`", text)
        if name != "mispair.yaml" and not is_there(name)
    ]
    assert not wrong


def test_no_two_classes_have_one_name():
    """Apart from the settings of steps, whose module says whose they are."""
    names = Counter(
        node.name
        for tree in MODULES.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, number in names.items() if number > 1] == ["Settings"]
