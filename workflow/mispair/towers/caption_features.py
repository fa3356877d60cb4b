"""Features of captions, of which a former job may have encoded some."""

import logging
from collections.abc import Mapping

import numpy as np
import pandas as pd

from mispair.core import files
from mispair.core.files import UserError
from mispair.core.resume import Checkpoints
from mispair.core.reuse import Parts
from mispair.towers.encoding import Encoder, Progress
from mispair.towers.encoding_record import EncodingRecord

log = logging.getLogger(__name__)

CHECKED = 64
"""Captions that are encoded again to see whether their features are still the same bytes."""


def encode_new(
    encoder: Encoder,
    texts: Mapping[str, str],
    kept: Parts,
    record: EncodingRecord,
    states: Checkpoints,
    progress: Progress = lambda number: None,
) -> np.ndarray:
    """Return features (c, d_text) of captions, and encode only those that no former job encoded.

    Rounding depends on the size of a batch, and on some processors on its other captions. So what
    is in a last batch that is not full is neither reused nor taken over, other batches are filled
    up with captions that are known, and `CHECKED` of the former features are made again: if they
    are not the same bytes, all are.

    Parameters
    ----------
    encoder : Encoder
        The towers.
    texts : mapping of str to str
        c captions, by identity.
    kept : Parts
        Features of former jobs with the same towers, settings and code.
    record, states, progress
        As `Encoder.encode_texts` has them.
    """
    ids = [*texts]
    is_reused, features = _former(kept, pd.Index(ids), encoder)
    whole = len(ids) // encoder.batch_size * encoder.batch_size
    is_reused[whole:] = False
    again = np.flatnonzero(is_reused)
    again = again[np.linspace(0, len(again) - 1, min(CHECKED, len(again))).astype(int)]
    if len(again):
        encoded = np.union1d(np.flatnonzero(~is_reused[:whole]), again)
        further = np.setdiff1d(np.arange(whole), encoded)[: -len(encoded) % encoder.batch_size]
        encoded = np.concatenate([np.union1d(encoded, further), np.arange(whole, len(ids))])
        some = [ids[number] for number in encoded]
        before = record.captions, record.truncated
        new = encoder.encode_texts(
            [texts[name] for name in some], some, record, states, progress
        ).numpy()
        same = np.isin(encoded, again)
        if np.array_equal(new[same], features[encoded[same]]):
            features[encoded] = new
            reused = [texts[ids[number]] for number in np.setdiff1d(np.arange(len(ids)), encoded)]
            record.captions += len(reused)
            record.resumed_captions += len(reused)
            record.truncated += encoder.count_truncated(reused)
            progress(len(ids))
            log.info("%d of %d captions were encoded before", len(reused), len(ids))
            return features
        log.info("features of captions depend on their batch here, so all are encoded again")
        record.captions, record.truncated = before
    return encoder.encode_texts([*texts.values()], ids, record, states, progress).numpy()


def _former(kept: Parts, ids: pd.Index, encoder: Encoder) -> tuple[np.ndarray, np.ndarray]:
    """Return which captions have features of former jobs, and an array with these features."""
    is_reused = np.zeros(len(ids), bool)
    features = np.empty((0, encoder.text.width))
    for path, table in kept.named():
        try:
            former, _ = files.read_parquet(table)
            former = former[: len(former) // encoder.batch_size * encoder.batch_size]
            places = ids.get_indexer(pd.Index(former["id"]))
            new = (places >= 0) & ~is_reused[places]
            if not new.any():
                continue
            tensors, _ = files.read_tensors(path)
            rows = tensors["text_features"][former["row"].to_numpy()[new]]
        except (UserError, KeyError, IndexError) as error:
            log.warning("%s: not reused (%s)", path, error)
            continue
        if not len(features):
            features = np.empty((len(ids), encoder.text.width), rows.dtype)
        features[places[new]] = rows
        is_reused[places[new]] = True
    return is_reused, features
