"""Claims, tables and export of sets in which the true caption of an image is chosen."""

from __future__ import annotations

import pandas as pd
import pytest

from mispair.evaluation.report import clip_benchmark, compositional
from mispair.image_text.report.figures_shuffling import panels_of_sets
from mispair.report.table import whole
from mispair.report.tables import Tables, tidy

SET = "scenes-compositional"


def scored(start: str, rate: float | None, metric: str, value: float, **more: object):
    return {
        "start": start, "scheme": "random", "rate": rate, "towers": "small", "seed": 0,
        "evaluation_set": SET, "protocol": "captions", "metric": metric, "value": value,
        "n": 400, "low": value - 0.05, "high": value + 0.05, "chance": 0.5,
        "headline": "selection_acc", "fingerprint": "f", **more,
    }  # fmt: skip


def measured(at_chance: tuple[str, ...] = (), blind: float = 0.5) -> list[dict[str, object]]:
    rows = []
    for start, rate in (("untouched", None), ("pretrained", 0.0), ("pretrained", 0.8)):
        rows += [
            scored(start, rate, "selection_acc", 0.8),
            scored(start, rate, "selection_blind", blind),
            scored(start, rate, "selection_ties", 0.01),
        ]
        for category in ("swap-colour", "add-shape"):
            value = 0.5 if category in at_chance else 0.9
            for metric, each in (("acc", value), ("blind", blind)):
                name = f"category_selection_{metric}"
                rows.append(scored(start, rate, name, each, classname=category))
    return rows


def test_tables_have_every_arm_and_category_and_what_was_published():
    table = tidy("zeroshot", measured())
    scores, categories = compositional.compositional(table)
    cells = dict(zip(scores.heads, scores.rows[0], strict=True))
    assert (cells["model"], cells["images"]) == ("untouched", whole(400))
    assert (cells["ties (%)"].value, cells["blind"].value) == pytest.approx((1, 0.5))
    assert len(scores.rows) == 3
    assert len(categories.rows) == 6
    assert {row[1] for row in categories.rows} == {"swap-colour", "add-shape"}
    theirs = table.assign(evaluation_set="wds_sugar_crepe")
    theirs["classname"] = theirs["classname"].replace("swap-colour", "swap-att")
    _, categories = compositional.compositional(theirs)
    by_category = {row[1]: row[-1] for row in categories.rows}
    assert by_category["swap-att"].value == pytest.approx(0.6396)
    assert by_category["add-shape"] is None


def test_panels_are_operations_or_whole_sets():
    table = tidy("zeroshot", measured(("swap-colour",)))
    chosen = table[table["metric"].isin(["selection_acc", "category_selection_acc"])]
    panels = panels_of_sets(chosen)
    assert set(panels["panel"]) == {f"{SET}: add", f"{SET}: swap"}
    assert set(panels.loc[panels["panel"] == f"{SET}: swap", "value"]) == {0.5}
    many = pd.concat([chosen.assign(classname=f"relation {k}", metric="category_selection_acc")
                      for k in "abc"] + [chosen[chosen["metric"] == "selection_acc"]])  # fmt: skip
    many["classname"] = many["classname"].where(
        many["metric"] != "category_selection_acc",
        [f"{number} of" for number in range(len(many))],
    )
    assert set(panels_of_sets(many)["panel"]) == {SET}


def test_clip_benchmarks_form_of_the_result():
    rows = tidy("zeroshot", measured())
    results = clip_benchmark.results(Tables({"zeroshot": rows})).values()
    assert {result["task"] for result in results} == {"image_caption_selection"}
    assert next(iter(results))["metrics"] == {"acc": 0.8, "text_acc": 0.8}
    pairs = [scored("untouched", None, metric, value) for metric, value in (
        ("selection_acc", 0.8), ("text_score", 0.3), ("image_score", 0.2), ("group_score", 0.1),
    )]  # fmt: skip
    (result,) = clip_benchmark.results(Tables({"zeroshot": tidy("zeroshot", pairs)})).values()
    assert result["metrics"] == {"acc": 0.1, "text_acc": 0.3, "image_acc": 0.2}
