"""What a corpus is made of: counts, captions, images and downloads, as rows of metrics.

Each row has ``metric``, ``value`` and ``n``, what the value is a share or a number of. A
percentile is the smallest value that at least this share of the values do not exceed (nearest
rank): a value that occurs. The last bin of a histogram is open: its ``bin_high`` is null.

=================================== ======================================= ======================
metric                              value                                   n
=================================== ======================================= ======================
read, kept, rejected, excluded      samples                                 samples read
rejected_reason, excluded_reason    samples, for each ``reason``            samples read
quarantined_share                   (rejected + excluded) / read            samples read
damaged_shard_share                 shards not read to their end            shards
caption_empty_share                 no words: rejected for it, or kept all  samples read
                                    the same, if the settings say so
caption_duplicate_share             the caption's text has another pair too pairs kept
caption_person_share                holds ``<PERSON>``                      pairs kept
caption_non_ascii_share             holds a character beyond ASCII          pairs kept
caption_control_share               holds a bidirectional or other format   pairs kept
                                    character
captions_further                    further captions of pairs               pairs kept
captions_distinct                   distinct texts, further ones too        captions
caption_words_X                     X: mean, median, p95, max               pairs kept
caption_words_histogram             captions with ``bin_low`` <= words <    pairs kept
                                    ``bin_high``
caption_characters_X, _histogram    the same for characters                 pairs kept
image_width_X, image_height_X       X: min, p05, median, p95, max; pixels   pairs kept
image_aspect_ratio_X                the same for width / height             pairs kept
image_shorter_side_histogram        images, by pixels of the shorter side   pairs kept
images_distinct                     images with bytes of their own          pairs kept
image_duplicate_share               the same bytes are in another pair too  pairs kept
image_sha256_duplicate_share        the ``sha256`` of the sample's json is  pairs that have one
                                    in another pair too
downloads                           attempts, for each ``status``           attempts
written_missing, written_surplus    samples that img2dataset wrote and were samples written
                                    not found, or the other way round
=================================== ======================================= ======================

Lengths, flags and duplicates are those of a pair's first caption.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mispair.core.metrics import Row
from mispair.pairs.index.books import IMAGE, KEY, Books
from mispair.pairs.index.policy import EMPTY_CAPTION

COLUMNS = (
    "words", "characters", "person", "non_ascii", "control", "width", "height", "sha256",
)  # fmt: skip
"""Columns of an index that `CorpusStatistics.add` reads."""

BINS = {
    "words": (*range(0, 40, 2), 40, 50, 60, 80, 100, 200),
    "characters": (*range(0, 200, 10), 200, 250, 300, 400, 500, 1000),
    "side": (0, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 768, 1024, 2048),
}
"""Lower edges of the bins; texts of more than about 60 words are cut by CLIP's tokenizer."""

STATUSES = 20
"""Commonest download statuses that have a row of their own; the others are one row, ``other``."""

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
        """Return how many values lie from each edge to below the next, or above the last."""
        bins = np.searchsorted(edges, self.values, side="right") - 1
        return np.bincount(bins, self.counts, len(edges)).astype(np.int64)


class CorpusStatistics:
    """Statistics of the kept pairs, of which `add` is shown one group after another."""

    def __init__(self) -> None:
        self._tallies = {
            name: Tally() for name in ("words", "characters", "width", "height", "ratio", "side")
        }
        self._flags: Counter[str] = Counter()
        self._empty = 0
        self._captions = 0
        self._hashes: list[np.ndarray] = []
        self._texts: list[np.ndarray] = []

    def add(self, table: pa.Table, texts: np.ndarray) -> None:
        """Take in the kept pairs of a group.

        Parameters
        ----------
        table : pyarrow.Table
            Their rows of the index, with at least `COLUMNS`.
        texts : (m,) uint64 array
            Identities of all their captions, further ones too, in any order.
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
        self._empty += int((words == 0).sum())
        self._hashes.append(_hashes(table["sha256"].drop_null()))
        self._captions += len(texts)
        self._texts.append(np.unique(texts))

    def rows(self, books: Books, caption_ids: np.ndarray, image_ids: np.ndarray) -> list[Row]:
        """Return the rows of counts, captions and images.

        Parameters
        ----------
        books : Books
            After all policies.
        caption_ids, image_ids : (n,) uint64 arrays
            Identities of the kept pairs' first captions and images, in any order.
        """
        kept, read = books.kept, books.read
        texts = np.unique(_together(self._texts))
        hashes = _together(self._hashes)
        images, shared_images = _distinct(image_ids)
        refused = books.reasons.get(EMPTY_CAPTION)
        empty = self._empty + (refused.count if refused else 0)
        rows = [
            *_books(books),
            _row("caption_empty_share", _share(empty, read), read),
            _row("caption_duplicate_share", _share(_distinct(caption_ids)[1], kept), kept),
            *(
                _row(f"caption_{name}_share", _share(self._flags[name], kept), kept)
                for name in ("person", "non_ascii", "control")
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
            _row("images_distinct", images, kept),
            _row("image_duplicate_share", _share(shared_images, kept), kept),
            _row(
                "image_sha256_duplicate_share",
                _share(_distinct(hashes)[1], len(hashes)),
                len(hashes),
            ),
        ]


def downloads(metadata: Iterable[str]) -> list[Row]:
    """Add up how downloads ended, as img2dataset's ``_stats.json`` tell, commonest first.

    Parameters
    ----------
    metadata : iterable of str
        For each group the JSON of ``{status: count}``.
    """
    statuses: Counter[str] = Counter()
    for text in metadata:
        for status, count in json.loads(text).items():
            statuses[_plain(status)] += int(count)
    ranked = sorted(statuses.items(), key=lambda item: (-item[1], item[0]))
    remaining = sum(count for _, count in ranked[STATUSES:])
    rows = [*ranked[:STATUSES], *([("other", remaining)] if remaining else [])]
    n = sum(statuses.values())
    return [{"metric": "downloads", "status": name, "value": count, "n": n} for name, count in rows]


def written(metadata: Iterable[str]) -> list[Row]:
    """Add up how many samples img2dataset wrote that were not found, or the other way round.

    Parameters
    ----------
    metadata : iterable of str
        For each group the JSON of `mispair.pairs.shards.sources.compare_counts`.
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
    """Return how many differ, and how many have an equal among the others."""
    counts = np.unique(identities, return_counts=True)[1]
    return len(counts), int(counts[counts > 1].sum())


def _together(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def _hashes(texts: pa.ChunkedArray) -> np.ndarray:
    """Return 64-bit hashes of texts; a pair of 12 million agrees by chance in 1 of 250,000 runs."""
    from pandas.util import hash_array

    return hash_array(texts.to_numpy(zero_copy_only=False), categorize=False)


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
