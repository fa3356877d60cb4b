"""Jobs of towers that are trained from scratch on the captions of each rule.

Each draw of the corruption is a loop of its own. Towers are trained from scratch on its raw
captions. A captioner learns from trusted pairs on features of these towers, and their cosines score
old and new captions. Each rule decides, and towers are trained from scratch on its captions. No
model in the loop has seen captions before the corruption, except those of trusted pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mispair.core.files import UserError
from mispair.pretraining.dag import TRAINING as DRAWN
from mispair.repair.captioners.kinds import TRAINED
from mispair.repair.rules import RULES

FOLDER = "results/repair/{corpus}/from-scratch/{scheme}~{rate}/draw~{draw}"
RAW = f"{FOLDER}/raw"
"""Towers that were trained on the raw captions, with their features, captions and cosines."""

Files = Callable[[Any], list[str]]


def trains_towers(config: Any) -> bool:
    """Return whether a configuration trains towers from scratch on repaired captions."""
    return "repair" in config.studies and "towers" in config.filter_captions.trains


def results(dag: Any, rates: list[float]) -> list[str]:
    """Return the ledger and the measures of every rule, rate and draw.

    At rate 0 the raw captions are the right ones, so there is no oracle.

    Raises
    ------
    UserError
        If the captioner does not learn on features of the towers.
    """
    if dag.config.recaption_pairs.captioner != TRAINED:
        raise UserError(
            "filter_captions.trains: towers needs recaption_pairs.captioner: trained, which learns "
            "on features of towers that were trained from scratch."
        )
    scheme = dag.config.corrupt_captions.schemes[0]
    chosen_rules = ("raw", *dag.config.filter_captions.rules)
    folders = [
        (FOLDER.format(corpus=dag.corpus, scheme=scheme, rate=f"{rate:g}", draw=draw), name)
        for rate in rates
        for draw in range(dag.config.train_small_towers.seeds)
        for name, rule in RULES.items()
        if rule.from_scratch and name in chosen_rules and (rate > 0 or not rule.own_captions)
    ]
    ledgers = [f"{folder}/{rule}.json" for folder, rule in folders]
    return [*ledgers, *(f"{folder}/{rule}/mixing.json" for folder, rule in folders)]


def features(dag: Any, kind: str) -> list[str]:
    """Return the features of pictures by the raw towers (``safetensors``), or their rows."""
    return [f"{RAW}/features/{group}.{kind}" for group in dag.groups]


def recaptions(wildcards: Any) -> list[str]:
    """Return the new captions that a rule decides on."""
    reads = RULES[wildcards.repair].reads
    return of_job(wildcards, f"{RAW}/recaptions.parquet") if "new" in reads else []


def scores(wildcards: Any) -> list[str]:
    """Return the cosines that a rule decides by."""
    reads = RULES[wildcards.repair].reads
    return of_job(wildcards, f"{RAW}/scores.safetensors") if "cosines" in reads else []


def written(wildcards: Any) -> list[str]:
    """Return the texts that a rule may give and the corpus does not have."""
    reads = RULES[wildcards.repair].reads
    fresh = [f"{RAW}/recaption_texts.parquet"] if "new" in reads else []
    return of_job(wildcards, f"{DRAWN}/captions.parquet", *fresh)


def texts(corpus_texts: list[str]) -> Files:
    """Return the function that names the texts of all captions that a rule may give."""
    return lambda wildcards: [*corpus_texts, *written(wildcards)]


def original(dag: Any) -> str:
    """Return the pairing of a draw without corruption."""
    scheme = dag.config.corrupt_captions.schemes[0]
    return f"{DRAWN.replace('{scheme}~{rate}', f'{scheme}~0')}/pairing.parquet"


def of_job(wildcards: Any, *patterns: str) -> list[str]:
    """Return paths of one job, from patterns that have its wildcards."""
    return [pattern.format(**dict(wildcards.items())) for pattern in patterns]
