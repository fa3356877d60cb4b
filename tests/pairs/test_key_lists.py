"""Lists of keys as people save them."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mispair.core.files import UserError
from mispair.pairs.captions import corpus_keys
from mispair.pairs.captions.corpus_keys import all_keys, as_in_corpus, first_keys, refuse_unlike
from mispair.pairs.captions.key_lists import read_keys
from tests.pairs.test_index import whole, write_tar

KEYS = ["000000020", "000000021", "000000022"]
CORPUS = [f"{number:09d}" for number in range(9)]
"""Keys at the start of the first shard, which need not be those of the list."""


@pytest.mark.parametrize(("name", "content"), [
    ("plain.txt", "\n".join(KEYS).encode()),
    ("bom.txt", "\ufeff" + "\r\n".join(KEYS)),
    ("header.txt", "\n".join(["Key", *KEYS])),
    ("quoted.txt", "".join(f'"{key}",\n' for key in KEYS)),
    ("comma.csv", "".join(f"{key},1\n" for key in ["key", *KEYS])),
    ("semicolon.csv", "\ufeff" + "".join(f'"{key}";1\r\n' for key in ["key", *KEYS])),
    ("tab.tsv", "".join(f"yes\t{key}\n" for key in ["KEY", *KEYS])),
    ("capital.CSV", "".join(f"{key},1\n" for key in ["Key", *KEYS])),
    ("wide.csv", "".join(f"{key}\t1\n" for key in ["key", *KEYS]).encode("utf-16")),
    ("list.json", json.dumps(KEYS)),
    ("rows.jsonl", "\n".join(json.dumps({"key": key, "ok": 1}) for key in KEYS)),
    ("no-ending", "\n\n".join(KEYS)),
    ("excel.csv", "sep=;\r\n" + "".join(f"{key};1\r\n" for key in ["key", *KEYS])),
    ("excel.csv", "sep=,,\n" + "".join(f"{key},1\n" for key in ["key", *KEYS])),
    ("formula.csv", "key\n" + "".join(f'"=""{key}"""\n' for key in KEYS)),
    ("formula.txt", "".join(f'="{key}"\n' for key in KEYS)),
    ("bar.csv", "".join(f"{key}|1\n" for key in ["key", *KEYS])),
    ("line.txt", ", ".join(KEYS)),
    ("quoted-line.txt", ";".join(f"'{key}'" for key in KEYS)),
    ("json.txt", json.dumps(KEYS)),
    ("python.txt", f"{KEYS}\n"),
    ("plain.txt.gz", gzip.compress("\n".join(KEYS).encode(), mtime=0)),
    ("comma.CSV.GZ",
        gzip.compress("".join(f"{key},1\n" for key in ["key", *KEYS]).encode(), mtime=0)),
])  # fmt: skip
def test_lists_of_keys_in_any_form(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert read_keys(path, "trusted") == KEYS
    refuse_unlike("trusted", path, KEYS, CORPUS)


def test_keys_of_a_parquet_table(tmp_path):
    path = tmp_path / "list.parquet"
    for column in (pa.array(KEYS), pa.array(KEYS).dictionary_encode()):
        pq.write_table(pa.table({"Key": column, "n": [1, 2, 3]}), path)
        assert read_keys(path, "trusted") == KEYS
    pq.write_table(pa.table({"key": [20, 21, 22]}), path)
    with pytest.raises(UserError, match="not text"):
        read_keys(path, "trusted")


@pytest.mark.parametrize("name", ["list.txt", "list.csv", "list.tsv", "list"])
@pytest.mark.parametrize("separator", ["\t", ",", ";", "|", " ", ", ", "   "])
@pytest.mark.parametrize("verdict", ["ok", "Right", "1", "yes", "TRUE", '"ok"'])
def test_keys_with_a_verdict_each_and_no_names_of_columns(name, separator, verdict, tmp_path):
    path = tmp_path / name
    for swapped in (False, True):
        rows = [[key, verdict][:: -1 if swapped else 1] for key in KEYS]
        path.write_text("".join(f"{separator.join(row)}\n" for row in rows))
        assert read_keys(path, "trusted") == KEYS
        rows[1] = [KEYS[1], "wrong"][:: -1 if swapped else 1]
        path.write_text("".join(f"{separator.join(row)}\n" for row in rows))
        with pytest.raises(UserError, match=f"'wrong' in the column '{1 if swapped else 2}'"):
            read_keys(path, "trusted")


@pytest.mark.parametrize("keys", [
    ["IMG 1", "IMG 2"], ["1", "0", "x"], ["a b 1", "c d 1"], ["a,1", "b,2"], ["dog ok", "cat"],
])  # fmt: skip
def test_keys_that_look_like_verdicts_are_keys(keys, tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("\n".join(keys))
    assert read_keys(path, "trusted") == keys


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("verdicts", "refused"),
    [
        (["yes", "no", "yes"], True), (["1", "1", "0"], True), (["x", "", "x"], True),
        ([True, False, True], True), (["right", "wrong", "Right "], True),
        (["yes", "Yes", "yes"], False), ([1, 1, 1], False), (["a", "no", "b"], False),
        (["", "", ""], False), (["right", "wrong", "unsure"], True), (["ok", "no", "hm"], True),
        (["ok", "unsure", "ok"], True), (["5", "1", "0"], False), (["ja", "nein", "ja"], True),
    ],
)  # fmt: skip
def test_keys_that_were_judged_wrong_are_in_no_list(form, verdicts, refused, tmp_path):
    table, path = pd.DataFrame({"Key": ["0", "1", "2"], "ok": verdicts}), tmp_path / f"list.{form}"
    if form == "parquet":
        table.to_parquet(path)
    elif form in ("csv", "tsv"):
        table.to_csv(path, index=False, sep="\t" if form == "tsv" else ",")
    else:
        table.to_json(path, orient="records", lines=form == "jsonl")
    if refused:
        with pytest.raises(UserError, match=r"^trusted: .*'ok' of [12] key"):
            read_keys(path, "trusted")
    else:
        assert read_keys(path, "trusted") == ["0", "1", "2"]


@pytest.mark.parametrize(("name", "content", "reason"), [
    ("sheet.xlsx", b"PK\x03\x04rest", "spreadsheet"),
    ("sheet.csv", b"\xd0\xcf\x11\xe0rest", "spreadsheet"),
    ("other.csv", b"image_id,ok\n1,1\n", "'image_id'"),
    ("other.csv", b"image_id;ok\n1;1\n", "'image_id'"),
    ("other.txt", b"image_id\tok\n1\t1\n", "'image_id'"),
    ("more.txt", b"1\tok\tby me\n2\tok\t\n", "no column 'key'"),
    ("short.txt", b"1\tok\n2\n", "no column 'key'"),
    ("numbers.json", b"[20, 21]", "not text"),
    ("object.json", b'{"a": 1}', "not a list"),
    ("broken.json", b"[", "cannot be read"),
    ("latin.txt", b"\xe9\xff", "cannot be read"),
    ("empty.csv", b"key\n", "names no key"),
    ("cut.txt.gz", gzip.compress(b"000000020\n" * 99, mtime=0)[:30], "cut off"),
    ("other.csv.gz", gzip.compress(b"image_id,ok\n1,1\n", mtime=0), "'image_id'"),
])  # fmt: skip
def test_lists_that_cannot_be_read(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=reason) as error:
        read_keys(tmp_path / name, "trusted")
    assert str(error.value).startswith("trusted: ")
    assert name in str(error.value)


@pytest.mark.parametrize(("keys", "examples", "reason"), [
    (["20", "21"], CORPUS, "zeros are lost"),
    (["20.0", "21.0"], CORPUS, "zeros are lost"),
    (["1.2E+08"], CORPUS, "rounded"),
    (["00000/000000020.jpg", "00000/000000021.JPG"], CORPUS, "names of files"),
    (KEYS, [f"a/{key}" for key in CORPUS], "begin with"),
    (["20", "21"], [str(number) for number in range(9)], None),  # such keys have no zeros
    (["20", *KEYS], CORPUS, None),
    (["v1.jpg"], ["v0.jpg", "v1.jpg"], None),
    (KEYS, [], None),
])  # fmt: skip
def test_keys_that_cannot_be_those_of_the_shards(keys, examples, reason):
    if reason is None:
        refuse_unlike("trusted", Path("list"), keys, examples)
        return
    with pytest.raises(UserError, match=reason) as error:
        refuse_unlike("trusted", Path("list"), keys, examples)
    assert repr(keys[0]) in str(error.value)


def test_keys_at_the_start_of_shards(tmp_path):
    shard = write_tar(tmp_path / "a.tar", [*whole("1"), *whole("b.c/2")])
    (tmp_path / "broken.tar").write_bytes(b"no tar")
    shards = {str(shard): "", str(tmp_path / "broken.tar"): "", str(tmp_path / "none.tar"): ""}
    assert first_keys(shards) == ["1", "b.c/2"]
    assert first_keys({str(shard): "x"}) == ["x/1", "x/b.c/2"]


def test_all_keys_of_small_shards(tmp_path, monkeypatch):
    shard = write_tar(tmp_path / "a.tar", [m for n in range(400) for m in whole(str(n))])
    other = write_tar(tmp_path / "b.tar", whole("0"))
    shards = {str(shard): "", str(other): "x"}
    assert all_keys(shards) == {*map(str, range(400)), "x/0"}
    (tmp_path / "broken.tar").write_bytes(b"no tar")
    for unread in ("broken.tar", "none.tar"):
        assert all_keys(shards | {str(tmp_path / unread): ""}) is None
    monkeypatch.setattr(corpus_keys, "FEW_BYTES", shard.stat().st_size)
    assert all_keys({str(shard): ""}) is not None
    assert all_keys(shards) is None


COMPOSED, DECOMPOSED = "cr\u00eape", "cre\u0302pe"


@pytest.mark.parametrize(("keys", "corpus", "meant"), [
    ([COMPOSED, "b"], [DECOMPOSED, "b"], {COMPOSED: DECOMPOSED}),
    ([DECOMPOSED], [COMPOSED], {DECOMPOSED: COMPOSED}),
    ([DECOMPOSED], ["creme", "\u00e9"], {}),
    # Two pairs have the form, so that neither is meant: U+1E69 has two decompositions.
    (["\u1e69"], ["s\u0323\u0307", "s\u0307\u0323"], {}),
    (["a/v1.2.JPG", "./a/v1.3", "b.jpg", "a/v1%2E4"], ["a/v1.2", "a/v1.3", "b", "a/v1.4"],
        {"a/v1.2.JPG": "a/v1.2", "./a/v1.3": "a/v1.3", "b.jpg": "b", "a/v1%2E4": "a/v1.4"}),
    (["50%25.png", "50%.png", "60%25"], ["50%25", "50%", "60%"],
        {"50%25.png": "50%25", "50%.png": "50%", "60%25": "60%"}),
    ([f"{COMPOSED}.1.jpg"], [f"{DECOMPOSED}.1"], {f"{COMPOSED}.1.jpg": f"{DECOMPOSED}.1"}),
])  # fmt: skip
def test_keys_in_another_form(keys, corpus, meant):
    assert as_in_corpus(keys, corpus) == meant
