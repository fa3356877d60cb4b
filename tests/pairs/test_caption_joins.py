"""Caption tables that join pairs by url, by hash or by another text of their JSON."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from mispair.core import files, metrics
from mispair.core.files import UserError
from mispair.pairs.captions import sorted_captions
from mispair.pairs.captions.decoding import MAX_SIDECAR_TEXT
from mispair.pairs.index import index_parts
from mispair.pairs.report import corpus as corpus_report
from mispair.pairs.steps import gather_index, read_captions
from mispair.report.table import Number, whole
from mispair.report.tables import Tables, tidy
from tests.pairs.indexing import list_and_index, noise
from tests.pairs.test_index import write_tar

pytestmark = pytest.mark.usefixtures("without_workers")


def write_shard(path: Path, sidecars: list[Any]) -> dict[str, bytes]:
    """Write a pair for each sidecar (JSON, bytes, or None for none); return images by key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    keys = [f"{path.stem}{number:03d}" for number in range(len(sidecars))]
    images = {key: noise(n + 1000 * int(path.stem), 16) for n, key in enumerate(keys)}
    members = []
    for (key, image), sidecar in zip(images.items(), sidecars, strict=True):
        content = sidecar if isinstance(sidecar, bytes) else json.dumps(sidecar).encode()
        members += [(f"{key}.jpg", image), *[(f"{key}.json", content)] * (sidecar is not None),
                    (f"{key}.txt", f"own caption of {key}".encode())]  # fmt: skip
    write_tar(path, members)
    return images


def prepared(folder: Path, rows: list[tuple[Any, Any]], join: str) -> Path:
    """Read a JSONL table of values and captions as the step does."""
    lines = [json.dumps({"value": value, "caption": caption}) for value, caption in rows]
    (folder / "table.jsonl").write_text("\n".join(lines))
    captions = folder / "captions.parquet"
    settings = read_captions.Settings(join=join, key_column="value")
    read_captions.run(settings, table=[folder / "table.jsonl"], key_list=[], captions=captions)
    return captions


def indexed(
    folder: Path, captions: Path, sources: list[str] | None = None, **settings: Any
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Index the shards of a folder; return the kept pairs and the rejected samples by key."""
    shards = sorted(folder.glob("**/*.tar"))
    list_and_index(shards, folder, 1, captions, sources or [], **settings)
    kept, _ = files.read_parquet(folder / "0000.parquet")
    rejected, _ = files.read_parquet(folder / "0000.rejected.parquet")
    return kept.set_index("key"), rejected.set_index("key")


def gathered(folder: Path, captions: Path, **settings: Any) -> dict[str, tuple[float, int]]:
    """Gather the index of `indexed`; return value and n of the statistics of the table."""
    gather_index.run(
        gather_index.Settings(max_quarantined_share=1, **settings),
        index=[folder / "0000.parquet"], rejected=[folder / "0000.rejected.parquet"],
        caption_table=[captions], corpus=folder / "corpus", captions=[folder / "captions-0"],
        excluded=folder / "excluded", statistics=folder / "statistics.json",
    )  # fmt: skip
    rows, _ = metrics.read_metrics(folder / "statistics.json")
    return {
        row["metric"].removeprefix("table_"): (row["value"], row["n"])
        for row in rows if row["metric"].startswith("table_")
    }  # fmt: skip


URLS = [
    "http://a/1", "http://a/2", "http://a/1", "http://a/3\n", " http://a/4", "http://a/\x07bell",
    "http://a/größe\u202e", "http://a/unknown", "", " \n", "x" * (MAX_SIDECAR_TEXT + 1),
    "http://a/1",
]  # fmt: skip
SIDECARS = [
    *({"url": url, "caption": "own"} for url in URLS),
    None, b"", b"{", b"[1]", b'{"url": "\xff"}', b'{"url": "\\ud83d"}',
    {"url": None}, {"url": 12}, {"url": ["http://a/1"]}, {"URL": "http://a/1"},
]  # fmt: skip
ROWS = [
    ("http://a/1", "one"), ("http://a/2\n", "two"), ("http://a/3", "three"),
    ("http://a/1", "uno"), ("http://a/1", "one"), (" http://a/4 ", ["four", "quattro"]),
    ("http://a/\x07bell", "bell"), ("http://a/größe\u202e", "size"), ("http://b/unused", "no"),
    ("", "empty"), (" ", "blank"), (None, "null"), ("x" * (MAX_SIDECAR_TEXT + 1), "long"),
    ("12", "number"), ("http://a/2", None),
]  # fmt: skip


def naive_join() -> tuple[dict[str, list[str]], dict[str, str]]:
    """The captions of each value, and the value of each pair, joined by two loops."""
    captions: dict[str, list[str]] = {}
    for value, given in ROWS:
        for caption in given if isinstance(given, list) else [given]:
            if value and value.strip() and caption is not None:
                texts = captions.setdefault(value.strip(), [])
                texts += [caption] * (caption not in texts)
    values = {f"00000{number:03d}": url.strip() for number, url in enumerate(URLS)
              if url.strip() and len(url) <= MAX_SIDECAR_TEXT}  # fmt: skip
    return captions, values


@pytest.mark.parametrize("table_captions", ["replace", "augment"])
def test_captions_join_by_url(table_captions, tmp_path):
    write_shard(tmp_path / "00000.tar", SIDECARS)
    captions, values = naive_join()
    table = prepared(tmp_path, ROWS, "url")
    kept, rejected = indexed(tmp_path, table, table_captions=table_captions)
    keys = [f"00000{number:03d}" for number in range(len(SIDECARS))]
    own = table_captions == "augment"
    expected = {key: [f"own caption of {key}"] * own + captions.get(values.get(key, ""), [])
                for key in keys}  # fmt: skip
    given = {key: [row["caption"], *row["more_captions"]] for key, row in kept.iterrows()}
    assert given == {key: texts for key, texts in expected.items() if texts}
    assert set(rejected.index) == {key for key, texts in expected.items() if not texts}
    assert set(rejected["reason"]) <= {"not-in-caption-table"}
    joined_by = {key: value for key, value in values.items() if key in given}
    assert dict(kept["join_value"].dropna()) == joined_by

    statistics = gathered(tmp_path, table)
    joined = [value for value in values.values() if value in captions]
    shared = sum(times for times in Counter(joined).values() if times > 1)
    assert shared == 3
    n = len(SIDECARS)
    assert statistics == {
        "pairs_joined": (len(joined), n),
        "pairs_without_row": (n - len(joined), n),
        "pairs_sharing_value": (shared, len(joined)),
        "values_with_several_captions": (
            sum(len(texts) > 1 for texts in captions.values()), len(captions)),
        "values_unused": (len(captions.keys() - set(joined)), len(captions)),
    }  # fmt: skip


def test_captions_join_by_the_hash_of_the_picture(tmp_path):
    digests = [hashlib.sha256(noise(number, 16)).hexdigest() for number in range(6)]
    write_shard(tmp_path / "00000.tar", [{"sha256": digest} for digest in digests])
    rows = [(digest, f"caption of {digest}") for digest in digests[::-2]]
    table = prepared(tmp_path, rows, "sha256")
    kept, rejected = indexed(tmp_path, table)
    assert kept["caption"].tolist() == [f"caption of {digest}" for digest in digests[1::2]]
    assert rejected.index.tolist() == ["00000000", "00000002", "00000004"]
    assert gathered(tmp_path, table)["pairs_joined"] == (3, 6)


@pytest.mark.parametrize("field", ["original caption", "key", "url"])
def test_captions_join_by_any_text_of_the_json(field, tmp_path):
    """Named sources prefix keys, but not what else joins a table."""
    for source in "xy":
        sidecars = [{field: f"{source} {number}"} for number in range(3)]
        write_shard(tmp_path / source / f"0000{'xy'.index(source)}.tar", sidecars)
    rows = [(f"{source} 1", f"new {source}") for source in "yx"]
    table = prepared(tmp_path, rows, f"json:{field}")
    kept, _ = indexed(tmp_path, table, sources=["x", "y"])
    assert dict(kept["caption"]) == {"x/00000001": "new x", "y/00001001": "new y"}
    assert kept["join_value"].tolist() == ["x 1", "y 1"]
    assert gathered(tmp_path, table)["pairs_joined"] == (2, 6)


def test_by_key_nothing_changes_but_the_statistics(tmp_path):
    images = write_shard(tmp_path / "00000.tar", [{"url": "http://a/1"}] * 4)
    keys = [*images]
    table = prepared(tmp_path, [(keys[0], "a"), (keys[2], ["b", "c"]), ("z", "d")], "key")
    assert pq.read_schema(table).metadata is None
    indexed(tmp_path, table)
    assert pq.read_schema(tmp_path / "0000.parquet").equals(index_parts.KEPT)
    assert gathered(tmp_path, table) == {
        "pairs_joined": (2, 4), "pairs_without_row": (2, 4), "pairs_sharing_value": (0, 2),
        "values_with_several_captions": (1, 3), "values_unused": (1, 3),
    }  # fmt: skip


@pytest.mark.parametrize("table_captions", ["replace", "augment"])
@pytest.mark.parametrize("join", ["key", "url"])
def test_a_table_that_joins_nothing_stops(join, table_captions, tmp_path):
    write_shard(tmp_path / "00000.tar", [{"url": f"http://a/{n}"} for n in range(5)])
    table = prepared(tmp_path, [("http://b/1", "one")], join)
    indexed(tmp_path, table, table_captions=table_captions)
    with pytest.raises(UserError) as caught:
        gathered(tmp_path, table, min_joined_share=0)
    message = str(caught.value)
    for part in (str(table), f"joined by {join}", "0 of 5 pairs (0.00 %)", "'http://b/1'",
                 "read_captions: join", "gather_index: min_joined_share"):  # fmt: skip
        assert part in message
    assert not (tmp_path / "statistics.json").exists()


def test_the_least_share_of_joined_pairs(tmp_path):
    write_shard(tmp_path / "00000.tar", [{"url": f"http://a/{n}"} for n in range(8)])
    table = prepared(tmp_path, [("http://a/1", "one"), ("http://a/2", "two")], "url")
    indexed(tmp_path, table, table_captions="augment")
    assert gathered(tmp_path, table, min_joined_share=0.25)["pairs_joined"] == (2, 8)
    with pytest.raises(UserError, match=r"2 of 8 pairs \(25.00 %\).*at least 26 %"):
        gathered(tmp_path, table, min_joined_share=0.26)


@pytest.mark.parametrize(("rows", "words"), [
    ([(12, "x")], "row 1 has 12 as value, which is no text"),
    ([("http://a/1", "x"), (["http://a/2"], "y")], "row 2 has .'http://a/2'. as value"),
    ([(None, "x"), (" ", "y")], "holds no caption"),
])  # fmt: skip
def test_tables_that_are_refused(rows, words, tmp_path):
    with pytest.raises(UserError, match=words):
        prepared(tmp_path, rows, "url")


def test_a_table_that_is_damaged_is_named(tmp_path):
    (tmp_path / "captions.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="captions.parquet: cannot be read"):
        sorted_captions.join_of(tmp_path / "captions.parquet")
    with pytest.raises(UserError, match="captions.parquet: cannot be read"):
        list(sorted_captions.read_sorted(tmp_path / "captions.parquet"))


@pytest.mark.parametrize("join", ["", "json:", "caption", "json", "URL"])
def test_joins_that_make_no_sense(join):
    with pytest.raises(ValueError, match="join"):
        read_captions.Settings(join=join)


def test_the_report_has_the_books_of_the_table():
    values = {"pairs_joined": (30, 40), "pairs_without_row": (10, 40),
              "pairs_sharing_value": (6, 30), "values_with_several_captions": (5, 50),
              "values_unused": (20, 50)}  # fmt: skip
    rows = [{"metric": f"table_{name}", "value": v, "n": n} for name, (v, n) in values.items()]
    table = corpus_report.samples(Tables({"corpus": tidy("corpus", rows)}))
    assert table is not None
    expected = [(whole(v), Number(v / n, ".2%")) for v, n in values.values()]
    assert [row[1:] for row in table.rows] == expected
    assert corpus_report.samples(Tables({"corpus": tidy("corpus", rows[:0])})) is None


def test_no_caption_decides_on_the_images(tmp_path):
    """Image features depend on the table of images only, so captions may be corrected freely."""
    for name in ("0", "1"):
        write_shard(tmp_path / f"{name}.tar", [None] * 2)
    seen = set()
    for texts in (
        [("0000", "one"), ("1001", "two")], [("0001", ""), ("1000", "three")], [("0001", "a\x00")],
    ):  # fmt: skip
        kept, _ = indexed(tmp_path, prepared(tmp_path, texts, "key"))
        images, _ = files.read_parquet(tmp_path / "0000.images.parquet")
        assert list(images["key"].iloc[kept["row"]]) == list(kept.index)
        seen.add((tmp_path / "0000.images.parquet").read_bytes())
    assert list(images["key"]) == ["0000", "0001", "1000", "1001"]
    assert len(seen) == 1
