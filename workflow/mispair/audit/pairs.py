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

from mispair.audit.embeddings import Embeddings, place_images, place_texts
from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import CaptionedPairs
from mispair.pairs.corruption.swap_draws import column
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import hexadecimal, identities
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
            # Pictures with fewer captions have their first one again.
            first[:, nth] = (captions[:, :nth] != captions[:, nth, None]).all(axis=1)
        places = np.nonzero(first)
        return cls(places[0], captions[places])

    def of_pictures(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of some pictures, and which of these each pair has.

        Parameters
        ----------
        places : (p,) int array
            Pictures of the corpus.

        Returns
        -------
        pairs, which : (m,) int arrays
            Positions of the pairs, and places in `places`.
        """
        first, end = (np.searchsorted(self.image, places, side) for side in ("left", "right"))
        counts = end - first
        which = np.repeat(np.arange(len(places)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return first[which] + within, which

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
) -> Iterator[tuple[Embeddings, Embeddings]]:
    """Yield embeddings of pictures and of captions of all pairs; they are gone afterwards.

    Parts are read one at a time, and embeddings are kept on scratch space in `folder`, 2 bytes a
    number.

    Parameters
    ----------
    audited : Audited
        The pairs.
    position : (n,) int array
        Which row of the embeddings each pair has.
    pairs : CaptionedPairs
        The corpus.
    features, rows : sequence of Path
        Cached features, and the tables of what their rows are.
    projections : two (d, e) arrays
        Of images and of texts.
    towers : str
        Fingerprint of the towers that the projections belong to.
    folder : Path
        For scratch space.

    Raises
    ------
    UserError
        If features are missing, unusable, or of other towers.
    """
    tables = {path.stem: path for path in rows}
    if tables.keys() != {path.stem for path in features}:
        raise UserError("audit: features and their tables of rows go by the same names.")
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
                place_texts(part, captions, order, position, projections[1], texts)
            for embeddings in (images, texts):
                embeddings.release()
        number = np.empty(len(audited), np.int64)
        number[position] = np.arange(len(audited))
        for embeddings, what in ((images, "image of the pair"), (texts, "caption of the pair")):
            if not embeddings.filled.all():
                missing = np.flatnonzero(~embeddings.filled)
                key = pairs.table["key"][int(audited.image[number[missing[0]]])]
                raise UserError(
                    f"audit: the features hold no {what} {key!s} ({len(missing)} are missing). "
                    "Delete the features and run again."
                )
        yield images, texts


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
        table[column("caption_id", draw)] = caption_names(pairs.caption_ids[source[sample]])
        table[column("text_changed", draw)] = False
    tables = {path.stem: path for path in rows}
    parts = {path.stem: partial(read_part, path, tables[path.stem]) for path in features}
    try:
        return gather(parts, table, [np.arange(len(sample))] * len(sources))
    except ValueError as error:
        raise UserError(f"audit: {error}.") from error


def text_groups(texts: Sequence[Path], caption_ids: np.ndarray) -> np.ndarray:
    """Return the same number for captions that are the same words, (n,) int64.

    Case, punctuation and spaces make no difference: such captions are right for the same pictures.

    Parameters
    ----------
    texts : sequence of Path
        Tables of ``caption_id`` and ``caption``.
    caption_ids : (n,) uint64 array
        Identities of captions.
    """
    import pyarrow.compute as pc

    ids, words = [], []
    for path in texts:
        table, _ = read_columns(path, ["caption_id", "caption"])
        ids.append(identities(table["caption_id"]))
        bare = pc.utf8_lower(pc.replace_substring_regex(table["caption"], r"[^\pL\pN]+", " "))
        words.append(pc.utf8_trim_whitespace(bare).cast(pa.large_string()))
    known = np.concatenate([np.zeros(0, np.uint64), *ids])
    codes = pa.chunked_array([chunk for part in words for chunk in part.chunks], pa.large_string())
    numbers = codes.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    order = np.argsort(known, kind="stable")
    place = np.minimum(np.searchsorted(known[order], caption_ids), max(len(known) - 1, 0))
    if len(known) == 0 or (known[order][place] != caption_ids).any():
        raise UserError("audit: a caption of the corpus has no text. Run gather_index again.")
    return numbers[order][place]


def nearest_captions(similar: Path, caption_ids: np.ndarray) -> np.ndarray:
    """Return for each pair other pairs that have the most similar captions, best first.

    Parameters
    ----------
    similar : Path
        What find_similar_captions wrote.
    caption_ids : (n,) uint64 array
        Captions of the pairs.

    Returns
    -------
    (n, k) int64 array
        Positions of pairs; -1 where a caption has fewer neighbours.
    """
    table, _ = read_columns(similar, ["caption_id", "neighbour_ids"])
    ids = identities(table["caption_id"])
    lists = table["neighbour_ids"].combine_chunks()
    offsets = lists.offsets.to_numpy()
    flat = identities(pa.chunked_array([lists.flatten()], pa.string()))
    lengths = np.diff(offsets)
    k = int(lengths.max(initial=0))
    order = np.argsort(caption_ids, kind="stable")
    in_order = caption_ids[order]
    place = np.minimum(np.searchsorted(in_order, flat), max(len(in_order) - 1, 0))
    holders = np.where(in_order[place] == flat, order[place], -1)
    columns = np.arange(k)
    at = np.minimum((offsets[:-1] - offsets[0])[:, None] + columns, max(len(flat) - 1, 0))
    by_caption = np.where(columns < lengths[:, None], holders[at], -1)
    by_id = np.argsort(ids, kind="stable")
    row = np.minimum(np.searchsorted(ids[by_id], caption_ids), max(len(ids) - 1, 0))
    found = ids[by_id][row] == caption_ids
    return np.where(found[:, None], by_caption[by_id][row], -1)


def caption_names(caption_ids: np.ndarray) -> list[str]:
    """Return identities as files have them."""
    names: list[str] = hexadecimal(caption_ids).to_pylist()
    return names
