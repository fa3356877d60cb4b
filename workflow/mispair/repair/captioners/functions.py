"""A captioner of the user's own: a function ``package.module:function``."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import os
import symtable
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mispair.core.files import UserError
from mispair.repair.captioners.faults import Draft

if TYPE_CHECKING:
    from PIL import Image

FOLDERS = "MISPAIR_CONFIGURED_IN"
"""Environment variable of jobs with the folders of the configuration files, as JSON."""


class CaptionerError(Exception):
    """A captioner returned something else than captions."""


@dataclass(frozen=True)
class FunctionCaptioner:
    """A function from pictures and seeds to captions.

    Attributes
    ----------
    function : callable
        ``caption(images: list[PIL.Image], seeds: list[int]) -> list[list[str]]``: for each RGB
        picture the captions that may be used, the best first.
    """

    function: Callable[[list[Any], list[int]], Any]

    def caption(self, images: Sequence[Image.Image], seeds: Sequence[int]) -> list[list[Draft]]:
        """Return the drafts of each picture.

        Raises
        ------
        CaptionerError
            If the function returns something else.
        """
        captions = self.function(list(images), list(seeds))
        if not isinstance(captions, Sequence) or isinstance(captions, str | bytes):
            raise CaptionerError(f"returned {type(captions).__name__}, not a list")
        if len(captions) != len(images):
            raise CaptionerError(f"returned {len(captions)} lists for {len(images)} pictures")
        return [_drafts(texts) for texts in captions]


def _drafts(texts: Any) -> list[Draft]:
    """Check the captions of one picture; a single text is taken as a list of one."""
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, Sequence) or isinstance(texts, bytes):
        raise CaptionerError(f"returned {type(texts).__name__} for a picture, not a list of texts")
    for text in texts:
        if not isinstance(text, str):
            raise CaptionerError(f"returned {type(text).__name__} as a caption, not text")
    return [Draft(text) for text in texts]


def load_function(name: str) -> FunctionCaptioner:
    """Load a function by ``package.module:function``; it runs with the rights of the user.

    Raises
    ------
    UserError
        If there is no such module or function, or it does not take pictures and seeds.
    """
    loaded = getattr(module_of(name), name.partition(":")[2], None)
    if loaded is None:
        raise _no_function(name)
    if not callable(loaded):
        raise _no_captioner(name, f"is of type {type(loaded).__name__}")
    try:
        inspect.signature(loaded).bind([], [])
    except TypeError as error:
        raise _no_captioner(name, f"cannot take two arguments ({error})") from error
    except ValueError:  # a builtin without a signature
        pass
    return FunctionCaptioner(loaded)


def load_named_function(settings: Any, device: str) -> FunctionCaptioner:
    """Load the function that the setting ``captioner`` names; `load_function` says what it raises.

    Which device it uses is its own affair.
    """
    return load_function(settings.captioner)


def module_of(name: str) -> ModuleType:
    """Import the module of a function by ``package.module:function``.

    Raises
    ------
    UserError
        If it cannot be imported.
    """
    try:
        with _folders_on_path():
            return importlib.import_module(name.partition(":")[0])
    except (Exception, SystemExit) as error:  # of any kind: the module is the user's
        is_there = not isinstance(error, ModuleNotFoundError) or error.name != name.split(":")[0]
        raise _not_loaded(name, f"{type(error).__name__}: {error}", is_there) from error


def refuse_missing_function(name: str) -> None:
    """Refuse a function that does not exist or cannot be one, without running its module.

    Raises
    ------
    UserError
        If the module is not found or cannot be parsed, defines no such function, or binds the name
        to what cannot be called with pictures and seeds.
    """
    module, _, function = name.partition(":")
    if module.endswith(".py"):
        raise _not_loaded(name, f"a module has no .py: write {module[:-3]}:{function}")
    try:
        with _folders_on_path():
            spec = importlib.util.find_spec(module)
    except Exception as error:  # of any kind: the packages that hold the module are imported
        raise _not_loaded(name, f"{type(error).__name__}: {error}") from error
    if spec is None:
        raise _not_loaded(name, f"there is no module {module}")
    if not spec.has_location or not str(spec.origin).endswith(".py"):
        return
    try:
        source = importlib.util.decode_source(Path(str(spec.origin)).read_bytes())
        symbols = symtable.symtable(source, str(spec.origin), "exec").get_symbols()
        parsed = ast.parse(source)
        fault = fault_of(parsed, function)
    except (OSError, SyntaxError, ValueError) as error:
        raise _not_loaded(name, f"{type(error).__name__}: {error}", True) from error
    if missing := _missing_package(parsed, source):
        raise _not_loaded(name, f"it imports {missing}, which is not installed", True)
    bound = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported()}
    # Other names may come from a star import, or from the module's own __getattr__.
    if function not in bound and "__getattr__" not in bound and "import *" not in source:
        raise _no_function(name)
    if fault:
        raise _no_captioner(name, fault)


def look_beside(configurations: Iterable[Path]) -> None:
    """Let this process and its jobs find modules next to configuration files, too."""
    folders = dict.fromkeys(str(path.absolute().parent) for path in configurations)
    if folders:
        os.environ[FOLDERS] = json.dumps([*folders])


def _configured_in() -> list[str]:
    folders: list[str] = json.loads(os.environ.get(FOLDERS) or "[]")
    return folders


@contextmanager
def _folders_on_path() -> Iterator[None]:
    """Let modules of the folder that runs Snakemake be found, as ``python -m`` does.

    Those next to configuration files come last, so that they replace no installed module. They stay
    on the path: a module may import others of its folder when its function runs.
    """
    importlib.invalidate_caches()
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    sys.path += [path for path in _configured_in() if path not in sys.path]
    try:
        yield
    finally:
        sys.path.remove(folder)


def _missing_package(module: ast.Module, source: str) -> str:
    """Return the first package that a module always imports and that is not there, or nothing."""
    if "sys.path" in source or "addsitedir" in source:  # it may add folders with packages
        return ""
    for statement in module.body:
        names = [one.name for one in statement.names] if isinstance(statement, ast.Import) else []
        if isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [str(statement.module)]
        for package in (name.partition(".")[0] for name in names):
            with _folders_on_path(), suppress(ValueError):  # a module that has no origin
                if importlib.util.find_spec(package) is None:
                    return package
    return ""


def _not_loaded(name: str, reason: str, is_there: bool = False) -> UserError:
    folders = ", ".join(dict.fromkeys([str(Path.cwd()), *_configured_in()]))
    remedy = (
        f"Correct the module, or install what it imports for {sys.executable}."
        if is_there
        else "Its module must be in the folder that Snakemake runs in or next to the "
        f"configuration file ({folders}), or in one that PYTHONPATH names."
    )
    return UserError(f"recaption_pairs: captioner: {name} cannot be loaded ({reason}). {remedy}")


def _no_function(name: str) -> UserError:
    module, _, function = name.partition(":")
    return UserError(
        f"recaption_pairs: captioner: the module {module} has no function {function}. Name one as "
        "package.module:function."
    )


def _no_captioner(name: str, fault: str) -> UserError:
    module, _, function = name.partition(":")
    return UserError(
        f"recaption_pairs: captioner: {function} of the module {module} {fault}. It must be a "
        "function of two arguments, a list of pictures and a list of seeds, that returns a list "
        "of captions for each picture."
    )


# Whether a name of a module can be a captioner, from the source alone: nothing of it runs.


ARGUMENTS = 2
"""Pictures and seeds."""
_VALUES = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp,
           ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Compare, ast.UnaryOp)  # fmt: skip


def fault_of(module: ast.Module, name: str) -> str:
    """Return why what a name is bound to cannot be called with pictures and seeds.

    Empty if it can, or if only running the module would show it: names that are bound more than
    once or in a block, imported names, results of calls, and decorated functions.

    Examples
    --------
    >>> fault_of(ast.parse("caption = 3"), "caption")
    'is not a function (line 1)'
    >>> fault_of(ast.parse("def caption(images): ..."), "caption")
    'takes 1 argument (line 1)'
    >>> fault_of(ast.parse("from blip import caption"), "caption")
    ''
    """
    binding = [node for node in ast.walk(module) if _binds(node, name)]
    if len(binding) != 1:
        return ""
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            if binding[0] in targets:
                return _fault(statement.value)
        elif statement is binding[0]:
            return _fault(statement)
    return ""


def _binds(node: ast.AST, name: str) -> bool:
    """Return whether a part of a module binds a name, in whatever scope."""
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Store)
    if isinstance(node, ast.Import | ast.ImportFrom):
        bound = {one.asname or one.name.partition(".")[0] for one in node.names}
        return bool(bound & {name, "*"})
    if isinstance(node, ast.Global):
        return name in node.names
    return getattr(node, "name", None) == name


def _fault(value: ast.AST | None) -> str:
    line = f"(line {getattr(value, 'lineno', 0)})"
    if isinstance(value, _VALUES):
        return f"is not a function {line}"
    if isinstance(value, ast.Lambda):
        return _of_arguments(value.args, line)
    if getattr(value, "decorator_list", None):
        return ""
    if isinstance(value, ast.ClassDef):
        is_plain = not (value.bases or value.keywords)
        return f"is a class: bind an object of it to a name {line}" if is_plain else ""
    if isinstance(value, ast.AsyncFunctionDef):
        return f"is a coroutine {line}"
    return _of_arguments(value.args, line) if isinstance(value, ast.FunctionDef) else ""


def _of_arguments(arguments: ast.arguments, line: str) -> str:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    required = positional - len(arguments.defaults)
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    if keywords := [one.arg for one, default in pairs if default is None]:
        return f"needs the argument {keywords[0]} {line}"
    if required > ARGUMENTS or (positional < ARGUMENTS and not arguments.vararg):
        count = required if required > ARGUMENTS else positional
        return f"takes {count} argument{'' if count == 1 else 's'} {line}"
    return ""
