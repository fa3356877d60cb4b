"""Named protocols: the prompts of the classes of a set, and its headline metric.

Published numbers of one model differ by several points between protocols, so every number has the
name of its protocol and the fingerprint of its prompts.

- ``clip_benchmark``: the templates and class names in the set's folder; accuracy.
- ``laclip``: the templates of SLIP's evaluation, which LaCLIP's follows; recall averaged over the
  classes for Pets, Caltech-101, Aircraft and Flowers, accuracy for all others. Class names are
  those of the folder; for FER-2013 and CLEVR counts those of SLIP (a class may have several).
  Models of LAION-400M get CLIP's 80 templates for ImageNet, as in LaCLIP's evaluation of them.
- ``single-prompt``: "a photo of a {c}"; accuracy.
- ``captions``: for sets of captioned images. Every caption is a prompt for its image; recall of
  images by captions, or the share of right choices if one of an image's captions is to be chosen.
- Any other name is a folder of the user with files for some sets: ``SET.templates.txt``,
  ``SET.classnames.txt``, ``SET.json`` (prompts for each class, as in CuPL) and ``SET.metric.txt``.

References
----------
.. [1] N. Mu, A. Kirillov, D. Wagner and S. Xie (2022), SLIP: Self-supervision meets
   language-image pre-training, ECCV; its public evaluation has templates and metrics.
.. [2] L. Fan, D. Krishnan, P. Isola, D. Katabi and Y. Tian (2023), Improving CLIP training with
   language rewrites, NeurIPS; 7 templates for ImageNet.
.. [3] S. Pratt, I. Covert, R. Liu and A. Farhadi (2023), What does a platypus look like?
   Generating customized prompts for zero-shot image classification (CuPL), ICCV.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core.files import UserError, folder_name
from mispair.core.words import composed, nearest
from mispair.evaluation.sets import CAPTIONED, TEMPLATES, Kind, canonical

if TYPE_CHECKING:
    pass

CLIP_BENCHMARK, LACLIP, SINGLE_PROMPT = "clip_benchmark", "laclip", "single-prompt"
CAPTIONS = "captions"
BUILT_IN = (CLIP_BENCHMARK, LACLIP, SINGLE_PROMPT, CAPTIONS)

LACLIP_DATA = Path(__file__).with_name("laclip.json")
"""Templates, metric and other names of each set of protocol ``laclip``."""


CUSTOM_FILES = ("templates.txt", "classnames.txt", "json", "metric.txt")
"""Files of a set in a folder of the user, after the set's name and a dot."""


def protocol_name(source: str) -> str:
    """Return the name of a protocol that the configuration gives as a name or as a folder.

    Raises
    ------
    UserError
        If it is neither, or a protocol cannot have the folder's name.
    """
    if source in BUILT_IN:
        return source
    folder = Path(source)
    if folder.name == "datacomp" and not folder.is_dir():
        raise UserError(
            "protocols: datacomp was removed. Take clip_benchmark, which has the same prompts for "
            "the same sets; it has no mean by DataComp's groups."
        )
    if not folder.is_dir():
        raise UserError(
            f"protocols: {source!r} is neither a protocol ({', '.join(BUILT_IN)}) nor a folder "
            f"(looked for {folder.absolute()}).{nearest(folder.name, BUILT_IN)}"
        )
    name = folder_name(folder)
    if name in BUILT_IN:
        raise UserError(
            f"protocols: the folder {source} gives the protocol its name, which must be none of "
            f"{', '.join(BUILT_IN)}; rename it."
        )
    return name


def protocol_files(source: str, directory: str | Path, name: str | None = None) -> list[Path]:
    """Return the files that a protocol needs for a set in addition to the class list.

    Parameters
    ----------
    source : str
        One of `BUILT_IN`, or a folder of the user.
    directory : str or Path
        Folder of the set, which need not exist yet.
    name : str, optional
        Name of the set; by default its folder's.
    """
    directory = Path(directory)
    name = name or directory.name
    if source == CLIP_BENCHMARK:
        return [directory / TEMPLATES]
    if source == LACLIP:
        return [LACLIP_DATA]
    if source in BUILT_IN:
        return []
    present = {composed(path.name): path for path in Path(source).iterdir() if path.is_file()}
    possible = {ending: composed(f"{name}.{ending}") for ending in CUSTOM_FILES}
    existing = [present[file] for file in possible.values() if file in present]
    if existing and present.keys().isdisjoint(possible[e] for e in ("templates.txt", "json")):
        existing.append(directory / TEMPLATES)
    return existing


def applies(source: str, name: str, kind: Kind) -> bool:
    """Return whether a protocol has prompts for a set of that name and kind.

    ``clip_benchmark`` applies to every classification set: missing templates are an error.
    """
    if kind in CAPTIONED or source == CAPTIONS:
        return kind in CAPTIONED and source == CAPTIONS
    if source == LACLIP:
        return canonical(name) in _laclip_names()
    return bool(protocol_files(source, name)) or source in BUILT_IN


def refuse_stray_files(folder: str, names: Sequence[str]) -> None:
    """Refuse a file in a folder of the user that is for no set: its name may be misspelt.

    Raises
    ------
    UserError
        If there is one. The message has the nearest valid name.
    """
    allowed = [composed(f"{name}.{ending}") for name in names for ending in CUSTOM_FILES]
    for path in sorted(Path(folder).iterdir()):
        if (
            path.is_file()
            and path.suffix in (".txt", ".json")
            and composed(path.name) not in allowed
        ):
            raise UserError(
                f"{path}: belongs to no evaluation set; a file is called after the name of its "
                f"set: {', '.join(f'SET.{ending}' for ending in CUSTOM_FILES)}."
                f"{nearest(path.name, allowed)}"
            )


@cache
def laclip_sets() -> dict[str, dict[str, Any]]:
    """Return templates, metric and other names of each set of ``laclip``."""
    content: dict[str, dict[str, Any]] = json.loads(LACLIP_DATA.read_text(encoding="utf-8"))
    return content


@cache
def _laclip_names() -> dict[str, dict[str, Any]]:
    """Return the same by each name of each set."""
    return {
        canonical(name): entry
        for main, entry in laclip_sets().items()
        for name in (main, *entry["aliases"])
    }


def of_laclip(name: str) -> dict[str, Any]:
    """Return templates, metric and names of a set of ``laclip``; a UserError if it has none."""
    names = _laclip_names()
    if canonical(name) not in names:
        raise UserError(
            f"protocol {LACLIP} has no templates for the set {name}; its sets are "
            f"{', '.join(laclip_sets())} (with or without wds_ and vtab-)."
            f"{nearest(canonical(name), names)} Templates for other sets are given by a protocol "
            f"of your own: a folder with {name}.templates.txt, named under `protocols`."
        )
    return names[canonical(name)]
