"""What is known to be wrong before the first job is refused before it."""

import io
import json
import pickle
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snakemake.iocontainers import Wildcards

from mispair import input_checks
from mispair.audit import dag as audit_dag
from mispair.audit.steps.audit_pairs import LEAST_PAIRS
from mispair.core.files import UserError
from mispair.dag import Dag
from mispair.towers.dag import SHIPPED
from mispair.towers.paths import TOWER_CONFIG, TOWER_WEIGHTS
from tests.evaluation.test_sets import write_split
from tests.pairs.test_index import jpeg, whole, write_tar


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_tar(tmp_path / "00000.tar", wholes(3))
    return tmp_path


def wholes(number: int, name: str = "{:09d}") -> list[tuple[str, bytes]]:
    """Return the members of so many good pairs."""
    return [member for n in range(number) for member in whole(name.format(n))]


def dag_of(**content: Any) -> Dag:
    return Dag({"studies": ["audit"], "corpus": "mine", "shards": "00000.tar", **content}, "x.yaml")


def check(**content: Any) -> str:
    dag = dag_of(**content)
    input_checks.refuse_unusable(dag)
    return input_checks.damaged_words(dag)


def check_refused(words: str | bool | list[str], **content: Any) -> None:
    """Check a configuration: it is refused with these words, or passes where there are none."""
    with refusal(words if isinstance(words, str | bool) else r"[\s\S]*") as error:
        check(**content)
    if isinstance(words, list):
        assert [word for word in words if word not in str(error.value)] == [], error.value


def write_mine(folder: Path, captions: Iterable[str], first: int = 0) -> None:
    """Write pictures, no two of them equal, and texts of some."""
    (folder / "mine").mkdir(exist_ok=True)
    for number, caption in enumerate(captions, start=first):
        (folder / f"mine/{number}.jpg").write_bytes(jpeg((40, 30 + number)))
        (folder / f"mine/{number}.txt").write_text(caption)


def refusal(words: str | bool) -> AbstractContextManager[Any]:
    return pytest.raises(UserError, match=words) if words else nullcontext()


def write_pairs(folder: Path, form: str, pairs: Iterable[dict[str, bytes]]) -> dict[str, Any]:
    """Write pairs, as contents by ending, into a shard or as files; return how they are named."""
    named = [(f"{n:04d}.{end}", data) for n, pair in enumerate(pairs) for end, data in pair.items()]
    if form == "tar":
        write_tar(folder / "00000.tar", named)
        return {}
    (folder / "mine").mkdir(exist_ok=True)
    for name, content in named:
        (folder / "mine" / name).write_bytes(content)
    return {"shards": "generated", "pairs": "mine"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "00.tar: .*empty"), (b"\0" * 10240, "no sample"), (b"<html>" + b" " * 600, "HTML"),
        (b"\x1f\x8b" + b"x" * 600, "gunzip"), (b"x" * 600, "00.tar: "),
        (bytes(tarfile.TarInfo("a.jpg").tobuf())[:300], "00.tar: "),
    ],
)  # fmt: skip
def test_shards_of_which_none_can_be_read(folder: Path, content: bytes, reason: str) -> None:
    (folder / "s").mkdir()
    for number in range(40):
        (folder / f"s/{number:02d}.tar").write_bytes(content)
    check_refused(reason, shards="s")
    for number in range(0, 40, 2):  # a job counts those that cannot be read
        write_tar(folder / f"s/{number:02d}.tar", whole(f"{number:09d}"))
    words = check(shards="s", gather_index={"max_quarantined_share": 0.5})
    is_small = len(content) < 1024  # all sizes are known
    assert ("20 shards of 40" if is_small else " shards of 40") in words
    if is_small:
        check_refused("at least 20 of 40 .*max_quarantined_share", shards="s")
    assert check(shards="s/?[02468].tar") == ""


def test_pairs_of_several_pictures(folder: Path) -> None:
    write_mine(folder, ["a cup"] * 10)
    for number in range(3):
        (folder / f"mine/{number}.png").write_bytes(jpeg((40, 30 + number)))
    reason = r"of 10 pairs 3 have no picture of its own.*'0'"
    check_refused(reason, pairs="mine", shards="generated")


@pytest.mark.parametrize("endings", [("jpg", "png", "txt"), ("jpg", "txt", "txt")])
def test_shards_with_several_members_for_one(folder: Path, endings: tuple[str, ...]) -> None:
    """They have one remedy, whatever the message on them says."""
    contents = [b"a cup" if ending == "txt" else jpeg() for ending in endings]
    members = [(f"{key}.{ending}", content) for key in range(9)
               for ending, content in zip(endings, contents, strict=True)]  # fmt: skip
    write_tar(folder / "00000.tar", members)
    check_refused(r"none of 9 captions.*pack the shards again")


def as_texts(folder: Path, pictures: list[str], captions: list[str]) -> None:
    for key in captions:
        (folder / f"{key}.txt").write_text(f"a text of {key}")


def as_empty_files(folder: Path, pictures: list[str], captions: list[str]) -> None:
    as_texts(folder, pictures, captions)
    for key in {*captions} - {*pictures}:
        (folder / f"{key}.jpg").write_bytes(b"")
    for key in {*pictures} - {*captions}:
        (folder / f"{key}.txt").write_bytes(b"")


def as_objects(folder: Path, pictures: list[str], captions: list[str]) -> None:
    for key in captions:
        (folder / f"{key}.json").write_text(json.dumps({"caption": f"a text of {key}"}))


def as_table(folder: Path, pictures: list[str], captions: list[str]) -> None:
    keys = sorted({*pictures, *captions})
    cells = [
        f"{key}.jpg,{'a text of ' * (key in captions)}{key * (key in captions)}\n" for key in keys
    ]
    (folder / "p.csv").write_text("".join(["image,caption\n", *cells]))


def as_metadata(folder: Path, pictures: list[str], captions: list[str]) -> None:
    rows = [{"file_name": f"{key}.jpg", "text": f"a text of {key}"} for key in captions]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def as_coco(folder: Path, pictures: list[str], captions: list[str]) -> None:
    keys = sorted({*pictures, *captions})
    listed = [{"id": key, "file_name": f"{key}.jpg"} for key in keys]
    texts = [{"image_id": key, "caption": f"a text of {key}"} for key in captions]
    (folder / "c.json").write_text(json.dumps({"images": listed, "annotations": texts}))


@pytest.mark.parametrize(("pictured", "captioned"), [(10, 8), (10, 7), (8, 10), (7, 10)])
@pytest.mark.parametrize(
    "write", [as_texts, as_empty_files, as_objects, as_table, as_metadata, as_coco]
)
def test_too_many_listed_pairs_without_a_picture_or_caption(write, pictured, captioned, folder):
    mine = folder / "mine"
    mine.mkdir()
    keys = [f"k{number}" for number in range(10)]
    for number, key in enumerate(keys[:pictured]):
        (mine / f"{key}.jpg").write_bytes(jpeg((40, 30 + number)))
    write(mine, keys[:pictured], keys[:captioned])
    given = {"pairs": str(mine), "shards": "generated"}
    what = "picture" if pictured == 7 else "caption"
    is_refused = min(pictured, captioned) == 7
    check_refused(is_refused and f"of 10 pairs 3 have no {what}, such as 'k7'", **given)
    check(**given, gather_index={"max_quarantined_share": 0.3})


def test_pictures_that_are_links_out_of_the_folder(folder: Path) -> None:
    (folder / "mine").mkdir()
    for key in ("a", "b"):
        (folder / f"{key}.jpg").write_bytes(jpeg())
        (folder / f"mine/{key}.jpg").symlink_to(folder / f"{key}.jpg")
        (folder / f"mine/{key}.txt").write_text("a text")
    given = {"pairs": str(folder / "mine"), "shards": "generated"}
    check_refused("2 have no picture but a link out of .*mine, such as 'a'", **given)
    (folder / "mine/a.jpg").unlink()
    (folder / "mine/a.jpg").symlink_to("b.jpg")
    (folder / "mine/b.jpg").unlink()
    (folder / "mine/b.jpg").write_bytes(jpeg())
    check(**given)


def test_the_start_of_a_shard_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "s").mkdir()
    for number in range(3):
        write_tar(folder / f"s/{number}.tar", wholes(9, f"{number}{{}}"))
    opened = Counter[str]()

    def counted(path: Any, *args: Any, **more: Any) -> Any:
        opened[Path(path).name if isinstance(path, str | Path) else ""] += 1
        return real(path, *args, **more)

    real = open
    monkeypatch.setattr("builtins.open", counted)
    monkeypatch.setattr("io.open", counted)
    check(shards="s")
    assert 0 < opened["0.tar"] <= 3  # its start, its pictures and its names
    assert 0 < opened["1.tar"] <= 2 >= opened["2.tar"]


def test_shards_that_count_their_keys_alike(folder: Path) -> None:
    (folder / "s").mkdir()
    for shard in range(2):
        write_tar(folder / f"s/{shard}.tar", [*wholes(9, "{:04d}"), *whole(f"{shard}-last")])
    check_refused(r"shards: .* of s/1\.tar .* s/0\.tar, too, .*'0000'", shards="s")
    check(shards={"a": "s/0.tar", "b": "s/1.tar"})
    check(shards="s", gather_index={"duplicate_keys": "first"})


@pytest.mark.parametrize(
    ("nulls", "refused"), [(0, ""), (8, ""), (39, "39 of 40"), (40, "none of")]
)
@pytest.mark.parametrize("empty", [None, []])
def test_captions_of_parquet_that_are_null(folder, nulls, refused, empty):
    cells = [empty if n < nulls else f"a text {n}" for n in range(40)]
    cells = cells if empty is None else [cell if cell == [] else [cell] for cell in cells]
    pictures = [jpeg((40, 30 + n)) for n in range(40)]
    captions = pa.array(cells, pa.string() if empty is None else pa.list_(pa.string()))
    pq.write_table(pa.table({"image": pictures, "caption": captions}), folder / "p.parquet")
    given = {"shards": "generated", "pairs": "p.parquet"}
    check_refused(refused and f"pairs: {refused} .*row 1 has no caption .*'caption'", **given)


@pytest.mark.parametrize("content", [{"caption": None}, {"url": "a/b", "Caption": None, "n": 1}])
def test_captions_of_which_all_are_null_are_named_so(folder: Path, content: object) -> None:
    pairs = [{"jpg": jpeg(), "json": json.dumps(content).encode()} for _ in range(9)]
    check_refused(
        "index_shards.caption_from: .*'[cC]aption' is null", **write_pairs(folder, "tar", pairs)
    )


IN_TURN = [(f"{n:04d}.jpg", jpeg((40, 30 + n))) for n in range(30)]
TEXTS = [(f"{n:04d}.txt", f"a text {n}".encode()) for n in range(30)]
PAIRED = [member for pair in zip(IN_TURN, TEXTS, strict=True) for member in pair]
DOTTED = [(f"v1.{name}", content) for name, content in PAIRED]


@pytest.mark.parametrize(("shards", "reason"), [
    ([IN_TURN + TEXTS], "members between .*'0000.jpg' and '0000.txt'.*sort=name"),
    ([TEXTS + IN_TURN], "members between .*'0000.jpg' and '0000.txt'"),
    ([IN_TURN + TEXTS[::-1]], "members between"),
    ([PAIRED, [(f"x{name}", content) for name, content in IN_TURN + TEXTS]], "next to it"),
    ([[member for member in PAIRED for _ in range(2)]], "more than one jpg, txt.*tar -xf"),
    ([[m for n in range(0, 60, 2) for m in PAIRED[n : n + 2] * 2]], "more than one jpg, txt"),
    ([PAIRED * 2], r"30 keys of s/0\.tar are twice in it, such as '0000'.*duplicate_keys"),
    ([DOTTED, DOTTED[:2]], r"1 key of s/1\.tar is in s/0\.tar, too, such as 'v1\.0000'"),
    ([PAIRED, PAIRED[-4:]], r"2 keys of s/1\.tar are in s/0\.tar, too, such as '0028'"),
    ([PAIRED, IN_TURN[:1]], ""),  # it is no pair
    ([DOTTED[:30], DOTTED[30:]], ""),
])  # fmt: skip
def test_pairs_that_are_apart_or_several_times_in_shards(folder, shards, reason):
    (folder / "s").mkdir()
    for number, members in enumerate(shards):
        write_tar(folder / f"s/{number}.tar", members)
    check_refused(reason, shards="s")
    if "duplicate_keys" in reason:
        check(shards="s", gather_index={"duplicate_keys": "first"})


@pytest.mark.parametrize("key", ["trusted", "reviewed", "groups"])
def test_a_list_is_a_file_that_is_here(folder: Path, key: str) -> None:
    (folder / "lists").mkdir()
    check_refused(rf"{key}.*is a folder", **{key: "lists"})
    there = "https://a.example/t.csv"
    check_refused(rf"{key}: https://a\.example/t\.csv is not on this", **{key: there})


@pytest.mark.parametrize("key", ["trusted", "reviewed", "reviewed_repairs", "groups"])
@pytest.mark.parametrize("value", ["t*.csv", "t?.csv", "{t,u}.csv", "[t].csv"])
def test_lists_by_a_glob_are_named_as_one(folder: Path, key: str, value: str) -> None:
    (folder / "t1.csv").write_text("key,label\n000000001,right\n")
    check_refused(rf"{key}: .* glob .*one file", **{key: value})
    (folder / value).write_text("key;label\n1;right\n")
    check_refused("zeros|neither|group_fields", **{key: value})


def test_trusted_pairs_that_are_labelled_wrong(folder: Path) -> None:
    (folder / "t.txt").write_text("000000001\n./000000002.jpg\n")  # a path of a picture, too
    (folder / "r.csv").write_text("key,label\n000000000,wrong\n000000001,right\n")
    check(trusted="t.txt", reviewed="r.csv")
    (folder / "r.csv").write_text("key,label\n000000000,wrong\n000000001,wrong\n")
    check_refused(r"trusted.*1 key .*r\.csv.*'000000001'", trusted="t.txt", reviewed="r.csv")


def test_a_corpus_of_few_pairs_is_refused_before_the_audit(folder: Path) -> None:
    dag, mine = dag_of(), Wildcards(fromdict={"corpus": "mine"})
    for pairs in (3, LEAST_PAIRS - 1):
        write_tar(folder / "00000.tar", wholes(pairs))
        with pytest.raises(UserError, match=f"{pairs} pairs.*at least {LEAST_PAIRS}"):
            audit_dag.corpus(dag)(mine)
    write_tar(folder / "00000.tar", wholes(LEAST_PAIRS))
    assert audit_dag.corpus(dag)(mine) == "results/pairs/mine/corpus.parquet"


@pytest.mark.parametrize(
    ("trusted", "refused"), [(19, True), (20, False), (180, False), (181, True), (200, True)]
)
def test_trusted_pairs_that_estimate_nothing_are_refused_before_the_audit(folder, trusted, refused):
    """With too few of them, or of others, the audit would have no result."""
    write_tar(folder / "00000.tar", wholes(200))
    (folder / "t.txt").write_text("\n".join([f"{number:09d}" for number in range(trusted)] * 2))
    path = audit_dag.corpus(dag_of(trusted="t.txt"))
    with refusal(refused and rf"trusted.*t\.txt names {trusted} pairs"):
        assert path(Wildcards(fromdict={"corpus": "mine"}))


@pytest.mark.parametrize(("scheme", "rate", "batch_size", "refused"), [
    ("random", 0.5, 3, ""),
    ("random", 0.5, 4, "finetune_projection: 3 pairs.*batch_size 4"),
    # Of three pairs 0.1 is none and 0.3 is one; other schemes need no partner.
    ("random", 0.1, None, r"corrupt_captions\.rates: 0\.1 of 3 pairs"),
    ("random", 0.3, None, r"corrupt_captions\.rates: 0\.3 of 3 pairs"),
    ("random", 0.7, None, ""),
    ("random", 0, None, ""),
    ("drop", 0.3, None, ""),
])  # fmt: skip
def test_too_few_pairs_for_a_batch_or_a_swap(folder, scheme, rate, batch_size, refused):
    training = {"finetune_projection": {"batch_size": batch_size}} if batch_size else {}
    dag = dag_of(studies=["image_text"], **training)
    arm = {"corpus": "mine", "start": "pretrained", "scheme": scheme, "rate": str(rate)}
    with refusal(refused):
        assert dag.repair.pairing(Wildcards(fromdict=arm))


@pytest.mark.parametrize("content", [None, "key,label\n"])
def test_a_sample_to_keep_that_is_none(folder: Path, content: str | None) -> None:
    (folder / "k.csv").write_text(content or "")
    check_refused(r"draw_review\.kept: k\.csv", draw_review={"kept": "k.csv"})


@pytest.mark.parametrize("scheme", ["missing", "spurious"])
def test_schemes_that_need_features_of_pictures(folder: Path, scheme: str) -> None:
    corruption = {"schemes": ["random", scheme], "rates": [0.3]}
    check_refused("corrupt_captions: schemes", studies=["image_text"], corrupt_captions=corruption)
    check(studies=["image_text"], corrupt_captions=corruption | {"rates": [0.0]})


@pytest.mark.parametrize(("key", "name", "content", "words"), [
    ("trusted", "t.csv", "image,ok\n1,1\n", ["no column", "t.csv"]),
    ("trusted", "t.csv", "key\n2\n", ["zeros", "t.csv"]),
    ("trusted", "t.txt", "00000/000000002.jpg\n", ["names of files", "t.txt"]),
    ("reviewed", "r.csv", "key\n000000002\n", ["'label'", "r.csv"]),
    ("reviewed", "r.csv", "key;label\n2;right\n", ["zeros", "r.csv"]),
    ("reviewed", "r.csv", "key,label\na,right\na,wrong\n", ["two labels", "'a'"]),
    ("reviewed_repairs", "r.csv", "key,label\n000000002,right\n", ["neither", "line 2"]),
    ("captions", "c.csv", "image_id,text\n1,a\n", ["'image_id'", "read_captions.key_column"]),
    ("captions", "c.jsonl", '{"key": "1"}\n', ["no column 'caption'"]),
    ("captions", "c.csv", "key,caption\n2,a text\n", ["captions", "zeros"]),
    ("captions", "c.txt", "a text\n", ["caption_keys"]),
    ("captions", "c.csv", "key,caption\nhttps://a/2.jpg,a text\n", ["read_captions.join"]),
    ("captions", "c.csv", "key,caption\nx1,a text\nx2,a text\n", ["none", "'x1'"]),
    ("groups", "g.csv", "key,language\nx1,de\n", ["none", "'x1'", "'000000000'"]),
    ("groups", "g.csv", "Key;language\n2;de\n", ["zeros", "g.csv"]),
    ("captions", "c.csv", "", ["captions: c.csv has no row"]),
    ("captions", "c.csv", "key,caption\n", ["captions: c.csv has no row"]),
    ("captions", "c.jsonl", "\n", ["captions: c.jsonl has no row"]),
    ("groups", "g.csv", "sep=;\nkey;colour\n000000002;red\n", ["group_fields", "colour"]),
])  # fmt: skip
def test_files_in_the_wrong_form(folder, key, name, content, words):
    (folder / name).write_text(content)
    check_refused(words, **{key: name})


@pytest.mark.parametrize(("unknown", "refused"), [(1, False), (5, False), (6, True), (100, True)])
def test_unknown_trusted_keys_of_a_small_corpus(folder: Path, unknown: int, refused: bool) -> None:
    """A few are left out by the job; more are a mistake, which is known by now."""
    write_tar(folder / "00000.tar", wholes(100))
    keys = [f"{number:09d}" for number in range(unknown, 100)] + [f"x{n}" for n in range(unknown)]
    (folder / "t.txt").write_text("\n".join(keys))
    (folder / "r.csv").write_text("\n".join(["key,label", *(f"{key},right" for key in keys)]))
    words = f"names {unknown} keys of 100"
    check_refused(refused and rf"trusted .--checked.: t.txt {words}", trusted="t.txt")
    check_refused(refused and rf"reviewed: r.csv {words}", reviewed="r.csv")


def test_keys_in_another_form_of_unicode(folder: Path) -> None:
    """One that is unique stands for the pair in a list; a caption table would not join it."""
    composed, decomposed = "cr\u00eape", "cre\u0302pe"
    write_tar(folder / "00000.tar", [*whole(decomposed), *whole("a")])
    (folder / "t.txt").write_text(f"{composed}\n")
    check(trusted="t.txt")
    (folder / "c.csv").write_text(f"key,caption\n{composed},a text\na,a text\n")
    check_refused(r"captions: c.csv .*cr\\xeape.*normalize\('NFD'", captions="c.csv")
    (folder / "c.csv").write_text(f"key,caption\n{decomposed},a text\n")
    check(captions="c.csv")


@pytest.mark.parametrize(("content", "words"), [
    ({"towers": "hf-hub:org/clip"}, ["towers", "hf download org/clip"]),
    ({"towers": "org/clip"}, ["If org/clip", "hf download org/clip"]),
    ({"towers": "ViT-B-32"}, ["model: ViT-B-32, pretrained: TAG"]),
    ({"towers": "ViT-B/32"}, ["model: ViT-B-32, pretrained: TAG"]),
    ({"towers": "ViT-B-32:openai"}, ["model: ViT-B-32, pretrained: openai"]),
    ({"towers": "ViT-B-32-256/a_b"}, ["model: ViT-B-32-256, pretrained: a_b"]),
    ({"towers": "t.txt"}, ["checkpoint: t.txt, quick_gelu"]),
    ({"towers": "hf"}, ["of transformers", "pretrained"]),
    ({"studies": ["image_text"], "towers": "train", "pretrain_towers": {"definition": "a"}},
     ["pretrain_towers.definition: no 'a'", "ViT-B-32"]),
    ({"towers": {"name": "a", "folder": "https://a.example/org/clip"}}, ["org/clip "]),
    ({"towers": {"model": "hf-hub:org/clip"}}, ["towers.name", "hf download org/clip"]),
    (
        {"studies": ["repair"], "trusted": "t.txt",
         "recaption_pairs": {"captioner": "transformers", "model": "org/blip"}},
        ["recaption_pairs: model", "hf download org/blip"],
    ),
])  # fmt: skip
def test_a_model_of_a_hub_is_named_with_a_way_to_its_folder(folder, content, words):
    (folder / "t.txt").write_text("000000002\n")
    (folder / "hf").mkdir()
    (folder / "hf/config.json").write_text("{}")
    check_refused(words, **content)


@pytest.mark.parametrize(("content", "words"), [
    (b"id,text\n1,a\n", r"recaption_pairs\.key_column"),
    (b"key,text\n000000001,a\n", r"recaption_pairs\.caption_column"),
    (b"key;caption\n1;a text\n", r"recaption_pairs\.model: r\.csv .*zeros"),
    (b"key,caption\nx1,a text\n", r"recaption_pairs\.model: r\.csv .*none of the keys"),
    (b"key,caption\n", r"recaption_pairs\.model: r\.csv has no row"),
    (b"key,caption\n000000001,\n", r"recaption_pairs\.model: r\.csv has no caption"),
    (b"PK\x03\x04rest", r"recaption_pairs\.model: r\.csv: .*spreadsheet"),
    (b"", r"recaption_pairs\.model: r\.csv "),
])  # fmt: skip
def test_a_table_of_recaptions_in_the_wrong_form(folder: Path, content: bytes, words: str) -> None:
    (folder / "r.csv").write_bytes(content)
    given = {"captioner": "given", "model": "r.csv"}
    sets = ["scenes-digit"]
    check_refused(words, studies=["repair"], evaluation_sets=sets, recaption_pairs=given)


@pytest.mark.parametrize(("join", "refused"), [
    ("url", False), ("json:meta.id", False), ("sha256", True), ("json:x", True),
])  # fmt: skip
def test_a_join_by_a_field_that_no_sample_has(folder: Path, join: str, refused: bool) -> None:
    sidecar = b'{"url": "u", "meta": {"id": "i"}, "sha256": null}'
    write_tar(folder / "00000.tar", [*whole("a"), ("a.json", sidecar)])
    (folder / "c.csv").write_text("url,caption\nu,a text\ni,a text\n")
    settings = {"captions": "c.csv", "read_captions": {"join": join, "key_column": "url"}}
    check_refused(refused and r"read_captions\.join.*url, meta\.id", **settings)
    write_tar(folder / "00000.tar", whole("a"))
    check_refused("join: no sample .* has a JSON", **settings)


@pytest.mark.parametrize(("field", "refused"), [
    ("caption", False), ("more.texts", False), ("more", True),
    ("text", True), ("more.caption", True), ("number", True),
])  # fmt: skip
def test_captions_of_a_field_that_no_sample_has(folder: Path, field: str, refused: bool) -> None:
    sidecar = b'{"caption": "a", "null": null, "number": 3, "more": {"texts": ["a", "b"]}}'
    write_tar(folder / "00000.tar", [*whole("a"), ("a.json", sidecar)])
    settings = {"index_shards": {"caption_from": f"json:{field}"}}
    check_refused(refused and r"index_shards\.caption_from.*caption, more\.texts", **settings)
    (folder / "c.csv").write_text("key,caption\na,a text\n")
    check(**settings, captions="c.csv")
    write_tar(folder / "00000.tar", whole("a"))
    check_refused("caption_from: no sample .* has a JSON", **settings)


MD5, SHA = "0123456789abcdef" * 2, "0123456789abcdef" * 4


@pytest.mark.parametrize(("join", "values", "refused"), [
    ("url", ["http://a/1", "http://a/2"], False),
    ("url", ["http://a/2"] + ["http://b/"] * 2000, False),
    ("url", ["http://b/1"], True),
    ("url", ["a/1"] * 2000, True),
    ("url", ["http://b/1"] * 2000, False),  # a job reads all
    ("sha256", [SHA], False),
    ("sha256", [SHA.upper()], True),
    ("sha256", [MD5] * 2000, True),
    ("sha256", [SHA[::-1]], True),
    ("json:id", ["x"], True),
    ("json:id", ["x", "i1"], False),
])  # fmt: skip
@pytest.mark.parametrize("form", ["shards", "table", "folder"])
def test_a_table_whose_values_join_no_pair(folder, join, values, refused, form):
    rows = [{"url": f"http://a/{n}", "sha256": SHA, "id": f"i{n}"} for n in range(40)]
    members = [
        member for n, row in enumerate(rows)
        for member in (*whole(f"{n:02d}"), (f"{n:02d}.json", json.dumps(row).encode()))
    ]  # fmt: skip
    write_tar(folder / "00000.tar", members)
    source: dict[str, Any] = {}
    if form == "table":
        if join.startswith("json"):
            pytest.skip("a table has no such field")
        (folder / "p.jsonl").write_text("".join(
            json.dumps({"image": f"{n}.jpg", "caption": "a", **row}) + "\n"
            for n, row in enumerate(rows)
        ))  # fmt: skip
        for number in range(40):
            (folder / f"{number}.jpg").write_bytes(jpeg())
        source = {"shards": "generated", "pairs": "p.jsonl"}
    elif form == "folder":  # without JSON, no pair has any value
        (folder / "mine").mkdir()
        (folder / "mine/a.jpg").write_bytes(jpeg())
        (folder / "mine/a.txt").write_text("a cup")
        source, refused = {"shards": "generated", "pairs": "mine"}, True
    (folder / "c.csv").write_text("v,caption\n" + "".join(f"{value},a\n" for value in values))
    settings = {"captions": "c.csv", "read_captions": {"join": join, "key_column": "v"}, **source}
    check_refused(refused and r"captions: c\.csv.*read_captions\.join", **settings)


@pytest.mark.parametrize("groups", [[None] * 3, ["", None, " "], [None, "", "de"]])
@pytest.mark.parametrize("name", ["g.csv", "g.parquet"])
def test_groups_without_a_value(folder: Path, groups: list[str | None], name: str) -> None:
    table = pd.DataFrame({"key": [f"{n:09d}" for n in range(3)], "language": groups})
    table.to_csv(folder / name, index=False) if name == "g.csv" else table.to_parquet(folder / name)
    check_refused(groups[-1] != "de" and rf"groups: {name} has no value in language", groups=name)


@pytest.mark.parametrize("form", ["tar", "folder"])
@pytest.mark.parametrize(("settings", "words"), [
    ({"batch_size": 4, "warmup": 0}, "batch_size: 4, but 3 pairs"),
    ({"batch_size": 3, "epochs": 2, "warmup": 3}, "warmup: 3 steps, but training has 2"),
    ({"batch_size": 3, "epochs": 2, "warmup": 2}, ""),
])  # fmt: skip
def test_towers_are_not_trained_on_too_few_pairs(folder, form, settings, words):
    content = {"studies": ["image_text"], "towers": "train", "pretrain_towers": settings}
    if form == "folder":
        for number in range(3):
            (folder / f"{number}.png").write_bytes(jpeg())
            (folder / f"{number}.txt").write_text("a text")
        content |= {"shards": "generated", "pairs": str(folder)}
        (folder / "00000.tar").unlink()
    check_refused(words and rf"pretrain_towers\.{words}", **content)


@pytest.mark.parametrize(("content", "words"), [
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    (b"\n<!DOCTYPE html><html>", "web page"),
])  # fmt: skip
@pytest.mark.parametrize("name", [
    "a.csv", "a.parquet", "trusted.txt", "groups.csv", "reviewed.csv", "captions.parquet",
    "captions.csv", "mine/metadata.csv", "mine/1.jpg", "given.parquet",
])  # fmt: skip
def test_files_that_were_not_fetched(folder: Path, name: str, content: bytes, words: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    settings: dict[str, Any] = {name.partition(".")[0]: name}
    if name.startswith(("a.", "mine")):
        settings = {"shards": "generated", "pairs": name.partition("/")[0]}
        if name == "mine/1.jpg":
            (folder / "mine/1.txt").write_text("a cup")
    if name == "given.parquet":
        settings = {"studies": ["repair"], "evaluation_sets": ["scenes-digit"],
                    "recaption_pairs": {"captioner": "given", "model": name}}  # fmt: skip
    check_refused(rf"{Path(name).name}: is .*{words}", **settings)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (b"\n<!DOCTYPE html><html>", "web page"),
        (b"", "is empty"),
        (b"a text", "is none of JPEG"),
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (jpeg()[:-40], "truncated"),
        (jpeg(size=(900, 1)), "one side"),
    ],
    ids=["pointer", "page", "empty", "text", "HEIC", "cut", "strip"],
)
@pytest.mark.parametrize("form", ["tar", "files", "parquet"])
def test_pictures_of_which_none_can_be_decoded(folder, form, content, words):
    def write(*pictures: bytes) -> dict[str, Any]:
        if form == "parquet":
            (folder / "mine").mkdir(exist_ok=True)
            rows = pd.DataFrame({"image": pictures, "caption": ["a cup"] * len(pictures)})
            rows.to_parquet(folder / "mine/a.parquet")
            return {"shards": "generated", "pairs": "mine"}
        return write_pairs(folder, form, [{"jpg": one, "txt": b"a cup"} for one in pictures])

    check_refused(
        rf"of 3 pictures .*(0\.jpg|parquet: a/0+): .*{words}", **write(content, content, content)
    )
    check(**write(content, jpeg(), content), gather_index={"max_quarantined_share": 1})


@pytest.mark.parametrize(
    ("rows", "least", "refused"),
    [(1, 0.01, True), (2, 0.01, False), (1, 0.005, False), (0, 0.0, True)],
)
def test_a_table_for_too_few_pairs(folder: Path, rows: int, least: float, refused: bool) -> None:
    write_tar(folder / "00000.tar", wholes(200))
    keys = [f"{n:09d}" for n in range(rows)] or ["700000000"]
    (folder / "c.csv").write_text("key,caption\n" + "".join(f"{key},a cup\n" for key in keys))
    settings = {"captions": "c.csv", "gather_index": {"min_joined_share": least}}
    check_refused(refused and r"captions: c\.csv has (a row for 1 of 200|none of)", **settings)


@pytest.mark.parametrize(
    ("form", "broken", "refused"),
    [("files", 3, True), ("files", 2, False), ("tar", 8, True), ("tar", 3, False)],
)
@pytest.mark.parametrize(
    "content", [b'{"caption": "a t', b'{"caption": null}', b"{}", "\xe9".encode("latin-1"), b"[1]"]
)
def test_captions_of_which_too_many_cannot_be_used(folder, content, form, broken, refused):
    """Of files all are read; of shards some, so that more have to be broken."""
    texts = [content] * broken + [b'{"caption": "a cup"}'] * (10 - broken)
    given = write_pairs(folder, form, [{"jpg": jpeg(), "json": text} for text in texts])
    if form == "tar":
        given = {"index_shards": {"caption_from": "json:caption"}}
    check_refused(refused and rf"pairs: {broken} of 10 captions .*0\.json.*20 %", **given)
    check(**given, gather_index={"max_quarantined_share": 0.9})


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_pictures_that_are_no_pairs_are_left_out_by_naming_the_table(folder, form):
    """Such as masks and edges, which the table has in other columns."""
    rows = [(f"images/{n}.jpg", f"masks/{n}.jpg", f"a cup {n}") for n in range(20)]
    for n, path in enumerate(path for row in rows for path in row[:2]):
        (folder / "mine" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "mine" / path).write_bytes(jpeg((40, 30 + n)))
    names = ("file_name", "mask", "text")
    lines = [",".join(row) for row in (names, *rows)]
    if form == "jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    table = folder / f"mine/metadata.{form}"
    table.write_text("\n".join(lines))
    check_refused(
        rf"of 40 pairs 20 have no caption.*pairs: {table}",
        shards="generated",
        pairs=str(table.parent),
    )
    check(shards="generated", pairs=str(table))


@pytest.mark.parametrize("form", ["tar", "txt"])
def test_captions_of_which_none_is_a_text(folder: Path, form: str) -> None:
    def write(content: bytes) -> dict[str, Any]:
        # Of files, equal captions are refused.
        texts = [content + b" %d" % n * bool(content and form == "txt") for n in range(20)]
        return write_pairs(folder, form, [{"jpg": jpeg(), "txt": text} for text in texts])

    check_refused(
        r"pairs: none of 20 captions .* UTF-8", **write("caf\u00e9 au lait".encode("latin-1"))
    )
    check_refused("empty", **write(b""))
    check(**write(b"a cup"))


@pytest.mark.parametrize(
    ("captions", "refused"),
    [
        ([{"en": "a cup", "de": "eine Tasse"}] * 3, True), ([{"en": "a cup"}, None, None], True),
        ([7, 8, 9], True), (["a cup", None, None], False), ([["a cup"], [], None], False),
    ],
)  # fmt: skip
def test_a_column_of_captions_without_a_text(folder, captions, refused):
    (folder / "mine").mkdir()
    rows = pa.table({"images": [[{"bytes": jpeg(), "path": ""}]] * 3, "caption": captions})
    pq.write_table(rows, folder / "mine/a.parquet")
    settings: dict[str, Any] = {"shards": "generated", "pairs": "mine"}
    check_refused(refused and r"pairs\.caption_column: .*a\.parquet has no text", **settings)
    if isinstance(captions[0], dict):
        check(**settings | {"pairs": {"path": "mine", "caption_column": "caption.en"}})


@pytest.mark.parametrize(("lines", "refused"), [(3, False), (2, True), (4, True)])
def test_a_small_list_by_position_is_read_to_its_end(folder, lines, refused):
    (folder / "c.txt").write_text("a cup\n" * 3)
    (folder / "k.txt").write_text("".join(f"{n:09d}\n" for n in range(lines)))
    check_refused(
        refused and rf"c\.txt has 3 lines, but k\.txt has {lines}",
        captions="c.txt",
        caption_keys="k.txt",
    )


@pytest.mark.parametrize(
    ("cell", "words"),
    [("3", "no caption has a letter"), ('"a cup\na red cup #"', "captions_per_line"),
     ("a cup", "all 40 captions are"),
     ("", r"read_captions\.caption_column"), ("\u3164", r"read_captions\.caption_column")],
)  # fmt: skip
def test_tables_whose_captions_are_none(folder: Path, cell: str, words: str) -> None:
    write_tar(folder / "00000.tar", wholes(40, "{:02d}"))
    (folder / "c.csv").write_text(
        "key,caption\n" + "".join(f"{n:02d},{cell}\n".replace("#", str(n)) for n in range(40)),
        encoding="utf-8",
    )
    check_refused(rf"captions: c\.csv.*{words}", captions="c.csv")


TURNS = [{"from": "human", "value": "what?"}, {"from": "gpt", "value": "a cup"}]


def sidecar(text: str) -> tuple[str, bytes]:
    return "a.json", text.encode()


@pytest.mark.parametrize(("members", "place"), [
    ([("a.txt", b"a")], "txt"),
    ([("a.caption", b"a")], "caption"),
    ([("a.caption", b"a"), ("a.txt", b"a")], "txt"),
    ([("a.txt", b"a"), sidecar('{"caption": "a"}')], "txt"),
    ([sidecar('{"url": "a", "caption": "a"}')], "json:caption"),
    ([sidecar('{"meta": {"text": "a", "hash": "a"}}')], "json:meta.text"),
    ([sidecar('{"en_caption": "a", "id": "a"}')], "json:en_caption"),
    ([sidecar('{"sentences": [{"raw": "a", "id": 1}]}')], "json:sentences.raw"),
    ([sidecar(json.dumps({"id": "1", "conversations": TURNS}))], "json:conversations.gpt"),
    ([sidecar('["a", "b"]')], "json"),
    ([("a.txt", b""), sidecar('{"caption": "a"}')], "json:caption"),
    ([("a.llava.txt", b"a")], "llava.txt"),
])  # fmt: skip
def test_captions_of_shards_are_found_by_their_first_samples(folder, members, place):
    write_tar(folder / "00000.tar", [("a.jpg", jpeg()), *members])
    check()
    dag = Dag({"shards": "*.tar", "studies": ["audit"]}, "x")
    assert f"--caption-from {place} " in f"{dag.flags('index_shards')} "
    assert ("captions: " in dag.pairs.echo()) == (place != "txt")


@pytest.mark.parametrize(("members", "given", "words"), [
    ([], {}, r"no \.txt, only \.jpg"),
    ([("a.cls", b"3")], {}, r"no \.txt, only \.cls, \.jpg"),
    ([sidecar('{"a": {"b": "c"}, "n": 1}')], {}, r"json:a\.b"),
    ([sidecar("[1")], {}, "JSON that .*json:FIELD"),
    ([("a.json", '{"caption": "caf\xe9"}'.encode("latin-1"))], {}, "JSON that is not UTF-8"),
    ([("a.json", '{"caption": "a"}'.encode("utf-16"))], {}, "JSON that is not UTF-8"),
    ([("a.txt", b"a")], {"caption_from": "text"}, r"no \.text, only \.jpg, \.txt"),
    ([("a.x.txt", b"a"), ("a.y.txt", b"a")], {}, r"caption_from: x\.txt"),
    ([("a.text", b"a")], {}, "caption_from: text"),
    ([("b.caption.txt", b"a")], {}, "one name"),
    ([("x/a.txt", b"a")], {}, r"'x/a\.txt' and 'a\.jpg'"),
    ([("a.pyd", b"\x80\x04.")], {}, "json:FIELD"),  # a pickle is never suggested
    ([("a.txt.gz", b"\x1f\x8b\x08")], {}, "json:FIELD"),
    ([("a.cap", b"a cup"), ("a.pkl", b"\x80\x04.")], {}, "caption_from: cap}"),
])  # fmt: skip
def test_shards_whose_first_samples_have_no_caption(folder, members, given, words):
    write_tar(folder / "00000.tar", [("a.jpg", jpeg()), *members])
    check_refused(rf"index_shards\.caption_from.*{words}", index_shards=given)
    (folder / "c.csv").write_text("key,caption\na,a text\n")
    check(index_shards=given, captions="c.csv")


@pytest.mark.parametrize("given", [".TXT", "TXT", ".txt"])
def test_an_ending_may_have_a_dot_and_any_case(folder: Path, given: str) -> None:
    check(index_shards={"caption_from": given})


def test_shards_have_their_captions_in_one_place(folder: Path) -> None:
    both = [("b.jpg", jpeg()), ("b.txt", b"b"), ("b.json", b'{"caption": "b"}')]
    write_tar(folder / "00000.tar", both)
    write_tar(folder / "00001.tar", [("a.jpg", jpeg()), sidecar('{"caption": "a"}')])
    for given in ({"shards": "*.tar"}, {"shards": {"x": "00000.tar", "y": "00001.tar"}}):
        assert Dag({"studies": ["audit"], **given}, "x").pairs.captions_in == "json:caption"
    write_tar(folder / "00000.tar", both[:2])
    check_refused(r"00000\.tar has .* in txt, and 00001\.tar in json", shards="*.tar")
    write_tar(folder / "00000.tar", [("a.wav", b"RIFF"), ("a.txt", b"a")])
    check_refused(r"no picture, only \.txt, \.wav")


def test_most_of_the_first_samples_decide(folder: Path) -> None:
    of_json = [(f"{n}{end}", data) for n in range(20)
               for end, data in ((".jpg", jpeg()), (".json", b'{"caption": "a"}'))]  # fmt: skip
    write_tar(folder / "00000.tar", [*whole("x"), *of_json])
    dag = Dag({"studies": ["audit"], "shards": "00000.tar"}, "x")
    assert dag.pairs.captions_in == "json:caption"


def test_a_table_that_adds_captions_leaves_those_of_the_shards(folder: Path) -> None:
    write_tar(folder / "00000.tar", [("a.jpg", jpeg()), ("a.caption", b"a")])
    (folder / "c.csv").write_text("key,caption\na,a text\n")
    for adding, place in (("augment", "caption"), ("replace", "txt")):
        settings = {"captions": "c.csv", "index_shards": {"table_captions": adding}}
        dag = Dag({"studies": ["audit"], "shards": "00000.tar", **settings}, "x")
        assert dag.pairs.captions_in == place
        check(**settings)


@pytest.mark.parametrize("form", ["tar", "txt", "csv", "json"])
def test_labels_equal_captions_and_undecided_lines_are_refused(folder: Path, form: str) -> None:
    """In a text, # is another word for each picture."""

    def check_all(text: str, **settings: Any) -> None:
        texts = [text.replace("#", f"{number:03d}") for number in range(40)]
        ending = "json" if form == "json" else "txt"
        contents = [json.dumps({"caption": own}) if form == "json" else own for own in texts]
        source = write_pairs(folder, form, [
            {"jpg": jpeg()} | ({} if form == "csv" else {ending: content.encode()})
            for content in contents
        ])  # fmt: skip
        if form == "csv":
            quoted = "".join(f'{n:04d}.jpg,"{own}"\n' for n, own in enumerate(texts))
            (folder / "mine/pairs.csv").write_text("image,caption\n" + quoted)
        check(**source, index_shards=settings)

    check_all("a cup #\n")
    check_all("猫 #\n")
    if form != "tar":  # of which no check before the jobs reads all captions
        with pytest.raises(UserError, match="all 40 captions are 'a cup'"):
            check_all("a cup\n")
    with pytest.raises(UserError, match=r"no caption has a letter.*'0 0\.5 0\.1"):
        check_all("0 0.5 0.1")
    with pytest.raises(UserError, match=r"no caption has a letter.*all empty|of 40 pairs 40 have"):
        check_all("\u3164 \u115f\u200b")
    with pytest.raises(UserError, match=r"pairs: (40|20) of (40|20) .*captions_per_line"):
        check_all("a cup\na red cup #")
    for decided in (True, False):
        check_all("a cup\na red cup #", captions_per_line=decided)


@pytest.mark.parametrize(
    ("form", "several", "refused"),
    [("tar", 4, False), ("tar", 5, True), ("txt", 154, False), ("txt", 160, True),
     ("csv", 75, False), ("csv", 76, True)],
)  # fmt: skip
def test_lines_that_are_not_there_by_chance_are_refused(folder, form, several, refused):
    """Of a table all captions are known before any job; of shards and folders, some of them."""
    number = {"tar": 20, "txt": 2000, "csv": 1500}[form]
    texts = ["a cup\na red cup"] * several + ["a cup"] * (number - several)
    if form == "csv":
        (folder / "mine").mkdir()
        (folder / "mine/1.jpg").write_bytes(jpeg())
        rows = "".join(f'{n},1.jpg,"{text}"\n' for n, text in enumerate(texts))
        (folder / "mine/p.csv").write_text("id,image,caption\n" + rows)
        source = {"shards": "generated", "pairs": {"path": "mine", "key_column": "id"}}
    else:
        texts += ["a cup"] * 100 * (form == "tar")
        source = write_pairs(
            folder, form, [{"jpg": jpeg(), "txt": text.encode()} for text in texts]
        )
    check_refused(
        refused and rf"{80 if several == 160 else several} of .*captions_per_line", **source
    )


def test_captions_that_a_link_leads_out_to_are_not_read(folder: Path) -> None:
    """They are not packed either, and a message would show them."""
    (folder / "private.txt").write_text("one line\nand another")
    (folder / "photos").mkdir()
    for name in "ab":
        (folder / f"photos/{name}.jpg").write_bytes(jpeg())
        (folder / f"photos/{name}.txt").symlink_to(folder / "private.txt")
    pairs = Dag({"pairs": str(folder / "photos"), "studies": ["audit"]}, "x").pairs
    assert pairs.first_captions() == []
    (folder / "photos/a.txt").unlink()
    (folder / "photos/a.txt").write_text("a cup")
    assert pairs.first_captions() == ["a cup"]


def stores() -> dict[str, bytes]:
    """Return keys as programs store them, by the name of the file."""
    keys, arrays, one, packed = np.array(["000000001"]), io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez(arrays, keys=keys)
    np.save(one, keys)
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("keys.txt", "000000001\n")
    content = {"npz": arrays, "npy": one, "zip": packed, "csv": arrays}
    stored = {f"keys.{ending}": of.getvalue() for ending, of in content.items()}
    return {**stored, "keys.pkl": pickle.dumps(["000000001"])}


def sheet(member: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(member, "")
    return content.getvalue()


@pytest.mark.parametrize(("setting", "name", "content", "refused"), [
    *((setting, name, content, "archive or a store")
      for setting in ("trusted", "reviewed", "groups", "caption_keys")
      for name, content in stores().items()),
    *(("trusted", "keys.xlsx", sheet(member), "spreadsheet")
      for member in ("xl/workbook.xml", "content.xml", "Index/Document.iwa")),
    *(("trusted", f"keys.{ending}", content, "")
      for ending in ("yaml", "yml", "txt")
      for content in (b"- 000000001\n- 000000002\n", b"- '000000001'\n- \"000000002\"\n")),
    ("trusted", "keys.yaml", b"---\n- key: 000000001\n  ok: yes\n", ""),
    ("trusted", "keys.yaml", b"- key: 000000001\n  ok: no\n", "'no' in the column"),
    ("trusted", "keys.yaml", b"keys:\n- 000000001\n", "not a list of keys"),
    ("trusted", "keys.yaml", b"- '000000001\n", "cannot be read"),
])  # fmt: skip
def test_lists_of_keys_in_other_forms(folder, setting, name, content, refused):
    """A list of YAML is read; what is no text is named, and no store is called a spreadsheet."""
    (folder / name).write_bytes(content)
    (folder / "lines.txt").write_text("a cup\n")
    check_refused(
        refused and f"^{setting}.*{name}.*{refused}",
        **{setting: name},
        **({"captions": "lines.txt"} if setting == "caption_keys" else {}),
    )


@pytest.mark.parametrize("form", ["tar", "files"])
@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('["a cup", "a red cup"]', False), ('[\n  "a cup"\n]', False), ("{a} cup: {b}", False),
        ('{"caption": "a cup"}', True), ('{"captions": [\n"a cup"\n]}\n', True),
        ('[{"id": 1, "caption": "a cup"}]', True), ("{'caption': 'a cup'}", True),
    ],
)  # fmt: skip
def test_texts_that_are_json(folder: Path, form: str, text: str, refused: bool) -> None:
    """A list of texts is several captions; objects have a remedy, which works."""
    pairs = [{"jpg": jpeg((40, 30 + n)), "txt": text.encode()} for n in range(3)]
    words = refused and r"3 of 3 captions are objects.*\.json"
    check_refused(words, **write_pairs(folder, form, pairs))
    if text.startswith('{"'):
        for path in (folder / "mine").glob("*.txt"):
            path.unlink()
        renamed = [{"jpg": pair["jpg"], "json": pair["txt"]} for pair in pairs]
        check(**write_pairs(folder, form, renamed))


UNREADABLE = {
    "trusted.csv": {"trusted": "trusted.csv"},
    "reviewed.csv": {"reviewed": "reviewed.csv"},
    "groups.csv": {"groups": "groups.csv"},
    "captions.csv": {"captions": "captions.csv"},
    "captions.jsonl": {"captions": "captions.jsonl"},
    "keys.txt": {"captions": "lines.txt", "caption_keys": "keys.txt"},
    "lines.txt": {"captions": "lines.txt", "caption_keys": "keys.txt"},
    "photos/captions.json": {"pairs": "photos"},
    "photos/captions.txt": {"pairs": "photos"},
    "photos/captions.csv": {"pairs": "photos"},
    "photos/a.json": {"pairs": "photos"},
    "set/classnames.txt": {"evaluation_sets": ["set"]},
    "set/zeroshot_classification_templates.txt": {"evaluation_sets": ["set"]},
    "set/test/nshards.txt": {"evaluation_sets": ["set"]},
    "set/test/0.tar": {"evaluation_sets": ["set"]},
    "set/dataset_type.txt": {"evaluation_sets": ["set"]},
}
"""Files of a user that are read before any job, and what names them."""


@pytest.mark.parametrize("fault", ["denied", "latin"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_one_message(folder, monkeypatch, name, fault):
    (folder / "set/test").mkdir(parents=True)
    (folder / "photos").mkdir()
    (folder / "photos/a.jpg").write_bytes(jpeg())
    write_tar(folder / "set/test/0.tar", [("0.jpg", jpeg()), ("0.cls", b"0")])
    for text, content in {
        "set/classnames.txt": "one\ntwo\n", "set/test/nshards.txt": "1", "keys.txt": "a\n",
        "set/zeroshot_classification_templates.txt": "a photo of {c}\n", "lines.txt": "a cup\n",
    }.items():  # fmt: skip
        (folder / text).write_text(content)
    path = folder / name
    if fault == "latin":
        if path.suffix == ".tar" or name in ("set/test/nshards.txt", "set/dataset_type.txt"):
            pytest.skip("this is refused by what it holds")
        start = {".json": '{"a.jpg": "', ".jsonl": '{"key": "a", "caption": "'}.get(path.suffix, "")
        path.write_bytes(start.encode() + b"a photo of {c}, a caf\xe9\n")
    else:
        if not path.exists():
            path.write_text("key,caption\na,a cup\n")
        real = open

        def denied(file: Any, *rest: Any, **more: Any) -> Any:
            if isinstance(file, str | Path) and str(file).endswith(name):
                raise PermissionError(13, "Permission denied", str(file))
            return real(file, *rest, **more)

        monkeypatch.setattr("builtins.open", denied)
        monkeypatch.setattr("io.open", denied)
    settings = dict(UNREADABLE[name])
    settings |= {"shards": "generated"} if "pairs" in settings else {}
    settings |= {"studies": ["image_text"]} if "evaluation_sets" in settings else {}
    with pytest.raises(UserError) as refusal:
        check(**settings)
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)
    words = "permission denied" if fault == "denied" else "utf-8"
    assert words in str(refusal.value).lower()


def write_set(folder: Path, ending: str, label: bytes) -> Path:
    """Write an evaluation set of two classes and one picture."""
    write_split(folder, "test", (ending, label))
    (folder / "classnames.txt").write_text("cat\ndog\n")
    (folder / "zeroshot_classification_templates.txt").write_text("a photo of {c}\n")
    return folder


@pytest.mark.parametrize(("label", "file", "content", "reason"), [
    (("npy", b"x"), "", "", "several classes"),
    (("cls", b"cat"), "", "", "number"),
    (("cls", b"7"), "", "", "0 to 1"),
    (("cls", b"1"), "zeroshot_classification_templates.txt", "no placeholder\n", "{c}"),
    (("cls", b"1"), "classnames.txt", "\n", "classnames.txt"),
    (("cls", b"1"), "classnames.txt", "version https://git-lfs.github.com\n", "git lfs pull"),
    (("cls", b"1"), "dataset_type.txt", "multilabel", "not supported"),
])  # fmt: skip
def test_evaluation_sets_that_no_job_could_use(folder, label, file, content, reason):
    own = write_set(folder / "own", *label)
    if file:
        (own / file).write_text(content)
    settings = {"studies": ["image_text"], "evaluation_sets": ["own"]}
    check_refused(re.escape(reason), **settings)
    if label[0] == "cls" and label[1].isdigit():  # one of the first samples, and not the first
        write_split(own, "test", ("cls", b"0"), ("cls", b"9"))
        (own / "classnames.txt").write_text("cat\ndog\n")
        (own / "zeroshot_classification_templates.txt").write_text("{c}\n")
        (own / "dataset_type.txt").unlink(missing_ok=True)
        check_refused("0 to 1", **settings)
    for name in ("classnames.txt", "zeroshot_classification_templates.txt"):
        (own / name).write_text("[{c}\n{c}")
    (own / "dataset_type.txt").unlink(missing_ok=True)
    write_tar(own / "test/0.tar", [])
    check_refused(r"own/test: .*no sample", **settings)


@pytest.mark.parametrize(("name", "content"), [
    ("own.templates.txt", "a photo of a cat\n"),
    ("own.json", "{'cat': ['a cat']}"),
    ("own.json", json.dumps({"cat": ["a cat"]})),
    ("own.classnames.txt", "cat\n"),
    ("own.metric.txt", "accuracy"),
    ("pets.templates.txt", "a {c}\n"),
])  # fmt: skip
def test_prompts_of_ones_own_that_no_job_could_use(folder: Path, name: str, content: str) -> None:
    prompts = folder / "prompts"
    prompts.mkdir()
    write_set(folder / "own", "cls", b"1")
    (prompts / "own.templates.txt").write_text("a {c}\n")
    settings = {"studies": ["image_text"], "evaluation_sets": ["own"], "protocols": ["prompts"]}
    check(**settings)
    if name == "own.json":
        (prompts / "own.templates.txt").unlink()
    (prompts / name).write_text(content)
    check_refused(re.escape(name), **settings)


@pytest.mark.parametrize("name", [
    *("open_clip_pytorch_model.bin", "pytorch_model.bin", "weights.pt", "a b.pth", "model.ckpt"),
])  # fmt: skip
def test_weights_in_another_form_are_named_with_a_command(folder: Path, name: str) -> None:
    towers = folder / "towers"
    towers.mkdir()
    (towers / TOWER_CONFIG).write_bytes((SHIPPED["shipped"] / TOWER_CONFIG).read_bytes())
    check_refused(f"no {TOWER_WEIGHTS}", towers="towers")
    (towers / name).write_bytes(b"")
    check_refused(f"{re.escape(name)}.*torch.load", towers="towers")


@pytest.mark.parametrize(("content", "reason"), [
    (b"", "is empty"),
    (b"<!DOCTYPE html><html>", "web page"),
    (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ((1 << 40).to_bytes(8, "little") + b"{", "cut short"),
    (b"PK\x03\x04 cut", "cut short"),
    (b"weights", "no file of weights"),
])  # fmt: skip
def test_files_that_hold_no_weights(folder: Path, content: bytes, reason: str) -> None:
    (folder / "w.pt").write_bytes(content)
    spec = {
        "name": "a", "model": "ViT-B-32", "checkpoint": "w.pt", "quick_gelu": False,
        "preprocess": "openai",
    }  # fmt: skip
    check_refused(f"w.pt.*{reason}", towers=spec)
    towers = folder / "towers"
    towers.mkdir()
    (towers / TOWER_CONFIG).write_bytes((SHIPPED["shipped"] / TOWER_CONFIG).read_bytes())
    (towers / TOWER_WEIGHTS).write_bytes(content)
    check_refused(f"{TOWER_WEIGHTS}.*{reason}", towers="towers")
