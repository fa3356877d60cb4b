"""The pairs that are audited: every caption of every picture, with both embeddings."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.audit.embeddings import (
    Embeddings,
    PairEmbeddings,
    all_places,
    place_images,
    place_texts,
)
from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import CaptionedPairs
from mispair.pairs.corruption.draws import column
from mispair.pairs.index.identities import hexadecimal
from mispair.towers.features import PairedFeatures, gather, read_part


@dataclass(frozen=True)
class Audited:
    """The n pairs of pictures and captions that are audited, in order of keys.

    Attributes
    ----------
    image : (n,) int64 array
        Which picture of the corpus.
    caption_ids : (n,) uint64 array
        Identity of the caption.
    """

    image: np.ndarray
    caption_ids: np.ndarray

    @classmethod
    def of(cls, pairs: CaptionedPairs) -> Audited:
        """Take every caption of every picture, the first one first."""
        captions = pairs.alternatives
        first = np.ones(captions.shape, bool)
        for nth in range(1, captions.shape[1]):
            # Pictures with fewer captions repeat their first one.
            first[:, nth] = (captions[:, :nth] != captions[:, nth, None]).all(axis=1)
        places = np.nonzero(first)
        return cls(places[0], captions[places])

    def of_pictures(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of some pictures (p,), and which picture each has; (m,) ints each."""
        return all_places(places, self.image)

    def __len__(self) -> int:
        return len(self.image)


@contextmanager
def embedded(
    audited: Audited,
    position: np.ndarray,
    pairs: CaptionedPairs,
    features: Sequence[Path],
    rows: Sequence[Path],
    projections: tuple[np.ndarray, np.ndarray],
    towers: str | None,
    folder: Path,
) -> Iterator[PairEmbeddings]:
    """Yield embeddings of all pairs, which are deleted afterwards.

    Parts are read one at a time. Embeddings are on scratch space in `folder`, 2 bytes a number.

    Parameters
    ----------
    audited : Audited
        n pairs of the corpus `pairs`.
    position : (n,) int array
        Which row of the embeddings each pair has.
    features, rows : sequence of Path
        Cached features, and the tables of what their rows are.
    projections : two (d, e) arrays
        Of images and of texts.
    towers : str
        Fingerprint of the towers that the projections belong to.

    Raises
    ------
    UserError
        If features are missing, unusable, or of other towers.
    """
    tables = {path.stem: path for path in rows}
    if tables.keys() != {path.stem for path in features}:
        raise UserError("audit: features and their tables of rows must have the same names.")
    groups = dict(pairs.by_group())
    order = np.argsort(audited.caption_ids, kind="stable")
    captions = audited.caption_ids[order]
    row_of_image = pairs.table["row"].to_numpy()
    shape = len(audited), projections[0].shape[1]
    with ExitStack() as stack:
        images, texts = (
            Embeddings(stack.enter_context(tempfile.TemporaryFile(dir=folder)), *shape)
            for _ in range(2)
        )
        embeddings = PairEmbeddings(images, texts, position)
        for path in sorted(features):
            part = read_part(path, tables[path.stem])
            if part.metadata.get("towers") != towers:
                raise UserError(
                    f"{path}: comes from other towers than the projection. Delete it and run again."
                )
            if len(part.image_features) and path.stem in groups:
                places = groups[path.stem]
                chosen, of_place = audited.of_pictures(places)
                keys = pairs.table["key"].take(pa.array(places[of_place])).to_numpy()
                place_images(
                    part, row_of_image[places[of_place]], keys, position[chosen],
                    projections[0], images,
                )  # fmt: skip
            if len(part.text_features):
                place_texts(part, captions, position[order], projections[1], texts)
            embeddings.release()
        for rows_of, what in ((images, "image"), (texts, "caption")):
            missing = np.flatnonzero(~rows_of.filled[position])
            if len(missing):
                key = pairs.table["key"][int(audited.image[missing[0]])]
                raise UserError(
                    f"audit: the features hold no {what} of the pair {key!s} ({len(missing)} are "
                    "missing). Delete the features and run again."
                )
        yield embeddings


def refuse_unusable(corpus: Path, texts: np.ndarray, least: int) -> None:
    """Refuse a corpus of too few pairs, or of captions that are all the same words.

    `texts` (n,) are numbers from `text_groups`, and `least` is the least number of pairs; `corpus`
    is for the message.

    Raises
    ------
    UserError
        If an audit would have no result.
    """
    if len(texts) < least:
        raise UserError(
            f"audit_pairs: {corpus} holds {len(texts)} pairs, too few for a useful interval. Give "
            f"at least {least}."
        )
    if len(np.unique(texts)) < 2:
        raise UserError(
            f"audit_pairs: all captions of {corpus} are the same words, so there is nothing to "
            "rank a caption among. Check the column or sidecar that captions were read from."
        )


def features_of_sample(
    pairs: CaptionedPairs,
    sample: np.ndarray,
    sources: Sequence[np.ndarray],
    features: Sequence[Path],
    rows: Sequence[Path],
) -> PairedFeatures:
    """Return features before the projections of some pairs, a draw for each of several pairings.

    Parameters
    ----------
    pairs : CaptionedPairs
        The corpus.
    sample : (m,) int array
        The pairs.
    sources : sequence of (n,) int arrays
        For each pairing the pair whose caption each pair has.
    features, rows : sequence of Path
        As `embedded` takes them.
    """
    table = pairs.table.take(sample).to_pandas()
    for draw, source in enumerate(sources):
        captions = hexadecimal(pairs.caption_ids[source[sample]])
        table[column("caption_id", draw)] = captions.to_pylist()
        table[column("text_changed", draw)] = False
    tables = {path.stem: path for path in rows}
    parts = {path.stem: partial(read_part, path, tables[path.stem]) for path in features}
    try:
        return gather(parts, table, [np.arange(len(sample))] * len(sources))
    except ValueError as error:
        raise UserError(f"audit: {error}.") from error
