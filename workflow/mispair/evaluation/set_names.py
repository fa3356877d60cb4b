"""Names of evaluation sets, which every collection spells in its own way."""

from __future__ import annotations

import re


def canonical(name: str) -> str:
    """Return the name of a set without its collection's prefixes, split, case and punctuation.

    Prefixes are those of CLIP_benchmark and DataComp.

    Examples
    --------
    >>> canonical("wds_vtab-caltech101"), canonical("vtab/pets_test"), canonical("FGVC_Aircraft")
    ('caltech101', 'pets', 'fgvcaircraft')
    """
    of_collection = r"^(wds[_/-])?((vtab|wilds|fairness|retrieval|misc)[_/-])?"
    bare = re.sub(rf"{of_collection}|[_-](test|train|val)$", "", name.lower())
    return re.sub(r"[^a-z0-9]", "", bare)
