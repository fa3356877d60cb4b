"""Whether a name of a module can be a captioner, from the source alone: nothing of it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

ARGUMENTS = 2
"""Pictures and seeds."""
_VALUES = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp,
           ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Compare, ast.UnaryOp)  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OWN_SCOPE = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)


def fault_of(module: ast.Module, name: str) -> str:
    """Return why what a name is bound to cannot be called with pictures and seeds.

    Empty if it can, or if only running the module would show it: imported names, results of calls,
    decorated functions, and names that a condition binds to something else.

    Examples
    --------
    >>> fault_of(ast.parse("caption = 3"), "caption")
    'is not a function (line 1)'
    >>> fault_of(ast.parse("def caption(images): ..."), "caption")
    'takes 1 argument (line 1)'
    >>> fault_of(ast.parse("from blip import caption"), "caption")
    ''
    """
    faults = [_fault(module, value, 0) for value in _values(module.body, name)]
    return faults[0] if all(faults) and faults else ""


def _values(body: list[ast.stmt], name: str) -> list[ast.AST | None]:
    """Return what a name may be bound to after statements; None for what is not seen there."""
    values: list[ast.AST | None] = []
    for statement in body:
        direct = _bound(statement, name)
        if direct is not None:
            values = [direct]
        else:
            values += _nested(statement, name)
    return values


def _bound(statement: ast.AST, name: str) -> ast.AST | None:
    """Return what a definition or a plain assignment binds the name to; None for all others."""
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return statement if statement.name == name else None
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    is_plain = any(isinstance(one, ast.Name) and one.id == name for one in targets)
    return statement.value if is_plain else None


def _nested(statement: ast.AST, name: str) -> Iterator[ast.AST | None]:
    """Yield what parts of a statement may bind the name to, None for what is not understood."""
    for part in _of_scope([statement]):
        direct = _bound(part, name)
        if direct is not None:
            yield direct
        elif _binds_otherwise(part, name):
            yield None


def _of_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and their parts, but not what is in a function or class."""
    for node in nodes:
        yield node
        if isinstance(node, _OWN_SCOPE):
            yield from (one for one in ast.walk(node) if isinstance(one, ast.Global))
        elif isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            yield from _of_scope([node.value])  # its targets are what `_bound` finds
        else:
            yield from _of_scope(ast.iter_child_nodes(node))


def _binds_otherwise(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Import | ast.ImportFrom):
        bound = {one.asname or one.name.partition(".")[0] for one in node.names}
        return bool(bound & {name, "*"})
    return isinstance(node, ast.Global) and name in node.names


def _fault(module: ast.Module, value: ast.AST | None, depth: int) -> str:
    """Return the fault of what a name is bound to; empty if it has none or is not understood."""
    line = f"(line {getattr(value, 'lineno', 0)})"
    if isinstance(value, _VALUES):
        return f"is not a function {line}"
    if isinstance(value, ast.Lambda):
        return _of_arguments(value.args, 0, line)
    if isinstance(value, _FUNCTIONS):
        return _of_function(value, 0, line)
    if isinstance(value, ast.ClassDef):
        is_plain = not (value.bases or value.keywords or value.decorator_list)
        return f"is a class: bind an object of it to a name {line}" if is_plain else ""
    if isinstance(value, ast.Name) and depth < 10:
        faults = [_fault(module, one, depth + 1) for one in _values(module.body, value.id)]
        return faults[0] if faults and all(faults) else ""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return _of_object(_values(module.body, value.func.id), line)
    return ""


def _of_object(classes: list[ast.AST | None], line: str) -> str:
    """Return the fault of an object of a class that the module defines."""
    match classes:
        case [ast.ClassDef(bases=[], keywords=[], decorator_list=[]) as of]:
            pass
        case _:
            return ""
    calls = _values(of.body, "__call__")
    if not calls:
        return f"is an object without __call__ {line}"
    faults = [_of_function(one, 1, line) if isinstance(one, _FUNCTIONS) else "" for one in calls]
    return faults[0] if all(faults) else ""


def _of_function(function: ast.FunctionDef | ast.AsyncFunctionDef, own: int, line: str) -> str:
    if function.decorator_list:
        return ""
    if isinstance(function, ast.AsyncFunctionDef):
        return f"is a coroutine {line}"
    if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in _of_scope(function.body)):
        return f"is a generator {line}"
    return _of_arguments(function.args, own, line)


def _of_arguments(arguments: ast.arguments, own: int, line: str) -> str:
    """Return the fault of arguments, of which the first `own` are not given by the caller."""
    positional = len(arguments.posonlyargs) + len(arguments.args) - own
    required = positional - len(arguments.defaults)
    keywords = [
        one.arg
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    if keywords:
        return f"needs the argument {keywords[0]} {line}"
    if required > ARGUMENTS or (positional < ARGUMENTS and not arguments.vararg):
        count = required if required > ARGUMENTS else positional
        return f"takes {count} argument{'' if count == 1 else 's'} {line}"
    return ""
