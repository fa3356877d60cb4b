"""Names in paths of results of the user's folders, models and corpora."""

from __future__ import annotations

import glob
import os
import re
import unicodedata
from pathlib import Path

_IN_HUB = re.compile(r"(?:^|/)(?:models|datasets|spaces)--(?:[^/]*--)?([^/]+)/snapshots/[^/]+$")
"""A commit in the cache of the Hugging Face hub; the group is the name of the repository."""


def path_name(name: str) -> str:
    """Return a name as one word without characters of a shell or of Snakemake's patterns.

    Letters of all scripts stay.

    Examples
    --------
    >>> path_name("my set"), path_name("[2024] run{v2}"), path_name("naïve & café")
    ('my-set', '2024-run-v2', 'naïve-café')
    """
    composed = unicodedata.normalize("NFC", name)
    return re.sub(r"[^\w.,+@=]+", "-", composed).strip("-.") or "unnamed"


def folder_name(folder: str | os.PathLike[str]) -> str:
    """Return `path_name` of a folder; for a commit in a hub's cache, that of its repository.

    Examples
    --------
    >>> folder_name("data/my set/"), folder_name("/hub/datasets--org--wds_pets/snapshots/3f8a1c")
    ('my-set', 'wds_pets')
    """
    whole = os.path.abspath(folder)
    in_hub = _IN_HUB.search(whole)
    return path_name(in_hub[1] if in_hub else os.path.basename(whole))


def literal_folder(pattern: str) -> tuple[str, str]:
    """Return the existing folder that a glob or brace pattern begins with, and the other part.

    So brackets and braces in names of existing folders are no pattern.
    """
    parts = pattern.split("/")
    for number in range(len(parts) - 1, 0, -1):
        folder = "/".join(parts[:number])
        if os.path.isdir(folder or "/"):
            return f"{folder}/", "/".join(parts[number:])
    return "", pattern


def matches(pattern: str) -> list[Path]:
    """Return the files and folders that a glob matches, sorted; ``**`` matches subfolders."""
    folder, rest = literal_folder(pattern)
    return sorted(Path(name) for name in glob.glob(glob.escape(folder) + rest, recursive=True))
