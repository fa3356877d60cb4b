"""Captions by key: every form of table, what is refused and why, and lookups that read little."""

import csv
import gzip
import json
import logging
import random
import re
from collections.abc import Callable
from datetime import date
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mispair.core import files
from mispair.core.files import UserError
from mispair.pairs.captions import json_rows, sorted_captions, user_tables
from mispair.pairs.captions.key_lists import naming
from mispair.pairs.captions.table_files import table_files
from mispair.pairs.steps import read_captions

Rows = list[tuple[str, list[str]]]

ROWS: Rows = [
    ("00012", ["a red cup", "a cup, red"]),
    ("12", ['a "quoted" word']),
    ("00003", ["one line\nand the next"]),
    ("b/c.d", ["größer, 日本語 \u2028 🙂"]),
    ("00001", [""]),
    ("NA", ["null"]),
]


def as_parquet(path: Path, rows: Rows) -> None:
    keys, captions = zip(*rows, strict=True)
    pq.write_table(pa.table({"other": range(len(keys)), "key": keys, "caption": captions}), path)


def as_flat_parquet(path: Path, rows: Rows) -> None:
    flat = [(key, caption) for key, captions in rows for caption in captions]
    table = pa.table({"caption": [c for _, c in flat], "key": [k for k, _ in flat]})
    pq.write_table(table.set_column(1, "key", table["key"].dictionary_encode()), path)


def separated(
    delimiter: str, end: str, opener: Callable[..., Any] = open, head: str = ""
) -> Callable[..., None]:
    def write(path: Path, rows: Rows) -> None:
        with opener(path, "wt", newline="", encoding="utf-8-sig") as opened:
            opened.write(head)
            writer = csv.writer(opened, delimiter=delimiter, lineterminator=end)
            writer.writerow(["url", "caption", "key"])
            writer.writerows(("u", caption, key) for key, texts in rows for caption in texts)

    return write


def spaced(path: Path, rows: Rows) -> None:
    """As one writes a table by hand, with blank lines above it."""
    cells = [(key, text.replace('"', '""')) for key, texts in rows for text in texts]
    lines = ["\n , \nurl, key, caption\n", *(f'u, {key}, "{text}"\n' for key, text in cells)]
    path.write_text("".join(lines), encoding="utf-8")


def escaped(path: Path, rows: Rows) -> None:
    """As MySQL and pandas with `escapechar` write a table."""
    cells = [["key", "caption"], *([key, text] for key, texts in rows for text in texts)]
    with path.open("w", encoding="utf-8", newline="") as opened:
        for row in cells:
            signs = [re.sub(r"([\\\"'])", r"\\\1", cell) for cell in row]
            opened.write(",".join(f'"{cell}"' for cell in signs) + "\n")


def escaped_once(path: Path, rows: Rows) -> None:
    """As Python's `repr` writes texts."""
    escaped(path, rows)
    double = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'(?<!\\)"', "'", double).replace('\\"', '"'), encoding="utf-8")


def in_columns(rows: Rows) -> list[dict[str, Any]]:
    """One caption a column."""
    names = [f"caption_{number}" for number in range(2)]
    return [{"key": key} | dict(zip_longest(names, texts)) for key, texts in rows]


def as_columns(path: Path, rows: Rows) -> None:
    cells = in_columns(rows)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(cells), path)
    elif path.suffix == ".jsonl":
        filled = [{name: cell for name, cell in row.items() if cell is not None} for row in cells]
        path.write_text("\n".join(map(json.dumps, filled)), encoding="utf-8")
    else:
        pd.DataFrame(cells).to_csv(path, index=False)


def as_jsonl(path: Path, rows: Rows) -> None:
    lines = [json.dumps({"key": key, "caption": captions, "x": 1}) for key, captions in rows]
    lines[1] = json.dumps({"key": rows[1][0], "caption": rows[1][1][0]}, ensure_ascii=False)
    path.write_text("\n\n".join(lines), encoding="utf-8")


def in_json(content: Callable[[Rows], Any], opener: Callable[..., Any] = open) -> Any:
    def write(path: Path, rows: Rows) -> None:
        with opener(path, "wt", encoding="utf-8-sig") as opened:
            json.dump(content(rows), opened, indent=1, ensure_ascii=False)

    return write


def objects(rows: Rows) -> list[dict[str, Any]]:
    return [{"key": key, "x": 1, "caption": captions} for key, captions in rows]


def columns(rows: Rows, numbered: bool = False) -> dict[str, Any]:
    """As pandas' `to_json` writes a table, or one as lists."""
    cells = {name: [row[name] for row in objects(rows)] for name in ("key", "caption", "x")}
    return {n: dict(enumerate(of)) for n, of in cells.items()} if numbered else cells


def coco(rows: Rows) -> dict[str, Any]:
    pictures = [{"id": n, "file_name": f"{key}.jpg"} for n, (key, _) in enumerate(rows)]
    notes = [(n, text) for n, (_, captions) in enumerate(rows) for text in captions]
    return {
        "info": {}, "licenses": [{"id": 1}], "images": pictures,
        "annotations": [{"id": 7, "image_id": str(n), "caption": text} for n, text in notes],
    }  # fmt: skip


FORMS: dict[str, Callable[[Path, Rows], None]] = {
    "t.parquet": as_parquet,
    "flat.parquet": as_flat_parquet,
    "t.csv": separated(",", "\n"),
    "dos.CSV": separated(",", "\r\n"),
    "t.tsv": separated("\t", "\n"),
    "tabs.csv": separated("\t", "\n"),
    "semicolons.csv": separated(";", "\n"),
    "bars.csv.gz": separated("|", "\n", gzip.open),
    "excel.csv": separated(";", "\r\n", head="sep=;\r\n"),
    "hash.csv": separated("#", "\n", head="sep=#\n"),
    "t.csv.gz": separated(",", "\n", gzip.open),
    "spaced.csv": spaced,
    "escaped.csv": escaped,
    "escaped once.csv": escaped_once,
    "columns.csv": as_columns,
    "columns.parquet": as_columns,
    "columns.jsonl": as_columns,
    "columns of rows.json": in_json(in_columns),
    "t.jsonl": as_jsonl,
    "t.jsonlines": as_jsonl,
    "lines.json": as_jsonl,
    "list.json": in_json(objects),
    "list.jsonl": in_json(objects),
    "list.json.gz": in_json(objects, gzip.open),
    "split.json": in_json(
        lambda rows: {
            "columns": ["x", "key", "caption"],
            "data": [[1, key, captions] for key, captions in rows],
        }
    ),
    "rows.json": in_json(lambda rows: [[key, captions] for key, captions in rows]),
    "names.json": in_json(dict),
    "objects by name.json": in_json(lambda rows: {key: {"caption": of} for key, of in rows}),
    "columns.json": in_json(columns),
    "numbered.json": in_json(lambda rows: columns(rows, numbered=True)),
    "inside.json": in_json(lambda rows: {"version": 1, "rows": objects(rows)}),
    "splits.json": in_json(lambda rows: {"train": objects(rows)[:2], "test": objects(rows)[2:]}),
    "coco.json": in_json(coco),
}


def read(table: Path, folder: Path, keys: Path | None = None, **columns: str) -> dict[str, Any]:
    captions = folder / "captions.parquet"
    settings = read_captions.Settings(**columns)
    read_captions.run(settings, table=[table], key_list=[keys] if keys else [], captions=captions)
    frame, _ = files.read_parquet(captions)
    assert list(frame["key"]) == sorted(frame["key"])
    return {key: list(texts) for key, texts in zip(frame["key"], frame["captions"], strict=True)}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same(form, tmp_path):
    FORMS[form](tmp_path / form, ROWS)
    assert read(tmp_path / form, tmp_path) == dict(ROWS)


@pytest.mark.parametrize(
    "cells", ['"a\\b ""c"" \\d"', '"ends in \\"', "a\\'s C:\\x", r"\' and \n in one"]
)
def test_backslashes_that_escape_no_quotes_stay(cells, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(f"key,caption\n1,{cells}\n")
    text = cells.strip('"').replace('""', '"')
    assert read(table, tmp_path) == {"1": [text]}


@pytest.mark.parametrize("text", ['"a start', '"a" and b', '5" wide', '"', 'a "b"'])
@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.tsv.gz"])
def test_quotation_marks_between_tabs_may_be_text(name, text, tmp_path):
    """As CC3M and LAION write tables."""
    opener = gzip.open if name.endswith(".gz") else open
    with opener(tmp_path / name, "wt") as opened:
        opened.write(f"key\tcaption\n1\t{text}\n2\tb\n")
    assert read(tmp_path / name, tmp_path) == {"1": [text], "2": ["b"]}


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize(
    ("named", "expected"), [("caption", ["x"]), ("caption*", ["x", "y"]), ("caption_1", ["y"])]
)
def test_a_column_without_a_number_stands_for_itself(named, expected, form, tmp_path):
    table, row = tmp_path / f"t.{form}", {"key": "1", "caption": "x", "caption_1": "y"}
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist([row]), table)
    else:
        lines = [",".join(row), ",".join(row.values())] if form == "csv" else [json.dumps(row)]
        table.write_text("\n".join(lines))
    assert read(table, tmp_path, caption_column=named) == {"1": expected}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("write", [json.dumps, str])
def test_a_text_that_is_a_list_is_several_captions(form, write, tmp_path):
    rows = [(f"k{number}", ['a "cat"', f"it's pet {number}"]) for number in range(3)]
    FORMS[form](tmp_path / form, [(key, [write(texts)]) for key, texts in rows])
    assert read(tmp_path / form, tmp_path) == dict(rows)


def test_several_rows_of_a_key_repeats_and_nulls(tmp_path, caplog):
    rows: list[tuple[str, Any]] = [
        ("b", "second"), ("a", "z"), ("b", "first"), ("a", None), ("b", "second"), ("c", None),
        ("c", float("nan")), ("a", ["y", "z", None]), ("b", "A"),
    ]  # fmt: skip
    lines = [json.dumps({"key": key, "caption": caption}) for key, caption in rows]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    with caplog.at_level(logging.INFO):
        found = read(tmp_path / "t.jsonl", tmp_path)
    assert found == {"a": ["z", "y"], "b": ["second", "first", "A"]}
    said = "5 captions of 2 keys; left out: 2 that repeat another of their key, 4 that are null"
    assert said in caplog.text


@pytest.mark.parametrize("ending", ["json", "jsonl", "parquet"])
@pytest.mark.parametrize("column", ["conversations", "conversations.gpt"])
@pytest.mark.parametrize("fields", [("from", "value", "gpt"), ("role", "content", "assistant")])
def test_the_caption_of_a_conversation_is_its_answer(ending, column, fields, tmp_path):
    """As LLaVA, ShareGPT4V and others write recaptions."""
    who, what, answering = fields
    rows = [
        {"id": key, "conversations": [{who: "human", what: "?"}, {who: answering, what: text}]}
        for key, text in (("a", "a cup"), ("b", "a boat"))
    ]
    table = tmp_path / f"t.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), table)
    else:
        table.write_text(json.dumps(rows) if ending == "json" else "\n".join(map(json.dumps, rows)))
    columns = user_tables.TableColumns("id", column)
    found = [*user_tables.read_rows([table], None, columns)]
    assert found == [("a", "a cup"), ("b", "a boat")]


def test_keys_in_formulas_keep_their_zeros(tmp_path):
    (tmp_path / "t.csv").write_text('key,caption\n"=""0012""",a cup\n="0013",a boat\n')
    assert read(tmp_path / "t.csv", tmp_path) == {"0012": ["a cup"], "0013": ["a boat"]}


UNQUOTED = {"1": "a cup, red", "2": "a cat, 1,000 dogs", "3": "a boat", "4": 'he says "hi", so'}


@pytest.mark.parametrize(
    "columns", [("key", "caption"), ("caption", "key"), ("n", "key", "caption")]
)
@pytest.mark.parametrize(("sign", "ending"), [(",", "\n"), (";", "\r\n"), ("|", "\n")])
def test_captions_with_separators_need_no_quotes(columns, sign, ending, tmp_path, caplog):
    """As in a table of pairs: one text in the first or last column, and no further cells."""
    texts = {key: text.replace(",", sign) for key, text in UNQUOTED.items()}
    rows = [dict(zip(("n", "key", "caption"), ("7", *pair), strict=True)) for pair in texts.items()]
    table = tmp_path / "t.csv"
    lines = [sign.join(columns), *(sign.join(row[name] for name in columns) for row in rows)]
    table.write_text(ending.join([*lines, ""]), newline="")
    assert read(table, tmp_path) == {key: [text] for key, text in texts.items()}
    assert f"3 captions with {sign!r} unquoted" in caplog.text
    table.write_text(table.read_text().replace(f"{sign} ", sign))
    with pytest.raises(UserError, match="quote captions"):
        read(table, tmp_path)


def test_a_list_by_position_needs_as_many_keys(tmp_path):
    table, keys = tmp_path / "rewrites.txt", tmp_path / "keys.txt"
    table.write_bytes("one\r\ntwo \u2028 too\nthree\x0b\n".encode())
    keys.write_text("k3\nk2\nk1\n")
    right = {"k1": ["three\x0b"], "k2": ["two \u2028 too"], "k3": ["one"]}
    assert read(table, tmp_path, keys) == right
    keys.write_text("k3\nk2\nk1")  # the last line's end may be missing
    assert read(table, tmp_path, keys) == right
    with pytest.raises(UserError, match="captions without keys.* shifts .* Give caption_keys"):
        read(table, tmp_path)
    for wrong in ("k3\nk2\n", "k3\nk2\nk1\nk0\n", ""):
        keys.write_text(wrong)
        with pytest.raises(UserError, match="rewrites.txt has 3 lines, but .*keys.txt has .*shift"):
            read(table, tmp_path, keys)
    keys.write_text("k3\n\nk1\n")
    with pytest.raises(UserError, match="keys.txt: row 2 has the key ''"):
        read(table, tmp_path, keys)
    with pytest.raises(UserError, match="no such list of keys"):
        read(table, tmp_path, tmp_path / "none.txt")


CUT_OFF = gzip.compress(b"key,caption\n1,x\n" * 999, mtime=0)[:-12]


@pytest.mark.parametrize(("name", "content", "words"), [
    ("t.csv", b"", "holds no caption"),
    ("t.csv", b"key,caption\n", "holds no caption"),
    ("t.csv", b"00012,a cup\n00013,x\n", "no column 'key', only '00012', 'a cup'.*first"),
    ("t.csv", b"key,text\n1,x\n", "no column 'caption', only 'key', 'text'"),
    ("t.csv", b"key,caption,caption\n1,x,y\n", "two columns 'caption'"),
    ("t.csv", b"key,caption\n1,x\n2,a,b\n", "line 3 has 3 fields, but the first line names 2"),
    ("t.csv", b"key,caption\n1,x\n2\n", "line 3 has 1 fields"),
    ("t.csv", b'key,caption\n1,"a" b\n', "line 2 is not valid.*Parquet or JSONL"),
    ("t.csv", b'key,caption\n1,"a\n2,b\n', "line 3 is not valid"),
    ("t.csv", b"key,caption\n,x\n", "row 2 has the key ''"),
    ("t.csv", b"key,caption\n1,x\n2,caf\xe9\n", "line 3 is not UTF-8.*iconv"),
    ("t.csv", "key,caption\n1,x\n".encode("utf-16"), "line 1 is not UTF-8"),
    ("t.tsv", b"key,caption\n1,x\n", "no column 'key'"),
    ("t.csv.gz", CUT_OFF, "cannot be read after line"),
    ("t.csv.gz", b"key,caption\n1,x\n", "cannot be read after line 1.*[Gg]zip"),
    ("t.jsonl", b"", "holds no caption"),
    ("t.jsonl", b'{"key": "1", "caption": "x"}\n{"key": "2"\n', "line 2 is not JSON"),
    ("t.jsonl", b"[" * 100_000, "t.jsonl is not JSON"),
    ("t.jsonl", b"[1]\n", "object 1 is not a JSON object"),
    ("t.jsonl", b'{"key": "1", "caption": "x"}\n[1]\n', "line 2 is not a JSON object"),
    ("t.jsonl", b'{"key":"1","text":"x"}\n', "no column 'caption', only 'key', 'text'.*row 1"),
    ("t.jsonl", b'\n{"key": 12,"caption":"x"}\n', "row 2 has the key 12. Write keys as texts"),
    ("t.jsonl", b'{"key": "1", "caption": 3}\n', "row 1: caption is 3, neither"),
    ("t.jsonl", b'{"key": "1", "caption": ["a", ["b"]]}\n', r"row 1: caption is \['b'\]"),
    ("t.jsonl", b'{"key": "1", "caption": "\\ud83d"}\n', "half a character"),
    ("t.jsonl", b'{"key": "1", "caption": "\xff"}\n', "line 1 is not UTF-8"),
    ("t.json", b"", "holds no caption"),
    ("t.json", b"[]", "holds no caption"),
    ("t.json", b"3", "object 1 is not a JSON object"),
    ("t.json", b'{"key": ["1"], "caption": ["x"', "t.json: line 1 is not JSON"),
    ("t.json", b'[{"key": "1", "text": "x"}]', "only 'key', 'text'.*row 1"),
    ("t.json", b'[{"key": 12, "caption": "x"}]', "row 1 has the key 12. Write keys as texts"),
    ("t.json", b'{"count": 3, "successes": 2}', "row 1: caption is 3, neither"),
    ("t.json", b'[{"file_name": "1.jpg", "caption": "x"}]', "only 'file_name', 'caption'"),
    ("t.json", '["café"]'.encode("latin-1"), "line 1 is not UTF-8.*iconv"),
    ("t.json", '["x"]'.encode("utf-16"), "line 1 is not UTF-8.*UTF-16"),
    ("t.json", b'{"images": [{"id": 1}], "annotations": [{"image_id": 1, "bbox": [0]}]}',
        "no column 'caption'"),
    ("t.json.gz", b"[]", "cannot be read after line 1.*[Gg]zip"),
    ("t.parquet", b"", "cannot be read as Parquet"),
    ("t.parquet", b"PAR1 and then nothing", "cannot be read as Parquet"),
    ("t.csv", b"PK\x03\x04\xff", "spreadsheet"),
    ("t.xlsx", b"PK", "a caption table ends in .parquet, .csv"),
    ("t.parquet.gz", b"PK", "a caption table ends in"),
    ("t", b"PK", "a caption table ends in"),
])  # fmt: skip
def test_what_is_refused(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=words) as refusal:
        read(tmp_path / name, tmp_path)
    assert str(refusal.value).startswith("captions: ")
    assert not (tmp_path / "captions.parquet").exists()


@pytest.mark.parametrize("name", ["captions", "captions.csv", "captions.caption_column.csv"])
def test_a_message_names_its_setting_also_if_a_file_has_the_name(name):
    with pytest.raises(UserError) as refusal, naming("captions", "captions.caption_column"):
        raise UserError(f"{name}: line 2 is wrong.")
    expected = f"captions: {name}" if "csv" in name else name
    assert str(refusal.value) == f"{expected}: line 2 is wrong."


@pytest.mark.parametrize(("columns", "words"), [
    ({"key": [12], "caption": ["x"]}, "'key' is of type int64, not text"),
    ({"key": ["12"], "caption": [3.0]}, "double, not text. Set read_captions.caption_column"),
    ({"key": ["12"], "caption": [[3]]}, "list<.*int.*not text. Set read_captions.cap"),
    ({"key": ["12"], "caption": [3]}, "int64, not text. Set read_captions.caption_column"),
    ({"key": ["12"], "caption": [date(2024, 1, 2)]}, "date.*read_captions.caption_column"),
    ({"key": ["12"], "caption": [b"x"]}, "binary.*read_captions.caption_column.*cast"),
    ({"key": ["12"], "caption": [[b"x"]]}, "binary.*caption_column.*cast.'list<item: string>"),
    ({"key": ["12"], "caption": [{"a": "x"}]}, "read_captions.caption_column.*caption.a"),
    ({"key": ["12"], "caption": [True]}, "bool, not text. Set read_captions.caption_column"),
    ({"key": [b"12"], "caption": ["x"]}, "'key' is of type binary.*key_column.*cast"),
    ({"key": ["12"], "text": ["x"]}, "no column 'caption', only 'key', 'text'"),
    ({"key": ["1", None], "caption": ["x", "y"]}, "row 2 has the key None"),
    ({"key": ["1"], "caption": pa.array([None], pa.string())}, "holds no caption"),
])  # fmt: skip
def test_parquet_that_is_refused(columns, words, tmp_path):
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(UserError, match=words):
        read(tmp_path / "t.parquet", tmp_path)


@pytest.mark.parametrize("kind", [
    *(pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())),
    *(pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.string(), 1)),
    *(pa.list_(pa.string_view()), pa.list_(pa.large_string())),
], ids=str)  # fmt: skip
def test_every_type_of_text_is_text(kind, tmp_path):
    is_list = hasattr(kind, "value_field")
    caption = pa.array([["x"] if is_list else "x"], kind)
    key = pa.array(["12"], pa.string() if is_list else kind)
    pq.write_table(pa.table({"key": key, "caption": caption}), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet", tmp_path) == {"12": ["x"]}


def test_columns_inside_of_others(tmp_path):
    rows = [{"meta": {"id": "12"}, "llava": [{"caption": "a"}, {"caption": "b"}], "x.y": "c"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text(json.dumps(rows[0]))
    for name in ("t.parquet", "t.jsonl"):
        for column, captions in (("llava.caption", ["a", "b"]), ("x.y", ["c"])):
            columns = {"key_column": "meta.id", "caption_column": column}
            assert read(tmp_path / name, tmp_path, **columns) == {"12": captions}
    with pytest.raises(UserError, match="only 'llava.caption'"):
        read(tmp_path / "t.parquet", tmp_path, key_column="meta.id", caption_column="llava.text")


@pytest.mark.parametrize(("cell", "captions"), [
    ('["a", "b"]', ["a", "b"]),
    (str(["it's", "b"]), ["it's", "b"]),
    ("['a', 'b']", ["a", "b"]),
    ("[a] b", ["[a] b"]),
    ("['a'", ["['a'"]),
    ("['a', 'b'", ["['a', 'b'"]),
    ('["a", null, "b"]', ["a", "b"]),
    ("[None, 'a']", ["a"]),
    ('[["a"], ["b", "c"]]', ["a", "b", "c"]),
    ("('a', 'b')", ["a", "b"]),
    ("('a red cup')", ["('a red cup')"]),
    ("[ 'a' , \"it's 'b' 'c'\" ]", ["a", "it's 'b' 'c'"]),
    ('["a", 5]', ['["a", 5]']),
])  # fmt: skip
def test_lists_in_cells_are_several_captions(cell, captions, tmp_path):
    with (tmp_path / "t.csv").open("w", newline="") as opened:
        csv.writer(opened).writerows([("key", "caption"), ("12", cell)])
    assert read(tmp_path / "t.csv", tmp_path) == {"12": captions}


@pytest.mark.parametrize("cell", ["['a' 'b']", "['a, b' 'c']", "['a'\n 'b']", "[['a' 'b']]"])
def test_a_list_as_numpy_prints_it_is_refused(cell, tmp_path):
    (tmp_path / "t.csv").write_text(f'key,caption\n12,"{cell}"\n')
    with pytest.raises(UserError, match="row [23].*numpy"):
        read(tmp_path / "t.csv", tmp_path)


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_json_that_is_read_whole_has_a_limit(name, tmp_path, monkeypatch):
    FORMS["list." + name.partition(".")[2]](tmp_path / name, [("k", ["a text"] * 99)])
    monkeypatch.setattr(json_rows, "MOST_BYTES", 900)
    with pytest.raises(UserError, match=r"t\.json.*jq"):
        read(tmp_path / name, tmp_path)


PART = "key,caption\n{n},c{n}\n"


@pytest.mark.parametrize(("given", "names"), [
    ("parts", ["a.csv", "b.csv"]),
    ("parts/*", ["a.csv", "b.csv"]),
    ("parts/{a,b}.csv", ["a.csv", "b.csv"]),
    ("*/b.csv", ["b.csv"]),
    (["parts/b.csv", "parts/a.csv"], ["b.csv", "a.csv"]),
    ("odd [1] {x}.csv", ["odd [1] {x}.csv"]),
    ("lines", ["lines.txt"]),
    ("json", ["a.json"]),
    ("with json", ["a.csv"]),
    ("none.csv", "there is no file"),
    ("none/*.csv", "there is no file"),
    ("https://a.b/c.csv", "not on this machine"),
    ("empty", "the folder .* holds no table"),
    ("parts/readme.md", "ends in"),
    ("both", "forms csv, jsonl"),
    ("texts", "2 text files, such as a.txt.*into one table"),
    (["parts", "parts/a.csv"], "more than once"),
    ("parts/{a}.csv", "captions: .* braces"),
    ([], "list is empty"),
])  # fmt: skip
def test_tables_of_several_files(given, names, tmp_path, monkeypatch):
    files_of = {
        "parts": ["a.csv", "b.csv", "readme.md", "_c.csv", ".d.csv", "notes.txt"],
        "both": ["a.csv", "b.jsonl"], "empty": ["readme.md"], "texts": ["a.txt", "b.txt"],
        "lines": ["lines.txt"], "json": ["a.json", "notes.txt"],
        "with json": ["a.csv", "dataset_info.json", "notes.txt"], ".": ["odd [1] {x}.csv"],
    }  # fmt: skip
    for folder, members in files_of.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in members:
            (tmp_path / folder / name).write_text(PART.format(n=name[0]))
    monkeypatch.chdir(tmp_path)
    if isinstance(names, str):
        with pytest.raises(UserError, match=names):
            table_files("captions", given)
        return
    paths = table_files("captions", given)
    assert [path.name for path in paths] == names
    if names == ["a.csv", "b.csv"]:
        columns = user_tables.TableColumns()
        assert [*user_tables.read_rows(paths, None, columns)] == [("a", "ca"), ("b", "cb")]


@pytest.mark.parametrize("folder", ["[2024] a*", "run{v2}", "x{a,b}", "a:b ?"])
@pytest.mark.parametrize("given", ["*.csv", "{a,b}.csv", "**/a.csv", ["a.csv", "b.*"]])
def test_signs_in_the_name_of_a_folder_of_tables_are_no_pattern(folder, given, tmp_path):
    (tmp_path / folder).mkdir()
    for name in "ab":
        (tmp_path / folder / f"{name}.csv").write_text(PART.format(n=name))
    named = [given] if isinstance(given, str) else given
    paths = table_files("captions", [f"{tmp_path / folder}/{pattern}" for pattern in named])
    assert [path.name for path in paths] == ["a.csv", "b.csv"][: 1 if given == "**/a.csv" else 2]


def test_tables_of_a_repository_in_a_hub_cache(tmp_path):
    for commit in ("one", "two"):
        (tmp_path / "snapshots" / commit).mkdir(parents=True)
        (tmp_path / "snapshots" / commit / "a.csv").write_text(PART.format(n="a"))
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs/main").write_text("two")
    assert table_files("captions", str(tmp_path)) == [tmp_path / "snapshots/two/a.csv"]


def test_damaged_parquet_is_never_half_a_table(tmp_path):
    as_parquet(tmp_path / "t.parquet", [(f"{n:05d}", [f"caption {n * n}"]) for n in range(2000)])
    content = (tmp_path / "t.parquet").read_bytes()
    for length in (len(content) - 1, len(content) // 2, 4):
        (tmp_path / "t.parquet").write_bytes(content[:length])
        with pytest.raises(UserError, match="cannot be read as Parquet"):
            read(tmp_path / "t.parquet", tmp_path)
    with pytest.raises(UserError, match="no such caption table"):
        read(tmp_path / "none.parquet", tmp_path)
    as_parquet(tmp_path / "t.parquet", ROWS)
    (tmp_path / "keys.txt").write_text("a\n")
    with pytest.raises(UserError, match="keys.txt: keys are given for a list"):
        read(tmp_path / "t.parquet", tmp_path, tmp_path / "keys.txt")


texts = st.text(st.characters(codec="utf-8"), max_size=8)


@hypothesis_settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(st.tuples(texts.filter(bool), texts), min_size=1, max_size=30),
    wanted=st.lists(texts, max_size=10),
    size=st.integers(1, 5),
)
def test_any_text_is_found_again(rows, wanted, size, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_captions, "KEYS_PER_ROW_GROUP", size)
        patch.setattr(sorted_captions, "BATCH_ROWS", size)
        sorted_captions.write_sorted(iter(rows), tmp_path / "captions.parquet")
    expected: dict[str, list[str]] = {}
    for key, caption in rows:
        if caption not in expected.setdefault(key, []):
            expected[key].append(caption)
    look = sorted_captions.lookup(tmp_path / "captions.parquet")
    assert look(list(expected)) == expected
    assert look(wanted) == {key: expected[key] for key in wanted if key in expected}


@pytest.fixture
def many(tmp_path: Path) -> Path:
    rows = [(f"{n:07d}", f"caption {n}") for n in range(100_000)]
    random.Random(0).shuffle(rows)
    sorted_captions.write_sorted(iter(rows), tmp_path / "captions.parquet")
    return tmp_path / "captions.parquet"


def test_a_lookup_reads_only_what_it_needs(many, monkeypatch):
    groups = pq.read_metadata(many).num_row_groups
    assert groups >= 6
    seen = []
    original = pq.ParquetFile.read_row_group

    def counted(self: Any, number: int, *args: Any, **kwargs: Any) -> Any:
        seen.append(number)
        return original(self, number, *args, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    look = sorted_captions.lookup(many)
    assert seen == []
    keys = [f"{n:07d}" for n in range(40_000, 45_000)]
    assert look(keys) == {key: [f"caption {int(key)}"] for key in keys}
    for key in keys[:50]:  # one by one: the row group is at hand
        assert look([key]) == {key: [f"caption {int(key)}"]}
    assert len(seen) <= 2
    spread = [f"{n:07d}" for n in range(0, 110_000, 7)]
    random.Random(1).shuffle(spread)
    found = look(spread)
    assert found == {key: [f"caption {int(key)}"] for key in spread if int(key) < 100_000}
    assert len(seen) <= 2 + groups


def test_keys_too_long_for_parquets_own_statistics(tmp_path):
    rows = [(f"{n}" + "x" * 5000, f"c{n}") for n in range(9)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_captions, "KEYS_PER_ROW_GROUP", 2)
        sorted_captions.write_sorted(iter(rows), tmp_path / "captions.parquet")
    look = sorted_captions.lookup(tmp_path / "captions.parquet")
    assert look([rows[5][0]]) == {rows[5][0]: ["c5"]}


def test_a_table_of_ours_that_was_damaged(many):
    content = bytearray(many.read_bytes())
    content[100:2000] = bytes(1900)
    many.write_bytes(content)
    look = sorted_captions.lookup(many)
    with pytest.raises(UserError, match="Delete it and run again"):
        look(["0000001"])
    many.write_bytes(content[:-20])
    with pytest.raises(UserError, match="Delete it and run again"):
        sorted_captions.lookup(many)
