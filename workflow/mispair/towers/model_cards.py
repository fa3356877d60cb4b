"""Cards of the models that mispair writes as folders of open_clip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mispair.core import cards

LOAD = """```python
import open_clip

model, _, preprocess = open_clip.create_model_and_transforms("local-dir:THIS_FOLDER")
```"""


def converted_card(record: Mapping[str, Any], licence: str) -> str:
    """Return the card of a converted checkpoint.

    It has no scores: the conversion comes before every evaluation.

    Parameters
    ----------
    record : mapping
        Content of the folder's ``config.json``.
    licence : str
        Of the weights, as the hub names it.
    """
    facts = {
        "architecture": record["architecture"], "weights": record["checkpoint"],
        "SHA-256": record["sha256"], "trained on": record["pretraining"],
        "method": record["method"], "recipe": record["recipe"],
        "activations": json.dumps(record["activation"]),
    }  # fmt: skip
    rows = [(key, f"{value}") for key, value in facts.items() if value is not None]
    return cards.card(
        {
            "license": licence, "library_name": "open_clip",
            "pipeline_tag": "zero-shot-image-classification",
            "tags": ["clip", "converted", "mispair"],
        },
        f"# {record['name']}",
        "A published checkpoint as a folder of open_clip; the weights are unchanged.",
        cards.table(("", "value"), rows),
        "Scores are in the report of the run that converted it, with their protocols.",
        LOAD,
    )  # fmt: skip
