"""Pictures and texts whose names are alike."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from mispair.core.words import composed
from mispair.pairs.sources.pictures import SURE


def alike(pictures: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    """Return pictures by texts, without endings, whose names are alike; none if few have one.

    These are names that are equal without their folders (``text/a/img_07.txt`` of
    ``jpg/img_07.jpg``), or without what all of a kind start and end with (``07.caption.txt`` of
    ``07.image.jpg``, ``text_07.txt`` of ``img_07.jpg``). A name that several have is none.
    """
    for in_folder, bare in ((False, False), (True, True), (False, True)):
        of_pictures, of_texts = (_by_name(kind, in_folder, bare) for kind in (pictures, texts))
        shared = of_pictures.keys() & of_texts.keys()
        are_most = len(shared) >= max(SURE * len(texts), len(pictures) / 2)
        if len(shared) > 1 and are_most:  # two lists of all captions are those of no pictures
            return {of_texts[name]: of_pictures[name] for name in shared}
    return {}


def _by_name(paths: Iterable[str], in_folder: bool, bare: bool) -> dict[str, str]:
    """Return paths without endings by their names, without names that several have.

    Names have their folders if `in_folder`; `bare` ones lack what all start and end with.

    Examples
    --------
    >>> _by_name(["a/01.image.jpg", "b/02.image.jpg"], True, True)
    {'a/01': 'a/01.image', 'b/02': 'b/02.image'}
    >>> _by_name(["img10.txt", "img1.txt"], False, True), _by_name(["a/1.txt"], False, False)
    ({'10': 'img10', '1': 'img1'}, {'1': 'a/1'})
    """
    stems = [stem_of(path) for path in paths]
    names = [composed(os.path.basename(stem)) for stem in stems]
    start = len(_start(names)) if bare else 0
    end = len(_start([name[::-1] for name in names])) if bare else 0
    names = [name[start : len(name) - end] for name in names]
    if in_folder:
        names = [os.path.join(os.path.dirname(s), n) for s, n in zip(stems, names, strict=True)]
    times = Counter(names)
    return {name: stem for name, stem in zip(names, stems, strict=True) if times[name] == 1}


def _start(names: Sequence[str]) -> str:
    """Return what all names start with, up to a number or to a character that is no letter."""
    if len({*names}) == 1:
        return names[0]
    start = os.path.commonprefix(names).rstrip("0123456789")  # noqa: RUF071
    if all(name[len(start) : len(start) + 1].isdigit() for name in names):
        return start
    return re.sub(r"[^\W_]*$", "", start)


def stem_of(name: str) -> str:
    """Return the path of a file without its ending, if it has one."""
    stem, dot, ending = name.rpartition(".")
    return stem if dot and "/" not in ending else name
