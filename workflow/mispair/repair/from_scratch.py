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
from mispair.core.paths import every, fill, of_job
from mispair.pretraining.paths import CAPTIONS, PAIRING
from mispair.repair import paths
from mispair.repair.captioners.kinds import TRAINED
from mispair.repair.rules import RULES

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
    jobs = [
        (f"{rate:g}", draw, name)
        for rate in rates
        for draw in range(dag.config.train_small_towers.seeds)
        for name, rule in RULES.items()
        if rule.from_scratch and name in chosen_rules and (rate > 0 or not rule.own_captions)
    ]
    tables = {"corpus": [dag.corpus], "scheme": [scheme], "rate draw repair": jobs}
    return [*every(paths.LEDGER_OF_DRAW, tables), *every(paths.MIXING_OF_DRAW, tables)]


def recaptions(wildcards: Any) -> list[str]:
    """Return the new captions that a rule decides on."""
    reads = RULES[wildcards.repair].reads
    return of_job(wildcards, paths.RAW_RECAPTIONS) if "new" in reads else []


def scores(wildcards: Any) -> list[str]:
    """Return the cosines that a rule decides by."""
    reads = RULES[wildcards.repair].reads
    return of_job(wildcards, paths.RAW_SCORES) if "cosines" in reads else []


def written(wildcards: Any) -> list[str]:
    """Return the texts that a rule may give and the corpus does not have."""
    reads = RULES[wildcards.repair].reads
    fresh = [paths.RAW_RECAPTION_TEXTS] if "new" in reads else []
    return of_job(wildcards, CAPTIONS, *fresh)


def texts(corpus_texts: list[str]) -> Files:
    """Return the function that names the texts of all captions that a rule may give."""
    return lambda wildcards: [*corpus_texts, *written(wildcards)]


def original(dag: Any) -> str:
    """Return the pairing of a draw without corruption."""
    return fill(PAIRING, scheme=dag.config.corrupt_captions.schemes[0], rate=0)
