"""Rules that decide, for each pair, whether its caption stays, is replaced, or the pair is dropped.

The cosines of the image with the old and the new caption are of one scoring model. Trusted pairs
keep their captions under every rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from mispair.core import seeds
from mispair.repair.filter_settings import Rule, Settings

RULES: tuple[Rule, ...] = get_args(Rule)

UNSCORED: tuple[Rule, ...] = ("raw", "all", "trusted-alone", "oracle")
"""Rules that need neither cosines nor the audit."""

WITHOUT_NEW: tuple[Rule, ...] = ("raw", "trusted-alone", "oracle")
"""Rules that need no new captions."""

NUMBERS: dict[Rule, tuple[str, ...]] = {
    "raw": (),
    "all": (),
    "trusted-alone": (),
    "oracle": (),
    "factor": ("factor", "scorer"),
    "drop": ("factor", "scorer"),
    "random-replaced": ("factor", "scorer", "seed"),
    "random-dropped": ("factor", "scorer", "seed"),
    "factor-untouched": ("factor",),
    "second-round": ("factor",),
    "pooled": ("scorer", "trusted_quantile"),
    "share": ("kept_share", "scorer"),
    "posterior": ("posterior",),
}
"""Settings that each rule reads; other settings do not change its result."""

KEPT, REPLACED, DROPPED, FAILED = 0, 1, 2, 3
"""Actions. A failed pair lacks the new caption that the rule needs, and keeps the old one."""

ACTIONS = ("kept", "replaced", "dropped", "failed")


@dataclass(frozen=True)
class Evidence:
    """Input of the rules for n pairs of one draw.

    Attributes
    ----------
    trusted : (n,) bool array
        Pairs whose captions are known to be right.
    generated : (n,) bool array
        Pairs that have a usable new caption.
    old, new : (n,) float arrays
        Cosines of the image with both captions; NaN where a pair has no new caption.
    wrong : (n,) float array, optional
        Probability that the old caption is wrong, by the audit.
    """

    trusted: np.ndarray
    generated: np.ndarray
    old: np.ndarray
    new: np.ndarray
    wrong: np.ndarray | None = None


def decide(rule: Rule, evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    """Return the action for each pair, (n,) int8.

    Parameters
    ----------
    rule : str
        Name of the rule. ``factor-untouched`` and ``second-round`` decide as ``factor`` does, with
        cosines of another model or captions of another captioner. ``oracle`` changes nothing here:
        its pairs have their own captions.
    evidence : Evidence
        Of the pairs.
    settings : Settings
        Numbers of the rules.
    seed : int
        Of this draw of the corruption, for the rules that draw pairs at random: as many as
        ``factor`` replaces.

    Raises
    ------
    ValueError
        If the rule lacks an input, or there is no trusted pair to set a cut by.
    """
    if rule in ("raw", "oracle"):
        return np.zeros(len(evidence.trusted), np.int8)
    if rule == "trusted-alone":
        actions = np.full(len(evidence.trusted), DROPPED, np.int8)
    elif rule == "all":
        actions = np.full(len(evidence.trusted), REPLACED, np.int8)
    elif rule == "pooled":
        actions = _pooled(evidence, settings.trusted_quantile)
    elif rule == "share":
        actions = _share(evidence, settings.kept_share)
    elif rule == "posterior":
        if evidence.wrong is None:
            raise ValueError("the rule posterior needs the probabilities of the audit")
        actions = np.where(evidence.wrong >= settings.posterior, REPLACED, KEPT).astype(np.int8)
    else:
        actions = _better(evidence, settings.factor)
        if rule.startswith("random-"):
            actions = _at_random(actions, evidence, seed)
        if rule in ("drop", "random-dropped"):
            actions[actions == REPLACED] = DROPPED
    actions[evidence.trusted] = KEPT
    # Without a new caption the old one stays.
    actions[(actions == REPLACED) & ~evidence.generated] = FAILED
    return actions


def _better(evidence: Evidence, factor: float) -> np.ndarray:
    """Replace where the new caption's cosine is positive and at least a factor times the old one's.

    The paper compares a ratio of cosines, which has a meaning for positive ones alone. So a
    positive cosine is better than one that is not, whatever the factor, and a new caption whose
    cosine is not positive replaces none: with a negative old one the ratio would prefer the
    smaller.
    """
    unknown = ~evidence.generated & ~evidence.trusted
    better = (evidence.new > 0) & (evidence.new >= factor * evidence.old)
    actions = np.where(better, REPLACED, KEPT)
    actions[unknown] = FAILED
    return actions.astype(np.int8)


def _pooled(evidence: Evidence, quantile: float) -> np.ndarray:
    """Take the better caption of those above the cut; drop pairs without one (BLIP's CapFilt)."""
    if not evidence.trusted.any():
        raise ValueError("the rule pooled takes its cut from trusted pairs, and there is none")
    cut = np.quantile(evidence.old[evidence.trusted], quantile)
    new = np.where(evidence.generated, evidence.new, -np.inf)
    actions = np.where(new > evidence.old, REPLACED, KEPT)
    actions[np.maximum(new, evidence.old) < cut] = DROPPED
    return actions.astype(np.int8)


def _share(evidence: Evidence, kept: float) -> np.ndarray:
    """Keep the share of captions with the highest cosines, and replace the others."""
    cut = np.quantile(evidence.old, 1 - kept)
    return np.where(evidence.old >= cut, KEPT, REPLACED).astype(np.int8)


def _at_random(actions: np.ndarray, evidence: Evidence, seed: int) -> np.ndarray:
    """Replace as many pairs as the rule does, drawn among those that are not trusted."""
    open_pairs = np.flatnonzero(~evidence.trusted & evidence.generated)
    number = int((actions[open_pairs] == REPLACED).sum())
    generator = seeds.generator(seed, "filter-captions", "random")
    drawn = np.full(len(actions), KEPT, np.int8)
    drawn[generator.permutation(open_pairs)[:number]] = REPLACED
    return drawn
