"""Figures of the sufficiency study."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.report import charts, small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables
from mispair.sufficiency.report.runs import (
    ENCODERS,
    HEAD_TASKS,
    HEADS,
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


def _hole(runs: pd.DataFrame, reason: Note) -> Hole:
    return Hole(Note("sufficiency", "hole_not_run") if runs.empty else reason)


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
        return _hole(runs, Note("sufficiency", "hole_encoders"))
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
    note = Note(
        "sufficiency", "figure_divergence", flip=main_flip(runs),
        candidates=largest["candidates"].iloc[0],
        means={arm: means[arm] for arm in arms if arm in means.index},
    )  # fmt: skip
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data.drop(columns="panel"), [note], "arm")


def sufficiency_prompts(tables: Tables) -> Drawing | Hole:
    """Draw the zero-shot risk against M next to its controls."""
    runs = trained(tables.sufficiency)
    flip = main_flip(runs)
    runs = runs[(runs["task"] == "zsc") & (runs["metric"] == "risk") & runs["shifted"].isna()]
    at_flip = runs[runs["flip"] == flip]
    if at_flip.empty:
        return _hole(runs, Note("sufficiency", "hole_classified"))
    data = at_flip[[*KEPT, "per_class"]].reset_index(drop=True)
    data["panel"] = panel = f"p = {flip:g}"
    arms = _arms(data, "bayes", "exact", *ENCODERS, "untrained")
    curves = _layers(data, panel, "per_class", "Prompts M for each class (log scale)", arms,
                     "Zero-shot risk (nats)")  # fmt: skip
    most = at_flip["per_class"].max()
    last = at_flip[at_flip["per_class"] == most].groupby("arm")["value"].mean()
    note = Note("sufficiency", "figure_prompts", most=most, risks=last.to_dict())
    chart = charts.side_by_side([curves.properties(width=2 * charts.WIDTH)], 1, data)
    return Drawing(chart, data.drop(columns="panel"), [note], "arm")


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
        return _hole(runs, Note("sufficiency", "hole_heads"))
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
    losses = [
        (TASKS[task], means[task, "frozen"], means[task, "unconditional"])
        for task in HEAD_TASKS
        if (task, "frozen") in means.index
    ]
    note = Note("sufficiency", "figure_transfer", flip=flip, losses=losses)
    return Drawing(charts.side_by_side(panels, 2, data, gap=70), data, [note])


def sufficiency_shift(tables: Tables) -> Drawing | Hole:
    """Draw the excess over Bayes where the tested p differs from the training's."""
    runs = trained(tables.sufficiency)
    shifts = runs[runs["shifted"].notna() & (runs["reference"] == "bayes")]
    shown = ("misspecified", *ENCODERS, *HEADS)
    shifts = shifts[shifts["arm"].isin(shown)]
    if shifts.empty:
        return _hole(runs, Note("sufficiency", "hole_shifted"))
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
    note = Note("sufficiency", "figure_means")
    if len(far):
        ends = [(far.iloc[end], far.index[end]) for end in (0, -1)]
        note = Note("sufficiency", "figure_shift", flip=main_flip(runs), ends=ends)
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data.drop(columns="panel"), [note], "arm")


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
        return _hole(tables.sufficiency, Note("sufficiency", "hole_published"))
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
    note = Note("sufficiency", "figure_published", above=above, of=len(cdm))
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data, [note], "arm")


def small_sufficiency(tables: Tables) -> Drawing | Hole:
    """Draw the divergence of trained and untrained encoders with the most candidates."""
    runs = trained(tables.sufficiency)
    rows = runs[(runs["metric"] == "sufficiency") & (runs["part"] == "both")]
    rows = rows[rows["arm"].isin(["standard", "untrained"]) & rows["value"].notna()]
    if rows.empty:
        return _hole(runs, Note("sufficiency", "hole_encoders"))
    rows = rows[
        (rows["flip"] == main_flip(runs)) & (rows["candidates"] == rows["candidates"].max())
    ]
    labels = rows["arm"].map({"standard": "trained", "untrained": "untrained"})
    points = rows.assign(label=labels).sort_values("label")[["label", "value"]]
    chart, data = small.dots(
        points.reset_index(drop=True), "Divergence from the best (nats)", colour=style.BLUE
    )
    means = points.groupby("label")["value"].mean().to_dict()
    return Drawing(chart, data, [Note("sufficiency", "figure_small", means=means)])
