"""The data sets of the published tables, and the names of the same evaluation sets."""

from __future__ import annotations

from mispair.evaluation.set_names import canonical

PUBLISHED = ("Food-101", "CIFAR-10", "CIFAR-100", "Caltech-101", "Pets", "STL-10", "ImageNet-1k")
"""Names in tables 2 to 4."""

OTHER_NAMES = {
    "oxfordiiitpet": "Pets", "oxfordiiitpets": "Pets", "oxfordpets": "Pets", "oxfordpet": "Pets",
    "imagenet": "ImageNet-1k", "ilsvrc2012": "ImageNet-1k",
}  # fmt: skip

_BY_NAME = {**{canonical(name): name for name in PUBLISHED}, **OTHER_NAMES}


def published_name(evaluation_set: str) -> str | None:
    """Return the published name of an evaluation set, or None if it has no published number.

    Examples
    --------
    >>> published_name("wds_food101"), published_name("vtab-caltech101"), published_name("digits")
    ('Food-101', 'Caltech-101', None)
    """
    return _BY_NAME.get(canonical(evaluation_set))
