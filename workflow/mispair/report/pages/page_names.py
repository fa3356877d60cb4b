"""File names of pages that are named after data: safe on every system, and no two alike."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

LONGEST = 60
"""Characters of a name that are kept."""


def file_names(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Return the file name of the page of everything that has one.

    A name that had to be changed, or differs from another in case only, gets a digest of itself.

    Examples
    --------
    >>> file_names("set", ["digits", "../a b"])
    {'digits': 'set-digits.html', '../a b': 'set-a-b-2c2c791a.html'}
    """
    given = list(dict.fromkeys(names))
    plain = {name: re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:LONGEST] for name in given}
    taken = [slug.lower() for slug in plain.values()]
    names_of_files = {}
    for name, slug in plain.items():
        if slug != name or taken.count(slug.lower()) > 1:
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            slug = f"{slug}-{digest}" if slug else digest
        names_of_files[name] = f"{kind}-{slug}.html"
    return names_of_files
