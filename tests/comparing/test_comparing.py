"""`mispair compare` on small runs made by hand."""

import copy
import json
import math
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from mispair.cli import main
from mispair.comparing.changes import ComparedRun, changes, read
from mispair.comparing.numbers import differences
from mispair.core import files
from mispair.report import studies
from mispair.report.table import Cell, Number, signed, whole
from mispair.report.tables import records, tidy

RECORD: dict[str, Any] = {
    "mispair": "0.1.0",
    "git": {"commit": "0123456789abcdef", "difference": None},
    "versions": {"python": "3.11.9", "torch": "2.15.0"},
    "platform": {"system": "Linux", "cores": 2},
    "steps": {
        "simulate": {"jobs": 2, "wall_seconds": 60.0, "core_seconds": 60.0, "seeds": ["seed 0"],
                     "code": ["aaaa"], "devices": ["cpu"], "commits": ["0123"]},
    },
    "data": {"mine/0.tar": {"bytes": 1000, "sha256": "d" * 64}},
    "results": {
        "results/arms/x.json": {"bytes": 10, "sha256": "e" * 64},
        "results/arms/y.json": {"bytes": 10, "sha256": "f" * 64},
    },
    "fingerprints": [["towers", "t1"]],
    "unrecorded": [],
}  # fmt: skip
CONFIG = {"studies": ["image_text"], "simulate": {"trials": 2, "preset": "as-run"}}
ARM = {"start": "pretrained", "scheme": "random", "rate": 0.5, "towers": "t"}
ACC1 = {**ARM, "evaluation_set": "digits", "protocol": "clip_benchmark", "metric": "acc1"}


def acc1(*values: float, half: float = 0.01, **other: Any) -> list[dict[str, Any]]:
    """Return rows of seeds with intervals of the evaluation itself."""
    return [
        {**ACC1, **other, "seed": seed, "value": v, "low": v - half, "high": v + half, "n": 100}
        for seed, v in enumerate(values)
    ]


@cache
def empty(name: str) -> str:
    return str(tidy(name, []).to_csv(index=False))


def write(folder: Path, tables: Any, record: Any = RECORD, config: Any = CONFIG) -> Path:
    """Write a run with rows in some tables."""
    (folder / "reports/tables").mkdir(parents=True)
    (folder / "reports/run.json").write_text(json.dumps({**config, "record": record}))
    for name in studies.tables():
        text = tidy(name, tables[name]).to_csv(index=False) if tables.get(name) else empty(name)
        (folder / f"reports/tables/{name}.csv").write_text(text)
    return folder


def two(folder: Path, table: str, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> list[Path]:
    """Write two runs that have other rows in a table."""
    return [write(folder / name, {table: rows}) for name, rows in (("a", a), ("b", b))]


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["compare", *map(str, arguments)])
    return code, capsys.readouterr().out


def numbers(a: Path, b: Path) -> pd.DataFrame:
    return differences(read(a).tables, read(b).tables)


def test_a_run_and_itself_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "a", {"zeroshot": acc1(0.5, 0.6)})
    code, out = said(capsys, run, run / "reports/run.json")
    assert code == 0
    for caption in ("Configuration", "Data", "Code", "Versions", "Devices", "Numbers"):
        assert f"{caption}: no difference" in out
    assert "1 number: 1 the same." in out


def test_every_kind_of_change_is_told(tmp_path: Path) -> None:
    record = copy.deepcopy(RECORD)
    record["git"] = {"commit": "fedcba9876543210", "difference": "x"}
    record["versions"]["torch"] = "2.16.0"
    record["versions"]["scipy"] = "1.0"
    record["steps"]["simulate"]["code"] = ["bbbb"]
    record["steps"]["prune_neurons"] = {**record["steps"]["simulate"], "code": ["cccc"]}
    record["data"] = {"mine/0.tar": {"bytes": 1000, "sha256": "c" * 64}}
    record["fingerprints"] = [["towers", "t2"]]
    record["results"] = {
        "results/arms/x.json": RECORD["results"]["results/arms/x.json"],
        "results/arms/y.json": {"bytes": 11, "sha256": "f" * 64},
        "results/simulation/z.json": {"bytes": 1, "sha256": "0" * 64},
    }
    config = {"studies": ["image_text"], "simulate": {"trials": 3, "preset": "as-run"}}
    a = read(write(tmp_path / "a", {}))
    b = read(write(tmp_path / "b", {}, record, config))
    found = {table.caption: set(table.rows) for table in changes(a, b)}
    assert found["Configuration"] == {("simulate.trials", "2", "3")}
    assert found["Data"] == {
        ("fingerprint: towers", "t1", "t2"),
        ("mine/0.tar", "1,000 bytes, dddddddddddd", "1,000 bytes, cccccccccccc"),
    }
    assert found["Code"] == {("simulate", "aaaa", "bbbb"), ("prune_neurons", None, "cccc")}
    assert found["Versions"] == {("torch", "2.15.0", "2.16.0"), ("scipy", None, "1.0")}
    assert found["Files of results"] == {
        ("results/arms", *map(whole, (1, 1, 0, 0))),
        ("results/simulation", *map(whole, (0, 0, 0, 1))),
    }
    about = ("commit", "0123456789abcdef, as committed", "fedcba9876543210, with changes")
    assert about in found["The two runs"]


def test_a_difference_of_devices_is_a_row_of_its_own(tmp_path: Path) -> None:
    record = copy.deepcopy(RECORD)
    record["steps"]["simulate"]["devices"] = ["cpu (y)"]
    a, b = read(write(tmp_path / "a", {})), read(write(tmp_path / "b", {}, record))
    devices = {table.caption: table for table in changes(a, b)}["Devices"]
    assert [row[1:] for row in devices.rows] == [("cpu", "cpu (y)")]
    assert devices.remark
    equal = {table.caption: table for table in changes(a, a)}["Devices"]
    assert (equal.rows, equal.remark) == ((), "")


def verdicts(a: ComparedRun, b: ComparedRun) -> tuple[tuple[Cell, ...], ...]:
    return {table.caption: table.rows for table in changes(a, b)}["Verdicts that differ"]


@pytest.mark.parametrize("shown", ["", "shown_"])
def test_verdicts_that_differ_are_listed(tmp_path: Path, shown: str) -> None:
    """Limits are at the level that judges a claim, which earlier versions lack."""
    columns = ["claim", "preset", "outcome", "effect", f"{shown}low", f"{shown}high"]
    a = [("x", "as-run", "supports", 0.5, 0.4, 0.6), ("y", "", "supports", 1, 0, 2)]
    b = [("x", "as-run", "cannot tell", 0.1, None, None), ("y", "", "supports", 3, 2, 4),
         ("z", "", "contradicts", None, None, None)]  # fmt: skip
    runs = []
    for name, rows in (("a", a), ("b", b)):
        folder = write(tmp_path / name, {})
        pd.DataFrame(rows, columns=columns).to_csv(folder / "reports/tables/claims.csv")
        runs.append(read(folder))
    found = {row[0]: row[1:] for row in verdicts(*runs)}
    assert found == {
        "x": ("as-run", "supports", Number(0.5, signed, low=0.4, high=0.6),
              "cannot tell", Number(0.1, signed)),
        "z": (None, None, None, "contradicts", None),
    }  # fmt: skip
    assert verdicts(runs[0], runs[0]) == ()
    # A run of an earlier version has no such table.
    assert len(verdicts(read(write(tmp_path / "old", {})), runs[0])) == 2


def test_marks_that_differ_are_listed_unless_a_version_has_none(tmp_path: Path) -> None:
    rows = {"claim": ["x", "y"], "preset": "", "outcome": "supports", "effect": 1.0}
    runs = {}
    for name, marks in {
        "old": {}, "plain": {"near": [False, True]}, "near": {"near": [True, True]},
    }.items():  # fmt: skip
        folder = write(tmp_path / name, {})
        table = pd.DataFrame({**rows, **marks, "corrected_p": 0.01})
        table.to_csv(folder / "reports/tables/claims.csv", index=False)
        runs[name] = read(folder)
    found = verdicts(runs["plain"], runs["near"])
    assert found == (
        ("x", None, "supports", Number(1, signed), "supports (close to another verdict)",
         Number(1, signed)),
    )  # fmt: skip
    assert verdicts(runs["old"], runs["near"]) == ()


def test_intervals_of_repeated_numbers_are_students_or_the_evaluations_own(tmp_path: Path) -> None:
    first = acc1(0.50, 0.52, 0.57, half=0.001)
    a, b = two(tmp_path, "zeroshot", first, acc1(0.70, half=0.02))
    (row,) = numbers(a, b).to_dict("records")
    low, high = stats.t.interval(0.95, 2, 0.53, stats.sem([0.50, 0.52, 0.57]))
    assert math.isclose(row["low_a"], low)
    assert math.isclose(row["high_a"], high)
    assert (row["n_a"], row["n_b"]) == (3, 1)
    assert math.isclose(row["low_b"], 0.68)
    assert math.isclose(row["difference"], 0.70 - 0.53)
    assert row["finding"] == "beyond"
    # The same seeds three times: the evaluation's own interval is the wider one.
    c = write(tmp_path / "c", {"zeroshot": acc1(0.5, 0.5, 0.5, half=0.1)})
    (row,) = numbers(c, b).to_dict("records")
    assert (round(row["low_a"], 9), round(row["high_a"], 9)) == (0.4, 0.6)


@pytest.mark.parametrize(("a", "b", "finding", "code"), [
    ([0.50], [0.51], "within", 0),
    ([0.50], [0.5201], "beyond", 1),
    ([0.5201], [0.50], "beyond", 1),
    ([0.50], [0.50], "the same", 0),
    ([math.nan], [math.nan], "the same", 0),
    ([], [0.5], "only in B", 1),
    ([0.5], [], "only in A", 1),
])  # fmt: skip
def test_what_is_said_of_a_number(tmp_path, capsys, a, b, finding, code):
    runs = two(tmp_path, "zeroshot", acc1(*a), acc1(*b))
    (row,) = numbers(*runs).to_dict("records")
    assert row["finding"] == finding
    assert said(capsys, *runs)[0] == code


def test_a_number_without_interval_is_not_judged(tmp_path: Path) -> None:
    row = {**ARM, "metric": "mean_abs_cosine", "tower": "text", "seed": 0}
    runs = two(tmp_path, "purity", [{**row, "value": 0.1}], [{**row, "value": 0.9}])
    (row,) = numbers(*runs).to_dict("records")
    assert row["finding"] == "no interval"


def test_parts_of_numbers_and_ways_of_trainings_are_left_out(tmp_path: Path) -> None:
    trial = {"condition": "as-run", "spurious_probability": 0.3, "trained_on": "raw"}
    simulation = [
        {**trial, "metric": "loss", "epoch": 1, "trial": 0, "value": 1.0},
        {**trial, "metric": "cosine_histogram", "bin_low": 0, "bin_high": 1, "value": 1.0},
        {**trial, "metric": "seconds_to_search", "trial": 0, "value": 0.5},
        {**trial, "metric": "accuracy", "trial": 0, "value": 0.5},
        {**trial, "metric": "accuracy", "trial": 1, "value": 0.7},
    ]
    zeroshot = [{**ACC1, "metric": "class_recall", "classname": "b", "seed": 0, "value": 1.0}]
    run = write(tmp_path / "a", {"simulation": simulation, "zeroshot": zeroshot})
    (row,) = numbers(run, run).to_dict("records")
    assert (row["metric"], row["n_a"]) == ("accuracy", 2)
    assert math.isclose(row["a"], 0.6)
    assert row["arm"] == "as-run, spurious_probability 0.3, raw"


def test_a_table_with_a_column_for_each_metric_is_compared_too(tmp_path: Path) -> None:
    run = {"part": "linear", "data_set": "d", "activation": "tanh", "width": 8, "stepsize": 2.0}
    low, high = ([{**run, "seed": seed, "final_risk": base + seed / 100} for seed in range(3)]
                 for base in (0.1, 0.9))  # fmt: skip
    (row,) = numbers(*two(tmp_path, "stepsize_runs", low, high)).to_dict("records")
    assert (row["metric"], row["finding"], row["n_a"]) == ("final_risk", "beyond", 3)
    assert row["arm"] == "linear, d, tanh, width 8, stepsize 2"
    assert math.isclose(row["difference"], 0.8)


def test_runs_of_other_configurations_list_the_arms_of_one_alone(tmp_path, capsys):
    a = write(tmp_path / "a", {"zeroshot": acc1(0.5) + acc1(0.4, rate=0.8)})
    b = write(tmp_path / "b", {"zeroshot": acc1(0.5), "corpus": [{"metric": "m", "value": 1}]})
    code, out = said(capsys, a, b)
    assert code == 1
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "only in A zeroshot pretrained, random, rate 0.8 1" in lines
    assert "only in B corpus 1" in lines


def test_the_arms_of_two_models_are_compared_though_their_towers_differ(tmp_path: Path) -> None:
    rows = {name: acc1(value, towers=name) for name, value in (("a", 0.5), ("b", 0.4), ("c", 0.3))}
    runs = [write(tmp_path / name, {"zeroshot": rows[name]}) for name in "ab"]
    (found,) = records(numbers(*runs))
    assert (found["a"], found["b"], found["finding"]) == (0.5, 0.4, "beyond")
    # Where a run has several models, their names tell them apart.
    several = write(tmp_path / "ac", {"zeroshot": rows["a"] + rows["c"]})
    assert len(numbers(several, runs[1])) == 3


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert not {"src", "onerror", "onload"} & {name for name, _ in attrs}
        assert all(value.startswith("#") for name, value in attrs if name == "href")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_and_the_csv_have_all_of_it_and_texts_stay_texts(tmp_path, capsys):
    evil = "<script>alert(1)</script>\x1b[31m\n"
    rows = [acc1(0.5, evaluation_set=evil) + acc1(v, rate=0.8) for v in (0.1, 0.9)]
    config = {**CONFIG, "corpus": '<img src=x onerror="alert(1)">'}
    a = write(tmp_path / "a", {"zeroshot": rows[0]})
    b = write(tmp_path / "b", {"zeroshot": rows[1]}, config=config)
    html, table = tmp_path / "out/page.html", tmp_path / "out/numbers.csv"
    code, out = said(capsys, a, b, "--html", html, "--csv", table)
    assert code == 1
    assert "\x1b" not in out
    page = Page(html.read_text())
    assert not {"script", "img"} & set(page.tags)
    assert '<img src=x onerror="alert(1)">' in page.text
    assert "://" not in html.read_text()
    found = pd.read_csv(table)
    assert found["finding"].tolist() == ["beyond", "the same"]
    assert found["difference"].round(9).tolist() == [0.8, 0]


def test_what_differs_most_comes_first_and_the_rest_is_counted(tmp_path, capsys):
    sets = range(40)
    same, rising = ([row for s in sets for row in acc1(0.2 + by * s, evaluation_set=f"s{s}")]
                    for by in (0.0, 0.01))  # fmt: skip
    _, out = said(capsys, *two(tmp_path, "zeroshot", same, rising))
    assert "Here are the first 30 of 39 that differ." in out
    rows = [line for line in out.splitlines() if line.endswith("beyond")]
    assert "s39," in rows[0]
    assert "s38," in rows[1]


BROKEN = {
    "nothing there": (lambda f: None, "does not exist. Give the folder of a finished run"),
    "an empty folder": (lambda f: f.mkdir(), "has neither reports/run.json nor run.json"),
    "no JSON": (lambda f: files.write_text(f / "run.json", "{"), "cannot be read as JSON"),
    "other JSON": (lambda f: files.write_json(f / "run.json", [1]), "is no record of a run"),
    "half a record": (lambda f: files.write_json(f / "run.json", {"record": {"mispair": "1"}}),
                      "is no record of a run"),
    "no tables": (lambda f: files.write_json(f / "run.json", {"record": RECORD}),
                  "tables: does not exist"),
    "a broken table": (b"start,value\na,b,c,d\nx\n", "purity.csv: cannot be read as a table"),
    "words for numbers": (b"metric,value\na,many\n", "purity.csv: cannot be read as a table"),
    "bytes": (b"metric\n\xff\xfe\n", "purity.csv: cannot be read as a table"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_missing_or_broken_file_is_one_clear_message(tmp_path, capsys, case):
    make, words = BROKEN[case]
    if isinstance(make, bytes):
        (write(tmp_path / "b", {}) / "reports/tables/purity.csv").write_bytes(make)
    else:
        make(tmp_path / "b")
    a = write(tmp_path / "a", {})
    assert main(["compare", str(a), str(tmp_path / "b")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert "Traceback" not in printed.err
    assert len(printed.err.strip().splitlines()) == 1


def test_a_table_that_one_version_does_not_know_is_empty_there(tmp_path: Path) -> None:
    a, b = two(tmp_path, "zeroshot", acc1(0.5), acc1(0.5))
    (b / "reports/tables/semantics.csv").unlink()
    table = b / "reports/tables/zeroshot.csv"
    pd.read_csv(table).drop(columns=["headline"]).to_csv(table, index=False)
    assert numbers(a, b)["finding"].tolist() == ["the same"]
    assert json.loads((b / "reports/run.json").read_text())["record"] == RECORD
