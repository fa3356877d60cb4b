"""Lay out the pairs whose captions are most likely wrong, and those that could be either."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    samples: int = Field(12, ge=0, le=60, description="Pairs shown of each kind.")
    thumbnail: int = Field(96, ge=16, le=512, description="Longer side of an image, in pixels.")


def run(
    settings: Settings, *, audit: Path, captions: list[Path], index: list[Path],
    shards: list[Path], sources: list[str], suspects: Path,
) -> None:  # fmt: skip
    """Write a piece of HTML with pictures of the pairs; only their images are read from shards.

    Where the share of wrong captions has no lower limit, pairs have a rank and no probability.
    """
    import numpy as np

    from mispair.audit.selection import shown_kinds
    from mispair.core import files
    from mispair.pairs.captions.caption_texts import texts_by_id
    from mispair.pairs.index.books import read_columns
    from mispair.pairs.report.contact_sheet import alone, images_of

    columns = ["key", "caption_id", "probability", "similarity", "score"]
    read, origin = read_columns(audit, columns)
    table = read.to_pandas()
    chance, similarity = (table[name].to_numpy(float) for name in ("probability", "similarity"))
    known = origin["identified"] == "interval"
    kinds = shown_kinds(chance, similarity, settings.samples, known)
    chosen = table.iloc[np.unique(np.concatenate([*kinds.values()]).astype(int))]
    text_of = texts_by_id(captions, chosen["caption_id"].tolist())
    images = images_of(chosen["key"].tolist(), index, shards, sources)
    n, judged = len(table), np.isfinite(chance)

    def suspect(row: Any) -> Suspect:
        pair = row.key, images.get(row.key), text_of[row.caption_id]
        if known or not np.isfinite(row.probability):
            return Suspect(*pair, row.probability)
        rank = 1 + int((chance[judged] > row.probability).sum())
        return Suspect(*pair, np.nan, (rank, n, row.score))

    groups = {
        kind: [suspect(row) for row in table.iloc[rows].itertuples()]
        for kind, rows in kinds.items()
    }
    html = fragment(groups, settings.thumbnail)
    files.write_text(suspects, alone(html, "Suspicious pairs"))
    log.info("%s", ", ".join(f"{len(group)} {kind}" for kind, group in groups.items()))


@dataclass(frozen=True)
class Suspect:
    """A pair: its key, its encoded image, its caption, and the probability that it is wrong.

    Without a lower limit of the share of wrong captions it has no probability (NaN), and a `place`:
    its rank by suspicion, the number of pairs and its score.
    """

    key: str
    image: bytes | None
    caption: str
    probability: float
    place: tuple[int, int, float] | None = None


def fragment(groups: Mapping[str, Sequence[Suspect]], size: int) -> str:
    """Return the gallery as a piece of HTML; all text from data is escaped.

    ``templates/page.js`` adds filters and labels; without it the gallery is a list.

    Parameters
    ----------
    groups : mapping of str to sequence of Suspect
        Pairs by kind. Fewer are shown if they would take too much room.
    size : int
        Longer side of a thumbnail, in pixels.
    """
    from mispair.pairs.report.contact_sheet import LONGEST_CAPTION, fitted, template, thumbnail

    gallery = template("suspects")
    # Browsers keep labels of the pairs of this gallery.
    pairs = [(one.key, one.caption) for suspects in groups.values() for one in suspects]
    digest = hashlib.sha256(repr(pairs).encode("utf-8", "backslashreplace")).hexdigest()[:16]

    every = [one.probability for suspects in groups.values() for one in suspects]
    judged = any(chance == chance for chance in every)

    def render(most: int) -> str:
        shown = {
            kind: [(suspect, thumbnail(suspect.image, size)) for suspect in suspects[:most]]
            for kind, suspects in groups.items()
        }
        return gallery.render(groups=shown, longest=LONGEST_CAPTION, digest=digest, judged=judged)

    return fitted(render, max(map(len, groups.values()), default=0))
