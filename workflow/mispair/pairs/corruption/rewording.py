"""Schemes that reword the caption of every pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import CaptionedPairs, read_named_features, read_texts
from mispair.pairs.captions.wording import Reworded
from mispair.pairs.corruption.corrupted import STEP, Corrupted, Sources
from mispair.pairs.corruption.key_draws import streams
from mispair.pairs.index.index import caption_id
from mispair.pairs.scenes.scene_captions import read_caption

Edit = Callable[[list[str], np.ndarray], Reworded]
"""From captions and their streams of draws (`key_draws.streams`) to new captions."""


def reword(
    pairs: CaptionedPairs,
    scheme: str,
    seed: int,
    sources: Sources,
    edit: Edit,
    *,
    share: str,
    spared: str = "",
    check_features: bool = False,
) -> Corrupted:
    """Reword the caption of every pair, one group of shards at a time.

    Parameters
    ----------
    scheme : str
        Name of the draws.
    edit : callable
        What is done to the captions of a group.
    share : str
        Name of the metadatum of the realised rate.
    spared : str
        Note on what was drawn and stays, with places for ``spared`` and ``total``.
    check_features : bool
        Whether captions must name exactly the features that the ground truth has for them.

    Raises
    ------
    UserError
        If a caption is checked and fails, or the index of a group is missing.
    """
    truth = read_named_features(sources.truth) if check_features else None
    given = pairs.caption_ids.copy()
    ids, texts = [np.zeros(0, np.uint64)], [pa.array([], pa.large_string())]
    total = changed = stay = 0
    for group, rows in pairs.by_group():
        if group not in sources.index:
            raise UserError(f"corrupt_captions: the index of group {group} is missing.")
        originals = read_texts([sources.index[group]], given[rows])
        captions = [originals[number] for number in given[rows].tolist()]
        keys = list(pairs.keys(rows))
        if truth is not None:
            _check(keys, captions, truth)
        new = edit(captions, streams(keys, seed, STEP, scheme))
        total, changed, stay = total + new.total, changed + new.changed, stay + new.spared
        edited = [i for i, text in enumerate(new.captions) if text != captions[i]]
        new_texts = dict.fromkeys(new.captions[i] for i in edited)
        distinct = {text: int(caption_id(text), 16) for text in new_texts}
        given[rows[edited]] = [distinct[new.captions[i]] for i in edited]
        ids.append(np.fromiter(distinct.values(), np.uint64, len(distinct)))
        texts.append(pa.array(list(distinct), pa.large_string()))
    written_ids, first = np.unique(np.concatenate(ids), return_index=True)
    fresh = ~np.isin(written_ids, pairs.alternatives)
    return Corrupted(
        given,
        np.zeros(len(given), bool),
        {share: repr(changed / max(total, 1))},
        spared.format(spared=stay, total=total) if stay else "",
        written_ids[fresh],
        pa.concat_arrays(texts).take(pa.array(first[fresh])),
    )


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
