"""Rules that decide, for each pair, whether its caption stays, is replaced, or the pair is dropped.

A rule is one declaration in `RULES`. The cosines of the image with the old and the new caption are
of one scoring model. Trusted pairs keep their captions under every rule.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mispair.core import seeds
from mispair.towers.arms import UNTOUCHED

Settings = Any
"""Those of the step filter_captions, whose rules are the entries of `RULES`."""

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


Read = Literal["new", "cosines", "audit"]


@dataclass(frozen=True)
class Rule:
    """A rule: what it does, what it reads and what it is compared with.

    Attributes
    ----------
    effect : str
        What it does, as a sentence without an end, for the reference of the settings.
    label : str
        Its arm in tables.
    decide : callable
        Given `Evidence`, the settings and the seed of the draw, the action for each pair, (n,) int.
        `decide` sets trusted pairs right, and pairs without a new caption.
    reads : frozenset of {"new", "cosines", "audit"}
        New captions, cosines of a scoring model, probabilities of the audit.
    numbers : tuple of str
        Settings that it reads; other settings do not change its result.
    scorer : str
        Its scoring model, if that is not the setting ``scorer``.
    replaces : bool
        Whether it gives pairs new captions.
    own_captions : bool
        Whether it decides on the pairs' own captions, without corruption.
    from_scratch : bool
        Whether towers are trained from scratch by it, too. The others need an audit or another
        scoring model.
    references : tuple of str
        Rules that its accuracy is compared with.
    short : str
        Its arm in the small figure, which shows no others.
    phrase : str
        What it gives a model, in an answer; "" for a rule that is only compared with.
    filters : bool
        Whether claims on filtering may be judged on it: on the first such rule that was run.
    """

    effect: str
    label: str
    decide: Callable[[Evidence, Settings, int], np.ndarray]
    reads: frozenset[Read] = frozenset()
    numbers: tuple[str, ...] = ()
    scorer: str = ""
    replaces: bool = True
    own_captions: bool = False
    from_scratch: bool = True
    references: tuple[str, ...] = ("raw",)
    short: str = ""
    phrase: str = ""
    filters: bool = False

    @property
    def changes(self) -> bool:
        """Whether it replaces or drops anything."""
        return self.decide is not _keep


def decide(rule: str, evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    """Return the action for each pair, (n,) int8.

    Parameters
    ----------
    rule : str
        A name in `RULES`.
    evidence : Evidence
        Of the pairs.
    settings : Settings
        Numbers of the rules.
    seed : int
        Of this draw of the corruption, for the rules that draw pairs at random.

    Raises
    ------
    ValueError
        If the rule lacks an input, or there is no trusted pair to set a cut by.
    """
    actions = RULES[rule].decide(evidence, settings, seed).astype(np.int8)
    actions[evidence.trusted] = KEPT
    # Without a new caption the old one stays.
    actions[(actions == REPLACED) & ~evidence.generated] = FAILED
    return actions


def _keep(evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    return np.full(len(evidence.trusted), KEPT)


def _drop_all(evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    return np.full(len(evidence.trusted), DROPPED)


def _replace_all(evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    return np.full(len(evidence.trusted), REPLACED)


def _better(evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    """Replace where the new caption's cosine is positive and at least a factor times the old one's.

    The paper compares a ratio of cosines, which has a meaning for positive ones alone. So a
    positive cosine is better than one that is not, whatever the factor, and a new caption whose
    cosine is not positive replaces none: with a negative old one the ratio would prefer the
    smaller.
    """
    better = (evidence.new > 0) & (evidence.new >= settings.factor * evidence.old)
    actions = np.where(better, REPLACED, KEPT)
    actions[~evidence.generated & ~evidence.trusted] = FAILED
    return actions


def _random(evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    """Replace as many pairs as `_better` does, drawn among those that are not trusted."""
    open_pairs = np.flatnonzero(~evidence.trusted & evidence.generated)
    number = int((_better(evidence, settings, seed)[open_pairs] == REPLACED).sum())
    generator = seeds.generator(seed, "filter-captions", "random")
    drawn = np.full(len(evidence.trusted), KEPT)
    drawn[generator.permutation(open_pairs)[:number]] = REPLACED
    return drawn


def _dropping(
    decide: Callable[[Evidence, Settings, int], np.ndarray],
) -> Callable[[Evidence, Settings, int], np.ndarray]:
    """Return the rule that drops the pairs that another one gives new captions."""

    def dropped(evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
        actions = decide(evidence, settings, seed)
        return np.where(actions == REPLACED, DROPPED, actions)

    return dropped


def _pooled(evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    """Take the better caption of those above the cut; drop pairs without one (BLIP's CapFilt)."""
    if not evidence.trusted.any():
        raise ValueError("the rule pooled takes its cut from trusted pairs, and there is none")
    cut = np.quantile(evidence.old[evidence.trusted], settings.trusted_quantile)
    new = np.where(evidence.generated, evidence.new, -np.inf)
    actions = np.where(new > evidence.old, REPLACED, KEPT)
    actions[np.maximum(new, evidence.old) < cut] = DROPPED
    return actions


def _share(evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    cut = np.quantile(evidence.old, 1 - settings.kept_share)
    return np.where(evidence.old >= cut, KEPT, REPLACED)


def _posterior(evidence: Evidence, settings: Settings, seed: int) -> np.ndarray:
    if evidence.wrong is None:
        raise ValueError("the rule posterior needs the probabilities of the audit")
    return np.where(evidence.wrong >= settings.posterior, REPLACED, KEPT)


_NEW: frozenset[Read] = frozenset({"new"})
_AUDITED: frozenset[Read] = frozenset({"new", "audit"})
_SCORED: frozenset[Read] = frozenset({"new", "cosines"})

RULES: dict[str, Rule] = {
    "raw": Rule(
        "captions as they are, trusted ones right", "raw captions", _keep,
        replaces=False, references=("oracle",), short="raw captions",
    ),
    "factor": Rule(
        "the new caption where its cosine is positive and at least `factor` times the old one's "
        "(stage S3 of the paper)",
        "filtered: new caption if clearly better", _better, _SCORED, ("factor", "scorer"),
        references=("raw", "drop", "all", "oracle", "trusted-alone", "random-replaced",
                    "factor-untouched"),
        short="filtered", phrase="a new caption where it is clearly better", filters=True,
    ),
    "factor-untouched": Rule(
        "factor, scored by the untouched model",
        "filtered, scored by the untouched model", _better, _SCORED, ("factor",),
        scorer=UNTOUCHED, from_scratch=False, phrase="filtering by the untouched model",
    ),
    "posterior": Rule(
        "captions that the audit takes for wrong are replaced",
        "filtered: replaced where the audit says wrong", _posterior, _AUDITED, ("posterior",),
        from_scratch=False, short="by the audit",
        phrase="a new caption where the audit says wrong", filters=True,
    ),
    "pooled": Rule(
        "the better of the captions above a cut; pairs without one are dropped (BLIP)",
        "filtered: better of both above a cut", _pooled, _SCORED, ("scorer", "trusted_quantile"),
        short="better of both", phrase="the better of both captions, above a cut", filters=True,
    ),
    "share": Rule(
        "the share of captions with the highest cosines stays, the others are replaced",
        "filtered: best captions stay, others replaced", _share, _SCORED, ("kept_share", "scorer"),
        short="best stay", phrase="new captions for all but the best pairs", filters=True,
    ),
    "drop": Rule(
        "the pairs that factor would repair are removed",
        "dropped in place of replaced", _dropping(_better), _SCORED, ("factor", "scorer"),
        replaces=False, references=("raw", "random-dropped"), short="pairs dropped",
        phrase="pairs dropped in place of replaced",
    ),
    "all": Rule(
        "all but trusted captions are replaced", "all captions replaced", _replace_all, _NEW,
        short="all replaced", phrase="new captions for all but trusted pairs",
    ),
    "trusted-alone": Rule(
        "trusted pairs alone", "trusted pairs alone", _drop_all, replaces=False
    ),
    "random-replaced": Rule(
        "as many pairs as factor replaces, drawn at random",
        "as many replaced at random", _random, _SCORED, ("factor", "scorer", "seed"),
    ),
    "random-dropped": Rule(
        "as many pairs as factor replaces, drawn at random and dropped",
        "as many dropped at random", _dropping(_random), _SCORED, ("factor", "scorer", "seed"),
        replaces=False,
    ),
    "oracle": Rule(
        "right captions", "right captions", _keep,
        replaces=False, own_captions=True, short="right captions",
    ),
}  # fmt: skip
"""All rules by name, in the order of tables; each is an arm of the study."""
