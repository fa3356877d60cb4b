"""The paper's claims on large stepsizes, judged on the tables by rules that count runs."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from mispair.core.words import count, number
from mispair.report import verdicts
from mispair.report.statistics import effect_of_mean
from mispair.report.tables import Tables
from mispair.report.verdicts import (
    Claim,
    Control,
    Part,
    Verdict,
    decide_always,
    decide_two_thirds,
)
from mispair.stepsize.report.runs import (
    DATA_SETS,
    SAME_LIST,
    SCHEDULES,
    larger_steps,
    monotone,
    of_parts,
    oscillates,
    slopes,
    without_monotone,
)

NOT_RUN = "the stepsize study was not run"
LOWER_BOUND_SET = "two_point"
KEPT_UP = 0.5
"""Share of its early minimum that t L_t must keep: it may wobble, but not go to zero."""


def _claim(key: str, text: str, paper: str, rule: str, figure: str) -> Claim:
    return Claim(f"stepsize-{key}", "stepsize", text, paper, rule, f"stepsize_{figure}")


PHASES = _claim(
    "phases", "With a large stepsize the risk oscillates at first, and from some step on it falls.",
    "abstract, figure 2(a)", "settles", "risk",
)  # fmt: skip
STABLE = _claim(
    "stable", "Once the risk is below a threshold of order 1/η it never rises again (T1).",
    "theorem 2.2(a)", "always", "thresholds",
)  # fmt: skip
MARGIN = _claim(
    "margin", "Below a second threshold the norm of the weights and a modified margin grow, the "
    "margins keep their order, and the risk falls as 1/t (T2).",
    "theorem 2.2(b), lemma A.14", "always", "margin",
)  # fmt: skip
AVERAGE = _claim(
    "average", "On separable data the average risk and gradient potential of the first t steps "
    "keep below their bounds, oscillation or not (T3).",
    "theorem 3.2, lemma C.3", "always", "bounds",
)  # fmt: skip
TRANSITION = _claim(
    "transition", "On separable data the second threshold is reached within τ = O(η) steps, and "
    "the risk then keeps below 2/(α² γ² η (t − s)) (T4).",
    "theorem 4.1", "always", "steps",
)  # fmt: skip
ACCELERATION = _claim(
    "acceleration", "With a stepsize in proportion to the number of steps T the risk falls as "
    "1/T², with a fixed one as 1/T (T5).",
    "corollary 4.2", "slopes", "acceleration",
)  # fmt: skip
LOWER_BOUND = _claim(
    "lower-bound", "Where the risk never rises it cannot fall faster than 1/t on two points whose "
    "gradients conflict (T6).",
    "theorem 4.3", "floor", "acceleration",
)  # fmt: skip
SOONER = _claim(
    "sooner", "Stepsizes that are too large for a monotone risk reach a low risk sooner.",
    "abstract", "sooner", "speedup",
)  # fmt: skip
TESTS = _claim(
    "tests", "Networks trained with steps that oscillate classify test points better than those "
    "of the largest monotone stepsize.",
    "figure 1(c)", "tests", "accuracy",
)  # fmt: skip
CLAIMS = (PHASES, SOONER, STABLE, MARGIN, AVERAGE, TRANSITION, ACCELERATION, LOWER_BOUND, TESTS)


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts, in the order of `CLAIMS`."""
    if not tables.study("stepsize"):
        return [Verdict(claim, verdicts.UNMEASURED, NOT_RUN) for claim in CLAIMS]
    runs = tables.stepsize_runs
    two_layers = runs[runs["part"] != "multilayer"]
    return [
        _phases(runs),
        _sooner(tables),
        _stable(two_layers),
        _margin(two_layers),
        _average(two_layers),
        _transition(two_layers),
        _acceleration(tables),
        _lower_bound(two_layers),
        _tests(runs, confidence),
    ]


def _where(runs: pd.DataFrame) -> str:
    """Return the data sets of runs in words, in their order."""
    present = set(runs["data_set"])
    return "; ".join(label for name, label in DATA_SETS.items() if name in present)


def _phases(runs: pd.DataFrame) -> Verdict:
    moving = oscillates(runs)
    settled = int((moving["settled"] == 1).sum())
    outcome, reason = decide_two_thirds(settled, len(moving) - settled, "settle", "do not")
    diverged = int((moving["diverged"] >= 0).sum())
    late = moving[moving["settled"] == 1]["transition"]
    return Verdict(
        PHASES, outcome, reason, scope=_where(moving),
        measured=f"{settled} of {count(len(moving), 'oscillating run')} settle, after "
        f"{late.median():.0f} steps (median)" if settled else f"0 of {len(moving)} settle",
        sample=f"{count(len(runs), 'run')}; {len(moving)} oscillate",
        test="every run that oscillates counts, failures included",
        controls=(Control(
            "runs that fail", "limits" if settled < len(moving) else "does not limit",
            f"{len(moving) - settled - diverged} still oscillate at their last steps, {diverged} "
            "diverged",
        ),),
        parts=_each(moving, moving["settled"] == 1),
    )  # fmt: skip


def _each(rows: pd.DataFrame, held: pd.Series) -> tuple[Part, ...]:
    """Return how many runs of each data set do as claimed."""
    parts = []
    for name, kept in held.groupby(rows["data_set"]):
        yes = int(kept.sum())
        outcome, _ = decide_two_thirds(yes, len(kept) - yes)
        parts.append(Part(DATA_SETS[str(name)], outcome, f"{yes} of {len(kept)}"))
    return tuple(parts)


def _sooner(tables: Tables) -> Verdict:
    rows = larger_steps(tables)
    quicker = int((rows["speedup"] > 1).sum())
    outcome, reason = decide_two_thirds(quicker, len(rows) - quicker, "are quicker", "are not")
    missing = without_monotone(tables.stepsize_runs)
    reached = rows["speedup"].dropna()
    return Verdict(
        SOONER, outcome, reason, scope=_where(rows),
        measured=f"{number(reached.min(), 1)} to {number(reached.max(), 1)} times as quick, "
        f"median {number(reached.median(), 1)}" if len(reached) else "none gets there",
        sample=f"{count(len(rows), 'run')} beyond the largest monotone stepsize of their list",
        test="steps to the lowest risk that the largest monotone stepsize gets to",
        controls=(Control(
            "lists without a monotone member", "limits" if len(missing) else "does not limit",
            f"{count(len(missing), 'list')} of stepsizes, which cannot be judged",
        ),),
        parts=_each(rows, rows["speedup"] > 1),
    )  # fmt: skip


def _always(
    claim: Claim, checks: Iterable[tuple[str, pd.DataFrame, pd.Series]], measured: str,
    open_runs: str = "",
) -> Verdict:  # fmt: skip
    """Judge a claim that every run must keep, by checks: name, runs, mask of runs that keep it."""
    checked = [check for check in checks if len(check[1])]
    parts = tuple(
        Part(
            name,
            verdicts.SUPPORTS if kept.all() else verdicts.CONTRADICTS,
            f"kept in {kept.sum()} of {count(len(kept), 'run')}",
        )
        for name, _, kept in checked
    )
    held = sum(int(kept.sum()) for *_, kept in checked)
    outcome, reason = decide_always(held, sum(len(kept) for *_, kept in checked) - held)
    scope = _where(pd.concat([runs for _, runs, _ in checked])) if checked else ""
    most = max((len(runs) for _, runs, _ in checked), default=0)
    return Verdict(
        claim, outcome, reason, scope=scope, measured=measured,
        sample=count(most, "run") + open_runs, test="no run may break it", parts=parts,
    )  # fmt: skip


def _stable(runs: pd.DataFrame) -> Verdict:
    calm = runs[runs["stable_step"] >= 0]
    ratio = calm["conservatism"].dropna()
    return _always(
        STABLE,
        [("no rise once below the threshold", calm, calm["transition"] <= calm["stable_step"])],
        f"the lowest rise began {ratio.min():.0f} to {ratio.max():.0f} times above the threshold"
        if len(ratio) else "no risk rose in these runs",
        f"; {len(runs) - len(calm)} more never get there",
    )  # fmt: skip


def _margin(runs: pd.DataFrame) -> Verdict:
    with_norm = runs[runs["norm_falls"].notna()]
    rated = with_norm.dropna(subset=["rate_lower"])
    fell = with_norm[with_norm["margin_falls"] > 0]
    text = f"the raw margin, which no claim covers, fell in {count(len(fell), 'run')}"
    if len(fell):
        text += f", by {100 * fell['margin_drawdown'].max():.2g} % at most"
    return _always(
        MARGIN,
        [
            ("the norm grows", with_norm, with_norm["norm_falls"] == 0),
            ("the modified margin grows", with_norm, with_norm["modified_falls"] == 0),
            ("g_c ≤ g_b ≤ g ≤ g_a ≤ g + log(2n)/‖w‖", with_norm, with_norm["order_breaks"] == 0),
            ("lower bound of the rate", rated, rated["rate_lower"] <= 1),
            ("upper bound of the rate", rated, rated["rate_upper_log"] <= 0),
        ],
        text,
        f"; {len(runs) - len(with_norm)} more never get below the threshold",
    )


def _average(runs: pd.DataFrame) -> Verdict:
    risk, potential = (
        runs.dropna(subset=[name]) for name in ("average_ratio", "potential_ratio")
    )  # fmt: skip
    return _always(
        AVERAGE,
        [("average risk", risk, risk["average_ratio"] <= 1),
         ("average gradient potential", potential, potential["potential_ratio"] <= 1)],
        f"risk at most {risk['average_ratio'].max():.2g} of its bound, gradient potential "
        f"{potential['potential_ratio'].max():.2g}",
        _not_bounded(runs),
    )  # fmt: skip


def _not_bounded(runs: pd.DataFrame) -> str:
    out = runs[runs["bounded"] != 1]
    return f"; {len(out)} more are outside its conditions ({_where(out)})" if len(out) else ""


def _transition(runs: pd.DataFrame) -> Verdict:
    bounded = runs.dropna(subset=["transition_bound"])
    reached = bounded[bounded["settled_step"] >= 0]
    # A threshold that is not reached breaks the claim only if the run is as long as τ.
    over = bounded[
        (bounded["settled_step"] < 0) & (bounded["steps"] >= bounded["transition_bound"])
    ]
    judged = pd.concat([reached, over])
    rated = reached.dropna(subset=["stable_ratio"])
    kept = (judged["settled_step"] >= 0) & (judged["settled_step"] <= judged["transition_bound"])
    steps = reached["settled_step"]
    loose = (reached["transition_bound"] / steps.clip(lower=1)).median()
    return _always(
        TRANSITION,
        [("reached within τ", judged, kept),
         ("risk after it", rated, rated["stable_ratio"] <= 1)],
        f"reached after {steps.min():.0f} to {steps.max():.0f} steps; τ is {loose:,.0f} times "
        "as many (median)" if len(reached) else "not reached",
        f"; {len(bounded) - len(judged)} more reached neither the threshold nor τ"
        + _not_bounded(runs),
    )  # fmt: skip


def _acceleration(tables: Tables) -> Verdict:
    fitted = slopes(tables)
    fixed = fitted.get("monotone", fitted.get("one", math.nan))
    outcome, reason = decide_slopes(fitted.get("proportional", math.nan), fixed)
    return Verdict(
        ACCELERATION, outcome, reason, scope=DATA_SETS[LOWER_BOUND_SET],
        measured="; ".join(f"{SCHEDULES[name]}: {number(s, 2)}" for name, s in fitted.items()),
        published="slopes of −2 and −1",
        sample=count(tables.stepsize_acceleration["budget"].nunique(), "number") + " of steps T",
        test="slope of log L_T on log T by least squares",
    )  # fmt: skip


def _lower_bound(runs: pd.DataFrame) -> Verdict:
    bounded = runs[(runs["data_set"] == LOWER_BOUND_SET) & (runs["activation"] == "leaky_softplus")]
    calm = monotone(bounded).dropna(subset=["least_time_risk_late"])
    kept = calm["least_time_risk_late"] >= KEPT_UP * calm["least_time_risk_early"]
    largest = bounded[bounded["rises"] > 0]["least_time_risk"]
    text = f"t·L_t at least {number(calm['least_time_risk'].min(), 2)} in monotone runs"
    if len(largest):
        text += f", down to {largest.min():.1e} in others"
    return _always(LOWER_BOUND, [("t·L_t does not go to zero", calm, kept)], text)


SMALLEST_ACCURACY = 0.01
"""Smallest effect of interest on test accuracy, one point, as no number is published."""


def _tests(runs: pd.DataFrame, confidence: float) -> Verdict:
    tested = of_parts(runs, "sweep").dropna(subset=["accuracy"])
    gaps = []
    for _, same in tested.groupby(SAME_LIST):
        calm, larger = monotone(same), same[same["rises"] > 0]
        if len(calm) and len(larger):
            reference = calm.sort_values("stepsize")["accuracy"].iloc[-1]
            gaps.append(float(larger["accuracy"].mean() - reference))
    effect = effect_of_mean(gaps, confidence, "split")
    outcome, reason = verdicts.decide_effect(effect, +1, SMALLEST_ACCURACY, 1 - confidence)
    if outcome == verdicts.UNMEASURED:
        return Verdict(TESTS, outcome, "no data set with a test set has runs of both kinds")
    deep = of_parts(runs, "multilayer").dropna(subset=["accuracy"])
    return Verdict(
        TESTS, outcome, reason, scope=_where(tested),
        measured=verdicts.effect_text(effect, confidence),
        sample=f"{effect.replicates}, the mean of all stepsizes that oscillate",
        test="t test of the differences, paired by split",
        effect=effect,
        smallest=SMALLEST_ACCURACY,
        controls=() if deep.empty else (Control(
            "four layers", "does not limit",
            "accuracy " + ", ".join(f"{row.accuracy:.3f} at {row.stepsize:g}"
                                    for row in deep.itertuples()),
        ),),
    )  # fmt: skip


SLOPES, SLOPE_TOLERANCE = (-2.0, -1.0), 0.25
"""Claimed slopes with a stepsize in proportion to the steps, and with a fixed one."""


def decide_slopes(proportional: float, fixed: float) -> tuple[verdicts.Outcome, str]:
    """Judge the claimed acceleration by the slopes of log risk on log T."""
    if not (math.isfinite(proportional) and math.isfinite(fixed)):
        return verdicts.UNMEASURED, "fewer than three numbers of steps with both kinds of stepsize"
    if proportional >= fixed:
        return verdicts.CONTRADICTS, "the risk falls no faster where the stepsize grows"
    gaps = [
        abs(slope - claimed) for slope, claimed in zip((proportional, fixed), SLOPES, strict=True)
    ]
    if max(gaps) <= SLOPE_TOLERANCE:
        return verdicts.SUPPORTS, f"both slopes are within {SLOPE_TOLERANCE} of the claimed ones"
    return verdicts.UNDECIDED, f"steeper, but a slope is {number(max(gaps), 2)} off the claimed one"
