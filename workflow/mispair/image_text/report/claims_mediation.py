"""Claims on what the rise of overlap does to accuracy, judged over arms and schemes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from mispair.core.words import count, listing, number
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.evaluation.report.series import LARGE, SMALL, why_missing
from mispair.image_text.report.claims_schemes import (
    RANDOM,
    SIMILAR,
    accuracy,
    differences_text,
    effect_text,
    overlap,
)
from mispair.image_text.report.matching import at_equal_dose, by_rate
from mispair.image_text.report.mediation import (
    ARM,
    LEAST_ARMS,
    changes,
    kept,
    label,
    main_scheme,
    mediated,
    points,
    within_seed,
)
from mispair.report import published, verdicts
from mispair.report.statistics import Effect, effect_of_mean
from mispair.report.table import Table, or_dash
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Part, Verdict

FOLLOWS = Claim(
    "accuracy-follows-overlap", "image_text",
    "The rise of overlap carries the loss of accuracy: at the same C_m, arms whose neurons come to "
    "overlap more lose more accuracy.",
    "section 5.2", "mediation", "purity_by_scheme",
)  # fmt: skip
ALIKE = Claim(
    "overlap-fixes-accuracy", "image_text",
    "Where captions of similar pairs and random ones raise overlap alike, they lower accuracy "
    "alike.",
    "section 5.2", "alike", "purity_by_scheme",
)  # fmt: skip

LIMITS = (
    "The arms are interventions that change overlap, and each changes something else with it: the "
    "temperature, the start, the penalty or the captions. A loss that stays where the rise is "
    "taken away shows that it does not need the rise. No arm raises overlap alone, so nothing here "
    "shows that overlap would do no harm by itself. Projections that start at random with long "
    "columns keep much of their random part, which |cos| measures, too."
)
"""What the comparison of arms can show, and what it cannot."""

SECTION = "What carries the effect"


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on both claims, under the main protocol."""
    tables = tables.of_protocol()
    return [_follows(tables, confidence), _alike(tables, confidence)]


# Over arms at the same C_m --------------------------------------------------------------------


def _effects(moved: pd.DataFrame, confidence: float) -> tuple[Effect, Effect]:
    """Return the loss of accuracy that goes with overlap, and the whole loss, over seeds."""
    by_seed = mediated(moved).values()
    carried, whole = ([pair[position] for pair in by_seed] for position in (0, 1))
    return (
        effect_of_mean(carried, confidence, "seed"),
        effect_of_mean(whole, confidence, "seed"),
    )


def _follows(tables: Tables, confidence: float) -> Verdict:
    moved = changes(points(tables, "text"))
    carried, whole = _effects(moved, confidence)
    if not carried.n:
        reason = f"fewer than {LEAST_ARMS} arms at the same C_m were measured"
        return Verdict(FOLLOWS, verdicts.UNMEASURED, why_missing(tables, "pretrained", reason))
    smallest = SMALL * abs(whole.value)
    if not (whole.known and whole.high < 0):
        outcome, reason = verdicts.UNDECIDED, "accuracy does not fall, so nothing can carry a fall"
    else:
        outcome, reason = verdicts.decide_effect(carried, -1, smallest, 1 - confidence)
    at_rate = moved[[*ARM, "rate"]].drop_duplicates()["rate"].value_counts()
    at_rate = at_rate[at_rate >= LEAST_ARMS]
    return Verdict(
        FOLLOWS, outcome, reason,
        scope=f"text projection, mean of the evaluation sets; {protocol_phrase(tables)}",
        measured=f"of a change in accuracy of {number(whole.value, sign=True)}, "
        f"{number(carried.value, sign=True)} goes with overlap at the same C_m",
        published="overlap and accuracy of one arm against C_m, no other arm",
        sample=f"{at_rate.min()} to {at_rate.max()} arms at each of "
        f"{count(len(at_rate), 'C_m', 'C_m')}, {count(carried.n, 'seed')}, one model",
        test=f"slope over arms within C_m × rise of overlap: {effect_text(carried, 3)}",
        controls=(
            _apart(moved),
            _carried_elsewhere(
                "Without arms from random projections",
                moved[~moved["start"].astype(str).str.startswith("reinitialised")],
                "In the other arms", f"Fewer than {LEAST_ARMS} other arms were measured.",
                confidence,
            ),
            _carried_elsewhere(
                "The other tower", changes(points(tables, "image")), "In the image projection",
                "The image projection was not measured.", confidence,
            ),
            _left_over(tables), Control("What the arms can show", "limits", LIMITS),
        ),
        effect=carried, smallest=smallest,
    )  # fmt: skip


def _apart(moved: pd.DataFrame) -> Control:
    """Name the arms in which the changes of overlap and accuracy diverge."""
    name = "Arms in which the two part"
    table = kept(moved)
    table = table[table["rate"] == table["rate"].max()]
    rising, losing = table["rise_kept"].astype(float), table["loss_kept"].astype(float)
    schemes = sorted(set(table["scheme"]))
    parting = table[((rising < SMALL) & (losing >= LARGE)) | ((losing < SMALL) & (rising >= LARGE))
                    | (losing - rising).abs().ge(1.0)]  # fmt: skip
    if parting.empty:
        return Control(name, "does not limit", "There is no such arm.")
    texts = [
        f"{label(str(row.start), str(row.scheme), schemes)} "
        f"({100 * row.rise_kept:.0f} % of the rise, {100 * row.loss_kept:.0f} % of the loss)"
        for row in parting.itertuples()
    ]
    return Control(
        name, "limits", f"Of the main arm’s changes at the largest C_m: {listing(texts)}."
    )


def _carried_elsewhere(
    name: str, moved: pd.DataFrame, where: str, missing: str, confidence: float
) -> Control:
    """Return whether the loss of accuracy goes with overlap in other rows."""
    carried, _ = _effects(moved, confidence)
    if not carried.n:
        return Control(name, "not measured", missing)
    text = f"{where}, {effect_text(carried, 3)} goes with overlap."
    return Control(name, "does not limit" if carried.value < 0 else "limits", text)


def _left_over(tables: Tables) -> Control:
    """Report the relation within the main arm: over C_m, and over seeds within C_m."""
    name = "Within the main arm"
    table = points(tables, "text")
    main = table[(table["start"] == "pretrained") & (table["scheme"] == main_scheme(table))]
    rho = within_seed(main)["rho"]
    if main.empty or not np.isfinite(rho).all():
        return Control(name, "not measured", "Fewer than three C_m of the main arm were measured.")
    values = main[["overlap", "accuracy"]].astype(float)
    rest = values - values.groupby(main["rate"]).transform("mean")
    rest -= rest.groupby(main["seed"]).transform("mean")
    within = float(rest["overlap"].corr(rest["accuracy"]))
    text = (
        f"Over C_m, within seeds, the rank correlation of accuracy with overlap is "
        f"{number(float(rho.mean()), 2)}; after C_m and seed it is {number(within, 2)} over "
        f"{count(len(main), 'run')}. Both rise and fall with C_m, so the first alone shows nothing."
    )
    return Control(name, "limits", text)


# Over schemes at the same overlap -------------------------------------------------------------


def equal_overlap(tables: Tables, tower: str, confidence: float) -> dict[float, Effect]:
    """Return similar − random in accuracy at equal mean |cos| of the same seed, by C_m."""
    dosed = [
        accuracy(tables, scheme).merge(
            overlap(tables, scheme, tower).rename(columns={"value": "dose"}), on=["rate", "seed"]
        )
        for scheme in (SIMILAR, RANDOM)
    ]
    return by_rate(at_equal_dose(*dosed), confidence)


def _alike(tables: Tables, confidence: float) -> Verdict:
    effects = equal_overlap(tables, "text", confidence)
    missing = [name for name in (SIMILAR, RANDOM) if name not in tables.schemes]
    if not effects:
        reason = (f"the scheme {' and '.join(missing)} was not run" if missing
                  else "the two schemes raise overlap to no equal values")  # fmt: skip
        return Verdict(ALIKE, verdicts.UNMEASURED, why_missing(tables, "pretrained", reason))
    table = published.table4().groupby("shuffle_probability")["accuracy"].mean()
    smallest = float(table.iloc[0] - table.iloc[-1]) / 3
    outcome, reason, effect = decide_alike(effects, smallest, 1 - confidence)
    parts = tuple(
        Part(f"similar at C_m {rate:g}", decide_alike({rate: each}, smallest, 1 - confidence)[0],
             effect_text(each, 3))
        for rate, each in effects.items()
    )  # fmt: skip
    return Verdict(
        ALIKE, outcome, reason,
        scope=f"text projection, mean of the evaluation sets; {protocol_phrase(tables)}",
        measured=f"accuracy under similar − random at equal |cos|: {differences_text(effects, 3)}",
        sample=f"{count(min(each.n for each in effects.values()), 'seed')}, paired, one model",
        test="t test over seeds at each C_m of similar; random interpolated at the same |cos|",
        controls=(_alike_image(tables, confidence),),
        parts=parts, effect=effect, smallest=smallest,
    )  # fmt: skip


def decide_alike(
    effects: dict[float, Effect], smallest: float, alpha: float
) -> tuple[verdicts.Outcome, str, Effect | None]:
    """Judge a claim that there is no difference at any rate.

    Supports if two one-sided tests place the difference of every rate between −smallest and
    +smallest; contradicts if that of one rate is significant and at least as large; cannot tell
    otherwise. The effect, with a p value corrected for the number of rates, is that of the rate
    that contradicts; a supported claim has none, because its p value is no test of equality.
    """
    groups: dict[verdicts.Outcome, list[float]] = {}
    for rate, effect in sorted(effects.items()):
        outcome = verdicts.decide_effect(effect, +1, smallest, alpha)[0]
        differs = outcome in (verdicts.SUPPORTS, verdicts.CONTRADICTS)
        groups.setdefault(verdicts.CONTRADICTS if differs else outcome, []).append(rate)
    verbs = {verdicts.CONTRADICTS: "apart", verdicts.ABSENT: "alike"}
    reason = "; ".join(
        f"{verbs.get(outcome, 'cannot tell')} at C_m {listing([f'{rate:g}' for rate in rates])}"
        for outcome, rates in groups.items()
    )
    if verdicts.CONTRADICTS in groups:
        worst = min((effects[rate] for rate in groups[verdicts.CONTRADICTS]), key=lambda e: e.p)
        corrected = replace(worst, p=min(1.0, len(effects) * worst.p))
        return verdicts.CONTRADICTS, reason, corrected
    supported = set(groups) == {verdicts.ABSENT}
    return verdicts.SUPPORTS if supported else verdicts.UNDECIDED, reason, None


def _alike_image(tables: Tables, confidence: float) -> Control:
    name = "The other tower"
    effects = equal_overlap(tables, "image", confidence)
    if not effects:
        return Control(name, "not measured", "The image projections reach no equal |cos|.")
    text = f"At equal |cos| of image neurons: {differences_text(effects, 3)}."
    return Control(name, "does not limit", text)


# The table ------------------------------------------------------------------------------------


def arms(tables: Tables) -> Table | None:
    """Return how overlap and accuracy change in every arm, and what is kept of the main arm's."""
    tables = tables.of_protocol()
    shares = {tower: kept(changes(points(tables, tower))) for tower in ("text", "image")}
    text, image = (table[table["rate"] == table["rate"].max()] for table in shares.values())
    if text.empty:
        return None
    schemes = sorted(set(text["scheme"]))
    both = text.merge(image, on=[*ARM, "rate"], suffixes=("", "_image"), how="left")
    both = both.merge(within_seed(points(tables, "text")), on=ARM)
    order = {"pretrained": 0}
    both = both.sort_values("start", key=lambda names: names.map(lambda n: order.get(n, 1)),
                            kind="stable")  # fmt: skip
    rows = tuple(
        (
            label(str(row.start), str(row.scheme), schemes), f"{row.rate:g}",
            number(row.overlap, 4, sign=True), or_dash(row.rise_kept, 2),
            number(row.overlap_image, 4, sign=True), or_dash(row.rise_kept_image, 2),
            number(row.accuracy, 3, sign=True), or_dash(row.loss_kept, 2), or_dash(row.rho, 2),
        )
        for row in both.itertuples()
    )  # fmt: skip
    return Table(
        "Does accuracy follow overlap? Changes from C_m 0, arm by arm",
        ("arm", "C_m", "text |cos|", "share of the main arm’s", "image |cos|",
         "share of the main arm’s", "accuracy", "share of the main arm’s",
         "rank correlation of accuracy with text |cos| over C_m"),
        rows,
        f"Means over seeds; the main arm is the first. {LIMITS}",
        section=SECTION,
    )  # fmt: skip
