"""The contact sheet: sample pairs with their captions before and after shuffling."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup

from mispair.core import seeds
from mispair.pairs.captions.decoding import CONTROL
from mispair.pairs.index.image_list import by_name, locations, read_encoded
from mispair.pairs.index.index import caption_id
from mispair.pairs.shards.images import UndecodableImageError, decode_image
from mispair.report.markup import PIECE, symbols
from mispair.report.tables import main_first

if TYPE_CHECKING:
    from PIL import Image

LONGEST_CAPTION = 280
"""Characters of a caption that are shown."""

LARGEST_SHEET = 150_000
"""Bytes of a contact sheet; samples that would exceed it are left out."""


@dataclass(frozen=True)
class SheetPair:
    """A pair: its key, its encoded image (None if it is not there), its caption and its new one."""

    key: str
    image: bytes | None
    caption: str
    shuffled: str
    swapped: bool


def thumbnail(encoded: bytes | None, size: int) -> str | None:
    """Return an image as a JPEG data URI of longer side `size`; None if it cannot be decoded."""
    image = decoded(encoded)
    return jpeg_uri(image, size, quality=82) if image else None


def decoded(encoded: bytes | None) -> Image.Image | None:
    """Return an image; None if there is none, or it cannot be decoded."""
    if encoded is None:
        return None
    try:
        return decode_image(encoded)
    except UndecodableImageError:
        return None


def jpeg_uri(image: Image.Image, size: int, **options: Any) -> str:
    """Shrink an image to a longer side of at most `size`; return it as a JPEG data URI."""
    image.thumbnail((size, size))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **options)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def visible(value: object) -> object:
    """Return a text with its control characters replaced: HTML does not allow them."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value


def template(name: str) -> jinja2.Template:
    """Return a template of a piece of HTML, which escapes all text from data."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=visible
    )
    environment.filters["symbols"] = symbols
    return environment.from_string(_source(f"{name}.html.j2"))


def _source(name: str) -> str:
    return (files("mispair.report") / "templates" / name).read_text("utf-8")


def alone(piece: str, title: str) -> str:
    """Return a piece of HTML as a page of its own, in the style of the report."""
    start, end = map(Markup, PIECE)
    style, piece = Markup(_source("style.css")), Markup(piece)
    return template("piece").render(title=title, style=style, piece=piece, start=start, end=end)


def fitted(render: Callable[[int], str], most: int) -> str:
    """Return a piece of HTML of `most` samples, or of as many as fit into `LARGEST_SHEET`."""
    while len((html := render(most)).encode()) > LARGEST_SHEET and most:
        most = most * 3 // 4
    return html + "\n"


def fragment(samples: Sequence[SheetPair], rate: float | None, size: int) -> str:
    """Return the sheet as a piece of HTML; all text from data is escaped.

    `rate` is the shuffle probability C_m of the new captions, None if there is no pairing; `size`
    is the longer side of a thumbnail, in pixels.
    """
    sheet = template("contact_sheet")

    def render(most: int) -> str:
        shown = [(sample, thumbnail(sample.image, size)) for sample in samples[:most]]
        return sheet.render(samples=shown, rate=rate, longest=LONGEST_CAPTION)

    return fitted(render, len(samples))


# The pairs on the sheet -------------------------------------------------------------------------


def nearest_pairing(pairings: Sequence[Path], rate: float) -> tuple[Path | None, float | None]:
    """Return the pairing of the main scheme whose nominal rate is nearest, and that rate."""
    metadata = {path: pq.read_schema(path).metadata for path in pairings}
    schemes = {path: metadata[path][b"scheme"].decode() for path in pairings}
    main = next(iter(main_first(schemes.values())), None)
    rates = {p: float(metadata[p][b"nominal"]) for p in pairings if schemes[p] == main}
    chosen = min(rates, key=lambda path: abs(rates[path] - rate), default=None)
    return chosen, rates[chosen] if chosen else None


def draw_samples(
    shards: Mapping[str, Path],
    index: Sequence[Path],
    pairing: Path | None,
    captions: Sequence[Path],
    number: int,
    seed: int,
) -> list[SheetPair]:
    """Draw pairs of the first shard that has kept pairs, sorted by key.

    Parameters
    ----------
    shards : mapping of str to Path
        By the names that the index gives them.
    index, captions : sequence of Path
        The index of each group, and the captions that schemes wrote.
    pairing : Path or None
        Which captions the pairs have after shuffling; None for their own.
    number, seed : int
        Largest number of pairs, and the seed of the draw.
    """
    for shard in shards:
        pairs = _rows(index, "shard", [shard]).sort_values("key", ignore_index=True)
        if len(pairs):
            break
    else:
        return []
    order = seeds.generator(seed, "contact-sheet").permutation(len(pairs))
    drawn = pairs.loc[sorted(order[:number])]
    images = dict(zip(drawn["key"], read_encoded(shards[shard], locations(drawn)), strict=True))
    new = _rows([pairing], "key", drawn["key"].tolist()) if pairing else drawn.assign(swapped=False)
    new = new.set_index("key")
    given = new["caption_id"].unique().tolist()
    # Most are a pair's first caption or come from a scheme; the others are further captions.
    texts = _rows([*index, *captions], "caption_id", given)
    text_of = dict(zip(texts["caption_id"], texts["caption"], strict=True))
    for path in index if set(given) - text_of.keys() else []:
        columns = ["caption_id", "caption", "more_captions"]
        text_of |= distinct_captions(pq.read_table(path, columns=columns).to_pandas())
    new = new.assign(text=new["caption_id"].map(text_of)).loc[drawn["key"]]
    cells = (drawn["key"], drawn["caption"], new["text"], new["swapped"])
    return [
        SheetPair(key, images[key], caption, text, bool(swapped))
        for key, caption, text, swapped in zip(*cells, strict=True)
    ]


def images_of(
    keys: Sequence[str], index: Sequence[Path], shards: Sequence[Path], sources: Sequence[str]
) -> dict[str, bytes]:
    """Return the encoded images of pairs by key; nothing else is read from the shards.

    Parameters
    ----------
    keys : sequence of str
        Of the pairs.
    index : sequence of Path
        The index of each group.
    shards : sequence of Path
        All shards of the groups.
    sources : sequence of str
        Of `mispair.pairs.index.image_list.by_name`.
    """
    named, images = by_name(shards, sources), dict[str, bytes]()
    for shard, rows in _rows(index, "key", list(keys)).groupby("shard"):
        encoded = read_encoded(named[str(shard)], locations(rows))
        images |= dict(zip(rows["key"], encoded, strict=True))
    return images


def _rows(paths: Iterable[Path], column: str, values: list[str]) -> pd.DataFrame:
    """Return rows of tables; filtered while reading, as an index may be larger than memory."""
    # Of type text also when there are no values: a captioner may have no usable caption.
    wanted = pc.field(column).isin(pa.array(values, pa.string()))
    tables = [pq.read_table(path, filters=wanted).to_pandas() for path in paths]
    return pd.concat(tables, ignore_index=True)


def distinct_captions(index: pd.DataFrame) -> dict[str, str]:
    """Return every text that pairs of an index have, once, by caption id and sorted by it."""
    texts = dict(zip(index["caption_id"], index["caption"], strict=True))
    for further in index["more_captions"]:
        texts.update((caption_id(text), text) for text in further)
    return dict(sorted(texts.items()))
