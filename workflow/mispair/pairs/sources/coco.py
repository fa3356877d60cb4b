"""COCO's captions: one JSON with a list of pictures and a list of captions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.core.words import count
from mispair.pairs.sources.source import Entry, Source, merged
from mispair.pairs.sources.tables import (
    HEAD,
    TRIED,
    elsewhere,
    located,
    start_of_json,
    with_captions,
)


def is_coco(path: Path) -> bool:
    """Return whether a file is COCO's JSON, by its first and last bytes; `of_coco` reads it."""
    start = start_of_json(path)
    if not start.startswith(b"{"):
        return False
    try:
        with path.open("rb") as opened:
            opened.seek(max(0, path.stat().st_size - HEAD))
            ends = start + opened.read()
    except OSError:
        return False
    return all(f'"{name}"'.encode() in ends for name in ("annotations", "caption"))


def of_coco(path: Path, folder: Path | None) -> Source:
    """Return the pairs of COCO's captions: several captions of a picture are its alternatives.

    Raises
    ------
    UserError
        If the file has other content, or none of its pictures is found.
    """
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
        # Some converters write one of both as text.
        names = {str(image["id"]): image["file_name"] for image in content["images"]}
        if wrong := [name for name in names.values() if not isinstance(name, str)]:
            raise TypeError(f"the file_name {wrong[0]!r:.80} is no text")
        captions: dict[Any, list[str]] = {identity: [] for identity in names}
        lost: list[tuple[Any, str]] = []
        for annotation in content["annotations"]:
            identity, caption = str(annotation["image_id"]), annotation["caption"]
            if identity in captions:
                captions[identity].append(caption)
            else:
                lost.append((identity, caption))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"pairs: {path} is not COCO's JSON of captions ({type(error).__name__}: {error}). It "
            "has the lists images (id, file_name) and annotations (image_id, caption); files of "
            "instances and of keypoints have no captions."
        ) from error
    pictures = located(path, [*names.values()][:TRIED], folder)
    entries = []
    for identity, name in names.items():
        found = pictures.find(name)
        files = (found,) if found else ()
        key = pictures.key(name, found)
        entries.append(Entry(key, files, captions=tuple(captions[identity])))
    entries += [Entry(f"image {one}", captions=(text,)) for one, text in lost]
    whole = merged(entries)
    words = f"{count(len(names), 'picture')} of {path.name}{elsewhere(pictures, path)}"
    words = with_captions(words, whole, pictures)
    return Source("coco", words, whole, (path,), pictures.boundary, captions_in="json:captions")
