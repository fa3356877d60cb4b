"""Pairings of the repair: trusted pairs spared, captions replaced, pairs dropped, by draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import texts_by_id
from mispair.pairs.corruption.draws import SOURCE, WRITTEN, column
from mispair.repair.rules import DROPPED, REPLACED


@dataclass(frozen=True)
class Draw:
    """The captions of n pairs in one draw of the corruption.

    Attributes
    ----------
    caption_ids : (n,) array of str
        Caption of each pair.
    swapped : (n,) bool array
        Whether it is the caption of another pair.
    right : (n,) bool array
        Whether its text is the pair's own.
    sources : (n,) int64 array, optional
        Position of the pair that the caption came from; None where no pair has several captions.
    """

    caption_ids: np.ndarray
    swapped: np.ndarray
    right: np.ndarray
    sources: np.ndarray | None = None


def spared(pairing: pd.DataFrame, original: pd.Series, trusted: np.ndarray, draw: int) -> Draw:
    """Return the captions of a draw; trusted pairs have their own under every scheme.

    Parameters
    ----------
    pairing : DataFrame
        Of a scheme at a rate.
    original : Series
        The pairs' own captions, in the order of the pairing.
    trusted : (n,) bool array
        Trusted pairs.
    draw : int
        Number of the draw.
    """
    ids = pairing[column("caption_id", draw)].to_numpy(object).copy()
    swapped = pairing[column("swapped", draw)].to_numpy(bool).copy()
    right = ~pairing[column("text_changed", draw)].to_numpy(bool)
    ids[trusted], swapped[trusted], right[trusted] = original.to_numpy(object)[trusted], False, True
    name = column(SOURCE, draw)
    if name not in pairing:
        return Draw(ids, swapped, right)
    sources = np.where(trusted, np.arange(len(ids)), pairing[name])
    return Draw(ids, swapped, right, sources)


def repaired(before: Draw, actions: np.ndarray, new_ids: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns of a repaired pairing for one draw.

    Parameters
    ----------
    before : Draw
        Captions before.
    actions : (n,) int array
        Action for each pair (`mispair.repair.rules`).
    new_ids : (n,) array of str
        New caption of each pair; not read where it is not used.
    """
    replaced = actions == REPLACED
    sources = {}
    if before.sources is not None:
        sources[SOURCE] = np.where(replaced, WRITTEN, before.sources)
    return {
        "caption_id": np.where(replaced, new_ids, before.caption_ids),
        "swapped": before.swapped & ~replaced,
        "text_changed": ~before.right | replaced,
        "kept": actions != DROPPED,
        **sources,
    }


def texts_of(captions: Sequence[Path], ids: pd.Series) -> np.ndarray:
    """Return the texts of captions by their identities, from tables of caption_id and caption.

    Raises
    ------
    UserError
        If a caption is in no table.
    """
    texts = texts_by_id(captions, ids.tolist())
    if missing := [one for one in ids if one not in texts]:
        raise UserError(
            f"{', '.join(map(str, captions))}: have no text of the caption {missing[0]}. Delete "
            "these files and run again."
        )
    return ids.map(texts).to_numpy(object)


def aligned(table: pd.DataFrame, keys: pd.Series, path: Path) -> pd.DataFrame:
    """Return the rows of a table with a column ``key`` in the order of `keys`.

    Raises
    ------
    UserError
        If a key is not in the table.
    """
    positions = pd.Index(table["key"]).get_indexer(pd.Index(keys))
    if (positions < 0).any():
        missing = keys.iloc[int(np.argmin(positions))]
        raise UserError(f"{path}: has no row for the pair {missing!r}. Delete it and run again.")
    return table.iloc[positions].reset_index(drop=True)


KEPT_METADATA = ("scheme", "nominal", "draws", "seed", "pairs_fingerprint")
"""Metadata of a pairing that also hold for the repaired one."""


def metadata_of(origin: Mapping[str, str], rate: float, rule: str) -> dict[str, str]:
    """Return the metadata of a repaired pairing: of the corruption before, and the rule."""
    kept = {name: origin[name] for name in KEPT_METADATA if name in origin}
    return {**kept, "nominal": repr(rate), "repair": rule}
