"""The figure of the LaCLIP study: CLIP and LaCLIP, measured and published."""

import math

import altair as alt
import pandas as pd

from mispair.image_text.report.arms import short
from mispair.laclip.report.claims import METHODS, of_overlap, scores
from mispair.report import charts, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables, records
from mispair.report.texts import Note

TITLES = {"acc1": "Accuracy (headline metric, share)", "silhouette": "Silhouette (cosine)"}
SHAPES = {"measured": "circle", "published": "diamond"}
ROW = 20
MOST_ROWS = 80
"""Most rows of models and sets; beyond, each model has one row, the mean over the sets."""


def _hole(tables: Tables, reason: Note) -> Hole:
    return Hole(Note("laclip", "hole_not_run") if tables.checkpoints.empty else reason)


def checkpoints(tables: Tables) -> Drawing | Hole:
    """Every model on every set: accuracy under the main protocol, and silhouette."""
    tables = tables.of_protocol()
    rows = []
    for measure in TITLES:
        for score in scores(tables, measure):
            label = f"{score.pretraining} {score.architecture}, {score.evaluation_set}"
            by = "" if score.protocol is None else (
                f"{score.metric}, {score.protocol} {short(score.fingerprint)}"
            )  # fmt: skip
            kind = f"{score.pretraining} {score.architecture}"
            keys = {"measure": measure, "label": label, "kind": kind, "method": score.method,
                    "model": score.towers, "by": by}  # fmt: skip
            rows.append({**keys, "what": "measured", "value": score.value,
                         "low": score.low, "high": score.high})  # fmt: skip
            if math.isfinite(score.published):
                rows.append({**keys, "what": "published", "value": score.published})
    data = pd.DataFrame(rows)
    if data.empty or data["value"].notna().sum() == 0:
        return _hole(tables, Note("laclip", "hole_checkpoints"))
    data, left_out = _short(data[data["value"].notna()])
    panels = [_panel(measure, data) for measure in TITLES if measure in set(data["measure"])]
    chart = charts.side_by_side(panels, 1, data)
    return Drawing(chart, data, left_out, "method")


def _short(data: pd.DataFrame) -> tuple[pd.DataFrame, list[Note]]:
    """Average measured numbers over the sets if there are more rows than can be read.

    Returns the rows and notes on what was left out.
    """
    if data["label"].nunique() <= MOST_ROWS:
        return data.drop(columns="kind"), []
    measured = data[data["what"] == "measured"]
    sets = measured.groupby(["measure", "model"])["label"].transform("nunique")
    keys = ["measure", "kind", "method", "model", "what"]
    means = measured.assign(n=sets).groupby([*keys, "n"], sort=False)["value"].mean().reset_index()
    means["label"] = means["kind"] + " (" + means["model"] + ")"
    means["by"] = "mean of " + means["n"].map("{:g}".format) + " sets"
    return means.drop(columns=["kind", "n"]), [Note("laclip", "figure_means")]


def _panel(measure: str, data: pd.DataFrame) -> charts.Panel:
    rows = data[data["measure"] == measure]
    methods = sorted(set(rows["method"]), key=lambda name: (name not in METHODS, name))
    colours = style.colours("method", methods)
    base = alt.Chart().encode(
        x=alt.X("value:Q", title=TITLES[measure], scale=alt.Scale(zero=False)),
        y=alt.Y("label:N", title="Model and evaluation set", axis=alt.Axis(labelLimit=330)),
        color=charts.colour("method", "Method", colours, methods),
        tooltip=charts.tips("model:N:model", "method:N:method", "what:N:", "value:Q:value",
                            "by:N:by"),
    )  # fmt: skip
    shape = alt.Shape("what:N", title="Numbers", scale=alt.Scale(
        domain=list(SHAPES), range=list(SHAPES.values())))  # fmt: skip
    points = base.encode(shape=shape, opacity=charts.fade(1))
    parts = [
        points.transform_filter("datum.what == 'measured'")
        .mark_point(filled=True, size=70)
        .properties(name=f"{charts.VIEW}checkpoints_{measure}")
    ]
    if "published" in set(rows["what"]):
        published_points = points.transform_filter("datum.what == 'published'")
        parts.append(published_points.mark_point(filled=False, strokeWidth=2, size=70))
    if charts.limited(rows, measure=measure):
        bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
        parts.insert(0, bars.encode(x="low:Q", x2="high:Q", opacity=charts.fade(0.6)))
    layered = alt.layer(*parts).transform_filter(f"datum.measure == '{measure}'")
    height = ROW * max(2, rows["label"].nunique())
    return layered.properties(width=2 * charts.WIDTH - 330, height=height)


def small_laclip(tables: Tables) -> Drawing | Hole:
    """Draw mean |cos| of LaCLIP models less that of CLIP models, one point per pair and tower."""
    runs = pd.DataFrame(
        [
            {"label": f"{tower} neurons", "value": pair["last"] - pair["first"]}
            for tower in ("text", "image")
            for pair in records(of_overlap(tables, tower, "mean_abs_cosine"))
        ],
        columns=["label", "value"],
    ).dropna()
    if runs.empty:
        return _hole(tables, Note("laclip", "hole_pairs"))
    chart, data = small_figures.dots(
        runs, "LaCLIP − CLIP, mean |cos|", colour=style.ONLY, levels=(0.0,)
    )
    return Drawing(chart, data)
