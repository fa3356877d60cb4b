"""The concepts of the emoji corpus: names and keywords of emoji, and the vendors' pictures."""

import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.emoji.packages import PACKAGES, json_member, members
from mispair.pairs.shards.images import UndecodableImageError, decode_image

COMPONENTS = 2
"""Emojibase's group of parts of emoji, such as skin tones, which are no pictures of something."""

VARIATION_SELECTOR = 0xFE0F
"""Selects the coloured form of a character; packages differ in where they write it."""

MOST_KEYWORDS = 3
"""Keywords of one caption."""


class Concept(NamedTuple):
    """An emoji: its characters, its name, keywords, and its place in Unicode's order of emoji."""

    code: str
    """Code points in hexadecimal, joined by hyphens, without variation selectors."""
    name: str
    keywords: tuple[str, ...]
    category: str
    subcategory: str


def code_of(text: str) -> str:
    """Return the code of an emoji, or of code points in hexadecimal joined by hyphens.

    Examples
    --------
    >>> code_of("0023-FE0F-20e3"), code_of("❤️")
    ('23-20E3', '2764')
    """
    if text.isascii():
        points = [int(part, 16) for part in text.split("-")]
    else:
        points = [ord(letter) for letter in text]
    return "-".join(f"{point:X}" for point in points if point != VARIATION_SELECTOR)


def read_concepts(folder: Path) -> list[Concept]:
    """Read names and keywords from the packages ``emojibase`` and ``emojilib`` in a folder.

    The concepts are in Unicode's order, without skin tones and other components.

    Raises
    ------
    UserError
        If a package is missing or does not have the expected form.
    """
    base = folder / PACKAGES["emojibase"].file
    emoji = json_member(base, "package/en/data.json")
    messages = json_member(base, "package/en/messages.json")
    library = json_member(folder / PACKAGES["emojilib"].file, "package/dist/emoji-en-US.json")
    try:
        keywords = {code_of(text): listed for text, listed in library.items()}
        categories, subcategories = (
            {group["order"]: group["key"] for group in reversed(messages[name])}
            for name in ("groups", "subgroups")
        )
        entries = [one for one in emoji if one.get("group", COMPONENTS) != COMPONENTS]
        entries.sort(key=lambda one: one["order"])
        return [_concept(one, keywords, categories, subcategories) for one in entries]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{base} and {PACKAGES['emojilib'].file}: do not have the form of the versions that "
            f"are needed ({type(error).__name__}: {error}). Delete them and run `make emoji`."
        ) from error


def _concept(
    entry: Mapping[str, Any],
    keywords: Mapping[str, Sequence[str]],
    categories: Mapping[int, str],
    subcategories: Mapping[int, str],
) -> Concept:
    code, name = code_of(entry["hexcode"]), str(entry["label"])
    candidates = [*keywords.get(code, ()), *entry.get("tags", ())]
    cleaned = [word.replace("_", " ").strip().lower() for word in candidates]
    kept = dict.fromkeys(word for word in cleaned if _is_word(word) and word != name.lower())
    return Concept(
        code, name, tuple(kept), categories[entry["group"]], subcategories[entry["subgroup"]]
    )


def _is_word(text: str) -> bool:
    """Return whether a keyword has letters and is no emoticon."""
    return any(letter.isalpha() for letter in text) and not set(text) & set(":;<>=()|/\\^*_")


def caption(concept: Concept, vendor: str, seed: int) -> str:
    """Return the caption of a vendor's picture: the name, and up to three keywords.

    The keywords are drawn for each vendor alone, so that pictures of a concept have several
    captions.
    """
    draws = seeds.generator(seed, "emoji-caption", concept.code, vendor)
    number = min(int(draws.integers(0, MOST_KEYWORDS + 1)), len(concept.keywords))
    if not number:
        return concept.name
    chosen = draws.choice(len(concept.keywords), number, replace=False)
    return ", ".join([concept.name, *(concept.keywords[int(one)] for one in chosen)])


def unseen(concept: Concept, share: float, seed: int) -> bool:
    """Return whether a concept is held out of the pairs, with all of its pictures."""
    return bool(seeds.generator(seed, "emoji-unseen", concept.code).random() < share)


# The vendors' pictures of concepts, read from the vendors' packages.

HELD_OUT = "twitter"
"""The vendor whose pictures are in no pair: the evaluation sets have them."""

FOREIGN = re.compile(
    r"<!(?:DOCTYPE|ENTITY)|<(?:image|script|foreignObject)\b|(?:href|src)\s*=\s*[\"'](?!#)"
)
"""What a drawing must not hold: it would make the renderer read other files."""


class VendorSource(NamedTuple):
    """Where the pictures of a vendor are in its package."""

    folder: str | None
    """Folder of files named by code points; None for an Iconify set, with names in words."""
    ending: str = ""


SOURCES: dict[str, VendorSource] = {
    "google": VendorSource("package/img/google/64/", ".png"),
    "openmoji": VendorSource("package/color/svg/", ".svg"),
    "noto-v1": VendorSource(None),
    "fluent": VendorSource(None),
    "emojitwo": VendorSource(None),
    HELD_OUT: VendorSource("package/img/twitter/64/", ".png"),
}
"""By vendor."""


def pictures(
    folder: Path, vendor: str, concepts: Iterable[Concept], side: int
) -> dict[str, Image.Image]:
    """Return a vendor's pictures of concepts, square and on white, by code.

    Parameters
    ----------
    folder : Path
        Folder of the archives.
    vendor : str
        One of `SOURCES`.
    concepts : iterable of Concept
        Concepts to find; a concept that the vendor has not drawn is left out.
    side : int
        Side of the pictures in pixels.

    Raises
    ------
    UserError
        If the package is missing or damaged, has no picture of any concept, or one that cannot
        be decoded.
    """
    source, archive = SOURCES[vendor], folder / PACKAGES[vendor].file
    if source.folder is None:
        drawn = _of_iconify(archive, concepts, side)
    else:
        drawn = _of_folder(archive, source, {concept.code for concept in concepts}, side)
    if not drawn:
        raise UserError(f"{archive}: has no picture of any concept. Is it another version?")
    return drawn


def _of_folder(
    archive: Path, source: VendorSource, codes: set[str], side: int
) -> dict[str, Image.Image]:
    assert source.folder is not None
    pattern = re.compile(
        re.escape(source.folder) + r"([0-9a-fA-F]+(?:-[0-9a-fA-F]+)*)" + re.escape(source.ending)
    )

    def code(name: str) -> str | None:
        match = pattern.fullmatch(name)
        return code_of(match[1]) if match else None

    return {
        str(code(name)): _decoded(content, source.ending, side, f"{archive}: {name}")
        for name, content in members(archive, lambda name: code(name) in codes)
    }


def _of_iconify(archive: Path, concepts: Iterable[Concept], side: int) -> dict[str, Image.Image]:
    """Read an Iconify set: drawings by name, and for some sets names by code."""
    icons = json_member(archive, "package/icons.json")
    characters = json_member(archive, "package/chars.json")
    try:
        names = {code_of(code): name for code, name in characters.items()}
        drawn = {}
        for concept in concepts:
            name = names.get(concept.code, slug(concept.name))
            body = _body(icons, name)
            if body is not None:
                where = f"{archive}: {name}"
                drawn[concept.code] = _decoded(body.encode(), ".svg", side, where)
        return drawn
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{archive}: does not have the form of a set of icons ({type(error).__name__}: "
            f"{error}). Delete it and run `make emoji`."
        ) from error


def _body(icons: Mapping[str, Any], name: str) -> str | None:
    """Return an icon as a drawing; None if there is none of that name, or it is transformed."""
    alias = icons.get("aliases", {}).get(name)
    if alias is not None:
        if set(alias) != {"parent"}:
            return None
        name = alias["parent"]
    icon = icons["icons"].get(name)
    if icon is None or icon.get("hidden"):
        return None
    size = [icon.get(key, icons.get(key, 16)) for key in ("width", "height")]
    corner = [icon.get(key, icons.get(key, 0)) for key in ("left", "top")]
    box = " ".join(str(float(value)) for value in (*corner, *size))
    start = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'{start} viewBox="{box}">{icon["body"]}</svg>'


def slug(name: str) -> str:
    """Return a name as Iconify writes it.

    Examples
    --------
    >>> slug("flag: Côte d’Ivoire"), slug("person: red hair")
    ('flag-cote-divoire', 'person-red-hair')
    """
    plain = unicodedata.normalize("NFKD", name.lower()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.replace("'", "")).strip("-")


def _decoded(content: bytes, ending: str, side: int, where: str) -> Image.Image:
    """Return a picture of a package, or a drawing, on white."""
    try:
        if ending == ".svg":
            content = rendered(content, side)
        picture = decode_image(content)
    except (UndecodableImageError, ValueError) as error:
        raise UserError(
            f"{where} cannot be shown ({error}). Delete the package and run `make emoji`."
        ) from error
    if picture.size != (side, side):
        picture = picture.resize((side, side), Image.Resampling.BICUBIC)
    return picture


def rendered(drawing: bytes, side: int) -> bytes:
    """Return an SVG drawing as a PNG of the given side, transparent where nothing is drawn.

    Raises
    ------
    ValueError
        If it is no drawing, or would make the renderer read another file.
    """
    import vl_convert

    text = drawing.decode("utf-8")
    foreign = FOREIGN.search(text)
    if foreign:
        raise ValueError(f"the drawing holds {foreign[0]!r}")
    root = re.search(r"<svg\b[^>]*>", text)
    box = re.search(r"\bviewBox\s*=\s*[\"']([^\"']+)[\"']", root[0]) if root else None
    if root is None or box is None:
        raise ValueError("it is no SVG drawing with a viewBox")
    head = re.sub(r"\s(?:width|height)\s*=\s*[\"'][^\"']*[\"']", "", root[0])
    head = head.replace("<svg", f'<svg width="{side}" height="{side}"', 1)
    try:
        return bytes(vl_convert.svg_to_png(head + text[root.end() :], scale=1, ppi=72))
    except Exception as error:  # the renderer raises nothing narrower
        raise ValueError(str(error).partition("\n")[0]) from error


def encoded(picture: Image.Image, quality: int) -> bytes:
    """Return a picture as JPEG, with full colour resolution."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality, subsampling=0)
    return buffer.getvalue()
