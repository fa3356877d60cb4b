"""The corpus of all groups: its policies, its books and its fingerprint, against naive twins."""

import hashlib
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mispair.config import Config
from mispair.core import provenance
from mispair.core.files import UserError
from mispair.pairs.index import corpus as corpora
from mispair.pairs.index.books import (
    IMAGE,
    KEY,
    SETTINGS,
    Books,
    Reason,
    by_group,
    check_loss,
    read_books,
)
from mispair.pairs.index.faults import REASONS
from mispair.pairs.index.identities import hexadecimal, identities

INDEX = pa.schema(
    [(name, pa.string()) for name in ("key", "shard", "image_id", "caption", "caption_id")]
    + [("more_captions", pa.list_(pa.string()))]
    + [(name, pa.int32()) for name in ("row", "width", "height", "words", "characters")]
    + [(name, pa.bool_()) for name in ("person", "non_ascii", "control")]
    + [("sha256", pa.string()), ("licence", pa.string())]
)
REJECTED = pa.schema([(name, pa.string()) for name in ("key", "shard", "reason", "detail")])

Row = dict[str, Any]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pair(key: str, caption: str = "a dog", image: str | None = None, **more: Any) -> Row:
    """A row of an index; the image's bytes are `image`, or the key if it is None."""
    return {
        "key": key, "shard": "a.tar", "image_id": digest(key if image is None else image),
        "caption": caption, "caption_id": digest(caption), "more_captions": [],
        "width": 640, "height": 480, "words": len(caption.split()), "characters": len(caption),
        "person": "<PERSON>" in caption, "non_ascii": not caption.isascii(),
        "control": "\u202e" in caption, "sha256": None, "licence": None, **more,
    }  # fmt: skip


def fault(key: str, reason: str = "no-image", shard: str = "a.tar") -> Row:
    return {"key": key, "shard": shard, "reason": reason, "detail": "for a test"}


def write_group(
    folder: Path, group: str, kept: Iterable[Row], rejected: Iterable[Row] = (),
    said: dict[str, str] | None = None,
) -> tuple[Path, Path]:  # fmt: skip
    """Write the two tables of a group, in the form in which they are found."""
    kept, rejected = [{"row": row, **pair} for row, pair in enumerate(kept)], list(rejected)
    counts = {"kept": len(kept), "rejected": len(rejected), "read": len(kept) + len(rejected)}
    metadata = {name: str(count) for name, count in counts.items()}
    metadata |= {"ignored": "0", "downloads": "{}", **(said or {})}
    folder.mkdir(parents=True, exist_ok=True)
    index, refused = folder / f"{group}.parquet", folder / f"{group}.rejected.parquet"
    for path, rows, schema in ((index, kept, INDEX), (refused, rejected, REJECTED)):
        pq.write_table(pa.Table.from_pylist(rows, schema=schema.with_metadata(metadata)), path)
    return index, refused


def read(folder: Path, groups: dict[str, list[Row]]) -> corpora.Pairs:
    index = {group: write_group(folder, group, rows)[0] for group, rows in groups.items()}
    return corpora.read_pairs(index)


def corpus_of(pairs: corpora.Pairs, kept: np.ndarray) -> list[Row]:
    return [row for table, _ in corpora.blocks(pairs, kept) for row in table.to_pylist()]


def random_groups(seed: int, repeated_keys: bool = False) -> dict[str, list[Row]]:
    """Groups of many sizes, none and one included, with repeated captions, images and keys."""
    draw = random.Random(seed)
    letters = "abAB09 _./é\u202e😀"
    groups: dict[str, list[Row]] = {}
    seen: set[str] = set()
    for number, size in enumerate(draw.sample([0, 1, 7, 40, 90], 5)):
        rows = []
        for place in range(size):
            key = "".join(draw.choices(letters, k=draw.randint(1, 12)))
            if repeated_keys and seen and draw.random() < 0.3:
                key = draw.choice(sorted(seen))
            elif key in seen:
                continue
            seen.add(key)
            words = draw.choices(["<PERSON>", "dog", "wäll", "\u202e", "on"], k=draw.randint(0, 3))
            more = [f"text {draw.randint(0, 9)}" for _ in range(draw.choice([0, 0, 2]))]
            shard = f"{number}-{place // 10}.tar"
            rows.append(
                pair(key, " ".join(words), f"picture {draw.randint(0, 60)}", shard=shard,
                     more_captions=list(dict.fromkeys(more)))
            )  # fmt: skip
        groups[f"{number:04d}"] = rows
    return groups


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every loop over blocks have many turns."""
    monkeypatch.setattr(corpora, "BLOCK", 7)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(5))
def test_the_corpus_is_every_pair_once_sorted_by_key(tmp_path, seed):
    groups = random_groups(seed)
    pairs = read(tmp_path, groups)
    rows = [
        {"key": row["key"], "group": group, "row": number, "caption_id": row["caption_id"],
         "more_caption_ids": [digest(text) for text in row["more_captions"]]}
        for group, rows in groups.items() for number, row in enumerate(rows)
    ]  # fmt: skip
    expected = sorted(rows, key=lambda row: row["key"].encode())
    assert corpus_of(pairs, np.ones(len(expected), bool)) == expected


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("duplicate_images", ["keep", "first"])
@pytest.mark.parametrize("duplicate_keys", ["first", "drop"])
@pytest.mark.parametrize("seed", range(4))
def test_policies_do_what_a_naive_loop_does(
    tmp_path, seed, duplicate_keys, duplicate_images
) -> None:
    groups = random_groups(seed, repeated_keys=True)
    times = Counter(row["key"] for rows in groups.values() for row in rows)
    keys: set[str] = set()
    images: set[str] = set()
    left, lost = [], []
    for group in sorted(groups):
        for row in groups[group]:
            new = times[row["key"]] == 1 or (duplicate_keys == "first" and row["key"] not in keys)
            keys.add(row["key"])
            place = (row["key"], group, row["shard"])
            if not new:
                lost.append((*place, KEY))
            elif duplicate_images == "first" and row["image_id"] in images:
                lost.append((*place, IMAGE))
            else:
                images.add(row["image_id"])
                left.append(place[:2])
    assert {reason for *_, reason in lost} >= {KEY}

    pairs = read(tmp_path, groups)
    kept, table = corpora.exclude(pairs, duplicate_keys, duplicate_images)
    found = corpus_of(pairs, kept)
    assert [(row["key"], row["group"]) for row in found] == sorted(left)
    rows = [tuple(row[n] for n in ("key", "group", "shard", "reason")) for row in table.to_pylist()]
    assert sorted(rows) == sorted(lost)
    assert [row[0].encode() for row in rows] == sorted(row[0].encode() for row in rows)
    reasons = corpora.excluded_reasons(table)
    expected = Counter(reason for *_, reason in lost)
    assert {name: reason.count for name, reason in reasons.items()} == expected


def test_what_is_excluded_says_where_the_kept_one_is(tmp_path):
    groups = {
        "0000": [pair("k", shard="x.tar"), pair("i", image="same", shard="x.tar")],
        "0001": [pair("k", shard="y.tar"), pair("j", image="same", shard="y.tar")],
    }
    pairs = read(tmp_path, groups)
    _, table = corpora.exclude(pairs, "first", "first")
    assert table.select(["key", "shard", "group", "detail"]).to_pylist() == [
        {"key": "j", "shard": "y.tar", "group": "0001",
         "detail": "the image of 'i' in 'x.tar' (group 0000)"},
        {"key": "k", "shard": "y.tar", "group": "0001",
         "detail": "is in 2 places, the first in 'x.tar' (group 0000)"},
    ]  # fmt: skip


def test_an_image_of_an_excluded_pair_does_not_count_as_the_first(tmp_path):
    second = [pair("k", image="other"), pair("z", image="same")]
    pairs = read(tmp_path, {"0000": [pair("k", image="same")], "0001": second})
    kept, _ = corpora.exclude(pairs, "drop", "first")
    assert [row["key"] for row in corpus_of(pairs, kept)] == ["z"]


def test_repeated_keys_are_refused_with_examples(tmp_path):
    groups = {
        group: [pair("\x1b[2J\u202ek", shard=f"{group}.tar"), pair("m", shard=f"{group}.tar")]
        for group in ("0000", "0001", "0002")
    }
    with pytest.raises(UserError) as caught:
        corpora.exclude(read(tmp_path, groups), "refuse", "keep")
    message = str(caught.value)
    assert "2 keys are in more than one shard, 6 pairs in all" in message
    assert "'m' in '0000.tar' (group 0000) and '0001.tar' (group 0001)" in message
    assert "duplicate_keys" in message
    assert "\x1b" not in message
    assert "\u202e" not in message


def named(pairs: corpora.Pairs) -> str:
    return corpora.fingerprint(corpora.blocks(pairs, np.ones(len(pairs.keys), bool)))


def test_the_fingerprint_is_the_documented_one(tmp_path):
    groups = random_groups(1)
    lines = [
        " ".join((row["caption_id"], row["image_id"],
                  ",".join(map(digest, row["more_captions"])), row["key"]))
        for row in sorted((row for rows in groups.values() for row in rows),
                          key=lambda row: row["key"])
    ]  # fmt: skip
    assert named(read(tmp_path, groups)) == provenance.fingerprint(lines)


def test_the_fingerprint_names_the_data_and_not_its_place(tmp_path, monkeypatch):
    rows = [pair(f"{number}", f"caption {number}", more_captions=["m"]) for number in range(20)]
    one = named(read(tmp_path / "a", {"0": rows[:5], "1": rows[5:]}))
    assert named(read(tmp_path / "b", {"7": rows[::-1]})) == one
    monkeypatch.setattr(corpora, "BLOCK", 3)
    assert named(read(tmp_path / "c", {"7": rows})) == one
    changes = (
        pair("3x", "caption 3", "3", more_captions=["m"]),
        pair("3", "caption X", more_captions=["m"]),
        pair("3", "caption 3", "X", more_captions=["m"]),
        pair("3", "caption 3", more_captions=["X"]),
        pair("3", "caption 3", more_captions=[]),
    )
    others = {named(read(tmp_path / f"d{n}", {"0": [*rows[:3], changed, *rows[4:]]}))
              for n, changed in enumerate(changes)}  # fmt: skip
    assert len(others | {one}) == 1 + len(changes)


def test_identities_are_read_and_written_alike():
    draw = random.Random(0)
    numbers = [0, 1, 2**64 - 1, *(draw.getrandbits(64) for _ in range(50))]
    digits = [f"{number:016x}" for number in numbers]
    column = pa.chunked_array([["xx", *digits[:20]], digits[20:]]).slice(1)
    assert identities(column).tolist() == numbers
    assert hexadecimal(np.array(numbers, np.uint64)).to_pylist() == digits
    assert identities(pa.chunked_array([], pa.string())).tolist() == []
    assert hexadecimal(np.zeros(0, np.uint64)).to_pylist() == []


@pytest.mark.parametrize("wrong", ["", "abc", "0" * 17, "g" * 16, "A" * 16, None])
def test_what_is_no_identity_is_refused(wrong, tmp_path):
    with pytest.raises(ValueError, match="16 hexadecimal digits"):
        identities(pa.chunked_array([["0" * 16, wrong]], pa.string()))
    with pytest.raises(UserError, match="0000.parquet"):
        read(tmp_path, {"0000": [pair("k", caption_id=wrong)]})


def test_books_count_reasons_and_shards(tmp_path):
    kept = [pair("1", shard="a.tar"), pair("2", shard="b.tar")]
    lost = [fault("3"), fault("", "damaged-shard", "b.tar"), fault("", "lost-worker", "c.tar")]
    a = write_group(tmp_path, "0000", kept, lost)
    b = write_group(tmp_path, "0001", [], [fault("4", "no-image", "a.tar")])
    index, rejected = by_group([b[0], a[0]], [a[1], b[1]])
    assert list(index) == list(rejected) == ["0000", "0001"]
    books = read_books(index, rejected)
    assert (books.read, books.kept, books.rejected, books.excluded) == (6, 2, 4, 0)
    # Two groups may have shards of one name.
    assert (books.shards, books.damaged) == (4, 2)
    assert books.reasons == {
        "no-image": Reason(2, "3", "a.tar", "0000", "for a test"),
        "damaged-shard": Reason(1, "", "b.tar", "0000", "for a test"),
        "lost-worker": Reason(1, "", "c.tar", "0000", "for a test"),
    }
    later = books.with_excluded({KEY: Reason(1, "2", "b.tar", "0000")})
    assert (later.read, later.kept, later.rejected, later.excluded) == (6, 1, 4, 1)
    assert later.quarantined_share == pytest.approx(5 / 6)
    assert later.damaged_share == 0.5
    assert set(later.reasons) == {*books.reasons, KEY}


@pytest.mark.parametrize(
    "said", [{"kept": "3"}, {"rejected": "0"}, {"read": "4"}, {"read": "three"}]
)
def test_books_that_do_not_balance_are_refused(tmp_path, said):
    index, rejected = write_group(tmp_path, "0", [pair("1"), pair("2")], [fault("3")], said)
    with pytest.raises(UserError, match="0.parquet: its books do not balance"):
        read_books({"0": index}, {"0": rejected})


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    a, b = tmp_path / "a.parquet", tmp_path / "b.rejected.parquet"
    with pytest.raises(UserError, match="group a, b"):
        by_group([a], [b])
    with pytest.raises(UserError, match="given twice"):
        by_group([a, tmp_path / "x" / "a.parquet"], [])
    with pytest.raises(UserError, match="no index"):
        by_group([], [])


def test_files_that_are_no_index_are_named(tmp_path):
    missing, text, old = tmp_path / "m.parquet", tmp_path / "t.parquet", tmp_path / "o.parquet"
    text.write_text("<html>")
    pq.write_table(pa.table({"key": ["1"], "shard": ["a"]}), old)
    for path, words in ((missing, "cannot be read"), (text, "cannot be read"), (old, "image_id")):
        with pytest.raises(UserError, match=words) as caught:
            corpora.read_pairs({"0": path})
        assert str(path) in str(caught.value)


def lossy(read: int, lost: int, shards: int = 1, damaged: int = 0) -> Books:
    reasons = {"empty-caption": Reason(lost, "\x1b[2Jevil", "a.tar", "0000")} if lost else {}
    return Books(read, read - lost, lost, 0, shards, damaged, reasons)


@pytest.mark.parametrize(("books", "passes"), [
    (lossy(10_000, 0), True),
    (lossy(10_000, 2_000), True),
    (lossy(10_000, 2_001), False),
    (lossy(10_000, 1, shards=5, damaged=1), True),
    (lossy(10_000, 1, shards=9, damaged=2), False),
    (Books(10, 8, 1, 1, 1, 0, {}), True),
    (Books(10, 7, 1, 2, 1, 0, {}), False),
])  # fmt: skip
def test_the_larger_share_of_samples_and_of_shards_decides(books, passes):
    refused = pytest.raises(UserError, match="max_quarantined_share")
    with nullcontext() if passes else refused:
        check_loss(books, 0.2, Path("folder"))


@pytest.mark.parametrize("reason", [*REASONS, KEY, IMAGE])
def test_each_reason_is_told_with_its_detail_and_the_setting_that_decides(reason):
    example = Reason(9, "k", "b.tar", "0001", "has only a title, é and {v2}")
    with pytest.raises(UserError) as caught:
        check_loss(Books(9, 0, 9, 0, 1, 0, {reason: example}), 0.2, Path("folder"))
    rows = [line for line in str(caught.value).splitlines() if line.split()[:1] == [reason]]
    assert len(rows) == 1
    assert "in 'b.tar' (group 0001): has only a title, é and {v2}" in str(caught.value)
    section, _, keys = SETTINGS.get(reason, "").partition(": ")
    assert SETTINGS.get(reason, "") in rows[0]
    for key in filter(None, keys.split(", ")):
        assert key in Config.model_fields[section].annotation.model_fields


def test_the_message_has_the_table_of_reasons(tmp_path):
    books = Books(
        8, 3, 4, 1, 2, 1,
        {
            "damaged-shard": Reason(1, "", "b.tar", "0001", "is empty\x1b[2J \u202e"),
            "empty-caption": Reason(3, "\x1b[2Jevil", "a.tar", "0000"),
            KEY: Reason(1, "k", "a.tar", "0000"),
        },
    )  # fmt: skip
    with pytest.raises(UserError) as caught:
        check_loss(books, 0.2, tmp_path)
    message = str(caught.value)
    assert "5 of 8 samples (62.50 %)" in message
    assert "1 of 2 shards (50.00 %)" in message
    assert "at most 20 %" in message
    assert f"{tmp_path}/*.rejected.parquet" in message
    lines = [line.split() for line in message.splitlines() if line.startswith("  ")]
    assert [line[0] for line in lines] == ["reason", "empty-caption", "damaged-shard", KEY]
    assert lines[1][1:4] == ["3", "37.50", "%"]
    assert "'\\x1b[2Jevil' in 'a.tar' (group 0000)" in message
    assert "  'b.tar' (group 0001): is empty\\x1b[2J \\u202e" in message
    assert "empty_captions" in message
    assert "duplicate_keys" in message
    assert "\x1b" not in message


@pytest.mark.parametrize(("reasons", "remedies"), [
    (["not-in-caption-table"], ["captions", "column"]),
    (["damaged-shard", "no-image"], ["shards"]),
    (["empty-caption", KEY], ["column"]),
    (["not-in-caption-table", "damaged-shard"], ["captions", "column", "shards"]),
])  # fmt: skip
@pytest.mark.parametrize("kept", [0, 2])
def test_the_remedies_are_those_of_the_reasons(reasons, remedies, kept):
    books = Books(8, kept, 8 - kept, 0, 1, 0, {name: Reason(1, "k", "s", "0") for name in reasons})
    with pytest.raises(UserError) as caught:
        check_loss(books, 0.2, Path("folder"))
    marks = {"shards": "epair the shards", "captions": "by `captions`", "column": "last column",
             "limit": "max_quarantined_share"}  # fmt: skip
    named = {name for name, mark in marks.items() if mark in str(caught.value)}
    assert named == {*remedies, *(["limit"] * bool(kept))}


def test_a_corpus_of_nothing_never_passes():
    with pytest.raises(UserError, match="no pair is left"):
        check_loss(lossy(3, 3), 1.0, Path("folder"))
    with pytest.raises(UserError, match="no shard holds any sample"):
        check_loss(Books(shards=2), 1.0, Path("folder"))


@pytest.mark.parametrize(
    "form",
    [
        list, pa.array, pd.Series, lambda texts: pa.chunked_array([texts[:1], texts[1:]]),
        lambda texts: pa.table({"id": pa.chunked_array([texts[:1], texts[1:]])}).to_pandas()["id"],
    ],
)  # fmt: skip
def test_identities_of_each_form_of_a_column(form):
    """The last one is that of a long table, read by pandas: a column in several chunks."""
    column = form(["00000000000000ff", "0000000000000010"])
    assert identities(column).tolist() == [255, 16]
