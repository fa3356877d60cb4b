"""The figure that compares schemes of corruption."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.core.words import listing, number
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.evaluation.report.series import change, purity_series, zeroshot_series
from mispair.report import charts, published, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables

UNITS = {"acc1": "acc1 (share of images)"}
PANELS = {
    "text": "Text projection: mean |cos|",
    "image": "Image projection: mean |cos|",
    "acc1": "Zero-shot accuracy (acc1), mean of sets",
    "published": "Published (CC3M, text): mean |cos|",
}


def _series(tables: Tables, panel: str) -> pd.DataFrame:
    if panel == "acc1":
        return zeroshot_series(tables, "pretrained", panel)
    return purity_series(tables, "pretrained", panel, "mean_abs_cosine")


def purity_by_scheme(tables: Tables) -> Drawing | Hole:
    """Overlap and accuracy against the nominal share, one line for each scheme."""
    if not tables.study("image_text"):
        return Hole("the image-text study was not run")
    series_of = {
        (panel, scheme): _series(tables.of_scheme(scheme), panel).dropna()
        for panel in PANELS if panel != "published" for scheme in tables.schemes
    }  # fmt: skip
    runs = pd.concat(
        [values.assign(panel=panel, scheme=scheme) for (panel, scheme), values in series_of.items()]
        or [pd.DataFrame()],
        ignore_index=True,
    )
    # The arm at rate 0 is in every scheme: it alone makes no line.
    swept = {
        scheme for scheme in tables.schemes if (runs[runs["scheme"] == scheme]["rate"] > 0).any()
    }
    if len(swept) < 2:
        return Hole(
            "fewer than two schemes of corruption were measured from the pre-trained projections; "
            "name more in corrupt_captions: {schemes: [random, similar]} and run again"
        )
    runs = runs[runs["scheme"].isin(swept)]
    curve = published.purity_by_scheme().rename(
        columns={"shuffle_probability": "rate", "mean_abs_cosine": "value"}
    )[["scheme", "rate", "value"]]
    data = charts.layers(
        runs[["panel", "scheme", "rate", "seed", "value"]],
        ["panel", "scheme", "rate"],
        curve.assign(layer="mean", panel="published"),
    )
    data, left_out = charts.within(data, "rate")
    present = [name for name in PANELS if name in set(data["panel"])]
    panels = [_panel(name, sorted(swept), data) for name in present]
    return Drawing(
        charts.side_by_side(panels, 2, data),
        data,
        _sentence(tables, series_of, swept) + left_out,
        "scheme",
    )


def _panel(name: str, schemes: list[str], data: pd.DataFrame) -> charts.Panel:
    rows = data[data["panel"] == name]
    base = alt.Chart().encode(
        x=charts.x_axis("rate", "Nominal share of pairs corrupted", sorted(rows["rate"].unique())),
        y=charts.y_axis(UNITS.get(name, "Mean |cos| of neuron pairs")),
        color=charts.colour("scheme", "Scheme", style.SCHEMES, schemes),
    )
    tips = charts.tips("scheme:N:scheme", "rate:Q:nominal share", "value:Q:value", "seed:Q:seed",
                       "n:Q:seeds")  # fmt: skip
    dashes = [4, 3] if name == "published" else [1, 0]
    shape = "diamond" if name == "published" else "circle"
    line = charts.only(base, "mean").mark_line(
        strokeDash=dashes, point=alt.OverlayMarkDef(size=50, shape=shape)
    )
    line = line.encode(opacity=charts.fade(1), tooltip=tips)
    parts: list[alt.Chart] = [line.properties(name=f"{charts.VIEW}{name}")]
    if charts.limited(data, panel=name):
        parts.insert(0, charts.band(charts.only(base, "mean")))
    if "run" in set(rows["layer"]):
        points = charts.only(base, "run").mark_circle(size=24)
        parts.append(points.encode(opacity=charts.fade(0.4), tooltip=tips))
    layered = alt.layer(*parts).transform_filter(f"datum.panel == '{name}'")
    return layered.properties(width=charts.WIDTH, height=charts.HEIGHT, title=PANELS[name])


def _sentence(tables: Tables, shown: dict[tuple[str, str], pd.DataFrame], swept: set[str]) -> str:
    parts = []
    by = f" ({protocol_phrase(tables)})" if ("acc1", tables.schemes[0]) in shown else ""
    for panel, label, digits in (
        ("text", "mean |cos| of text neurons", 4),
        ("acc1", "accuracy", 3),
    ):
        moved = {
            scheme: change(values)
            for (name, scheme), values in shown.items()
            if name == panel and scheme in swept
        }
        changes = [f"{scheme} {number(value, digits, sign=True)}" for scheme, value in moved.items()
                 if value == value]  # fmt: skip
        if changes:
            parts.append(f"{label} by {listing(changes)}")
    return (
        "Change from the lowest to the highest share, fine-tuned from the pre-trained "
        f"projections: {'; '.join(parts)}{by}."
    )
