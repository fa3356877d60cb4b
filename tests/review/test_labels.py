"""A person's labels: files of spreadsheets, one message for each fault, and what is of the draw."""

from pathlib import Path

import pandas as pd
import pytest

from mispair.core.files import UserError
from mispair.review.labels import has_labels, of_sample, read_labels

EXPECTED = {"00001": ("right", ""), "00002": ("wrong", ""), "00003": ("unsure", "")}
ROWS = ["00001,right", "00002,wrong", "00003,unsure"]


@pytest.mark.parametrize(
    "content",
    [
        "\n".join(["key,label", *ROWS]).encode(),
        "\ufeffKey;Label;note\r\n00001;right;x\r\n00002;wrong;x\r\n00003;unsure;\r\n".encode(),
        "\n".join(['"KEY","LABEL"', *(row.upper() for row in ROWS), "", ",,", "00009,"]).encode(),
        "label\tkey\nright\t00001\nwrong\t00002\nunsure\t00003\n".encode("utf-16"),
        "\n".join(["key,label", *ROWS, *ROWS]).encode(),
        "\n".join(["sep=;", "key;label", *(row.replace(",", ";") for row in ROWS)]).encode(),
        "\r".join(['"key",label,date', *(f'"{row[:5]}"{row[5:]},"1\n2"' for row in ROWS)]).encode(),
        "\r\n".join(["sep=,", "key,label", *ROWS]).encode(),
        "\n".join(["key,label", *ROWS]).replace(",", "|").encode(),
    ],
    ids=[
        "plain", "semicolons", "capitals", "wide", "twice", "excel", "quoted", "commas", "bars",
    ],
)  # fmt: skip
def test_files_as_spreadsheets_save_them(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "review.csv"
    path.write_bytes(content)
    assert read_labels(path) == EXPECTED
    assert has_labels(path)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("key,label\na,right\nb,wrong\na,wrong\n", ["'a'", "line 2", "line 4"]),
        ("key,label\na,good\n", ["line 2", "'good'", "unsure"]),
        ("sep=,\nkey,label\na,1\n", ["line 3", "'1'", "unsure"]),
        ("key,label\n27.11.2026,y\n", ["line 2", "'y'"]),
        ("key,label\n,right\n", ["line 2", "key"]),
        ("key,label,how\na,right,both\n", ["line 2", "'both'", "chosen"]),
        ("key\na\n", ["'label'"]),
        ("key,label\n", ["no label"]),
        ("", ["'key'"]),
        ("PK\x03\x04", ["spreadsheet"]),
    ],
)
def test_one_message_for_each_fault(tmp_path: Path, content: str, named: list[str]) -> None:
    path = tmp_path / "review.csv"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        read_labels(path)
    assert all(part in str(error.value) for part in [*named, str(path), "reviewed"])


def test_a_list_of_keys_has_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "checked.txt"
    for content in ("00001\n00002\n", "key\n00001\n", ""):
        path.write_text(content)
        assert not has_labels(path)
    assert not has_labels(tmp_path / "missing.csv")


SAMPLE = pd.DataFrame(
    {"key": ["a", "b", "c", "d", "e", "f"], "stratum": [0, 1, 0, 1, 0, 1], "order": range(6)}
)


def test_a_person_who_stops_early_has_labelled_a_smaller_sample() -> None:
    labels = {"a": ("right", "drawn"), "b": ("wrong", ""), "c": ("wrong", "drawn")}
    sample, counts = of_sample(labels, SAMPLE)
    assert sample["label"].tolist() == ["right", "wrong", "wrong", "", "", ""]
    assert counts == {"chosen": 0, "not_drawn": 0, "skipped": 0}


def test_what_was_skipped_is_unsure_and_what_was_chosen_is_left_out() -> None:
    labels = {
        "e": ("right", "drawn"), "f": ("wrong", "chosen"), "z": ("wrong", "chosen"),
        "y": ("right", ""), "x": ("right", "drawn"),
    }  # fmt: skip
    sample, counts = of_sample(labels, SAMPLE)
    assert sample["label"].tolist() == ["unsure", "", "unsure", "", "right", ""]
    assert counts == {"chosen": 3, "not_drawn": 1, "skipped": 2}


def test_a_chosen_label_counts_where_its_pair_was_drawn_anyway() -> None:
    labels = {"a": ("wrong", "chosen"), "c": ("right", "drawn")}
    sample, counts = of_sample(labels, SAMPLE)
    assert sample["label"].tolist() == ["wrong", "", "right", "", "", ""]
    assert counts["chosen"] == 0
