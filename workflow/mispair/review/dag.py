"""The jobs of the review."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.review.paths import PAGE, REPLACED_SAMPLE, REVIEW, STRATA


def files(dag: Any) -> list[str]:
    """Return the sample of an encoded corpus, and what is measured if there is a person."""
    measured = dag.every(REVIEW) if dag.user_file("reviewed") or truth(dag) else []
    return [*dag.every(STRATA), *measured]


def replaced(dag: Any) -> list[str]:
    """Return the sample of replaced captions, if a repair replaces some."""
    try:
        is_drawn = dag.runs("repair") and dag.repair.compared
    except UserError:
        return []
    return dag.every(REPLACED_SAMPLE) if is_drawn else []


def of_compared(dag: Any, files: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    """Return a function that names files of the repaired pairs that are compared."""
    return lambda wildcards: files(
        type(wildcards)(fromdict={**dict(wildcards.items()), **dag.repair.compared})
    )


def pages(dag: Any) -> list[str]:
    """Return the page on which a person labels pairs, of runs that measure captions."""
    wanted = dag.encodes and (dag.runs("audit") or bool(replaced(dag)))
    return [PAGE] if wanted else []


def truth(dag: Any) -> list[str]:
    """Return the known features that answer in place of a person; none if there are labels."""
    known: list[str] = [] if dag.user_file("reviewed") else dag.truth_of_all()
    return known


def audited(dag: Any, path: str) -> list[str]:
    """Return the probabilities of the audit, if it runs."""
    return [path] if dag.runs("audit") else []


def kept(dag: Any) -> list[str]:
    """Return the sample of the user's that is used as it is, if there is one.

    Raises
    ------
    UserError
        If there is no such file.
    """
    path = dag.config.draw_review.kept
    if path is not None and not Path(path).is_file():
        raise UserError(f"draw_review.kept: there is no file {Path(path).absolute()}.")
    return [] if path is None else [path]
