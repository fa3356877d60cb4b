"""The steps of the workflow, by name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any, get_type_hints

from mispair import steps


def step_names() -> list[str]:
    """Return the names of all steps, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(steps.__path__))


def step_module(name: str) -> ModuleType:
    """Import the module of a step; it defines ``Settings`` and ``run``."""
    return importlib.import_module(f"mispair.steps.{name}")


def job_parameters(run: Any) -> dict[str, Any]:
    """Return the keyword-only parameters of a step's ``run`` with their types, in order."""
    hints = get_type_hints(run)
    parameters = inspect.signature(run).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
