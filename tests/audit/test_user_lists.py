"""The user's lists: which trusted keys count, and groups of pairs."""

import logging
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mispair.audit.user_lists import first_rows, read_groups, read_trusted
from mispair.core.files import UserError

CORPUS = pa.array([f"{number:03d}" for number in range(100)])


@pytest.mark.parametrize(
    ("present", "rejected", "unknown", "refused"),
    [
        (60, 0, 0, ""),
        (57, 3, 0, ""),
        (20, 40, 0, ""),  # any number of pairs that mispair itself left out
        (57, 0, 3, ""),  # 5 %
        (50, 7, 3, ""),
        (56, 0, 4, "4 keys of 60"),
        (0, 60, 0, "rejected or excluded"),
    ],
)
def test_keys_without_a_pair_are_counted_and_left_out(
    tmp_path, caplog, present, rejected, unknown, refused
):
    left_out = []
    for number in range(2):  # such as the excluded ones, and those rejected in one group
        left_out.append(tmp_path / f"{number}.parquet")
        keys = [f"r{key}" for key in range(60) if key % 2 == number]
        pq.write_table(pa.table({"key": pa.array(keys, pa.string())}), left_out[-1])
    keys = CORPUS.to_pylist()[:present] + [f"r{key}" for key in range(rejected)]
    path = tmp_path / "trusted.txt"
    path.write_text("\n".join(keys + [f"u{key}" for key in range(unknown)]))
    if refused:
        with pytest.raises(UserError, match=refused):
            read_trusted([path], CORPUS, left_out)
        return
    with caplog.at_level(logging.WARNING):
        is_trusted = read_trusted([path], CORPUS, left_out)
    assert is_trusted.sum() == present == is_trusted[:present].sum()
    if rejected + unknown:
        assert f"{rejected} of pairs" in caplog.text
        assert f"{unknown} that the corpus" in caplog.text
    else:
        assert not caplog.text


def test_a_key_in_another_form_of_unicode_is_that_of_its_pair(tmp_path, caplog) -> None:
    """A file system may change the form; a form that several pairs have names none of them."""
    composed, decomposed = "cr\u00eape", "cre\u0302pe"
    path = tmp_path / "trusted.txt"
    path.write_text(f"{composed}\na\n", encoding="utf-8")
    assert read_trusted([path], pa.array(["a", decomposed, "b"])).tolist() == [True, True, False]
    path.write_text("a\n\u1e69\n", encoding="utf-8")
    with pytest.raises(UserError, match="1 keys of 2"):
        read_trusted([path], pa.array(["a", "s\u0323\u0307", "s\u0307\u0323"]))
    assert not caplog.text


def test_a_path_of_a_picture_and_an_escaped_key_are_the_key_of_a_pair(tmp_path: Path) -> None:
    path = tmp_path / "trusted.txt"
    path.write_text("./a/v1.2.jpg\na/v1%2E3\nb\n", encoding="utf-8")
    corpus = pa.array(["a/v1.2", "a/v1.3", "a/v1.4", "b"])
    assert read_trusted([path], corpus).tolist() == [True, True, False, True]


@pytest.mark.parametrize("head", ["", "sep=,\n"])
@pytest.mark.parametrize("key", ["key", "Key"])
@pytest.mark.parametrize("form", ["csv", "csv ;", "csv |", "tsv \t", "csv \t", "parquet"])
def test_groups_are_read_by_key(tmp_path: Path, form: str, key: str, head: str) -> None:
    form, _, separator = form.partition(" ")
    path = tmp_path / f"groups.{form}"
    table = pd.DataFrame(
        {key: ["0001", "0002", "0002"], "language": ["de", None, "fr"], "year": [1, 2, 3]}
    )
    if form == "parquet":
        table.to_parquet(path)
    else:
        separator = separator or ","
        path.write_text(head.replace(",", separator) + table.to_csv(index=False, sep=separator))
    found = read_groups(path, ["language", "source"], pd.Series(["0002", "0001", "0003"]))
    assert {name: groups.tolist() for name, groups in found.items()} == {
        "group_language": ["not given", "de", "not given"]
    }
    assert {*read_groups(path, ["year", "language"], pd.Series(["0001"]))} == {
        "group_year", "group_language"}  # fmt: skip
    assert first_rows(path, ["year"], 2) == ["0001", "0002"]
    assert read_groups(path, ["year"], pd.Series(["0001"]))["group_year"].tolist() == ["1"]
    for fields, keys, part in ((["source"], ["0001"], "group_fields"), (["year"], ["x"], "'x'")):
        with pytest.raises(UserError, match=part):
            read_groups(path, fields, pd.Series(keys))


def test_groups_that_differ_by_case_and_blanks_alone_are_one(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("key, language\n1,en\n2,EN\n3, en \n4, \n5,en  us\n6,En US\n")
    found = read_groups(path, ["language"], pd.Series(["1", "2", "3", "4", "5", "6"]))
    assert found["group_language"].tolist() == ["en", "en", "en", "not given", "en us", "en us"]
    # A key in another form of Unicode is that of its pair.
    path.write_text("key,language\ncr\u00eape,fr\nb,de\n", encoding="utf-8")
    found = read_groups(path, ["language"], pd.Series(["cre\u0302pe", "b"]))
    assert found["group_language"].tolist() == ["fr", "de"]


@pytest.mark.parametrize(
    "content", [b"", b"PAR1 no table", b"\xff\xfe\x00", b"key,language\n1,2,3\n", b"PK\x03\x04"]
)
@pytest.mark.parametrize("name", ["groups.csv", "groups.parquet"])
def test_broken_groups_are_refused_by_name(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"groups: .*(key|iconv)"):
        read_groups(path, ["language"], pd.Series(["1"]))
