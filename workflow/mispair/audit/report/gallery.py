"""The gallery of pairs that are likely wrong, and of those that could be either."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mispair.pairs.report.contact_sheet import LONGEST_CAPTION, fitted, template, thumbnail


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
