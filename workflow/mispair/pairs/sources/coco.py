"""COCO's captions in JSON, with their pictures."""

from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.core.words import count
from mispair.pairs.captions.json_rows import captioned, end_of_json, parsed, start_of_json, text_of
from mispair.pairs.sources.pictures import elsewhere, located, with_captions
from mispair.pairs.sources.source import Entry, Source, merged
from mispair.pairs.sources.table_rows import TRIED


def is_coco(path: Path) -> bool:
    """Return whether a file is COCO's JSON, by its first and last bytes; `of_coco` reads it."""
    start = start_of_json(path)
    if not start.startswith(b"{"):
        return False
    ends = start + end_of_json(path)
    has = {name for name in ("annotations", "caption", "images", "file_name")
           if f'"{name}"'.encode() in ends}  # fmt: skip
    return {"annotations", "caption"} < has


def of_coco(path: Path, folder: Path | None) -> Source:
    """Return the pairs of COCO's captions: several captions of a picture are its alternatives.

    Raises
    ------
    UserError
        If the file has other content, or none of its pictures is found.
    """
    content = parsed(text_of(path, "pairs: "), path, "pairs: ")
    try:
        captions: dict[str, list[Any]] = {image["file_name"]: [] for image in content["images"]}
        if wrong := [name for name in captions if not isinstance(name, str)]:
            raise TypeError(f"the file_name {wrong[0]!r:.80} is no text")
        lost: list[tuple[Any, Any]] = []
        for image, annotation in captioned(content["images"], content["annotations"]):
            caption = annotation["caption"]
            if image is None:
                lost.append((annotation["image_id"], caption))
            else:
                captions[image["file_name"]].append(caption)
    except (KeyError, TypeError) as error:
        raise UserError(
            f"pairs: {path} is not COCO's JSON of captions ({type(error).__name__}: {error}). It "
            "has the lists images (id, file_name) and annotations (image_id, caption); files of "
            "instances and of keypoints have no captions."
        ) from error
    pictures = located(path, [*captions][:TRIED], folder)
    entries = []
    for name, texts in captions.items():
        found = pictures.find(name)
        files = (found,) if found else ()
        entries.append(Entry(pictures.key(name, found), files, captions=tuple(texts)))
    entries += [Entry(f"image {one}", captions=(text,)) for one, text in lost]
    whole = merged(entries)
    words = f"{count(len(captions), 'picture')} of {path.name}{elsewhere(pictures, path)}"
    words = with_captions(words, whole, pictures)
    return Source("coco", words, whole, (path,), pictures.boundary, captions_in="json:captions")
