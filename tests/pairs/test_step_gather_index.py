"""The step that puts the corpus together, run on files as its rule runs it."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mispair.cli import main
from mispair.core import files, metrics
from tests.pairs.test_corpus import Row, digest, fault, pair, random_groups, write_group

OUTPUTS = ("corpus", "excluded", "statistics")
PARTS = ("captions-0", "captions-1", "captions-2")


def gather(tables: list[tuple[Path, Path]], folder: Path, *flags: str) -> int:
    folder.mkdir(exist_ok=True)
    inputs = ["--index", *(str(t[0]) for t in tables), "--rejected", *(str(t[1]) for t in tables)]
    outputs = [text for name in OUTPUTS for text in (f"--{name}", str(folder / name))]
    parts = ["--captions", *(str(folder / name) for name in PARTS)]
    table = [] if "--caption-table" in flags else ["--caption-table"]
    return main(["gather-index", *inputs, *table, *outputs, *parts, *flags])


def texts_of(folder: Path) -> list[dict[str, str]]:
    """The captions of each part, text by identity."""
    tables = [files.read_parquet(folder / name)[0] for name in PARTS]
    assert all(table["caption_id"].is_unique for table in tables)
    return [dict(zip(table["caption_id"], table["caption"], strict=True)) for table in tables]


def metadata(path: Path) -> dict[str, str]:
    return files.read_parquet(path)[1]


def test_the_three_files_say_the_same(tmp_path):
    hostile = "<script>alert(1)</script> \u202egpj.exe <PERSON>"
    kept: dict[str, list[Row]] = {
        "0000": [pair("b", hostile), pair("a", more_captions=["a cat", "a cow"])],
        "0001": [pair("b", "other", shard="b.tar", width=9999),
                 pair("c", image="a", shard="b.tar")],
    }  # fmt: skip
    status = {"success": 2, "HTTP Error 404: Not Found": 3}
    tables = [
        write_group(tmp_path, "0000", kept["0000"], [fault("x", "empty-caption")],
                    {"downloads": json.dumps(status)}),
        write_group(tmp_path, "0001", kept["0001"]),
    ]  # fmt: skip
    flags = ["--duplicate-keys", "first", "--duplicate-images", "first"]
    out = tmp_path / "out"
    assert gather(tables, out, *flags, "--max-quarantined-share", "0.6") == 0

    corpus, about = files.read_parquet(out / "corpus")
    assert corpus.columns.tolist() == ["key", "group", "row", "caption_id", "more_caption_ids"]
    assert corpus["key"].tolist() == ["a", "b"]
    assert corpus["group"].tolist() == ["0000", "0000"]
    assert corpus["row"].tolist() == [1, 0]
    assert str(corpus["row"].dtype) == "int32"
    assert corpus["caption_id"].tolist() == [digest("a dog"), digest(hostile)]
    assert [list(ids) for ids in corpus["more_caption_ids"]] == [
        [digest("a cat"), digest("a cow")], [],
    ]  # fmt: skip
    counts = {name: about[name] for name in ("read", "kept", "rejected", "excluded")}
    assert counts == {"read": "5", "kept": "2", "rejected": "1", "excluded": "2"}

    excluded, other = files.read_parquet(out / "excluded")
    assert other == about
    columns = ["key", "shard", "reason", "group"]
    assert excluded[columns].to_numpy().tolist() == [
        ["b", "b.tar", "key-in-several-shards", "0001"],
        ["c", "b.tar", "image-in-several-pairs", "0001"],
    ]
    assert {"key", "shard", "reason", "detail", "group"} == set(excluded.columns)

    rows, provenance = metrics.read_metrics(out / "statistics")
    assert provenance["pairs_fingerprint"] == about["pairs_fingerprint"]
    values = {row["metric"]: row["value"] for row in rows}
    assert {name: str(values[name]) for name in counts} == counts
    # Of the two pairs that are left: what was excluded counts nowhere else.
    assert values["captions_distinct"] == 4
    assert values["caption_person_share"] == values["caption_control_share"] == 0.5
    assert values["caption_empty_share"] == 0.2
    assert values["caption_duplicate_share"] == values["image_duplicate_share"] == 0
    assert values["images_distinct"] == 2
    assert values["image_width_max"] == 640
    found = {row["status"]: row["value"] for row in rows if row["metric"] == "downloads"}
    assert found == status
    captions = {text for part in texts_of(out) for text in part.values()}
    assert captions == {"a dog", "a cat", "a cow", hostile}  # "other" is of an excluded pair
    # Captions are texts of strangers: none of them stands in the statistics.
    assert "script" not in (out / "statistics").read_text()


def test_the_order_of_the_arguments_changes_no_byte(tmp_path):
    groups = random_groups(3, repeated_keys=True)
    tables = [write_group(tmp_path, group, rows, [fault(group)]) for group, rows in groups.items()]
    mixed = [(a[0], b[1]) for a, b in zip(tables[::-1], tables, strict=True)]
    flags = ["--duplicate-keys", "drop", "--duplicate-images", "first"]
    flags += ["--max-quarantined-share", "1"]
    for name, order in (("one", tables), ("two", tables[::-1]), ("three", mixed)):
        assert gather(order, tmp_path / name, *flags) == 0
    for output in OUTPUTS + PARTS:
        contents = {(tmp_path / name / output).read_bytes() for name in ("one", "two", "three")}
        assert len(contents) == 1, output


@pytest.mark.parametrize("seed", range(3))
def test_every_caption_of_the_corpus_stands_in_one_part(tmp_path, seed):
    groups = random_groups(seed)
    tables = [write_group(tmp_path, group, rows) for group, rows in groups.items()]
    assert gather(tables, tmp_path / "all") == 0
    pairs = [row for rows in groups.values() for row in rows]
    texts = {text for row in pairs for text in [row["caption"], *row["more_captions"]]}
    found = texts_of(tmp_path / "all")
    assert sum(map(len, found)) == len(texts)
    everything = {name: text for part in found for name, text in part.items()}
    assert everything == {digest(text): text for text in texts}
    assert min(map(len, found)) > len(texts) / 6, "the parts are of very different sizes"
    # Fewer pairs: what is left of the captions stands where it stood.
    first = {group: rows[::2] for group, rows in groups.items()}
    tables = [write_group(tmp_path, group, rows) for group, rows in first.items()]
    assert gather(tables, tmp_path / "half") == 0
    for whole, half in zip(found, texts_of(tmp_path / "half"), strict=True):
        assert half.items() <= whole.items()


def test_a_corpus_without_exclusions_has_an_empty_table_of_the_same_columns(tmp_path):
    table = write_group(tmp_path, "0000", [pair("a"), pair("b")])
    assert gather([table], tmp_path / "out") == 0
    excluded = pq.read_table(tmp_path / "out" / "excluded")
    assert excluded.num_rows == 0
    assert excluded.column_names == ["key", "shard", "reason", "detail", "group"]
    assert metadata(tmp_path / "out" / "excluded")["excluded"] == "0"


@pytest.mark.parametrize(("rejected", "code"), [(20, 0), (21, 2)])
def test_the_limit_lies_at_a_fifth(tmp_path, rejected, code, capsys):
    kept = [pair(f"{number:03d}") for number in range(100 - rejected)]
    lost = [fault(f"x{number}", "undecodable-image") for number in range(rejected)]
    assert gather([write_group(tmp_path, "0000", kept, lost)], tmp_path / "out") == code
    assert (tmp_path / "out" / "corpus").exists() == (code == 0)
    assert ("gather_index: max_quarantined_share" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize("lines", [0, 5, 6, 100])
@pytest.mark.parametrize("setting", ["null", "true", "false", None])
def test_texts_of_several_lines_need_a_decision(tmp_path, lines, setting, capsys):
    rows = [pair(f"{n:03d}", "one\ntwo" if n < lines else "one") for n in range(100)]
    said = {"captions_per_line": setting} if setting else {}
    code = 2 if lines > 5 and setting == "null" else 0
    assert gather([write_group(tmp_path, "0000", rows, (), said)], tmp_path / "out") == code
    if code:
        assert "index_shards: captions_per_line" in capsys.readouterr().err
        assert not list((tmp_path / "out").iterdir())
        return
    found = metrics.read_metrics(tmp_path / "out" / "statistics")[0]
    values = {row["metric"]: row["value"] for row in found}
    assert values["caption_several_lines_share"] == lines / 100


def test_keys_in_several_shards_stop_the_run(tmp_path, capsys):
    tables = [write_group(tmp_path, group, [pair("same")]) for group in ("0000", "0001")]
    assert gather(tables, tmp_path / "out") == 2
    assert "'same'" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())
    tables = [write_group(tmp_path, "0000", [pair("same", shard="a"), pair("same", shard="b")])]
    assert gather(tables, tmp_path / "out") == 2
