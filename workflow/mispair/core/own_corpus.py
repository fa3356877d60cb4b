"""Whether the pairs of a run are a user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GENERATED = "generated"
"""The value of ``pairs`` and ``shards`` that makes pictures in place of reading any."""


def own_corpus(run: Mapping[str, Any]) -> str:
    """Return the name of a user's own pairs from the content of ``run.json``; "" without any.

    Examples
    --------
    >>> own_corpus({"corpus": "photos", "pairs": "/data/photos", "shards": "generated"})
    'photos'
    >>> own_corpus({"corpus": "scenes", "pairs": "generated", "shards": "generated"})
    ''
    """
    given = (run.get("pairs", GENERATED), run.get("shards", GENERATED))
    return str(run["corpus"]) if any(source != GENERATED for source in given) else ""
