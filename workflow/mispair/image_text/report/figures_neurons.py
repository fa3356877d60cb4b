"""The figures of how neurons overlap: cosines of pairs by C_m, and heat maps."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from mispair.core.words import listing, number
from mispair.evaluation.report.series import TOWERS
from mispair.image_text.report.figures_shuffling import NOT_RUN
from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables, mean_by, records

NO_ARM = "no arm from the pre-trained projections was measured"
SHARE = charts.tips(
    "rate:Q:C_m", "bin_low:Q:from", "bin_high:Q:to", "value:Q:share of pairs", "low:Q:−1 s.d.",
    "high:Q:+1 s.d.", "n:Q:seeds",
)  # fmt: skip
MAP = 240
"""Side of a heat map, in pixels."""
STEPS = 10
"""Most steps of the ladder: more values of C_m could not be distinguished."""


def cosine_histogram(tables: Tables) -> Drawing | Hole:
    """Distribution of signed cosines of neuron pairs, one line for each C_m."""
    rows = _histograms(tables)
    if rows.empty:
        return Hole(NOT_RUN if tables.purity.empty else NO_ARM)
    rows = rows.assign(cosine=(rows["bin_low"] + rows["bin_high"]) / 2)
    data = charts.summary(rows, ["tower", "rate", "bin_low", "bin_high", "cosine"])
    shown = data.loc[data["value"] > 5e-4, "cosine"].abs().max()
    domain = [-shown, shown]
    # Bins beyond the drawn part would only make the file larger.
    data = data[data["cosine"].abs() <= shown * 1.05]
    data, left_out = charts.within(data, "rate")
    rates = sorted(data["rate"].unique())
    panels = [
        charts.hovered(
            alt.Chart(name=f"{charts.VIEW}{tower}")
            .mark_line(interpolate="step", clip=True, strokeWidth=1.8)
            .encode(
            x=alt.X("cosine:Q", title="Cosine of two neurons",
                    scale=alt.Scale(domain=domain, nice=False)),
            y=alt.Y("value:Q", title="Share of pairs",
                    axis=alt.Axis(format="~%")),
            color=alt.Color("rate:O", title="C_m", legend=alt.Legend(columns=8), scale=alt.Scale(
                domain=rates, scheme=alt.SchemeParams("viridis", extent=[0.05, 0.85]))),
            opacity=charts.fade(1),
            ),
            SHARE,
        )
        .transform_filter(f"datum.tower == '{tower}'")
        .properties(width=charts.WIDTH, height=charts.HEIGHT,
                    title=f"{tower.capitalize()} projection")
        for tower in TOWERS if tower in set(data["tower"])
    ]  # fmt: skip
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data, _histogram_sentence(rows) + left_out, "rate")


def _histograms(tables: Tables) -> pd.DataFrame:
    table = tables.purity
    selected = (table["metric"] == "cosine_histogram") & (table["start"] == "pretrained")
    return table[selected & table["value"].notna() & table["rate"].notna()]


def _histogram_sentence(rows: pd.DataFrame) -> str:
    data = mean_by(rows, ["tower", "rate", "cosine"])
    texts = []
    for tower, of_tower in data.groupby("tower", sort=False):
        spread = of_tower.groupby("rate").apply(
            lambda rows: (
                (rows["value"] * rows["cosine"] ** 2).sum() / rows["value"].sum()
            ) ** 0.5
        )  # fmt: skip
        texts.append(f"{tower} {number(spread.iloc[0])} → {number(spread.iloc[-1])}")
    rates = sorted(data["rate"].unique())
    return (
        f"Root mean square of the cosines from C_m {rates[0]:g} to {rates[-1]:g}: {listing(texts)}."
    )


def cosine_ladder(tables: Tables) -> Drawing | Hole:
    """Distribution of |cos| of neuron pairs, a small panel for each C_m and tower."""
    rows = _histograms(tables)
    if rows.empty:
        return Hole(NOT_RUN if tables.purity.empty else NO_ARM)
    rates = charts.evenly(rows["rate"].unique().tolist(), STEPS)
    ends = rows[["bin_low", "bin_high"]].abs()
    # Bins are symmetric about 0; of an odd number, the middle one begins at 0.
    inner = ends.min(axis=1).where(rows["bin_low"] * rows["bin_high"] >= 0, 0.0)
    folded = rows.assign(bin_low=inner.round(9), bin_high=ends.max(axis=1).round(9))
    bins = ["tower", "rate", "bin_low", "bin_high"]
    per_seed = folded.groupby([*bins, "seed"], dropna=False)[["value"]].sum().reset_index()
    data = charts.summary(per_seed[per_seed["rate"].isin(rates)], bins).assign(layer="share")
    reach = data.loc[data["value"] > 1e-3, "bin_high"].max()
    data = data[data["bin_high"] <= reach]
    table = tables.purity
    means = table[(table["metric"] == "mean_abs_cosine") & (table["start"] == "pretrained")]
    means = mean_by(means[means["rate"].isin(rates)], ["tower", "rate"]).dropna()
    data = pd.concat([data, means.assign(layer="mean")], ignore_index=True)
    towers = [tower for tower in TOWERS if tower in set(data["tower"])]
    top = data[data["layer"] == "share"].groupby("tower")["value"].max()
    domain = [0, max([reach, *means["value"]])]
    panels = [
        _step(rate, tower, domain, float(top[tower]), tower == towers[0], rate == rates[0],
              rate == rates[-1])
        for rate in rates for tower in towers
    ]  # fmt: skip
    chart = charts.side_by_side(panels, len(towers), data, gap=40, row_gap=4)
    left_out = len(rows["rate"].unique()) - len(rates)
    return Drawing(chart, data, _ladder_sentence(means, towers, left_out))


def _step(
    rate: float, tower: str, domain: list[float], top: float, first: bool, highest: bool, last: bool
) -> charts.Panel:
    axis = alt.Axis(labels=last, ticks=last, format="~g")
    x = alt.X("bin_low:Q", title="|cos| of two neurons" if last else None, axis=axis, bin="binned",
              scale=alt.Scale(domain=domain, nice=False))  # fmt: skip
    title = f"C_m {rate:g}" if first else None
    bars = charts.only(alt.Chart(), "share").mark_bar(
        binSpacing=0, color=style.TOWERS[tower], opacity=0.75, clip=True
    ).encode(
        x=x, x2="bin_high:Q", tooltip=SHARE,
        y=alt.Y("value:Q", scale=alt.Scale(domain=[0, top]), axis=alt.Axis(
            title=title, titleAngle=0, titleAlign="right", titleBaseline="middle", grid=False,
            labels=False, ticks=False)),
    )  # fmt: skip
    mean = charts.only(alt.Chart(), "mean").mark_rule(color=style.INK, strokeWidth=2).encode(
        x=alt.X("value:Q"), tooltip=charts.tips("rate:Q:C_m", "value:Q:mean |cos|")
    )  # fmt: skip
    layered = alt.layer(bars, mean).transform_filter(
        f"datum.tower == '{tower}' && datum.rate == {rate:.6g}"
    )
    heading = f"{tower.capitalize()} projection" if highest else ""
    return layered.properties(width=charts.WIDTH - 40, height=44, title=heading)


def _ladder_sentence(means: pd.DataFrame, towers: list[str], left_out: int) -> str:
    texts = []
    for tower in towers:
        of_tower = means[means["tower"] == tower].sort_values("rate")["value"]
        if len(of_tower) > 1:
            texts.append(f"{tower} {number(of_tower.iloc[0])} → {number(of_tower.iloc[-1])}")
    sentence = "Mean |cos| from the upper to the lowest step: " + listing(texts) if texts else (
        "One C_m was measured"
    )  # fmt: skip
    return sentence + (f"; {left_out} values of C_m in between are not drawn." if left_out else ".")


def overlap_map(tables: Tables) -> Drawing | Hole:
    """Mean |cos| between groups of neurons: untouched, and at the lowest and highest C_m."""
    table = tables.purity_map[tables.purity_map["value"].notna()]
    tuned = table.loc[table["start"] == "pretrained", "rate"].dropna()
    arms_of = {"untouched": table["start"] == "untouched"}
    for rate in dict.fromkeys([tuned.min(), tuned.max()] if len(tuned) else []):
        arms_of[f"C_m = {rate:g}"] = (table["start"] == "pretrained") & (table["rate"] == rate)
    parts = [table[which].assign(arm=name) for name, which in arms_of.items() if which.any()]
    if not parts:
        return Hole(
            NOT_RUN if tables.purity.empty else "no map was made; `measure_purity: {map_bins: 40}` "
            "makes those of the untouched projections and of both ends of C_m"
        )  # fmt: skip
    cells = pd.concat(parts, ignore_index=True)
    cells = cells[
        cells["seed"].fillna(0) == cells.groupby("arm")["seed"].transform("min").fillna(0)
    ]
    columns = ["arm", "tower", "row", "column", "value", "n"]
    below = cells[cells["row"] < cells["column"]]
    below = below.rename(columns={"row": "column", "column": "row"})
    data = pd.concat([cells, below], ignore_index=True)[columns]
    data = data.sort_values(columns[:-2], ignore_index=True)
    arms = [part["arm"].iloc[0] for part in parts]
    towers = [tower for tower in TOWERS if tower in set(data["tower"])]
    panels = [
        _map(arm, tower, data, tower == towers[0], arm == arms[-1])
        for arm in arms for tower in towers
    ]  # fmt: skip
    chart = alt.concat(
        *panels, columns=len(towers), data=_compact(data), bounds="flush",
        spacing={"row": 56, "column": 48},
    ).resolve_scale(color="shared")  # fmt: skip
    return Drawing(chart, data, _map_sentence(data, arms, towers))


def _compact(data: pd.DataFrame) -> alt.InlineData:
    """Return the cells of a map row by row: a third of the bytes of a row for each cell."""
    rows: list[dict[str, Any]] = []
    for (arm, tower, row), group in data.groupby(["arm", "tower", "row"], sort=False):
        cells = records(group)
        rows.append({
            "arm": arm, "tower": tower, "row": row,
            "column": [int(cell["column"]) for cell in cells],
            "value": [float(f"{cell['value']:.3g}") for cell in cells],
        })  # fmt: skip
    return alt.InlineData(values=rows)


def _map(arm: str, tower: str, data: pd.DataFrame, first: bool, last: bool) -> charts.Panel:
    groups = int(data["row"].max()) + 1
    axis = alt.Axis(labels=False, ticks=False, grid=False, domain=False)
    top = float(data["value"].max())
    colour = alt.Color(
        "value:Q", title="Mean |cos|", legend=alt.Legend(gradientLength=220, format="~g"),
        scale=alt.Scale(scheme="viridis", domain=[0, top], nice=False),
    )  # fmt: skip
    cells = data[(data["arm"] == arm) & (data["tower"] == tower)]
    chart = (
        alt.Chart()
        .transform_filter(f"datum.arm == '{arm}' && datum.tower == '{tower}'")
        .transform_flatten(["column", "value"])
        .mark_rect()
        .encode(
            x=alt.X("column:O", title="Neurons, purest first" if last else None, axis=axis),
            y=alt.Y("row:O", title="Neurons, purest first" if first else None, axis=axis),
            color=colour,
            tooltip=charts.tips("row:Q:group", "column:Q:with group", "value:Q:mean |cos|"),
        )
    )
    mean = (cells["value"] * cells["n"]).sum() / cells["n"].sum() if len(cells) else float("nan")
    title = alt.TitleParams(
        text=f"{tower.capitalize()}, {arm}", subtitle=f"mean {number(mean, 4)}; {groups} groups",
        subtitleColor=style.QUIET,
    )  # fmt: skip
    # Cells have whole pixels: otherwise there are seams between them.
    step = alt.Step(max(1, MAP // groups))
    return chart.properties(width=step, height=step, title=title)


def _map_sentence(data: pd.DataFrame, arms: list[str], towers: list[str]) -> str:
    sentences = []
    for tower in towers:
        of_tower = data[data["tower"] == tower]
        parts = []
        for arm in arms:
            part = of_tower[of_tower["arm"] == arm].set_index(["row", "column"])["value"]
            ends = [(end, end) for end in (0, part.index.get_level_values(0).max())]
            if part.index.isin(ends).sum() == len(set(ends)):
                purest, least = (number(float(part[end])) for end in ends)
                parts.append(f"{purest} and {least} ({arm})")
        if parts:
            sentences.append(f"{tower} {', '.join(parts)}")
    if not sentences:
        return "Groups are single neurons."
    return f"Mean |cos| within the purest and within the least pure group: {'; '.join(sentences)}."
