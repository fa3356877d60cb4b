"""Questions from the files of public sets, checked before anything is written."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mispair.core.files import UserError

log = logging.getLogger(__name__)

MOST_NAMED = 5
"""Most missing pictures that a message names; further ones are counted."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Entry:
    """One image with its captions.

    Attributes
    ----------
    source : str
        File and key, for messages.
    picture : Path or bytes
        A file, or the encoded picture itself.
    captions : tuple of str
        The true one first.
    category, pair : str
        Kind of the question, and the example that it belongs to; empty if not given.
    box : (left, top, right, bottom) or None
        The part of the picture that is shown, in pixels; all of it if None.
    """

    source: str
    picture: Path | bytes
    captions: tuple[str, ...]
    category: str = ""
    pair: str = ""
    box: Box | None = None


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; a repeated key is refused, not overwritten.

    Raises
    ------
    UserError
        If the file is missing, is not JSON, or has a key twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key, value in pairs:
            if key in entries:
                raise UserError(
                    f"{path}: lists {key!r} twice. One of them would be lost silently: remove one, "
                    "or give it a key of its own."
                )
            entries[key] = value
        return entries

    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)
    except FileNotFoundError as error:
        raise UserError(f"{path}: is missing.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error}).") from error


def field(item: Any, name: str, kind: type | tuple[type, ...], source: str) -> Any:
    """Return a field of an entry; a UserError if it is missing or of another kind."""
    value = item.get(name) if isinstance(item, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UserError(
            f"{source}: has no usable {name!r}. The file is not in the layout of the public set: "
            "see the command's --help."
        )
    return value


def picture_in(folder: Path, name: str, source: str) -> Path:
    """Return the path of a picture; a UserError if it would lead out of the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise UserError(f"{source}: the picture {name[:100]!r} is outside of {folder}.")
    return folder / name


def checked(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries with one line per caption and without repeated questions.

    A question that stands in several categories, as in the published SugarCrepe, is kept once in
    each: scores are means of categories. They are counted in a warning.

    Raises
    ------
    UserError
        If a caption is empty, a false one equals the true one, a question occurs twice in a
        category, pictures are missing, or there is no entry.
    """
    cleaned = [_on_lines(entry) for entry in entries]
    if not cleaned:
        raise UserError("There is no question in these files.")
    seen: dict[tuple[object, ...], dict[str, str]] = {}
    for entry in cleaned:
        categories = seen.setdefault((entry.picture, entry.captions, entry.box), {})
        if entry.category in categories:
            raise UserError(
                f"{entry.source}: is the same question on the same picture as "
                f"{categories[entry.category]}. Such a question would count twice: remove one."
            )
        categories[entry.category] = entry.source
    if shared := [categories for categories in seen.values() if len(categories) > 1]:
        log.warning(
            "questions in more than one category: %d, such as %s; each is kept once per category",
            len(shared),
            " and ".join(shared[0].values()),
        )
    _refuse_missing([entry.picture for entry in cleaned if isinstance(entry.picture, Path)])
    return cleaned


def _on_lines(entry: Entry) -> Entry:
    captions = tuple(" ".join(_printable(caption).split()) for caption in entry.captions)
    if len(captions) < 2 or "" in captions:
        raise UserError(
            f"{entry.source}: has {sum(map(bool, captions))} caption; a question has a true one "
            "and at least one false one."
        )
    true, *others = (caption.casefold() for caption in captions)
    if true in others:
        raise UserError(
            f"{entry.source}: a false caption is the true one, {captions[0][:80]!r}. No answer to "
            "it is right or wrong: remove the question."
        )
    return Entry(
        entry.source, entry.picture, captions, _name(entry.category), entry.pair, entry.box
    )


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _name(text: str) -> str:
    return " ".join(_printable(text).split())


def _refuse_missing(pictures: Sequence[Path]) -> None:
    missing = [path for path in dict.fromkeys(pictures) if not path.is_file()]
    if missing:
        named = ", ".join(map(str, missing[:MOST_NAMED]))
        more = f" and {len(missing) - MOST_NAMED:,} more" if len(missing) > MOST_NAMED else ""
        raise UserError(
            f"{len(missing):,} of {len(set(pictures)):,} pictures are missing: {named}{more}. "
            "Nothing was written. Give the folder that holds all of them."
        )
