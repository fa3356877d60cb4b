"""The gallery of neurons: pictures and captions that activate the most and the least pure ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mispair.core.files import UserError
from mispair.evaluation.activations import Block, Kind, strongest
from mispair.evaluation.purity import neuron_overlap, random_overlap
from mispair.pairs.index.image_list import locations, read_encoded
from mispair.pairs.report.contact_sheet import LONGEST_CAPTION, template, thumbnail
from mispair.towers.arms import LABELS

TOWERS: tuple[Kind, ...] = ("text", "image")
"""The order in which towers are shown: the paper's ranking is by the text tower."""

CONTROL = (
    "Both projections multiplied by one random orthogonal matrix, ranked by the text tower. All "
    "similarities, and with them everything that the model computes, stay the same, but its "
    "neurons change. What looks the same here and above does not distinguish the model's own "
    "neurons from any others."
)
"""Purpose of a rotated basis."""

COLUMNS = (
    "key", "caption_id", "caption", "shard", "image_offset", "image_bytes", "image_id", "width",
    "height",
)  # fmt: skip
"""Columns of the index that are read for each pair that may be shown."""

LARGEST_GALLERY = 600_000
"""Most bytes of a gallery; thumbnails get smaller, and in the end fewer, until it fits."""

THUMBNAIL, SMALLEST_THUMBNAIL = 64, 24
"""Pixels of the longer side of a thumbnail, and the least of a recognisable one; below, each neuron
shows fewer pictures instead."""


@dataclass(frozen=True)
class Neuron:
    """A neuron, and the inputs that activate it most.

    Attributes
    ----------
    number : int
        Column of the projections, from 0.
    overlap, rank : mapping of str to float and to int
        Its mean |cos| with the others by tower, and its place from the purest, 1.
    pictures : sequence of (str, float)
        Keys of images and its activation by them, the largest first.
    captions : sequence of (str, float)
        Captions and its activation by them, the largest first.
    """

    number: int
    overlap: Mapping[str, float]
    rank: Mapping[str, int]
    pictures: Sequence[tuple[str, float]]
    captions: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class ShownNeurons:
    """The two ends of an order of the neurons: title, description and neurons."""

    title: str
    about: str
    purest: Sequence[Neuron]
    least_pure: Sequence[Neuron]

    @property
    def all(self) -> list[Neuron]:
        """All neurons that are shown."""
        return [*self.purest, *self.least_pure]


@dataclass(frozen=True)
class ShownSample:
    """The arm of the projections, and the numbers of different images and captions."""

    arm: str
    images: int
    captions: int


def rankings(
    towers: Mapping[Kind, np.ndarray],
    blocks: Callable[[Kind], Iterable[Block]],
    texts: Mapping[str, str],
    counts: tuple[int, int, int],
    rotation: np.ndarray | None = None,
) -> list[ShownNeurons]:
    """Return the ends of the rankings by either tower, and by text in a rotated basis.

    Parameters
    ----------
    towers : mapping of {"text", "image"} to (d, e) array
        Projections.
    blocks : callable
        Returns a new iterable of the blocks of features of images or of captions.
    texts : mapping of str to str
        Captions by their names in the blocks.
    counts : (int, int, int)
        Neurons at either end (at most half of all), and images and captions of each.
    rotation : (e, e) array, optional
        Orthogonal matrix of the control.

    Raises
    ------
    ValueError
        If a neuron has no direction, or features do not fit the projections.
    """
    by_image = "The same neurons by their columns in the other tower."
    candidates: list[tuple[str, str, Kind, Mapping[Kind, np.ndarray]]] = [
        ("By the text tower", "As the paper ranks them.", "text", towers),
        ("By the image tower", by_image, "image", towers),
    ]
    if rotation is not None:
        turned = {tower: matrix @ rotation for tower, matrix in towers.items()}
        candidates.append(("Control: in a randomly rotated basis", CONTROL, "text", turned))
    return [_ranking(*each, blocks, texts, counts) for each in candidates]


def _ranking(
    title: str,
    description: str,
    by: Kind,
    towers: Mapping[Kind, np.ndarray],
    blocks: Callable[[Kind], Iterable[Block]],
    texts: Mapping[str, str],
    counts: tuple[int, int, int],
) -> ShownNeurons:
    kinds: dict[Kind, int] = {"image": counts[1], "text": counts[2]}
    overlap = {tower: neuron_overlap(towers[tower]) for tower in TOWERS}
    order = {tower: np.argsort(values, kind="stable") for tower, values in overlap.items()}
    rank = {tower: np.argsort(positions) + 1 for tower, positions in order.items()}
    ends = min(counts[0], len(order[by]) // 2)
    chosen = [*order[by][:ends].tolist(), *order[by][::-1][:ends].tolist()]
    active = {kind: strongest(blocks(kind), towers[kind], chosen, k) for kind, k in kinds.items()}
    neurons = [
        Neuron(
            number,
            {tower: float(overlap[tower][number]) for tower in TOWERS},
            {tower: int(rank[tower][number]) for tower in TOWERS},
            pictures,
            [(texts[name], value) for name, value in captions],
        )
        for number, pictures, captions in zip(chosen, active["image"], active["text"], strict=True)
    ]
    return ShownNeurons(title, description, neurons[:ends], neurons[ends:])


def encoded_images(paths: Mapping[str, Path], pairs: pd.DataFrame) -> dict[str, bytes]:
    """Read the image files of some pairs out of their shards, by key.

    Raises
    ------
    UserError
        If a shard is not among `paths`, or has changed since it was indexed.
    """
    contents: dict[str, bytes] = {}
    for name, rows in pairs.groupby("shard"):
        if name not in paths:
            raise UserError(f"draw_neurons: the index names {name}, which is not among the shards.")
        encoded = read_encoded(paths[str(name)], locations(rows))
        contents.update(zip(rows["key"], encoded, strict=True))
    return contents


def arm_of(origin: Mapping[str, str]) -> str:
    """Describe the arm of projections from the metadata of their file.

    Examples
    --------
    >>> arm_of({"start": "untouched"})
    'projections (untouched model)'
    >>> arm_of({"start": "pretrained", "scheme": "random", "rate": "0.3"})
    'projections (pre-trained, frozen logit scale) with random captions at C_m = 0.3'
    """
    start = origin.get("start", "given")
    projections = f"projections ({LABELS.get(start, start)})"
    if "rate" not in origin:
        return projections
    scheme = origin.get("scheme", "random")
    return f"{projections} with {scheme} captions at C_m = {origin['rate']}"


def fragment(
    shown: Sequence[ShownNeurons],
    encoded: Mapping[str, bytes],
    towers: Mapping[Kind, np.ndarray],
    sample: ShownSample,
    size: int = THUMBNAIL,
) -> str:
    """Return the gallery of rankings as an HTML fragment; all text from data is escaped.

    Image files that are not in `encoded` (by key) or cannot be decoded are shown as missing. `size`
    is the longer side of a thumbnail, in pixels; thumbnails shrink if the gallery gets too large.
    """
    gallery = template("neurons")
    pictures = max((len(n.pictures) for ranking in shown for n in ranking.all), default=0)
    while True:
        html = gallery.render(
            rankings=shown,
            pictures=pictures,
            thumbnails={key: thumbnail(content, size) for key, content in encoded.items()},
            size=size,
            reference={tower: random_overlap(len(towers[tower])) for tower in TOWERS},
            neurons=towers["text"].shape[1],
            sample=sample,
            longest=LONGEST_CAPTION,
        )
        excess = len(html.encode()) / LARGEST_GALLERY
        if excess <= 1 or not pictures:
            return html + "\n"
        if size > SMALLEST_THUMBNAIL:
            size = max(SMALLEST_THUMBNAIL, min(size - 1, int(size / excess**0.5)))
        else:
            pictures = pictures * 3 // 4
