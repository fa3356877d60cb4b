"""Statistics of a corpus: counts, captions, images and downloads, as rows of metrics.

Each row has ``metric``, ``value`` and ``n``, the number of items that the value is about. A
percentile is the smallest occurring value that at least this share of the values do not exceed
(nearest rank). The last bin of a histogram is open: its ``bin_high`` is null.

=================================== ======================================= ======================
metric                              value                                   n
=================================== ======================================= ======================
read, kept, rejected, excluded      samples                                 samples read
rejected_reason, excluded_reason    samples, for each ``reason``            samples read
quarantined_share                   (rejected + excluded) / read            samples read
damaged_shard_share                 shards not read to their end            shards
caption_empty_share                 no words: rejected for it, or kept if   samples read
                                    the settings allow it
caption_duplicate_share             another pair has the same caption text  pairs kept
caption_person_share                holds ``<PERSON>``                      pairs kept
caption_non_ascii_share             holds a character beyond ASCII          pairs kept
caption_control_share               holds a bidirectional or other format   pairs kept
                                    character
caption_several_lines_share         has several lines, and is one caption   pairs kept
captions_further                    further captions of pairs               pairs kept
captions_distinct                   distinct texts, further ones too        captions
caption_words_X                     X: mean, median, p95, max               pairs kept
caption_words_histogram             captions with ``bin_low`` <= words <    pairs kept
                                    ``bin_high``
caption_characters_X, _histogram    the same for characters                 pairs kept
image_width_X, image_height_X       X: min, p05, median, p95, max; pixels   pairs kept
image_aspect_ratio_X                the same for width / height             pairs kept
image_shorter_side_histogram        images, by pixels of the shorter side   pairs kept
images_distinct                     images with different bytes             pairs kept
image_duplicate_share               the same bytes are in another pair too  pairs kept
image_sha256_duplicate_share        the ``sha256`` of the sample's json is  pairs that have one
                                    in another pair too
downloads                           attempts, for each ``status``           attempts
licences                            pairs, for each ``licence``, which the  pairs that have one
                                    sample's json names
written_missing, written_surplus    samples that img2dataset wrote and were samples written
                                    not found, or the other way round
table_pairs_joined                  pairs that the caption table has        pairs looked up: kept,
                                                                            or rejected for having
table_pairs_without_row             others                                  no row
table_pairs_sharing_value           joined pairs whose value (such as a     pairs joined
                                    url) another joined pair has too
table_values_with_several_captions  values of the table                     values of the table
table_values_unused                 values that no kept pair has            values of the table
=================================== ======================================= ======================

Lengths, flags and duplicates are those of a pair's first caption.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mispair.core.files import UserError
from mispair.core.metrics import Row
from mispair.core.words import percent
from mispair.pairs.index.books import IMAGE, KEY, Books, read_columns
from mispair.pairs.index.corpus import Pairs
from mispair.pairs.index.faults import Fault
from mispair.pairs.index.identities import text_hashes
from mispair.pairs.index.policy import MOST_UNDECIDED

log = logging.getLogger(__name__)

COLUMNS = (
    "words", "characters", "person", "non_ascii", "control", "width", "height", "sha256", "licence",
    "caption",
)  # fmt: skip
"""Columns of an index that `CorpusStatistics.add` reads."""

BINS = {
    "words": (*range(0, 40, 2), 40, 50, 60, 80, 100, 200),
    "characters": (*range(0, 200, 10), 200, 250, 300, 400, 500, 1000),
    "side": (0, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 768, 1024, 2048),
}
"""Lower edges of the bins; texts of more than about 60 words are cut by CLIP's tokenizer."""

STATUSES = 20
"""Commonest download statuses, or licences, with a row of their own; others are one, ``other``."""

STATUS_LENGTH = 80
"""Characters after which a status, which may be a whole error message, is cut."""


class Tally:
    """How often each value occurs: exact percentiles of millions of values in little memory."""

    def __init__(self) -> None:
        self.values = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.int64)

    def add(self, values: np.ndarray) -> None:
        """Count more values."""
        new, counts = np.unique(values, return_counts=True)
        both = np.concatenate([self.values, new])
        self.values, position = np.unique(both, return_inverse=True)
        former, self.counts = self.counts, np.zeros(len(self.values), np.int64)
        np.add.at(self.counts, position, np.concatenate([former, counts]))

    @property
    def n(self) -> int:
        """Number of values that were counted."""
        return int(self.counts.sum())

    def mean(self) -> float:
        """Return the mean."""
        return float((self.values * self.counts).sum() / self.n)

    def percentile(self, percent: int) -> float:
        """Return the smallest value that `percent` in 100 values do not exceed."""
        rank = max(-(-percent * self.n // 100), 1)
        return self.values[np.searchsorted(np.cumsum(self.counts), rank)].item()

    def histogram(self, edges: tuple[int, ...]) -> np.ndarray:
        """Return the number of values from each edge to below the next; the last bin is open."""
        bins = np.searchsorted(edges, self.values, side="right") - 1
        return np.bincount(bins, self.counts, len(edges)).astype(np.int64)


class CorpusStatistics:
    """Statistics of the kept pairs; `add` takes one group after another."""

    def __init__(self) -> None:
        self._tallies = {
            name: Tally() for name in ("words", "characters", "width", "height", "ratio", "side")
        }
        self._flags: Counter[str] = Counter()
        self._licences: Counter[str] = Counter()
        self._empty = 0
        self._captions = 0
        self._hashes: list[np.ndarray] = []
        self._texts: list[np.ndarray] = []

    def add(self, table: pa.Table, texts: np.ndarray) -> None:
        """Add the kept pairs of a group: their rows of the index, with at least `COLUMNS`.

        `texts` are the identities of all their captions, (m,) uint64, in any order.
        """
        wide, high = table["width"].to_numpy(), table["height"].to_numpy()
        words = table["words"].to_numpy()
        measured = {
            "words": words,
            "characters": table["characters"].to_numpy(),
            "width": wide,
            "height": high,
            "ratio": wide / high,
            "side": np.minimum(wide, high),
        }
        for name, values in measured.items():
            self._tallies[name].add(values)
        for name in ("person", "non_ascii", "control"):
            self._flags[name] += pc.sum(table[name]).as_py() or 0
        lines = pc.match_substring_regex(table["caption"], r"[\r\n]")
        self._flags["several_lines"] += pc.sum(lines).as_py() or 0
        self._empty += int((words == 0).sum())
        self._hashes.append(text_hashes(table["sha256"].drop_null()))
        counts = pc.value_counts(table["licence"].drop_null().combine_chunks())
        for row in counts.to_pylist():
            self._licences[_plain(row["values"])] += row["counts"]
        self._captions += len(texts)
        self._texts.append(np.unique(texts))

    def rows(self, books: Books, caption_ids: np.ndarray, image_ids: np.ndarray) -> list[Row]:
        """Return the rows of counts, captions and images, with the books after all policies.

        The identities of the kept pairs' first captions and images are (n,) uint64, in any order.
        """
        kept, read = books.kept, books.read
        texts = np.unique(_together(self._texts))
        hashes = _together(self._hashes)
        images, shared_images = _distinct(image_ids)
        refused = books.reasons.get(Fault.EMPTY_CAPTION)
        empty = self._empty + (refused.count if refused else 0)
        rows = [
            *_books(books),
            _row("caption_empty_share", _share(empty, read), read),
            _row("caption_duplicate_share", _share(_distinct(caption_ids)[1], kept), kept),
            *(
                _row(f"caption_{name}_share", _share(self._flags[name], kept), kept)
                for name in ("person", "non_ascii", "control", "several_lines")
            ),
            _row("captions_further", self._captions - kept, kept),
            _row("captions_distinct", len(texts), self._captions),
        ]
        for name in ("words", "characters"):
            tally = self._tallies[name]
            rows += _spread(f"caption_{name}", tally, ("mean", "median", "p95", "max"))
            rows += _histogram(f"caption_{name}_histogram", tally, BINS[name])
        for name, metric in (("width", "width"), ("height", "height"), ("ratio", "aspect_ratio")):
            tally = self._tallies[name]
            rows += _spread(f"image_{metric}", tally, ("min", "p05", "median", "p95", "max"))
        rows += _histogram("image_shorter_side_histogram", self._tallies["side"], BINS["side"])
        return [
            *rows,
            *_ranked("licences", "licence", self._licences),
            _row("images_distinct", images, kept),
            _row("image_duplicate_share", _share(shared_images, kept), kept),
            _row(
                "image_sha256_duplicate_share",
                _share(_distinct(hashes)[1], len(hashes)),
                len(hashes),
            ),
        ]


def refuse_undecided_lines(rows: Iterable[Row], index: Mapping[str, Path]) -> None:
    """Refuse captions of several lines of which nobody said whether they are several captions.

    `rows` are those of `corpus_rows`; the metadata of each group's index has the setting.

    Raises
    ------
    UserError
        If more than `MOST_UNDECIDED` of the pairs have such a caption.
    """
    share = next(row for row in rows if row["metric"] == "caption_several_lines_share")
    settings = [read_columns(path, [])[1].get("captions_per_line") for path in index.values()]
    if "null" not in settings or not share["value"] > 0:
        return
    joined = (
        f"{percent(share['value'], 1)} of {share['n']:,} pairs have a caption of several lines, "
        "which is one caption so far"
    )
    if share["value"] > MOST_UNDECIDED:
        raise UserError(
            f"gather_index: {joined}. Set `index_shards: captions_per_line` to true if each line "
            "is a caption of its own, or to false if the lines are one text."
        )
    log.warning("%s (index_shards.captions_per_line)", joined)


def corpus_rows(
    index: Mapping[str, Path], pairs: Pairs, kept: np.ndarray, books: Books
) -> list[Row]:
    """Return all rows of a corpus, from the index of each group in the order of `pairs`.

    `kept`, (n,) bool, marks the pairs that the corpus holds; the books are those after all
    policies.
    """
    statistics, ended, compared = CorpusStatistics(), [], []
    for path, start, end in zip(index.values(), pairs.starts, pairs.starts[1:], strict=False):
        table, metadata = read_columns(path, list(COLUMNS))
        in_group = kept[start:end]
        statistics.add(table.filter(in_group), pairs.texts(start + np.flatnonzero(in_group)))
        ended.append(metadata.get("downloads", "{}"))
        compared.append(metadata.get("written", "{}"))
    rows = statistics.rows(books, pairs.caption_ids[kept], pairs.image_ids[kept])
    return rows + downloads(ended) + written(compared)


def downloads(metadata: Iterable[str]) -> list[Row]:
    """Add up how downloads ended, commonest first, from the JSON of each group."""
    statuses: Counter[str] = Counter()
    for text in metadata:
        for status, count in json.loads(text).items():
            statuses[_plain(status)] += int(count)
    return _ranked("downloads", "status", statuses)


def _ranked(metric: str, key: str, counts: Counter[str]) -> list[Row]:
    """Return a row for each of the `STATUSES` commonest texts, and one for the others."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    remaining = sum(count for _, count in ranked[STATUSES:])
    rows = [*ranked[:STATUSES], *([("other", remaining)] if remaining else [])]
    n = sum(counts.values())
    return [{"metric": metric, key: name, "value": count, "n": n} for name, count in rows]


def written(metadata: Iterable[str]) -> list[Row]:
    """Add up samples that img2dataset wrote and were not found, and the other way round.

    Each group has the JSON of `mispair.pairs.shards.sources.compare_counts`.
    """
    total: Counter[str] = Counter()
    for text in metadata:
        total.update(json.loads(text))
    names = ("missing", "surplus") if total["expected"] else ()
    return [_row(f"written_{name}", total[name], total["expected"]) for name in names]


def _plain(status: str) -> str:
    """Return a status as one short line of printable text."""
    line = " ".join("".join(c if c.isprintable() else " " for c in status).split())
    return line if len(line) <= STATUS_LENGTH else line[: STATUS_LENGTH - 1] + "…"


def _books(books: Books) -> list[Row]:
    rows = [_row(name, int(count), books.read) for name, count in books.counts().items()]
    for reason, reason_count in sorted(books.reasons.items()):
        kind = "excluded" if reason in (KEY, IMAGE) else "rejected"
        rows.append({**_row(f"{kind}_reason", reason_count.count, books.read), "reason": reason})
    return [
        *rows,
        _row("quarantined_share", books.quarantined_share, books.read),
        _row("damaged_shard_share", books.damaged_share, books.shards),
    ]


def _row(metric: str, value: float, n: int) -> dict[str, Any]:
    return {"metric": metric, "value": value, "n": n}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _distinct(identities: np.ndarray) -> tuple[int, int]:
    """Return the number of distinct values, and of values that occur more than once."""
    counts = np.unique(identities, return_counts=True)[1]
    return len(counts), int(counts[counts > 1].sum())


def _together(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def _spread(metric: str, tally: Tally, quantiles: tuple[str, ...]) -> list[Row]:
    percents = {"min": 0, "p05": 5, "median": 50, "p95": 95, "max": 100}
    return [
        _row(
            f"{metric}_{name}",
            tally.mean() if name == "mean" else tally.percentile(percents[name]),
            tally.n,
        )
        for name in quantiles
    ]


def _histogram(metric: str, tally: Tally, edges: tuple[int, ...]) -> list[Row]:
    highs = [*edges[1:], None]
    return [
        {**_row(metric, count, tally.n), "bin_low": low, "bin_high": high}
        for count, low, high in zip(tally.histogram(edges), edges, highs, strict=True)
    ]
