"""The rows of the page of numbers: what they average, what they stand next to, what is left out."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from mispair.evaluation.report import numbers, numbers_page
from mispair.report import published
from mispair.report.tables import Tables, tidy
from tests.made_up_tables import made_up


def score(rate: float | None, value: float, **others: Any) -> dict[str, Any]:
    start = "untouched" if rate is None else "pretrained"
    return {
        "start": start, "scheme": None if rate is None else "random", "rate": rate, "seed": 0,
        "towers": "t", "evaluation_set": "wds_cifar10", "protocol": "clip_benchmark",
        "metric": "acc1", "value": value, "n": 100, "chance": 0.1, "headline": "acc1", **others,
    }  # fmt: skip


def table(**rows: list[dict[str, Any]]) -> pd.DataFrame:
    return numbers.numbers(Tables({name: tidy(name, of_name) for name, of_name in rows.items()}))


def test_seeds_are_averaged_and_one_run_has_its_interval() -> None:
    found = table(zeroshot=[
        score(None, 0.5, low=0.4, high=0.6),
        *(score(0.1, value, seed=seed, low=0, high=1) for seed, value in enumerate((0.2, 0.4))),
    ])  # fmt: skip
    assert found["start"].tolist() == ["untouched", "pretrained"]
    assert found["value"].tolist() == pytest.approx([0.5, 0.3])
    assert found["runs"].tolist() == [1, 2]
    one, two = (dict(zip(numbers.HEADS, numbers.cells(row), strict=True))
                for row in found.to_dict("records"))  # fmt: skip
    assert one["± or 95 % interval"].split() == ["0.400", "to", "0.600"]
    assert two["± or 95 % interval"].split() == ["±", "0.141"]
    assert (two["C_m"], two["n"], two["chance"]) == ("0.1", "100", "0.100")


def test_arms_models_and_categories_stand_next_to_their_published_number() -> None:
    printed = published.table4().set_index(["dataset", "shuffle_probability"])["accuracy"]
    clip = published.checkpoints().iloc[0]
    model = {"towers": "m", "evaluation_set": clip["dataset"], "metric": "acc1", "value": 0.1,
             "pretraining": clip["pretraining"], "method": clip["method"], "headline": "acc1",
             "protocol": "laclip", "architecture": "ViT-B/16"}  # fmt: skip
    sugar = published.sugarcrepe()
    category = score(None, 0.5, evaluation_set="sugar_crepe", metric="category_selection_acc",
                     classname=sugar.index[0], protocol="captions")  # fmt: skip
    found = table(zeroshot=[score(None, 0.5), score(0.3, 0.5), category], checkpoints=[model])
    by_row = found.set_index(["towers", "start", "metric"])["published"]
    assert by_row["t", "pretrained", "acc1"] == printed["CIFAR-10", 0.3]
    assert pd.isna(by_row["t", "untouched", "acc1"])
    assert by_row["t", "untouched", "category_selection_acc"] == sugar.iloc[0]
    (of_model,) = found.loc[found["towers"] == "m", "published"]
    assert of_model == clip["accuracy"]


def test_classes_are_of_the_untouched_model_and_both_ends() -> None:
    rates = (None, 0.0, 0.1, 0.8)
    rows = [
        score(rate, 0.5, metric=metric, classname=name)
        for rate in rates for metric, name in (("acc1", None), ("class_recall", "frog"))
    ]  # fmt: skip
    rows.append(score(None, 0.0, metric="class_without_images", classname="newt"))
    found = table(zeroshot=rows)
    assert found.groupby("metric").size().to_dict() == {"acc1": 4, "class_recall": 3}
    assert found.loc[found["part"] == "frog", "rate"].tolist()[1:] == [0, 0.8]


def test_changes_name_their_reference_with_interval_and_p() -> None:
    change = {**score(0.8, -0.05), "metric": "acc1_difference", "reference": "untouched",
              "low": -0.08, "high": -0.02, "p": 0.01, "seeds": 3}  # fmt: skip
    found = table(zeroshot=[score(0.8, 0.5)], comparisons=[change])
    row = dict(zip(numbers.HEADS, numbers.cells(found.to_dict("records")[1]), strict=True))
    assert (row["part"], row["value"], row["runs"]) == ("against untouched", "−0.050", "3")
    assert row["± or 95 % interval"].split() == ["−0.080", "to", "−0.020,", "p", "=", "0.010"]


def test_the_mean_of_sets_is_a_set() -> None:
    both = [score(0.0, 0.2), score(0.0, 0.6, evaluation_set="pets")]
    found = table(zeroshot=both).set_index("evaluation_set")["value"]
    assert found.to_dict() == pytest.approx(
        {"mean of 2 sets": 0.4, "pets": 0.6, "wds_cifar10": 0.2}
    )


def test_the_order_of_rows_changes_nothing() -> None:
    tables = made_up(6, ["b", "a"], models=1)
    turned = Tables({name: frame[::-1] for name, frame in tables.frames.items()})
    pd.testing.assert_frame_equal(numbers.numbers(tables), numbers.numbers(turned))


def test_a_page_leaves_out_whole_kinds_and_names_them() -> None:
    every = numbers.numbers(made_up(12, ["a", "b"], models=1))
    sizes = every["kind"].value_counts()
    shown, left_out = numbers_page.within(every, len(every))
    assert (len(shown), left_out) == (len(every), "")
    shown, left_out = numbers_page.within(every, len(every) - 1)
    assert set(every["kind"]) - set(shown["kind"]) == {numbers.PART}
    assert left_out == numbers_page.KINDS[numbers.PART]
    shown, left_out = numbers_page.within(every, int(sizes[numbers.HEADLINE]) - 1)
    assert len(shown) == sizes[numbers.HEADLINE] - 1
    assert left_out.endswith("the last sets")
