"""Zero-shot numbers in the report: which protocol they are of, and what is beside them."""

from typing import Any

import pytest

from mispair.evaluation.report.rows import scored
from mispair.image_text.report.arms import zeroshot_series
from mispair.image_text.report.claims import ACCURACY
from mispair.image_text.report.figures import panels_of_sets
from mispair.image_text.report.pages import empty_classes, limits
from mispair.image_text.report.tables import of_arms, protocols, scores
from mispair.report import studies, texts
from mispair.report.figures import compose
from mispair.report.judge import judge
from mispair.report.table import whole
from mispair.report.tables import Tables, tidy
from mispair.towers.arms import LABELS
from tests.made_up_tables import tables

RATES = (0.0, 0.3, 0.8)
EVIL = "<b>red</b>"


def accuracy(protocol: str | None, level: float, slope: float, name: str = "shapes", **more: Any):
    """Return acc1 of the untouched model and of arms at every rate."""
    here = {"evaluation_set": name, "protocol": protocol, "metric": "acc1", "scheme": "random",
            "headline": "acc1", **more}  # fmt: skip
    here["fingerprint"] = f"{protocol}-{name}".encode().hex()
    untouched = {"start": "untouched", "seed": 0, "value": level, "low": level - 0.05,
                 "high": level + 0.05, "n": 100, "scheme": None}  # fmt: skip
    return [{**here, **untouched}] + [
        {**here, "start": "pretrained", "rate": rate, "seed": seed,
         "value": level + slope * rate + 0.002 * rate * (seed - 1)}
        for rate in RATES for seed in range(3)
    ]  # fmt: skip


@pytest.fixture
def both() -> Tables:
    """Accuracy falls by clip_benchmark and rises by a protocol that comes first by name."""
    return tables(
        zeroshot=[*accuracy("clip_benchmark", 0.7, -0.2), *accuracy("a-custom-one", 0.5, 0.1)]
    )


def test_clip_benchmark_is_the_main_protocol_else_the_first_by_name(both):
    assert both.protocols == ["clip_benchmark", "a-custom-one"]
    others = tables(zeroshot=[
        row for name in ("laclip", "single-prompt", "captions", "linear-probe")
        for row in accuracy(name, 0.5, 0)
    ])  # fmt: skip
    assert others.protocols == ["laclip", "single-prompt"]


def test_protocols_are_never_averaged(both):
    series = zeroshot_series(both, "pretrained", "acc1")
    assert series.groupby("rate")["value"].mean().tolist() == pytest.approx([0.7, 0.64, 0.54])
    other = zeroshot_series(both.of_protocol("a-custom-one"), "pretrained", "acc1")
    assert other.groupby("rate")["value"].mean().tolist() == pytest.approx([0.5, 0.53, 0.58])


def test_claims_are_judged_on_the_main_protocol(both):
    found = judge(ACCURACY, both, 0.95)
    assert found.outcome == "supports"
    ends = (found.measured.first, found.measured.last)
    assert ends == (pytest.approx(0.7), pytest.approx(0.54))
    assert limits(both)[1].values == {"protocol": "clip_benchmark", "others": ["a-custom-one"]}


def test_figures_show_the_main_protocol_alone(both):
    figure = next(f for f in studies.figures() if f.name == "accuracy_by_shuffling")
    _, data = compose(figure, both)
    assert data.loc[data["layer"] == "mean", "value"].tolist() == pytest.approx([0.7, 0.64, 0.54])


def test_the_table_of_protocols_shows_what_the_protocol_alone_changes(both):
    (table,) = protocols(both)
    first, second = table.rows
    assert first[:2] == ("shapes", "clip_benchmark #636c6970, acc1")
    assert (first[2].value, first[2].low, first[2].high) == pytest.approx((0.7, 0.65, 0.75))
    assert second[1] == "a-custom-one #612d6375, acc1"
    assert [cell.value for cell in second[5:7]] == pytest.approx([-0.2, 0.08])


def test_rows_of_an_evaluation_get_towers_headline_and_one_silhouette():
    prints = {"laclip": "1" * 16, "single-prompt": "2" * 16}
    rows = [
        {"evaluation_set": "pets", "protocol": protocol, "fingerprint": prints[protocol],
         "seed": seed, "metric": metric, "value": 0.5, **more}
        for protocol in prints for seed in (0, 1)
        for metric, more in (("acc1", {}), ("silhouette", {}),
                             ("class_recall", {"classname": EVIL}))
    ]  # fmt: skip
    provenance = {
        "headline": {"pets": {"laclip": "mean_per_class_recall", "single-prompt": "acc1"}}
    }
    found = scored(rows, provenance, "small")
    assert {row["towers"] for row in found} == {"small"}
    silhouettes = [row for row in found if row["metric"] == "silhouette"]
    assert [row["seed"] for row in silhouettes] == [0, 1]
    assert {row["protocol"] for row in silhouettes} == {None}
    headline = {row["protocol"]: row["headline"] for row in found if row["metric"] == "acc1"}
    assert headline == {"laclip": "mean_per_class_recall", "single-prompt": "acc1"}


def test_classes_without_images_are_counted_in_a_warning():
    row = {"evaluation_set": "pets", "metric": "classes_without_images", "value": 2.0, "n": 37}
    (warning,) = empty_classes(tables(zeroshot=[{**row, "seed": seed} for seed in (0, 1)]))
    assert warning.values == {"name": "pets", "absent": 2, "classes": 37}
    assert "2 of 37 classes of pets" in texts.text(warning)


def test_other_scores_are_next_to_chance_or_the_zero_shot_accuracy():
    recall = {"evaluation_set": "flickr", "protocol": "captions", "n": 5000, "low": 0.19,
              "high": 0.21, "metric": "image_recall@1", "chance": 0.001}  # fmt: skip
    choice = {**recall, "evaluation_set": "cats", "metric": "selection_acc", "chance": 0.5,
              "headline": "selection_acc"}  # fmt: skip
    probe = {"evaluation_set": "shapes", "protocol": "linear-probe", "metric": "probe_acc1"}
    rows = [
        {**row, "start": start, "rate": rate, "seed": 0, "value": value}
        for row, value in ((recall, 0.2), (choice, 0.8), (probe, 0.91),
                           ({**choice, "classname": "swap"}, 0.1))
        for start, rate in (("untouched", None), ("pretrained", 0.0), ("pretrained", 0.3),
                            ("pretrained", 0.8), ("without-decay", 0.8))
    ]  # fmt: skip
    found = tables(zeroshot=[*accuracy("clip_benchmark", 0.7, -0.2), *rows])
    (table,) = (each for each in of_arms(found) if "linear probe" in each.caption)
    cells = {(row[0], row[2]): (row[4].value, row[5] and row[5].value) for row in table.rows}
    untouched, start = LABELS["untouched"], LABELS["pretrained"]
    ends = (untouched, f"{start}, C_m 0", f"{start}, C_m 0.8")
    assert cells == {**{("flickr", model): (0.2, 0.001) for model in ends},
                     **{("cats", model): (0.8, 0.5) for model in ends},
                     ("shapes", untouched): (0.91, pytest.approx(0.7)),
                     ("shapes", ends[1]): (0.91, pytest.approx(0.7)),
                     ("shapes", ends[2]): (0.91, pytest.approx(0.54))}  # fmt: skip
    first = next(row for row in table.rows if row[0] == "flickr")
    assert (first[3], first[4].low, first[4].high) == (whole(5000), 0.19, 0.21)


def test_checkpoints_have_the_same_table_of_other_scores():
    rows = [
        {"towers": towers, "evaluation_set": "cats", "protocol": "captions", "value": value,
         "metric": "selection_acc", "chance": 0.5, "n": 9}
        for towers, value in (("clip", 0.6), ("laclip", 0.8))
    ]  # fmt: skip
    table = scores(tables(checkpoints=rows).checkpoints, "Scores")
    assert [(row[2], row[4].value) for row in table.rows] == [("clip", 0.6), ("laclip", 0.8)]


def test_panels_of_choices_are_operations_or_whole_sets():
    def chosen(categories: list[str]) -> list[dict[str, Any]]:
        here = {"start": "pretrained", "rate": 0.8, "seed": 0, "evaluation_set": "s", "chance": 0.5}
        return [
            {**here, "metric": "selection_acc", "value": 0.7},
            *({**here, "metric": "category_selection_acc", "classname": name, "value": number / 10}
              for number, name in enumerate(categories)),
        ]  # fmt: skip

    few = panels_of_sets(tidy("zeroshot", chosen(["swap-a", "swap-b", "add-c"])))
    assert few.set_index("panel")["value"].to_dict() == pytest.approx(
        {"s: swap": 0.05, "s: add": 0.2}
    )
    many = panels_of_sets(tidy("zeroshot", chosen([f"{number} of" for number in range(5)])))
    assert many.set_index("panel")["value"].to_dict() == {"s": 0.7}
