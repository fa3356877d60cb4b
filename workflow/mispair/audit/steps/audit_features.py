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

BLOCK = 8192
"""Images that probes look at at a time."""


class Settings(settings.Settings):
    """`audit_features` has no settings."""


def run(
    settings: Settings,
    *,
    corpus: Path,
    captions: list[Path],
    features: list[Path],
    feature_rows: list[Path],
    trusted: Path,
    words: list[Path],
    absent: Path,
) -> None:
    """Write the share of namings of each feature that are wrong.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    corpus : Path
        The kept pairs; every caption of a picture counts.
    captions : list of Path
        Texts of the captions.
    features, feature_rows : list of Path
        Cached features of images, and the tables of their rows; those of captions are not read.
    trusted : Path
        Keys of pairs known to be right, from which probes learn.
    words : list of Path
        The user's list of features and words; none takes the vocabulary of generated scenes.
    absent : Path
        Written: metrics.
    """
    import numpy as np
    import pyarrow as pa

    from mispair.audit.absent_features import absent_rows, fit_probes
    from mispair.audit.embeddings import images_of_index
    from mispair.audit.mentions import named_features, read_words
    from mispair.audit.pairs import Audited
    from mispair.audit.trusted import read_trusted
    from mispair.core import files, metrics, seeds
    from mispair.pairs.captions.caption_texts import read_captioned_pairs
    from mispair.pairs.scenes.scene_features import VOCABULARY
    from mispair.towers.features import read_part

    if words:
        vocabulary = read_words(words[0])
    else:
        vocabulary = [named for values in VOCABULARY.values() for named in values.values()]
    pairs = read_captioned_pairs(corpus, 0)
    audited = Audited.of(pairs)
    packed = named_features(captions, audited.caption_ids, vocabulary)
    known = read_trusted([trusted], pairs.table["key"])[audited.image]
    rows_of_images = pairs.table["row"].to_numpy()
    tables = {path.stem: path for path in feature_rows}
    groups = dict(pairs.by_group())
    origin = {"pairs_fingerprint": pairs.fingerprint}

    def parts(wanted: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield some pairs and the features of their images, part by part."""
        for path in sorted(features):
            if path.stem not in groups:
                continue
            part = read_part(path, tables[path.stem])
            origin.setdefault("towers", part.metadata.get("towers", ""))
            places = groups[path.stem]
            rows = rows_of_images[places]
            keys = pairs.table["key"].take(pa.array(places)).to_numpy()
            images = images_of_index(part, rows, keys)[:, 0]
            chosen, of_place = audited.of_pictures(places)
            mine = wanted[chosen]
            for start in range(0, int(mine.sum()), BLOCK):
                some = np.flatnonzero(mine)[start : start + BLOCK]
                block = images[rows[of_place[some]]].astype(np.float32)
                if not np.isfinite(block).all():
                    raise files.UserError(f"{part.name}: a feature is not finite. Encode it again.")
                yield chosen[some], block

    def named(chosen: np.ndarray) -> np.ndarray:
        bits = np.unpackbits(packed[chosen], axis=1, count=len(vocabulary))
        return bits.astype(bool)

    found = [*parts(known)]
    right = np.concatenate([chosen for chosen, _ in found])
    examples = np.concatenate([block for _, block in found])
    folds = seeds.generator(0, "audit", "features", "folds").integers(0, 2, len(right))
    probes = fit_probes(examples, named(right), folds)
    answers = probes.answers(examples)[folds, np.arange(len(right))]
    shown, number = np.zeros((2, len(vocabulary)))
    for chosen, block in parts(~known):
        of_block = named(chosen)
        shown += (probes.answers(block) & of_block).sum(axis=1).mean(axis=0)
        number += of_block.sum(axis=0)
    labels = [words_of_feature[0] for words_of_feature in vocabulary]
    rows = absent_rows(answers, named(right), shown, number, labels)
    metrics.write_metrics(absent, rows, origin)
    log.info("%d of %d features can be judged", rows[-1]["value"], len(vocabulary))
