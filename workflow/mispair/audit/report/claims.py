"""Claims on the audit itself: whether it finds shares of wrong captions that are known."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mispair.audit.rate import LEAST_POWER, Rate
from mispair.core.distributions import normal_quantile
from mispair.pairs.captions.scripts import count_words
from mispair.pairs.corruption.scheme import MAIN, audited
from mispair.report.claims import THIRD, Claim, Control, MeasuredClaim, PartEffect
from mispair.report.questions import Question
from mispair.report.statistics import Effect, effect_of_estimate, effect_of_interval, unknown_effect
from mispair.report.tables import Tables, records, where
from mispair.review.report import checked

# Estimates of the audit: of the corpus, and of trials where the true share is known.

UNTOUCHED, TRUSTED = "without trusted pairs", "with trusted pairs"
MEMORISED, CROSS_FITTED = "memorised", "cross-fitted"
(SIMILAR,) = (scheme for scheme, among in audited().items() if among == "similar")
"""The scheme whose captions are like those of similar pictures."""
UNSEEN = ("boilerplate", "filtered")
"""Trials, at one share each, of errors that ranks among random captions cannot see."""

NEARLY_ALL = 0.8
"""Share of suspicious pairs."""

LEAST_WRONG = 0.01
"""Smaller shares of trusted pairs that may be wrong are not named."""

LEAST_LOST, MORE, TIMES = 5, 0.03, 3
"""Right captions that a group loses by a selection, by how much its share of them is above that of
the others, and how many times that: at least."""


def shown_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return the estimates of the figure and its table, each with the name of its series.

    An upper limit without a lower one is an interval from 0.
    """
    rates = table[table["metric"] == "rate"]
    seen_among = {**audited(), **dict.fromkeys(UNSEEN, "random")}
    of_random = {scheme for scheme, among in seen_among.items() if among == "random"}
    names = {
        (MAIN, "memorised", "mixture"): MEMORISED,
        (MAIN, "cross-fitted", "mixture"): CROSS_FITTED,
        **{(scheme, "untouched", "mixture"): UNTOUCHED for scheme in seen_among},
        **{(scheme, "untouched", "trusted" if scheme in of_random else "similar"): TRUSTED
           for scheme in seen_among},
    }  # fmt: skip
    keys = zip(rates["scheme"], rates["scorer"], rates["method"], strict=True)
    series = [names.get(key, "") for key in keys]
    return rates.assign(series=series, low=rates["low"].fillna(0)).query("series != ''")


def captions_are_right(tables: Tables) -> bool:
    """Return whether the captions of the corpus itself are right, as those of generated scenes."""
    origin = tables.provenance
    answers = origin[(origin["artefact"] == "calibration") & (origin["key"] == "right")]["text"]
    return "False" not in set(answers)


def wrong_before(tables: Tables) -> float:
    """Return the share of captions that were wrong before any trial; NaN if it is not known.

    It is 0 for right captions. That of the user's corpus is known from pairs known to be right,
    unless the scores contradict these. An estimate without them is no such share: the trials would
    then compare it with itself.
    """
    if captions_are_right(tables):
        return 0.0
    values = tables.audit.drop_duplicates("metric").set_index("metric")["value"]
    if "trusted" not in values or values.get("trusted_excess", 0.0) > 0:
        return math.nan
    return float(values["trusted"])


def known_rates(tables: Tables) -> pd.DataFrame:
    """Return `shown_rates` with the share of all wrong captions as ``true``, next to ``made``.

    Captions that were wrong before count in every estimate without trusted pairs. They do not where
    pairs of the trial are trusted: these have as many of them. ``true`` is NaN where the share is
    not known: without `wrong_before`, and in a filtered corpus, whose filter takes some of them.
    """
    rates = shown_rates(tables.audit_calibration)
    before = wrong_before(tables)
    every = rates["made"] + (1 - rates["made"]) * before
    if before != 0:
        every = every.mask(rates["scheme"] == "filtered")
    return rates.assign(true=every.where(rates["series"] != TRUSTED, rates["made"]))


def separations(tables: Tables) -> pd.DataFrame:
    """Return AUROC, AUPRC and reliability with all wrong captions counted as wrong.

    The trials count a share c of the other captions as right that were wrong before. If these rank
    like the permuted ones, of a share m, every number has a closed form: AUROC was
    (1 - c) AUROC + c / 2; precisions and shares of wrong captions were m / (m + c (1 - m)) times
    what they are. The ``corrected`` value is NaN where c is not known (`wrong_before`), and, unless
    c is 0, for captions of similar pictures, which rank otherwise.
    """
    table = tables.audit_calibration
    rows = table[table["metric"].isin(["auroc", "auprc", "reliability"])]
    before, made = wrong_before(tables), rows["made"]
    if before == 0:
        return rows.assign(corrected=rows["value"])
    area = (rows["value"] - before / 2) / (1 - before)
    share = rows["value"] * (made + before * (1 - made)) / made
    corrected = area.where(rows["metric"] == "auroc", share).clip(0, 1)
    return rows.assign(corrected=corrected.where(rows["scheme"] == MAIN))


def estimate(table: pd.DataFrame, metric: str) -> Rate | None:
    """Return the row of a metric as a rate; None without one."""
    rows = table[table["metric"] == metric]
    if rows.empty:
        return None
    return Rate(*(float(rows.iloc[0][name]) for name in ("value", "low", "high")))


def refusal(tables: Tables) -> str:
    """Return why there is no estimate, or ""."""
    origin = tables.provenance
    refusals = origin[(origin["artefact"] == "audit") & (origin["key"] == "refused")]["text"]
    text = refusals.iloc[0] if len(refusals) else ""
    return text if isinstance(text, str) else ""


def numbers(tables: Tables) -> Mapping[str, Any]:
    """Return the rates of the corpus, and those of the trials, for sentences.

    ``rate`` is the share of captions of unrelated pictures; it has a lower limit only with pairs
    known to be right (``trusted``) that the ranks do not contradict (``given`` is their rate).
    ``limits`` are, without such pairs, the upper limits where the share is known. ``unseen`` are,
    of errors that ranks cannot see, the shares that were found and that were made, by their names.
    ``excess`` above 0 states that trusted pairs and the scores of all pairs contradict each other,
    and ``like_random`` is the share of these pairs that may rank like random ones, where that moves
    the share out of its interval if they are wrong. ``pairs`` counts all pairs, ``kept`` those that
    are kept, and ``left_out`` the keys of trusted pairs that have no pair. ``checked`` is the share
    of pairs with conspicuous texts, and ``shared`` what nearly all suspicious pairs share.
    ``by_eye`` is what labels of a person measure, if there are any.
    """
    table, rates = tables.audit, known_rates(tables)
    without = rates[(rates["series"] == UNTOUCHED) & rates["true"].notna()]
    last = without.sort_values("made").drop_duplicates("scheme", keep="last").set_index("scheme")
    found = last["value"] - (1 - last["made"]) * wrong_before(tables)
    limits = without[without["scheme"] == MAIN]
    excess, random = (estimate(table, f"trusted_{what}") for what in ("excess", "like_random"))
    given, contradicted = estimate(table, "trusted"), bool(excess and excess.value > 0)
    return {
        "refused": refusal(tables),
        "rate": estimate(table, "wrong_captions"),
        "trusted": given is not None and not contradicted,
        "given": given,
        "similar": estimate(table, "similar_captions"),
        "wins": estimate(table, "wins_against_random"),
        "trusted_wins": estimate(table, "power"),
        "excess": excess.value if excess else 0.0,
        "like_random": random if given and random and _may_miss(given, random.high) else None,
        "storey": estimate(table, "storey"),
        "pairs": _first(table, "pairs"),
        "kept": _first(table, "pairs_kept"),
        "left_out": _first(table, "trusted_left_out"),
        "checked": checked_share(table),
        "shared": shared_by_suspects(table),
        "by_eye": by_eye(tables),
        "limits": len(limits),
        "held": int((limits["true"] <= limits["high"]).sum()),
        "unseen": {
            name: (max(0.0, float(found[name])), float(last["made"][name]))
            for name in (SIMILAR, *UNSEEN)
            if name in last.index
        },
    }


def _may_miss(given: Rate, wrong: float) -> bool:
    """Return whether a share of wrong trusted pairs moves the rate out of its limits.

    Each of them makes the rate too low by one of the right pairs that it stands for.
    """
    return wrong > LEAST_WRONG and wrong * (1 - given.value) > given.high - given.value


def by_eye(tables: Tables) -> Mapping[str, Any] | None:
    """Return the numbers of the labels of a person; None without labels."""
    found = checked.numbers(tables)
    return found if found and found["labels"] else None


def _first(table: pd.DataFrame, metric: str) -> float | None:
    """Return the first value of a metric; None without one."""
    return next(iter(table.loc[table["metric"] == metric, "value"]), None)


def checked_share(table: pd.DataFrame) -> float:
    """Return the share of pairs whose text meets a check."""
    rows = table[table["metric"] == "text_check"]
    return 0.0 if rows.empty else float(rows["value"].sum() / rows["n"].iloc[0])


def shared_by_suspects(table: pd.DataFrame) -> Mapping[str, Any] | None:
    """Return the text, or the word, that nearly all suspicious pairs share, and how common it is.

    At least `NEARLY_ALL` of them have it, and not half as many of all pairs. If there is none among
    as many pairs as captions are expected to be wrong, that of the first twelve counts.
    """
    numbers_of_pairs = sorted(table.loc[table["metric"] == "suspects", "at"], reverse=True)
    for at, kind in itertools.product(numbers_of_pairs, ("text", "word")):
        of_pairs = table[table["at"] == at]
        usual = of_pairs[of_pairs["metric"] == f"corpus_{kind}"].set_index("text")["value"]
        shared = of_pairs[of_pairs["metric"] == f"suspect_{kind}"].query("value >= @NEARLY_ALL")
        for row in records(shared.sort_values("value", ascending=False)):
            common = float(usual[row["text"]])
            if common <= row["value"] / 2:
                return {
                    "kind": kind, "text": row["text"], "share": row["value"],
                    "n": int(row["n"]), "usual": common,
                    "letters": kind == "word" and count_words(row["text"]) > 1,
                }  # fmt: skip
    return None


def unequal_groups(values: pd.DataFrame) -> Mapping[str, Any] | None:
    """Return the group that loses many more right captions than the others, if there is one.

    Parameters
    ----------
    values : DataFrame
        Metrics of `mispair.audit.selection.group_rows` by group.
    """
    right = values["group_pairs"] * (1 - values["group_wrong"])
    lost = right * values["group_right_lost"]
    others = (lost.sum() - lost) / (right.sum() - right).clip(lower=1)
    excess = values["group_right_lost"] - others
    many = (lost >= LEAST_LOST) & (excess >= MORE) & (values["group_right_lost"] >= TIMES * others)
    if not many.any():
        return None
    lost_most = excess[many].sort_values().index[-1]
    row = values.assign(others=others).loc[lost_most]
    return {
        "name": lost_most, "lost": float(row["group_right_lost"]), "others": float(row["others"])
    }  # fmt: skip


NEAR = 0.02
"""How near an estimate of permuted captions is to the true share."""

NEAR_SIMILAR = 0.03
"""The same for captions of similar pictures."""

UNIT = "pair"


def condition_of(tables: Tables) -> str:
    """Return why estimates cannot be compared with a true share, or ""."""
    if refusal(tables):
        return "refused"
    return "" if captions_are_right(tables) else "unknown truth"


def is_weak(tables: Tables) -> bool:
    """Return whether the model ranks right captions too much like random ones."""
    power = estimate(tables.audit, "power")
    return power is not None and power.low < LEAST_POWER


def rates_of(tables: Tables, scheme: str, series: str) -> pd.DataFrame:
    """Return a series of estimates, with the shares that they should find, in ascending order.

    These include the captions that were wrong before (`known_rates`).
    """
    rates = known_rates(tables)
    rates = rates[(rates["scheme"] == scheme) & (rates["series"] == series)]
    return rates.sort_values("made")


@dataclass(frozen=True)
class Errors:
    """Estimated less true share, with pairs known to be right, at each known share.

    Where these pairs do not suffice for an estimate, that without them stands in its place, and
    nothing can be decided ("refused").
    """

    scheme: str

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the error at each known share."""
        gate, parts = condition_of(tables), {}
        given = {row["injected"]: row for row in records(rates_of(tables, self.scheme, TRUSTED))}
        for without in records(rates_of(tables, self.scheme, UNTOUCHED)):
            row = given.get(without["injected"], without)
            value, low, high = (float(row[name] - row["true"]) for name in ("value", "low", "high"))
            known = row is not without
            parts[f"{row['injected']:g}"] = MeasuredClaim(
                effect_of_interval(value, low, high, int(row["n"]), UNIT, confidence) if known
                else unknown_effect(value, int(row["n"]), UNIT),
                first=float(row["true"]), last=float(row["value"]),
                gate=gate or ("" if known else "refused"),
            )  # fmt: skip
        return MeasuredClaim(parts=parts)


@dataclass(frozen=True)
class Missed:
    """True less estimated share, at the largest known share, by one kind of projections.

    The standard error is that of Storey's estimate, and at least that of a share of all pairs.
    """

    series: str
    scheme: str = MAIN

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return how much of the share is missed, at each known share above 0."""
        rates = rates_of(tables, self.scheme, self.series)
        rates = rates[rates["injected"] > 0]
        if rates.empty:
            return MeasuredClaim()
        rows, (scorer,) = records(rates), rates["scorer"].unique()
        storey = where(
            tables.audit_calibration, method="storey", scheme=self.scheme, scorer=scorer
        ).set_index("injected")
        errors = (storey["high"] - storey["value"]) / normal_quantile(0.95)
        effects = {
            float(row["injected"]): self._effect(row, float(errors[row["injected"]]), confidence)
            for row in rows
        }
        return MeasuredClaim(
            effects[float(rows[-1]["injected"])],
            first=float(rows[-1]["true"]), last=float(rows[-1]["value"]),
            at=(float(rows[-1]["injected"]),),
            rates={share: PartEffect(effect) for share, effect in effects.items()},
            gate="refused" if is_weak(tables) else condition_of(tables),
        )  # fmt: skip

    @staticmethod
    def _effect(row: Mapping[Any, Any], storey: float, confidence: float) -> Effect:
        error = max(storey, math.sqrt(row["true"] * (1 - row["true"]) / row["n"]))
        value = float(row["true"] - row["value"])
        return effect_of_estimate(value, error, math.inf, int(row["n"]), confidence, UNIT)


def _found(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return the share of similar captions that ranks among random captions find.

    What they miss is the same, whatever was wrong before.
    """
    missed = Missed(UNTOUCHED, SIMILAR)(tables, confidence)
    if not missed.at:
        return MeasuredClaim()
    found, error = _made_similar(tables) - missed.effect.value, missed.effect.error
    effect = effect_of_estimate(found, error, math.inf, missed.effect.n, confidence, UNIT)
    return MeasuredClaim(effect)


def _injected(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return the largest known share of similar captions, which has no error."""
    missed = Missed(UNTOUCHED, SIMILAR)(tables, confidence)
    return MeasuredClaim(unknown_effect(_made_similar(tables), missed.effect.n, UNIT))


def _made_similar(tables: Tables) -> float:
    """Return the largest share of similar captions that was made; NaN without any."""
    return float(rates_of(tables, SIMILAR, UNTOUCHED)["made"].max())


def _by_labels(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return the share of wrong captions by labels, to compare it with the model's upper limit.

    Unsure ones are right in the lower limit and wrong in the upper one.
    """
    found, model = by_eye(tables), estimate(tables.audit, "wrong_captions")
    if not found or not found["known"]:
        return MeasuredClaim()
    share, n = found["share"], found["labels"]
    effect = effect_of_interval(share, found["low"], found["high"], n, "label", confidence)
    return MeasuredClaim(
        effect, model.high if model else math.nan, first=share,
        last=model.value if model else math.nan, gate="" if model else "refused",
    )  # fmt: skip


CLAIMS = (
    Claim(
        "audit-estimates", "audit",
        "With pairs known to be right, a model that has not seen the pairs estimates the share of "
        "captions of unrelated pictures.",
        "not in the paper", "audit_calibration",
        Errors(MAIN), "equivalence", bound=NEAR, unit="points", every="share",
        needs="studies: [audit]",
    ),
    Claim(
        "audit-memorised", "audit",
        "To a model that was trained on its pairs, a corpus looks cleaner than it is.",
        "not in the paper", "audit_calibration",
        Missed(MEMORISED), bound=NEAR, unit="points", needs="studies: [audit], of 512 pairs",
        controls=(
            Control("Models that judge pairs they were not trained on", Missed(CROSS_FITTED),
                    least=None, most=THIRD),
        ),
    ),
    Claim(
        "audit-similar", "audit",
        "With pairs known to be right, ranks among similar captions give the share of captions of "
        "similar pictures.",
        "not in the paper", "audit_calibration",
        Errors(SIMILAR), "equivalence", bound=NEAR_SIMILAR, unit="points", every="share",
        needs="studies: [audit]",
        controls=(
            Control("Ranks among random captions", _found, least=None, most=0.1, of=_injected),
        ),
    ),
    Claim(
        "audit-by-eye", "audit",
        "By the labels of a person, no more captions are wrong than the model's upper limit.",
        "not in the paper", "audit_by_eye",
        _by_labels, "level", sign=-1, unit="points", needs="reviewed: review.csv",
    ),
)  # fmt: skip


def _numbers(tables: Tables, confidence: float) -> Mapping[str, Any]:
    """Return the numbers of the corpus and of the trials, and the largest error."""
    parts = Errors(MAIN)(tables, confidence).parts.values()
    worst = max((abs(part.effect.value) for part in parts if not part.gate), default=0.0)
    return {**numbers(tables), "worst": worst}


QUESTIONS = (
    Question(
        "wrong-captions", "How many captions are wrong, and can they be found?",
        tuple(claim.key for claim in CLAIMS), "small_audit", _numbers,
    ),
)  # fmt: skip
