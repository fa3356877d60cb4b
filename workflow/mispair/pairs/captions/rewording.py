"""Rewording the captions of a whole corpus, one group of shards at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import CaptionedPairs, read_texts
from mispair.pairs.captions.wording import Reworded
from mispair.pairs.corruption.key_draws import streams
from mispair.pairs.index.index import caption_id
from mispair.pairs.scenes.scene_captions import read_caption

Edit = Callable[[list[str], np.ndarray], Reworded]
"""Rewords captions, given the streams of their pairs' draws; see `wording`."""


@dataclass(frozen=True)
class RewordedCorpus:
    """A corpus after its captions were reworded; n is the number of its pairs.

    Attributes
    ----------
    given : (n,) uint64 array
        Identity of each pair's new caption.
    written_ids : (c,) uint64 array
        New texts that no pair of the corpus had before, sorted.
    written : pyarrow.LargeStringArray
        Those texts.
    total, changed, spared : int
        As in `wording.Reworded`.
    """

    given: np.ndarray
    written_ids: np.ndarray
    written: pa.LargeStringArray
    total: int
    changed: int
    spared: int

    @property
    def changed_share(self) -> float:
        """Share of the named features, or of the content words, that were changed."""
        return self.changed / max(self.total, 1)


def reword_corpus(
    pairs: CaptionedPairs,
    index: Mapping[str, Path],
    edit: Edit,
    *name: object,
    truth: Mapping[str, list[str]] | None = None,
) -> RewordedCorpus:
    """Reword the caption of every pair.

    Parameters
    ----------
    pairs, index : CaptionedPairs, mapping of str to Path
        The corpus, and the index of each group, where the texts are.
    edit : Edit
        What to do to captions.
    *name
        Names the draws: a seed and a scheme.
    truth : mapping of str to list of str, optional
        The features that each pair's caption names, by key; captions have to agree.

    Raises
    ------
    UserError
        If a text is missing, or a caption names other features than the truth has.
    """
    given = pairs.caption_ids.copy()
    ids, texts = [np.zeros(0, np.uint64)], [pa.array([], pa.large_string())]
    counts = np.zeros(3, np.int64)
    for group, rows in pairs.by_group():
        if group not in index:
            raise UserError(f"corrupt_captions: the index of group {group} is missing.")
        originals = read_texts([index[group]], given[rows])
        captions = [originals[number] for number in given[rows].tolist()]
        keys = list(pairs.keys(rows))
        if truth is not None:
            _check(keys, captions, truth)
        new = edit(captions, streams(keys, *name))
        counts += new.total, new.changed, new.spared
        changed = [i for i, text in enumerate(new.captions) if text != captions[i]]
        distinct = {new.captions[i]: 0 for i in changed}
        distinct = {text: int(caption_id(text), 16) for text in distinct}
        given[rows[changed]] = [distinct[new.captions[i]] for i in changed]
        ids.append(np.fromiter(distinct.values(), np.uint64, len(distinct)))
        texts.append(pa.array(list(distinct), pa.large_string()))
    written_ids, first = np.unique(np.concatenate(ids), return_index=True)
    fresh = ~np.isin(written_ids, pairs.alternatives)
    written = pa.concat_arrays(texts).take(pa.array(first[fresh]))
    return RewordedCorpus(given, written_ids[fresh], written, *counts.tolist())


def _check(keys: Iterable[str], captions: Iterable[str], truth: Mapping[str, list[str]]) -> None:
    for key, caption in zip(keys, captions, strict=True):
        if key not in truth:
            raise UserError(
                f"corrupt_captions: the ground truth has no features for the key {key!r}. Give the "
                "Parquet tables that were written with the shards."
            )
        if sorted(truth[key]) != sorted(named := read_caption(caption)):
            raise UserError(
                f"corrupt_captions: the caption {caption!r} of {key!r} names "
                f"{', '.join(named) or 'no feature'}, but its ground truth is "
                f"{', '.join(truth[key]) or 'no feature'}. The schemes spurious and missing change "
                "the sentences that make_scenes writes; keep those, or leave the schemes out."
            )
