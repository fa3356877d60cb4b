"""Snakemake in this process, on the workflow of this package and with one line for each job."""

import sys
from collections.abc import Sequence
from pathlib import Path

from mispair.core.files import UserError
from mispair.core.provenance import CHECKOUT, PACKAGE

SETTINGS = "mispair.yaml"
"""The configuration of a folder of results, if it has one of its own."""

ELSEWHERE = ("-j", "--jobs", "-e", "--executor", "--profile", "--workflow-profile")
"""Options of Snakemake with which jobs may run on other machines, whose cores are not counted."""


def snakefile() -> Path:
    """Return the Snakefile of an installed package, or of a checkout.

    Raises
    ------
    UserError
        If there is neither.
    """
    for folder in (PACKAGE / "workflow_files", CHECKOUT):
        if (folder / "workflow" / "Snakefile").is_file():
            return folder / "Snakefile"
    raise UserError(
        f"{PACKAGE}: this installation lacks the workflow. Install mispair from a wheel, from its "
        "source distribution, or with `pip install -e` in a checkout."
    )


def defaults(given: Sequence[str]) -> list[str]:
    """Return the options of Snakemake for this folder, which those that are `given` override."""
    words = [f"--snakefile={snakefile()}"]
    if Path(SETTINGS).is_file() and not _has(given, "--configfile"):
        words.append(f"--configfile={SETTINGS}")
    return words


def has_settings(given: Sequence[str]) -> bool:
    """Return whether a configuration is in this folder, or among some options of Snakemake."""
    return Path(SETTINGS).is_file() or _has(given, "--configfile")


def run_snakemake(options: Sequence[str], given: Sequence[str]) -> int:
    """Run Snakemake; return its exit code.

    Parameters
    ----------
    options : sequence of str
        Options that are set here, each one word (``--key=value``).
    given : sequence of str
        The user's options and targets, which come after them and override them.
    """
    from snakemake.cli import main

    words = [*options, "--logger=mispair"]
    if not _has(given, *ELSEWHERE):
        words.append("--cores=all")
    words += given
    sys.argv = ["snakemake", *words]  # Snakemake's plugins read the command line
    try:
        main(words)
    except SystemExit as ended:
        if isinstance(ended.code, str):  # a message
            raise
        return ended.code or 0
    return 0


def _has(words: Sequence[str], *names: str) -> bool:
    return any(word.startswith(names) for word in words)
