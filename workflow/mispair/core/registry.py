"""The steps of the workflow, by name."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any, get_type_hints

from mispair.core.provenance import PACKAGE, step_module_name


def step_names() -> list[str]:
    """Return the names of all steps, sorted."""
    return sorted(path.stem for path in PACKAGE.glob("*/steps/[!_]*.py"))


def step_module(name: str) -> ModuleType:
    """Import the module of a step; it defines ``Settings`` and ``run``."""
    return importlib.import_module(step_module_name(name))


def job_parameters(run: Any) -> dict[str, Any]:
    """Return the keyword-only parameters of a step's ``run`` with their types, in order."""
    hints = get_type_hints(run)
    parameters = inspect.signature(run).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
