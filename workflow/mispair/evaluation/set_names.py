"""Names of evaluation sets, which every collection spells in its own way."""

from __future__ import annotations

import re

from mispair.core.words import composed


def canonical(name: str) -> str:
    """Return the name of a set without its collection's prefixes, split, case and punctuation.

    Prefixes are those of CLIP_benchmark and DataComp. Letters of all scripts stay.

    Examples
    --------
    >>> canonical("wds_vtab-caltech101"), canonical("vtab/pets_test"), canonical("宠物 (FGVC)")
    ('caltech101', 'pets', '宠物fgvc')
    """
    of_collection = r"^(wds[_/-])?((vtab|wilds|fairness|retrieval|misc)[_/-])?"
    bare = re.sub(rf"{of_collection}|[_-](test|train|val)$", "", composed(name.lower()))
    return re.sub(r"[\W_]", "", bare)
