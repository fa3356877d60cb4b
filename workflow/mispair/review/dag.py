"""The jobs of the review."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mispair.core.files import UserError

REVIEW = "results/review/{corpus}/{towers}"
REPLACED = f"{REVIEW}/replaced.json"


def files(dag: Any) -> list[str]:
    """Return the sample of an encoded corpus, and what is measured if there is a person."""
    folder = REVIEW.format(corpus=dag.corpus, towers=dag.towers)
    measured = [f"{folder}/review.json"] if dag.user_file("reviewed") or truth(dag) else []
    return [f"{folder}/strata.json", *measured]


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
