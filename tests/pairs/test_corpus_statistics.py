"""The statistics of a corpus, against pandas and plain loops over the same rows."""

import json
import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mispair.core import metrics
from mispair.pairs.index.books import Books, Reason
from mispair.pairs.index.corpus_statistics import (
    BINS,
    COLUMNS,
    STATUSES,
    CorpusStatistics,
    Tally,
    downloads,
    written,
)
from tests.pairs.test_corpus import INDEX, Row, digest, pair


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=INDEX).select(COLUMNS)


def texts(rows: list[Row]) -> np.ndarray:
    found = [row["caption_id"] for row in rows]
    found += [digest(text) for row in rows for text in row["more_captions"]]
    return np.array([int(name, 16) for name in found], np.uint64)


def numbers(rows: list[Row], column: str) -> np.ndarray:
    return np.array([int(row[column], 16) for row in rows], np.uint64)


def measure(
    groups: list[list[Row]], books: Books | None = None
) -> dict[tuple[str, Any], dict[str, Any]]:
    """Return the rows of statistics by metric and what else names them."""
    found = CorpusStatistics()
    for rows in groups:
        found.add(table(rows), texts(rows))
    everything = [row for rows in groups for row in rows]
    count = len(everything)
    books = books or Books(count, count, 0, 0, 1, 0, {})
    rows = found.rows(books, numbers(everything, "caption_id"), numbers(everything, "image_id"))
    named = {(row["metric"], row.get("bin_low", row.get("reason", row.get("licence")))): row
             for row in rows}  # fmt: skip
    assert len(named) == len(rows)
    return named


def value(named: dict[tuple[str, Any], dict[str, Any]], metric: str) -> Any:
    return named[metric, None]["value"]


def generated(seed: int) -> list[list[Row]]:
    draw = random.Random(seed)
    words = ["dog", "<PERSON>", "wäll", "\u202eevil", "on", "<b>bold</b>"]
    groups: list[list[Row]] = []
    for size in (30, 0, 1, 200):
        groups.append([])
        for _ in range(size):
            count = draw.choice([0, 1, 1, 2, 3, 45, 300])
            groups[-1].append(pair(
                str(draw.random()), " ".join(draw.choices(words, k=count)),
                f"picture {draw.randint(0, 150)}",
                more_captions=[f"text {draw.randint(0, 50)}"] * draw.randint(0, 1),
                width=draw.choice([1, 223, 224, 640, 5000]),
                height=draw.choice([1, 31, 32, 480, 7000]),
                sha256=draw.choice([None, f"hash {draw.randint(0, 60)}"]),
            ))  # fmt: skip
    return groups


def test_licences_are_counted_and_rare_ones_are_one_row():
    often = {f"licence {number:02d}": 3 + number for number in range(STATUSES + 2)}
    rows = [pair(f"{name}-{copy}", licence=name) for name in often for copy in range(often[name])]
    found = measure([rows[:40], rows[40:], [pair("none")]])
    counted = {key[1]: row["value"] for key, row in found.items() if key[0] == "licences"}
    assert counted.pop("other") == 3 + 4
    assert counted == {name: number for name, number in often.items() if number > 4}
    assert {row["n"] for key, row in found.items() if key[0] == "licences"} == {len(rows)}


@pytest.mark.parametrize("seed", range(3))
def test_statistics_are_those_of_pandas(seed):
    groups = generated(seed)
    found = measure(groups)
    rows = pd.DataFrame([row for rows in groups for row in rows])
    n = len(rows)
    distinct = [{digest(t) for r in rows for t in [r["caption"], *r["more_captions"]]}
                for rows in groups]  # fmt: skip
    times = Counter(name for names in distinct for name in names)
    further = int(rows["more_captions"].map(len).sum())
    hashes = rows["sha256"].dropna()
    expected = {
        "caption_empty_share": ((rows["words"] == 0).sum() / n, n),
        "caption_duplicate_share": (rows["caption"].duplicated(keep=False).mean(), n),
        "caption_person_share": (rows["caption"].str.contains("<PERSON>").mean(), n),
        "caption_non_ascii_share": ((~rows["caption"].map(str.isascii)).mean(), n),
        "caption_control_share": (rows["caption"].str.contains("\u202e").mean(), n),
        "caption_several_lines_share": (0, n),
        "captions_further": (further, n),
        "captions_distinct": (len(times), n + further),
        "images_distinct": (rows["image_id"].nunique(), n),
        "image_duplicate_share": (rows["image_id"].duplicated(keep=False).mean(), n),
        "image_sha256_duplicate_share": (hashes.duplicated(keep=False).mean(), len(hashes)),
    }  # fmt: skip
    rows["ratio"] = rows["width"] / rows["height"]
    percents = {"min": 0, "p05": 0.05, "median": 0.5, "p95": 0.95, "max": 1}
    for metric, column in (
        ("caption_words", "words"), ("caption_characters", "characters"),
        ("image_width", "width"), ("image_height", "height"), ("image_aspect_ratio", "ratio"),
    ):  # fmt: skip
        for name, percent in percents.items():
            if (f"{metric}_{name}", None) in found:
                ordered = sorted(rows[column])
                rank = max(math.ceil(round(percent * n, 9)), 1)
                expected[f"{metric}_{name}"] = (ordered[rank - 1], n)
    for column in ("words", "characters"):
        expected[f"caption_{column}_mean"] = (rows[column].mean(), n)
    assert times.total() > len(times), "no text is in two groups: the test shows nothing"
    for metric, (wanted, count) in expected.items():
        row = found[metric, None]
        assert row["value"] == pytest.approx(wanted, rel=1e-12), metric
        assert row["n"] == count, metric
    singles = {metric for metric, key in found if key is None}
    books = {"read", "kept", "rejected", "excluded", "quarantined_share", "damaged_shard_share"}
    assert singles == expected.keys() | books


@pytest.mark.parametrize(("metric", "column"), [
    ("caption_words_histogram", "words"),
    ("caption_characters_histogram", "characters"),
    ("image_shorter_side_histogram", "side"),
])  # fmt: skip
def test_histograms_hold_every_pair_once(metric, column):
    groups = generated(0)
    found = {key: row for (name, key), row in measure(groups).items() if name == metric}
    rows = pd.DataFrame([row for rows in groups for row in rows])
    rows["side"] = rows[["width", "height"]].min(axis=1)
    edges = BINS[column]
    wanted = pd.cut(rows[column], [*edges, np.inf], right=False).value_counts(sort=False)
    assert [row["value"] for row in found.values()] == wanted.tolist()
    assert [row["bin_low"] for row in found.values()] == list(edges)
    assert [row["bin_high"] for row in found.values()] == [*edges[1:], None]
    assert sum(row["value"] for row in found.values()) == len(rows)
    assert found[edges[-1]]["value"] > 0, "the open bin is empty: the test shows nothing"


def test_the_order_and_the_split_of_groups_change_nothing():
    groups = generated(1)
    one, other = measure(groups), measure(groups[::-1])
    assert one == other
    assert one == measure([[row for rows in groups for row in rows]])


def test_empty_captions_count_whether_they_were_kept_or_not():
    books = Books(10, 2, 8, 0, 1, 0, {"empty-caption": Reason(3, "k", "a", "0")})
    found = measure([[pair("1", ""), pair("2", "a dog")]], books)
    assert found["caption_empty_share", None] == {
        "metric": "caption_empty_share", "value": 0.4, "n": 10,
    }  # fmt: skip


def test_the_books_are_rows():
    books = Books(
        20, 2, 17, 1, 4, 1,
        {"no-image": Reason(17, "k", "a", "0"), "key-in-several-shards": Reason(1, "k", "a", "0")},
    )  # fmt: skip
    found = measure([[pair("1"), pair("2")]], books)
    counts = {name: value(found, name) for name in ("read", "kept", "rejected", "excluded")}
    assert counts == {"read": 20, "kept": 2, "rejected": 17, "excluded": 1}
    assert found["rejected_reason", "no-image"]["value"] == 17
    assert found["excluded_reason", "key-in-several-shards"]["value"] == 1
    assert value(found, "quarantined_share") == 0.9
    assert found["damaged_shard_share", None] == {
        "metric": "damaged_shard_share", "value": 0.25, "n": 4,
    }  # fmt: skip


def test_no_hashes_is_no_share_of_duplicates(tmp_path):
    rows = list(measure([[pair("1"), pair("2")]]).values())
    metrics.write_metrics(tmp_path / "s.json", rows, {})
    back = {row["metric"]: row for row in metrics.read_metrics(tmp_path / "s.json")[0]}
    assert back["image_sha256_duplicate_share"]["value"] is None
    assert back["image_sha256_duplicate_share"]["n"] == 0
    assert back["image_duplicate_share"]["value"] == 0


def test_a_tally_is_numpys_inverted_cdf():
    draw = np.random.default_rng(0)
    for size in (1, 2, 19, 20, 21, 1000):
        values = draw.integers(-5, 60, size)
        tally = Tally()
        for part in np.array_split(draw.permutation(values), 3):
            tally.add(part)
        assert tally.n == size
        assert tally.mean() == pytest.approx(values.mean())
        for percent in (0, 5, 50, 95, 100):
            wanted = sorted(values)[max(-(-percent * size // 100), 1) - 1]
            assert tally.percentile(percent) == wanted
        for percent in (50, 100):
            exact = np.quantile(values, percent / 100, method="inverted_cdf")
            assert tally.percentile(percent) == exact


def test_missing_samples_are_added_up_over_groups():
    groups = [{"expected": 30, "missing": 3, "surplus": 2}, {"expected": 5, "missing": 1}]
    rows = {row["metric"]: row for row in written(["{}", *map(json.dumps, groups)])}
    assert (rows["written_missing"]["value"], rows["written_missing"]["n"]) == (4, 35)
    assert rows["written_surplus"]["value"] == 2
    assert written(["{}"]) == written(['{"expected": 0, "missing": 0, "surplus": 0}']) == []


def test_downloads_are_added_up_over_groups():
    first = {"success": 62, "HTTP Error 404: Not Found": 12}
    second = {"success": 1, "<urlopen error>": 3, "HTTP Error 404: Not Found": 1}
    rows = downloads(["{}", json.dumps(first), json.dumps(second)])
    assert [(row["status"], row["value"], row["n"]) for row in rows] == [
        ("success", 63, 79), ("HTTP Error 404: Not Found", 13, 79), ("<urlopen error>", 3, 79),
    ]  # fmt: skip
    assert {row["metric"] for row in rows} == {"downloads"}
    assert downloads(["{}"]) == []


def test_many_download_statuses_become_the_commonest_and_the_rest():
    many = {f"error {number:03d}": number for number in range(1, 101)}
    rows = downloads([json.dumps(many)])
    assert [row["value"] for row in rows[:STATUSES]] == list(range(100, 100 - STATUSES, -1))
    assert rows[STATUSES:] == [
        {"metric": "downloads", "status": "other", "n": 5050,
         "value": sum(range(1, 101 - STATUSES))}
    ]  # fmt: skip
    equal = {f"s{number}": 1 for number in range(30)}
    assert downloads([json.dumps(equal)]) == downloads([json.dumps(dict(reversed(equal.items())))])


def test_a_status_is_one_short_line_of_printable_text():
    texts = {"x" * 500: 1, "x" * 400: 2, " Max\nretries \x1b[2J\u202e exceeded ": 4}
    rows = {row["status"]: row["value"] for row in downloads([json.dumps(texts)])}
    assert rows == {"x" * 79 + "…": 3, "Max retries [2J exceeded": 4}
