"""Figures of the sufficiency study."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.core.words import number
from mispair.report import charts, small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables
from mispair.sufficiency.report.runs import (
    ENCODERS,
    HEAD_TASKS,
    HEADS,
    NOT_RUN,
    TASKS,
    main_flip,
    rows,
    trained,
    worths,
)

KEPT = ["arm", "flip", "tree", "seed", "value", "low", "high"]
ERRORS = {
    "clip": "Excess contrastive risk (nats)",
    "zsc": "Excess cross-entropy (nats)",
    "cdm": "Excess squared error (sum over leaves)",
    "vlm": "Excess cross-entropy (nats)",
}


RUN_TIPS = ("value:Q:value", "low:Q:low", "high:Q:high", "tree:Q:trees", "seed:Q:seed")


def _hole(runs: pd.DataFrame, reason: str) -> Hole:
    return Hole(NOT_RUN if runs.empty else reason)


def _arms(data: pd.DataFrame, *names: str) -> list[str]:
    """Return the arms that occur, in the order of the names."""
    return [arm for arm in dict.fromkeys(names) if arm in set(data["arm"])]


def _colour(arms: list[str]) -> alt.Color:
    return charts.colour("arm", "Arm", style.SUFFICIENCY, arms)


def sufficiency_divergence(tables: Tables) -> Drawing | Hole:
    """Draw the divergence of every variant by K, one panel for each p."""
    runs = trained(tables.sufficiency)
    divergences = runs[(runs["metric"] == "sufficiency") & (runs["part"] == "both")]
    if divergences.empty:
        return _hole(runs, "no encoders were measured")
    data = divergences[[*KEPT, "candidates"]].reset_index(drop=True)
    data["panel"] = data["flip"].map("p = {:g}".format)
    arms = _arms(data, *ENCODERS, "untrained")
    panels = [
        _layers(data, panel, "candidates", "Candidates K (log scale)", arms,
                "Divergence (nats, log scale)", log_y=True)
        for panel in sorted(set(data["panel"]))
    ]  # fmt: skip
    largest = divergences[divergences["candidates"] == divergences["candidates"].max()]
    means = largest[largest["flip"] == main_flip(runs)].groupby("arm")["value"].mean()
    text = ", ".join(f"{arm} {number(means[arm])}" for arm in arms if arm in means.index)
    sentence = (
        f"At p = {main_flip(runs):g} and K = {largest['candidates'].iloc[0]:g} the divergence is: "
        f"{text} nats."
    )
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data.drop(columns="panel"), sentence, "arm")


def sufficiency_prompts(tables: Tables) -> Drawing | Hole:
    """Draw the zero-shot risk against M next to its controls."""
    runs = trained(tables.sufficiency)
    flip = main_flip(runs)
    runs = runs[(runs["task"] == "zsc") & (runs["metric"] == "risk") & runs["shifted"].isna()]
    at_flip = runs[runs["flip"] == flip]
    if at_flip.empty:
        return _hole(runs, "nothing was classified")
    data = at_flip[[*KEPT, "per_class"]].reset_index(drop=True)
    data["panel"] = panel = f"p = {flip:g}"
    arms = _arms(data, "bayes", "exact", *ENCODERS, "untrained")
    curves = _layers(data, panel, "per_class", "Prompts M for each class (log scale)", arms,
                     "Zero-shot risk (nats)")  # fmt: skip
    most = at_flip["per_class"].max()
    last = at_flip[at_flip["per_class"] == most].groupby("arm")["value"].mean()
    sentence = (
        f"With M = {most:g} the risk is {number(last.get('standard'))}; with "
        f"the best similarity {number(last.get('exact'))}, by Bayes {number(last.get('bayes'))}."
    )
    chart = charts.side_by_side([curves.properties(width=2 * charts.WIDTH)], 1, data)
    return Drawing(chart, data.drop(columns="panel"), sentence, "arm")


def _layers(
    data: pd.DataFrame, panel: str, x: str, x_title: str, arms: list[str], y_title: str,
    log_y: bool = False,
) -> charts.Panel:  # fmt: skip
    """Draw a curve for each run with its intervals, on a logarithmic x axis."""
    scale = alt.Scale(type="log") if log_y else alt.Scale(zero=False)
    base = (
        alt.Chart()
        .encode(
            x=alt.X(f"{x}:Q", title=x_title, scale=alt.Scale(type="log", nice=False, padding=12),
                    axis=alt.Axis(values=sorted(set(data[x])), labelOverlap=True)),
            color=_colour(arms),
            detail=["tree:N", "seed:N"],
            tooltip=charts.tips("arm:N:arm", f"{x}:Q:{x_title[-9:]}", *RUN_TIPS),
        )
        .transform_filter(f"datum.panel == '{panel}'")
    )  # fmt: skip
    line = base.mark_line(point=True).encode(
        y=alt.Y("value:Q", title=y_title, scale=scale),
        strokeDash=alt.condition("datum.arm == 'bayes'", alt.value([5, 4]), alt.value([1, 0])),
        opacity=charts.fade(1),
    )
    parts: list[alt.Chart] = [
        line.properties(name=f"{charts.VIEW}{x}_{panel[4:].replace('.', '_')}")
    ]
    if charts.limited(data, panel=panel):
        bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.2)
        parts.append(bars.encode(y=alt.Y("low:Q", title=y_title, scale=scale), y2="high:Q",
                                 opacity=charts.fade(0.6)))  # fmt: skip
    return alt.layer(*parts).properties(width=charts.WIDTH, height=charts.HEIGHT, title=panel)


def sufficiency_transfer(tables: Tables) -> Drawing | Hole:
    """Draw every head's excess over Bayes next to what the other modality is worth."""
    runs = trained(tables.sufficiency)
    flip = main_flip(runs)
    at_flip = runs[(runs["flip"] == flip) & runs["task"].isin(HEAD_TASKS)]
    measured = rows(at_flip, metric="difference", reference="bayes").sort_values(
        "task", kind="stable"
    )
    if measured.empty:
        return _hole(runs, "no heads were trained")
    data = measured[["task", *KEPT]].reset_index(drop=True)
    order = _arms(data, "unconditional", *HEADS)
    panels = []
    for task in data["task"].unique():
        base = alt.Chart().encode(
            y=alt.Y("arm:N", title="Predictor", sort=order),
            color=_colour(order),
            tooltip=charts.tips("arm:N:arm", *RUN_TIPS),
        ).transform_filter(f"datum.task == '{task}'")  # fmt: skip
        x = alt.X("value:Q", title=ERRORS[task], scale=alt.Scale(zero=True))
        points = base.mark_point(filled=True, size=70).encode(x=x)
        bars = base.mark_rule(strokeWidth=1.5).encode(
            x=alt.X("low:Q", title=ERRORS[task]), x2="high:Q"
        )
        parts = [bars, points]
        if len(data[(data["task"] == task) & (data["arm"] == "unconditional")]):
            line = alt.Chart().mark_rule(strokeDash=[5, 4], color=style.INK)
            parts.insert(
                0,
                line.encode(x=alt.X("mean(value):Q", title=ERRORS[task])).transform_filter(
                    f"datum.task == '{task}' && datum.arm == 'unconditional'"
                ),
            )
        panels.append(alt.layer(*parts).properties(
            width=charts.WIDTH - 30, height=24 * len(order) + 20, title=TASKS[task]
        ))  # fmt: skip
    means = measured.groupby(["task", "arm"])["value"].mean()
    sentences = [
        f"{TASKS[task]}: the frozen feature's head loses {number(means[task, 'frozen'])}, the "
        f"other modality is worth {number(means[task, 'unconditional'])}"
        for task in HEAD_TASKS
        if (task, "frozen") in means.index
    ]
    sentence = f"At p = {flip:g}, {'; '.join(sentences)}." if sentences else f"At p = {flip:g}."
    return Drawing(charts.side_by_side(panels, 2, data, gap=70), data, sentence)


def sufficiency_shift(tables: Tables) -> Drawing | Hole:
    """Draw the excess over Bayes where the tested p differs from the training's."""
    runs = trained(tables.sufficiency)
    shifts = runs[runs["shifted"].notna() & (runs["reference"] == "bayes")]
    shown = ("misspecified", *ENCODERS, *HEADS)
    shifts = shifts[shifts["arm"].isin(shown)]
    if shifts.empty:
        return _hole(runs, "no test was shifted")
    keys = ["task", "shifted", "arm", "flip", "test_flip"]
    data = shifts.groupby(keys)["value"].mean().reset_index()
    data["panel"] = data["task"] + " " + data["shifted"]
    arms = _arms(data, *shown)
    panels = []
    for task in TASKS:
        for shifted in ("both", "image", "text"):
            panel = f"{task} {shifted}"
            if panel not in set(data["panel"]):
                continue
            label = "both trees" if shifted == "both" else f"the {shifted}'s alone"
            panels.append(
                alt.Chart()
                .mark_line(point=True)
                .encode(
                    x=charts.x_axis("test_flip", "Tested p", sorted(set(data["test_flip"]))),
                    y=alt.Y("value:Q", title=ERRORS[task]),
                    color=_colour(arms),
                    detail="flip:N",
                    opacity=charts.fade(1),
                    tooltip=charts.tips("arm:N:arm", "flip:Q:trained at", "test_flip:Q:tested at",
                                        "value:Q:excess"),
                )
                .transform_filter(f"datum.panel == '{panel}'")
                .properties(width=charts.WIDTH, height=charts.HEIGHT,
                            title=f"{TASKS[task]}, {label}",
                            name=f"{charts.VIEW}shift_{task}_{shifted}")
            )  # fmt: skip
    of_encoders = data[(data["task"] == "clip") & (data["arm"] == "standard")]
    far = of_encoders.set_index("test_flip")["value"]
    sentence = "Each point is the mean over runs."
    if len(far):
        sentence = (
            f"Matching, trained at p = {main_flip(runs):g}: the excess is {number(far.iloc[0])} at "
            f"p = {far.index[0]:g} and {number(far.iloc[-1])} at p = {far.index[-1]:g}."
        )
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data.drop(columns="panel"), sentence, "arm")


def sufficiency_published(tables: Tables) -> Drawing | Hole:
    """Draw what the other modality is worth at the published size, and published excess risks."""
    points = []
    for task in HEAD_TASKS:
        for each in worths(tables.sufficiency, task):
            keys = {"task": task, "flip": each.flip}
            limits = {"low": each.worth.low, "high": each.worth.high}
            points.append({**keys, "arm": "unconditional", "value": each.worth.value, **limits})
            points += [
                {**keys, "arm": model, "value": value}
                for model, value in each.excess.items()
                if model != "shallow" or task == "vlm"
            ]
    data = pd.DataFrame(points)
    if data.empty:
        reason = "the published size was not measured (`measure_bayes: {published: true}`)"
        return _hole(tables.sufficiency, reason)
    arms = _arms(data, "unconditional", *HEADS)
    panels = []
    for task in HEAD_TASKS:
        base = alt.Chart().encode(
            x=charts.x_axis("flip", "Flip probability p", sorted(set(data["flip"]))),
            y=alt.Y("value:Q", title=ERRORS[task]),
            color=_colour(arms),
            tooltip=charts.tips("arm:N:arm", "flip:Q:p", "value:Q:value"),
        ).transform_filter(f"datum.task == '{task}'")  # fmt: skip
        worth = base.transform_filter("datum.arm == 'unconditional'")
        models = base.transform_filter("datum.arm != 'unconditional'")
        band = worth.mark_area(opacity=0.25).encode(
            y=alt.Y("low:Q", title=ERRORS[task]), y2="high:Q"
        )
        panels.append(
            alt.layer(
                band, worth.mark_line(),
                models.mark_line(point=alt.OverlayMarkDef(filled=False, size=60), strokeDash=[5, 4])
                .encode(opacity=charts.fade(1))
                .properties(name=f"{charts.VIEW}published_{task}"),
            ).properties(width=charts.WIDTH, height=charts.HEIGHT,
                         title=TASKS[task])
        )  # fmt: skip
    cdm = worths(tables.sufficiency, "cdm")
    above = sum(not each.below("frozen") for each in cdm)
    sentence = (
        f"Denoising: the published head on the frozen feature loses more than the text is worth at "
        f"{above} of {len(cdm)} p. Shallow denoisers, which lose far more, are only in the table."
    )
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data, sentence, "arm")


def small_sufficiency(tables: Tables) -> Drawing | Hole:
    """Draw the divergence of trained and untrained encoders with the most candidates."""
    runs = trained(tables.sufficiency)
    rows = runs[(runs["metric"] == "sufficiency") & (runs["part"] == "both")]
    rows = rows[rows["arm"].isin(["standard", "untrained"]) & rows["value"].notna()]
    if rows.empty:
        return _hole(runs, "no encoders were measured")
    rows = rows[
        (rows["flip"] == main_flip(runs)) & (rows["candidates"] == rows["candidates"].max())
    ]
    labels = rows["arm"].map({"standard": "trained", "untrained": "untrained"})
    points = rows.assign(label=labels).sort_values("label")[["label", "value"]]
    chart, data = small.dots(
        points.reset_index(drop=True), "Divergence from the best (nats)", colour=style.BLUE
    )
    means = points.groupby("label")["value"].mean()
    listed = ", ".join(f"{label} {number(value)}" for label, value in means.items())
    return Drawing(chart, data, f"Divergence in nats: {listed}.")
