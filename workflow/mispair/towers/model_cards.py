"""Cards of the models that mispair writes as folders of open_clip."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mispair.core import cards

TASK = "zero-shot-image-classification"


def pruned_card(
    base: str,
    note: Mapping[str, Any],
    arm: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
    licence: str,
) -> str:
    """Return the card of a model with some of its neurons.

    Parameters
    ----------
    base : str
        Name of the model that it comes from.
    note : mapping
        ``strategy``, ``ranked_by``, ``k`` and ``towers``, the fingerprint of `base`.
    arm : mapping
        Metadata of its projections: ``start`` and, if captions were corrupted for them,
        ``scheme`` and ``rate``.
    rows : sequence of mappings
        Scores of the model and, as ``reference_...``, of the model with all neurons.
    licence : str
        Of the weights, as the hub names it.
    """
    name = f"{base} with {note['k']} neurons"
    scores = {row_key(row): row["value"] for row in rows if row["metric"] == "acc1"}
    whole = {row_key(row): row["value"] for row in rows if row["metric"] == "reference_acc1"}
    front = {
        **_front(licence, ["pruned"]),
        "base_model": base,
        "model-index": [{"name": name, "results": [_result(*key, scores[key]) for key in scores]}],
    }
    tuned = f"Projections: {arm['start']}."
    if "rate" in arm:
        tuned += (
            f" They were fine-tuned with {float(arm['rate']):.0%} of the captions exchanged (C_m, "
            f"scheme {arm['scheme']}); this is the first of their seeds."
        )
    table = cards.table(
        ("set", "protocol", "acc1", "with all neurons"),
        [(*key, f"{scores[key]:.4f}", f"{whole[key]:.4f}") for key in scores],
    )
    return cards.card(
        front,
        f"# {name}",
        f"Neurons are columns of the final projections. The strategy {note['strategy']} keeps "
        f"{note['k']} of them, ranked by {note['ranked_by']}; `pruned.json` lists them.",
        f"Base model: {base} (fingerprint of its towers: `{note['towers']}`). {tuned}",
        "## Zero-shot accuracy" if scores else "No set with classes was given: there is no score.",
        *([table] if scores else []),
        _load(),
    )


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
        _front(licence, ["converted"]),
        f"# {record['name']}",
        "A published checkpoint as a folder of open_clip; the weights are unchanged.",
        cards.table(("", "value"), rows),
        "Scores are in the report of the run that converted it, with their protocols.",
        _load(),
    )


def row_key(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return evaluation set and protocol of a score."""
    return row["evaluation_set"], row["protocol"]


def _front(licence: str, tags: list[str]) -> dict[str, Any]:
    return {
        "license": licence, "library_name": "open_clip", "pipeline_tag": TASK,
        "tags": ["clip", *tags, "mispair"],
    }  # fmt: skip


def _result(evaluation_set: str, protocol: str, value: float) -> dict[str, Any]:
    metric = {"type": "accuracy", "name": f"acc1, protocol {protocol}", "value": float(value)}
    return {
        "task": {"type": TASK},
        "dataset": {"name": evaluation_set, "type": evaluation_set},
        "metrics": [metric],
    }


def _load() -> str:
    return (
        "```python\nimport open_clip\n\n"
        'model, _, preprocess = open_clip.create_model_and_transforms("local-dir:THIS_FOLDER")\n```'
    )
