"""The figures of the image-text study: a function of the name of each figure draws it.

Most are against the share of shuffled captions C_m. Their query is rows of a ``panel`` and an arm
(``start`` or ``scheme``) at each ``rate``, whose ``layer`` is a run, the mean of runs, a curve of a
control or of the paper, or a level.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from mispair.evaluation.report.rows import published_directions
from mispair.evaluation.retrieval import OF_CATEGORY, SELECTION
from mispair.evaluation.semantics import ORIGINAL, ROTATED
from mispair.image_text.report import claims
from mispair.image_text.report.arms import (
    BY_SCALE,
    COLOURS,
    SHOWN,
    TOWERS,
    purity_series,
    scale_series,
    zeroshot_series,
)
from mispair.image_text.report.neurons import (
    BASELINES,
    in_own_basis,
    mean_series,
    measured_arm,
    pruned_arm,
    ranked_by_tower,
    with_basis,
)
from mispair.pairs.corruption.scheme import MAIN, schemes
from mispair.report import charts, published, recipes, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.claims import THIRD
from mispair.report.judge import PRIMARY
from mispair.report.rules import decide
from mispair.report.tables import Tables, mean_by, where
from mispair.report.texts import Note
from mispair.towers.arms import CONVERGED, LABELS, PRETRAINED, UNTOUCHED

SCHEMES = style.colours("scheme", schemes())
LEVEL, CHANCE, PUBLISHED = LABELS[UNTOUCHED], "chance", "published"
LINES = {
    "mean": recipes.SOLID, "in rotated bases": recipes.DASHED, PUBLISHED: recipes.DOTTED,
    LEVEL: recipes.LONG, "random vectors": [1, 3], CHANCE: [1, 3],
}  # fmt: skip
"""Layers that are lines, and their dashes."""
PROJECTIONS = {tower: f"{tower.capitalize()} neurons" for tower in TOWERS}
PANELS = {tower: tower.capitalize() for tower in TOWERS}
OF_PAPER = "Published"
OVERLAP, DIRECTIONS, ACCURACY = "mean |cos|", "directions", "accuracy"
ORDER = [f"{of}: {measure}" for measure in (OVERLAP, DIRECTIONS)
         for of in (*PANELS.values(), OF_PAPER)]  # fmt: skip
"""Panels that are before all others."""
R = "|r| with the best feature"
FOLLOWS = "Correlation with feature"
"""The same on the first page, in words."""


def missing(table: pd.DataFrame, reason: Note) -> Hole:
    """Return a hole with the given reason, or because the study was not run."""
    return Hole(Note("image_text", "hole_not_run") if table.empty else reason)


def no_truth(tables: Tables) -> Hole:
    """Return a hole for what needs the features of the pictures."""
    return Hole(Note("image_text", "hole_truth", ran=tables.study("image_text")))


def no_pruning(tables: Tables) -> Hole:
    """Return a hole for what needs a pruned arm."""
    return Hole(Note("image_text", "hole_pruning", ran=tables.study("image_text")))


# Against the share of shuffled captions -----------------------------------------------------------


def purity_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Draw mean |cos| and the participation ratio by tower, with controls; published ones apart."""
    cosines = published.purity().set_index("shuffle_probability")["mean_abs_cosine"]
    of = {"mean_abs_cosine": (OVERLAP, cosines),
          "participation_ratio": (DIRECTIONS, published_directions())}  # fmt: skip
    rows = pd.concat([_purity(tables, metric, title) for metric, (title, _) in of.items()])
    if rows["rate"].isna().all():
        return missing(tables.purity, Note("image_text", "hole_fine_tuned"))
    random = mean_by(_purity(tables, "random_reference", OVERLAP), ["panel", "y"])
    rotated = _purity(tables, "mean_abs_cosine_rotated", OVERLAP).dropna(subset=["rate"])
    return _by_rate(
        rows, COLOURS, random.assign(layer="random vectors"),
        mean_by(rotated, ["panel", "y", "start", "rate"]).assign(layer="in rotated bases"),
        *(_published(curve, title) for title, curve in of.values()),
    )  # fmt: skip


def _purity(tables: Tables, metric: str, title: str) -> pd.DataFrame:
    """Return one row for each arm, tower and seed; rotations are averaged."""
    rows = where(tables.purity, metric=metric, start=[*COLOURS]).dropna(subset=["value"])
    panels = rows["tower"].map(PANELS) + f": {title}"
    rows = rows.assign(panel=panels, y=[_axis(title, tower) for tower in rows["tower"]])
    return mean_by(rows, ["panel", "y", "start", "rate", "seed"])


def _published(curve: pd.Series, title: str) -> pd.DataFrame:
    rows = curve.rename_axis("rate").rename("value").reset_index()
    panel, y = f"{OF_PAPER}: {title}", _axis(title, PUBLISHED)
    return rows.assign(layer=PUBLISHED, panel=panel, y=y, start=PRETRAINED)


def _axis(measure: str, of: str) -> str:
    """Return the title of an axis; each tower has its own for directions, whose levels differ."""
    return f"{measure} ({of})" if measure == DIRECTIONS else measure


def _directions(starts: Sequence[tuple[Tables, str, str]]) -> list[Any]:
    """Return the directions of both towers for each of some tables, starts and names."""
    return [
        (purity_series(tables, start, tower, "participation_ratio"), name,
         f"{PANELS[tower]}: {DIRECTIONS}", _axis(DIRECTIONS, tower))
        for tower in TOWERS for tables, start, name in starts
    ]  # fmt: skip


def overlap_by_scale(tables: Tables) -> Drawing | Hole:
    """Draw the directions of both towers, and the cosine gap times the scale, by logit scale."""
    rows = _stacked("start", _directions([(tables, start, start) for start in BY_SCALE]) + [
        (scale_series(tables, start, "gap_times_scale"), start, "Own less other captions",
         "Cosine gap × logit scale")
        for start in BY_SCALE
    ])  # fmt: skip
    if {*rows["start"]} <= {PRETRAINED}:
        return missing(tables.purity, Note("image_text", "hole_scale"))
    return _by_rate(rows, BY_SCALE)


def accuracy_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Draw the accuracy on every evaluation set."""
    return _by_set(tables, "acc1", ACCURACY)


def silhouette_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Draw the silhouette on every evaluation set."""
    return _by_set(tables, "silhouette", "silhouette")


def _by_set(tables: Tables, metric: str, name: str) -> Drawing | Hole:
    rows = where(tables.zeroshot, metric=metric, start=[*COLOURS]).dropna(subset=["value"])
    if rows["rate"].isna().all():
        return missing(tables.zeroshot, Note("image_text", "hole_metric", metric=name))
    rows = rows.assign(panel=rows["evaluation_set"], y=f"{name} on " + rows["evaluation_set"])
    return _by_rate(rows.sort_values("panel", kind="stable"), COLOURS, _chance(rows))


def compositional_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Draw the share of right choices, by what is done to the false caption."""
    table = tables.zeroshot
    rows = table[table["metric"].isin([SELECTION, OF_CATEGORY]) & table["value"].notna()]
    rows = panels_of_sets(rows[rows["start"].isin(COLOURS)]).assign(y="Share of right choices")
    if rows["rate"].isna().all():
        return missing(table, Note("image_text", "hole_choice"))
    return _by_rate(rows, COLOURS, _chance(rows))


MOST_OPERATIONS = 4
"""Sets with more first words of categories have one panel."""


def panels_of_sets(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of right choices with the ``panel`` that each is drawn in.

    A set whose categories begin with few words, such as SugarCrepe's add, replace and swap, has a
    panel for each of them, with the mean of its categories; another one has one panel.
    """
    parts = []
    keys = ["panel", "start", "rate", "seed"]
    for name, of_set in rows.groupby("evaluation_set"):
        by_category = of_set[of_set["metric"] == OF_CATEGORY]
        operations = by_category["classname"].str.split("-").str[0]
        if 1 <= operations.nunique() <= MOST_OPERATIONS:
            panels = by_category.assign(panel=f"{name}: " + operations)
        else:
            panels = of_set[of_set["metric"] == SELECTION].assign(panel=name)
        parts.append(panels.groupby(keys, dropna=False)[["value", "chance"]].mean().reset_index())
    return pd.concat(parts) if parts else pd.DataFrame(columns=[*keys, "value", "chance"])


def _chance(rows: pd.DataFrame) -> pd.DataFrame:
    levels = rows.assign(value=rows["chance"]).dropna(subset=["value"])
    return mean_by(levels, ["panel", "y"]).assign(layer=CHANCE)


def purity_by_scheme(tables: Tables) -> Drawing | Hole:
    """Draw overlap and accuracy against the nominal share, one line for each scheme."""
    if not tables.study("image_text"):
        return Hole(Note("image_text", "hole_not_run"))
    of = {scheme: tables.of_scheme(scheme) for scheme in tables.schemes}
    rows = _stacked("scheme", _directions([(own, PRETRAINED, name) for name, own in of.items()]) + [
        (zeroshot_series(own, PRETRAINED, "acc1"), scheme, "Mean of sets: accuracy", ACCURACY)
        for scheme, own in of.items()
    ])  # fmt: skip
    # The arm at rate 0 is in every scheme: it alone makes no line.
    swept = {*rows.loc[rows["rate"] > 0, "scheme"]}
    if len(swept) < 2:
        return Hole(Note("image_text", "hole_schemes"))
    paper = [
        _published(published_directions(scheme), DIRECTIONS).drop(columns="start")
        .assign(scheme=scheme)
        for scheme in published.purity_by_scheme()["scheme"].unique()
    ]  # fmt: skip
    return _by_rate(rows[rows["scheme"].isin(swept)], SCHEMES, *paper)


def _rate_title(names: Iterable[str]) -> str:
    """Return the title of the axis of rates: for schemes that change words it is another share."""
    rates = {scheme.rate for name, scheme in schemes().items() if name in {MAIN, *names}}
    return style.CM if len(rates) == 1 else "Rate of the scheme"


def _stacked(field: str, series: Iterable[tuple[pd.DataFrame, str, str, str]]) -> pd.DataFrame:
    """Stack series of runs, each with its value of a field, its panel and its axis."""
    columns = ["panel", "y", field, "rate", "seed", "value"]
    parts = [runs.assign(panel=panel, y=y, **{field: name}) for runs, name, panel, y in series]
    stacked = pd.concat([pd.DataFrame(columns=columns), *parts], ignore_index=True)[columns]
    return stacked.dropna(subset=["rate", "value"]).astype({"rate": float, "value": float})


def _by_rate(rows: pd.DataFrame, colours: Mapping[str, str], *more: pd.DataFrame) -> Drawing:
    """Return panels of values against C_m: runs, their means and spread, and further layers."""
    field = "scheme" if colours is SCHEMES else "start"
    keys = ["panel", "y", field, "rate"]
    tuned = rows.loc[rows["rate"].notna(), [*keys, "seed", "value"]]
    untouched = mean_by(rows[rows[field] == UNTOUCHED], ["panel", "y"]).assign(layer=LEVEL)
    data = charts.layers(tuned, keys, untouched, *more)
    panels = {*tuned["panel"], *data.loc[data["layer"] == PUBLISHED, "panel"]}
    data, left_out = charts.within(data[data["panel"].isin(panels)], "rate")
    data = charts.first_on_top(data, field, colours)
    present = [name for name in colours if name in {*data[field].dropna()}]
    labels, title = (LABELS, "Arm") if field == "start" else (None, "Scheme")
    swept = _rate_title(present if field == "scheme" else [MAIN])
    data = data.assign(arm=data[field].map(labels) if labels else data[field])
    chart = recipes.sweep(
        data.sort_values(
            "panel", kind="stable", key=lambda names: names.map(
                lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)
            ),
        ),
        charts.x_axis("rate", swept, sorted(data["rate"].dropna().unique())),
        charts.y_axis(""),
        charts.colour(field, title, colours, present, labels),
        (f"arm:N:{title.lower()}", "rate:Q:share shuffled", "value:Q:value", "seed:Q:seed",
         "n:Q:seeds", "layer:N:what"),
        lines=LINES, clipped=[CHANCE], logs=[y for y in data["y"].unique() if DIRECTIONS in y],
        points=True, toggle=True,
    )  # fmt: skip
    return Drawing(chart, data.drop(columns=["y", "arm"]), left_out, field)


# Verdicts against the smallest effect of interest ------------------------------------------------

SHARES = sorted([*(round(0.2 + 0.05 * step, 2) for step in range(7)), THIRD])
"""Smallest effects of interest, as shares of the published effect; `THIRD` is in force."""
IN_FORCE = "abs({} - 1 / 3) < 0.001"
CONFIDENCE = 0.95


def verdict_by_bound(tables: Tables) -> Drawing | Hole:
    """Draw the outcome of the primary claims on shuffling for each smallest effect of interest.

    The only figure of tiles: a recipe for one would save nothing.
    """
    measured = {}
    for tower in TOWERS:
        directions = claims.OVERLAP.measure(tables, CONFIDENCE).parts[tower]
        measured[f"directions, {tower}"] = (directions, -1)
        measured[f"mean |cos|, {tower}"] = (claims.of_cosine(tables, CONFIDENCE, tower), 1)
    measured["accuracy"] = (claims.ACCURACY.measure(tables, CONFIDENCE), -1)
    alpha = (1 - CONFIDENCE) / PRIMARY
    rows = [
        {
            "measure": name,
            "share": share,
            "outcome": decide("effect", each.effect, sign, share * each.bound / THIRD, alpha)[0],
            "of_published": abs(each.effect.value) / each.bound * THIRD,
        }
        for name, (each, sign) in measured.items()
        for share in SHARES
        if math.isfinite(each.effect.value)
    ]
    if not rows:
        return Hole(Note("image_text", "hole_bounds"))
    data = pd.DataFrame(rows)
    bound = f"{IN_FORCE.format('datum.value')} ? ['1/3', 'in force'] : "
    bound += "format(datum.value, '.2f')"
    base = alt.Chart().encode(
        x=alt.X("share:O", title="Smallest effect of interest (share of the published effect)",
                axis=alt.Axis(labelAngle=0, labelOverlap=False, labelExpr=bound)),
        y=alt.Y("measure:N", title="Effect", sort=[*measured]),
        tooltip=charts.tips("measure:N:measure", "share:Q:bound, share of published",
                            "of_published:Q:effect, share of published", "outcome:N:outcome"),
    )  # fmt: skip
    outcomes = style.colours("outcome")
    present = [name for name in outcomes if name in set(data["outcome"])]
    tiles = base.mark_rect(stroke="white").encode(
        color=charts.colour("outcome", "Outcome", outcomes, present),
    )  # fmt: skip
    frame = base.transform_filter(IN_FORCE.format("datum.share"))
    frame = frame.mark_rect(fillOpacity=0, stroke=style.INK, strokeWidth=2)
    chart = alt.layer(tiles, frame).properties(width=420, height=30 * data["measure"].nunique())
    return Drawing(charts.side_by_side([chart], 1, data), data)


# What neurons stand for ---------------------------------------------------------------------------

MOST_NEURONS = 4_000
"""Most neurons in the figure: 1,000 of each tower, and as many of a rotated basis."""
OF_BASES = style.colours("neurons")
OWN, ROTATION = OF_BASES
NEURONS_OF = charts.colour("basis", "Neurons of the", OF_BASES, [*OF_BASES])


def semantic_purity(tables: Tables) -> Drawing | Hole:
    """Draw |correlation| of each neuron with its best feature against its mean |cos|, by tower."""
    arm = measured_arm(tables)
    rows = arm[(arm["metric"] == "best_correlation") & arm["value"].notna()]
    if rows.empty:
        return no_truth(tables)
    own = rows["basis"] == ORIGINAL
    one = rows["basis"] == rows.loc[~own, "basis"].min()  # one rotated basis represents all
    data = pd.concat([rows[own].assign(basis=OWN), rows[one].assign(basis=ROTATION)])
    data = data.assign(semantic=data["value"].abs())
    columns = ["tower", "basis", "neuron", "feature", "overlap", "semantic"]
    data, left_out = charts.within(data[columns], "neuron", MOST_NEURONS)
    chart = recipes.scatter(
        _by_tower(data.round({"semantic": 3})),
        charts.x_axis("overlap", "Mean |cos| with all other neurons"),
        alt.Y("semantic:Q", title=R, scale=alt.Scale(domain=[0, 1])), NEURONS_OF,
        ("neuron:Q:neuron", "feature:N:best feature", "semantic:Q:|r|", "overlap:Q:mean |cos|",
         "basis:N:in"),
        toggle=True,
    )  # fmt: skip
    return Drawing(chart, data, left_out, "basis")


def semantics_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Draw the mean |correlation| with the best feature in the own and rotated bases, by tower."""
    rows = with_basis(where(tables.semantics, metric="mean_semantic_purity", start=[*SHOWN]))
    rows = rows.dropna(subset=["value"])
    own = rows.loc[rows["basis"] == ORIGINAL, ["tower", "rate", "seed", "value"]]
    if own["rate"].isna().all():
        return no_truth(tables) if own.empty else Hole(Note("image_text", "hole_fine_tuned"))
    keys = ["tower", "rate"]
    null = rows[rows["basis"] == ROTATED].groupby(keys)[["value", "low", "high"]].mean()
    untouched = mean_by(own[own["rate"].isna()], ["tower"]).assign(layer=LEVEL)
    runs = charts.layers(own.dropna(subset=["rate"]), keys, untouched).assign(basis=OWN)
    null = null.reset_index().assign(layer="mean", basis=ROTATION)
    data, left_out = charts.within(pd.concat([runs, null], ignore_index=True), "rate")
    chart = recipes.sweep(
        _by_tower(data), charts.x_axis("rate", style.CM, sorted(data["rate"].dropna().unique())),
        charts.y_axis(f"Mean {R}"), NEURONS_OF,
        ("basis:N:in", "rate:Q:share shuffled", "value:Q:value", "low:Q:from", "high:Q:to",
         "seed:Q:seed"),
        lines={"mean": recipes.SOLID, LEVEL: recipes.LONG}, points=True, toggle=True,
    )  # fmt: skip
    return Drawing(chart, data, left_out, "basis")


def _by_tower(data: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a panel in place of each tower, text first."""
    rows = data.drop(columns="tower").assign(panel=data["tower"].map(PROJECTIONS))
    return rows.sort_values("panel", ascending=False, kind="stable")


# Pruning ------------------------------------------------------------------------------------------

PURITY = ("high-purity", "random", "low-purity")
KEPT = style.colours("kept")
"""Ends of a ranking."""
SILHOUETTE = "Ranked by text purity, silhouette"


def pruning(tables: Tables) -> Drawing | Hole:
    """Draw the mean of the sets by k: by purity of text, image and both, and other rankings.

    It is longer than other figures because each panel is a selection of its own.
    """
    arm = pruned_arm(tables.pruning)
    own, drawn = in_own_basis(arm), arm["strategy"] == "random"
    text, accuracy = ranked_by_tower(arm, "text"), arm["metric"] == "acc1"
    pure = arm["strategy"].isin(PURITY)
    by_panel = {
        "Ranked by text purity": own & pure & text & accuracy,
        SILHOUETTE: own & pure & text & (arm["metric"] == "silhouette"),
        "Ranked by image purity": own & pure & ranked_by_tower(arm, "image") & accuracy,
        "Ranked by both purities": own & pure & (drawn | (arm["ranked_by"] == "both")) & accuracy,
        "In randomly rotated bases": ~own & pure & text & accuracy,
    }
    for name, words in BASELINES.items():
        ranked = arm["strategy"].isin([f"high-{name}", f"low-{name}"])
        by_panel[f"Ranked by {words}"] = own & text & (ranked | drawn) & accuracy
    means = [mean_of_sets(arm[rows].assign(panel=name)) for name, rows in by_panel.items()
             if (rows & ~drawn & arm["value"].notna()).any()]  # fmt: skip
    if not means:
        return no_pruning(tables)
    data = charts.summary(pd.concat(means, ignore_index=True), ["panel", "strategy", "k"])
    data["kept"] = _ends(data)
    data = data.sort_values("panel", key=lambda names: names.map([*by_panel].index), kind="stable")
    chart = recipes.sweep(
        data.assign(layer="mean", y=data["panel"].map({SILHOUETTE: "silhouette"}).fillna(ACCURACY)),
        charts.x_axis("k", "Neurons kept k", sorted(data["k"].unique())), charts.y_axis(""),
        charts.colour("kept", "Neurons kept", KEPT, [*KEPT]),
        ("strategy:N:kept", "k:Q:k", "value:Q:mean", "low:Q:−1 s.d.", "high:Q:+1 s.d.",
         "n:Q:draws"),
        lines={"mean": recipes.SOLID}, points=True, toggle=True,
    )  # fmt: skip
    return Drawing(chart, data, toggle="kept")


def _ends(rows: pd.DataFrame) -> pd.Series:
    """Return the end of its ranking, a key of `KEPT`, that the strategy of each row keeps."""
    highest, drawn, lowest = KEPT
    ends = {"high": highest, "random": drawn, "low": lowest}
    return rows["strategy"].str.split("-").str[0].map(ends).rename("kept")


def mean_of_sets(rows: pd.DataFrame) -> pd.DataFrame:
    """Average scores over evaluation sets and seeds.

    A set with a missing score is left out, unless every set has one.
    """
    gaps = rows["value"].isna().groupby(rows["evaluation_set"]).transform("any")
    complete = rows if gaps.all() else rows[~gaps]
    means = mean_by(complete, ["panel", "strategy", "k", "basis", "draw"])
    return means.dropna(subset=["value"])


# Small figures next to the answers ----------------------------------------------------------------

MOST_SCHEMES = 3
"""Schemes that have room in a small figure, the main one first."""
SCALES = (str(PRETRAINED), str(CONVERGED))
"""Starts that are compared in a small figure, by what becomes of the logit scale."""
OVERLAPS = {"highest": "little", "random": "random", "lowest": "much"}
"""The overlap of the neurons that are kept, by the end of the ranking by purity."""


def _curves(
    series: Mapping[str, pd.DataFrame], hole: Hole, x_title: str, y_title: str, **more: Any
) -> Drawing | Hole:
    """Draw a line for each series of runs that is not empty."""
    runs = [each.dropna().assign(series=name) for name, each in series.items()]
    if not sum(map(len, runs)):
        return hole
    table = pd.concat(runs, ignore_index=True).rename(columns={"rate": "x"})
    return Drawing(*small_figures.curves(table, x_title, y_title, **more))


def small_overlap(tables: Tables) -> Drawing | Hole:
    """Draw the participation ratio of text neurons against C_m, by logit scale."""
    series = {
        start: purity_series(tables, start, "text", "participation_ratio") for start in SCALES
    }
    hole = missing(tables.purity, Note("image_text", "hole_fine_tuned"))
    return _curves(
        series, hole, style.CM, "Directions of text neurons", colours=COLOURS, labels=LABELS,
        legend="Arm",
    )  # fmt: skip


def small_mixing(tables: Tables) -> Drawing | Hole:
    """Draw mean |r| of neurons with their best feature against C_m, by tower."""
    series = {
        tower: mean_series(tables.of_scheme(), tower, "mean_semantic_purity") for tower in TOWERS
    }
    return _curves(
        series, no_truth(tables), style.CM, FOLLOWS, colours=style.colours("tower"), legend="Tower",
        least=small_figures.LEAST_FALL,
    )  # fmt: skip


def small_accuracy(tables: Tables) -> Drawing | Hole:
    """Draw accuracy against the share of captions, one line for each scheme of corruption."""
    series = {
        scheme: zeroshot_series(tables.of_scheme(scheme), PRETRAINED, "acc1").dropna()
        for scheme in tables.schemes[:MOST_SCHEMES]
    }
    series = {name: each for name, each in series.items() if (each["rate"] > 0).any()}
    hole = missing(tables.zeroshot, Note("image_text", "hole_metric", metric=ACCURACY))
    return _curves(
        series, hole, _rate_title(series), "Accuracy (share)", colours=SCHEMES, legend="Scheme",
        least=small_figures.LEAST_FALL,
    )  # fmt: skip


def small_semantics(tables: Tables) -> Drawing | Hole:
    """Draw |correlation| of each text neuron with its best feature against its mean |cos|."""
    arm = measured_arm(tables)
    rows = arm[(arm["metric"] == "best_correlation") & (arm["basis"] == ORIGINAL)]
    rows = rows[(rows["tower"] == "text") & rows["value"].notna()]
    if rows.empty:
        return no_truth(tables)
    points = rows.assign(x=rows["overlap"], value=rows["value"].abs())[["x", "value"]]
    titles = ("Overlap of the neuron (mean |cos|)", FOLLOWS)
    points = points.reset_index(drop=True)
    return Drawing(*small_figures.scatter(points, *titles, colour=OF_BASES[OWN]))


def small_pruning(tables: Tables) -> Drawing | Hole:
    """Draw accuracy against k, mean of the sets, neurons ranked by the text projection."""
    arm = pruned_arm(tables.pruning)
    arm = arm[in_own_basis(arm) & ranked_by_tower(arm, "text") & arm["strategy"].isin(PURITY)]
    means = mean_of_sets(arm[(arm["metric"] == "acc1")].assign(panel=""))
    means = means.rename(columns={"k": "rate"})
    series = {str(name): rows[["rate", "value"]] for name, rows in means.groupby(_ends(means))}
    return _curves(
        series, no_pruning(tables), "Neurons kept", "Accuracy (share)", colours=KEPT,
        labels=OVERLAPS, legend="Overlap", least=small_figures.LEAST_FALL,
    )  # fmt: skip
