"""Names of evaluation sets, which every collection spells in its own way."""

from __future__ import annotations

import re


def canonical(name: str) -> str:
    """Return the name of a set without CLIP_benchmark's prefixes, split, case and punctuation.

    Examples
    --------
    >>> canonical("wds_vtab-caltech101"), canonical("vtab/pets_test"), canonical("FGVC_Aircraft")
    ('caltech101', 'pets', 'fgvcaircraft')
    """
    bare = re.sub(r"^(wds[_/-])?(vtab[_/-])?|[_-](test|train|val)$", "", name.lower())
    return re.sub(r"[^a-z0-9]", "", bare)
