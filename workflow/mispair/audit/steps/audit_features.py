"""Estimate how often captions name what their picture does not show, feature by feature."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`audit_features` has no settings."""


def run(
    settings: Settings, *, corpus: Path, captions: list[Path], features: list[Path],
    feature_rows: list[Path], trusted: Path, words: list[Path], absent: Path,
    left_out: list[Path] | None = None,
) -> None:  # fmt: skip
    """Write the share of namings of each feature that are wrong.

    Every caption of a picture counts; probes learn from the trusted pairs. Without the user's list
    of features and words, the vocabulary of generated scenes is taken.
    """
    from mispair.audit.absent_features import measure
    from mispair.audit.mentions import named_features, read_words
    from mispair.audit.pairs import Audited, image_features
    from mispair.audit.trusted import read_trusted
    from mispair.core import metrics
    from mispair.pairs.captions.caption_texts import read_captioned_pairs
    from mispair.pairs.scenes.scene_features import VOCABULARY

    vocabulary = read_words(words[0]) if words else [
        named for values in VOCABULARY.values() for named in values.values()
    ]  # fmt: skip
    pairs = read_captioned_pairs(corpus, 0)
    audited = Audited.of(pairs)
    is_trusted = read_trusted([trusted], pairs.table["key"], left_out)[audited.image]
    origin = {"pairs_fingerprint": pairs.fingerprint}

    def blocks(selected: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        parts = image_features(audited, pairs, features, feature_rows, selected)
        for chosen, values, towers in parts:
            origin.setdefault("towers", towers)
            yield chosen, values

    packed = named_features(captions, audited.caption_ids, vocabulary)
    rows = measure(blocks, packed, is_trusted, [words_of[0] for words_of in vocabulary])
    metrics.write_metrics(absent, rows, origin)
    log.info("%d of %d features can be judged", rows[-1]["value"], len(vocabulary))
