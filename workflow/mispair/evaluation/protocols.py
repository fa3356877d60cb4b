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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mispair.core.files import UserError, folder_name
from mispair.core.provenance import fingerprint
from mispair.core.words import composed
from mispair.evaluation.class_prompts import hint, per_class
from mispair.evaluation.sets import (
    CAPTIONED,
    PLACEHOLDER,
    TEMPLATES,
    EvaluationSet,
    Example,
    Kind,
    canonical,
    read_classnames,
    read_templates,
)

if TYPE_CHECKING:
    import numpy as np

CLIP_BENCHMARK, LACLIP, SINGLE_PROMPT = "clip_benchmark", "laclip", "single-prompt"
CAPTIONS = "captions"
BUILT_IN = (CLIP_BENCHMARK, LACLIP, SINGLE_PROMPT, CAPTIONS)

LACLIP_DATA = Path(__file__).with_name("laclip.json")
"""Templates, metric and other names of each set of protocol ``laclip``."""

METRICS = ACC1, MEAN_PER_CLASS = "acc1", "mean_per_class_recall"
METRIC_OF_CAPTIONS: dict[Kind, str] = {
    "retrieval": "image_recall@1",
    "image_caption_selection": "selection_acc",
}

CUSTOM_FILES = ("templates.txt", "classnames.txt", "json", "metric.txt")
"""Files of a set in a folder of the user, after the set's name and a dot."""


@dataclass(frozen=True)
class Prompts:
    """The texts of one protocol for one set.

    Attributes
    ----------
    protocol : str
        Name of the protocol.
    texts : list of str
        All p prompts, those of a class together.
    classes : (p,) int64 array
        Class of each prompt, in ascending order; for captions the number of the image.
    classnames : list of str
        Names of the k classes; each has a prompt. Empty for captions.
    metric : str
        The headline, one of `METRICS`; for captions one of `METRIC_OF_CAPTIONS`.
    templates : list of str or None
        Templates of the prompts; None if every class has its own prompts.
    questions : list of (str, str)
        Category and pair of each image's question, if one of its captions is to be chosen.
    """

    protocol: str
    texts: list[str]
    classes: np.ndarray
    classnames: list[str]
    metric: str
    templates: list[str] | None
    questions: Sequence[tuple[str, str]] = ()

    @property
    def fingerprint(self) -> str:
        """Identifies protocol, metric, class list, prompts with their classes, and questions."""
        of_classes = (str(number) for number in self.classes)
        rows = [part for row in zip(of_classes, self.texts, strict=True) for part in row]
        head = [self.protocol, self.metric, str(len(self.classnames))]
        question_parts = [part for question in self.questions for part in question]
        return fingerprint([*head, *self.classnames, *rows, *question_parts])

    def numbered_questions(self) -> tuple[dict[str, np.ndarray], list[str]]:
        """Return ``categories`` and ``pairs`` of the questions as numbers, and category names.

        The number of a question without a category, or of an image without a pair, is -1.
        """
        if not self.questions:
            return {}, []
        import numpy as np

        def numbered(texts: Iterable[str]) -> tuple[np.ndarray, list[str]]:
            texts = list(texts)
            names = list(dict.fromkeys(filter(None, texts)))
            numbers = {name: number for number, name in enumerate(names)}
            return np.array([numbers.get(text, -1) for text in texts], dtype=np.int64), names

        categories, names = numbered(category for category, _ in self.questions)
        pairs, _ = numbered(pair for _, pair in self.questions)
        return {"categories": categories, "pairs": pairs}, names


def prompts(
    opened: EvaluationSet, protocol: str, custom: Sequence[Path] = (), *, laion: bool = False
) -> Prompts:
    """Return the prompts of a protocol for a set.

    Parameters
    ----------
    opened : EvaluationSet
        The set.
    protocol : str
        One of `BUILT_IN`, or the name of a folder of the user.
    custom : sequence of Path
        The files in that folder; those of other sets are ignored.
    laion : bool
        Whether the model was pre-trained on LAION-400M.

    Raises
    ------
    UserError
        If the protocol does not have the set, or a file does not fit it.
    """
    if (protocol == CAPTIONS) != (opened.kind in CAPTIONED):
        raise UserError(
            f"protocol {protocol} is not for {opened.kind}, which the set {opened.name} is for: "
            f"{CAPTIONS} is for captioned images, all others are for classification."
        )
    if protocol == CAPTIONS:
        return _of_captions(opened)
    if protocol == CLIP_BENCHMARK:
        return _of_templates(protocol, opened.classnames, opened.templates, ACC1)
    if protocol == LACLIP:
        of_laclip = _of_laclip(opened.name)
        templates = of_laclip["templates"]
        if laion and of_laclip is _laclip_sets()["imagenet"]:
            from mispair.towers.light_open_clip import open_clip

            templates = [make(PLACEHOLDER) for make in open_clip.OPENAI_IMAGENET_TEMPLATES]
        renamed = of_laclip.get("classnames", {})
        return _of_templates(protocol, opened.classnames, templates, of_laclip["metric"], renamed)
    if protocol == SINGLE_PROMPT:
        return _of_templates(protocol, opened.classnames, [f"a photo of a {PLACEHOLDER}"], ACC1)
    return _custom(opened, protocol, custom)


def _of_captions(opened: EvaluationSet) -> Prompts:
    examples = [example._replace(image=b"") for example in opened.samples()]
    captions = [example.captions for example in examples]
    metric = METRIC_OF_CAPTIONS[opened.kind]
    if opened.kind == "retrieval":
        return _prompts(CAPTIONS, [], captions, metric, None)
    _refuse_unlike_pairs(examples)
    questions = [(example.category, example.pair) for example in examples]
    return replace(_prompts(CAPTIONS, [], captions, metric, None), questions=questions)


def _refuse_unlike_pairs(examples: Sequence[Example]) -> None:
    """Refuse a pair that is not two images with the same two captions, each with its own first."""
    members: dict[str, list[Example]] = {}
    for example in examples:
        if example.pair:
            members.setdefault(example.pair, []).append(example)
    for pair, of_pair in members.items():
        captions = [example.captions for example in of_pair]
        if len(of_pair) != 2 or captions[0] != captions[1][::-1] or len(captions[0]) != 2:
            keys = ", ".join(example.key for example in of_pair)
            raise UserError(
                f"{of_pair[0].shard}: pair {pair} (samples {keys}) must be two images with the "
                "same two captions in opposite order, the true one first."
            )


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
            f"(looked for {folder.absolute()}).{hint(folder.name, BUILT_IN)}"
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
                f"{hint(path.name, allowed)}"
            )


@cache
def _laclip_sets() -> dict[str, dict[str, Any]]:
    """Return templates, metric and other names of each set of ``laclip``."""
    content: dict[str, dict[str, Any]] = json.loads(LACLIP_DATA.read_text(encoding="utf-8"))
    return content


@cache
def _laclip_names() -> dict[str, dict[str, Any]]:
    """Return the same by each name of each set."""
    return {
        canonical(name): entry
        for main, entry in _laclip_sets().items()
        for name in (main, *entry["aliases"])
    }


def _of_laclip(name: str) -> dict[str, Any]:
    names = _laclip_names()
    if canonical(name) not in names:
        raise UserError(
            f"protocol {LACLIP} has no templates for the set {name}; its sets are "
            f"{', '.join(_laclip_sets())} (with or without wds_ and vtab-)."
            f"{hint(canonical(name), names)} Templates for other sets are given by a protocol of "
            f"your own: a folder with {name}.templates.txt, named under `protocols`."
        )
    return names[canonical(name)]


def _custom(opened: EvaluationSet, protocol: str, custom: Sequence[Path]) -> Prompts:
    """Return the prompts that the user's files describe."""
    prefix = composed(f"{opened.name}.")
    files = {composed(path.name).removeprefix(prefix): path for path in custom}
    given = {ending: files[ending] for ending in CUSTOM_FILES if ending in files}
    if not given:
        raise UserError(
            f"protocol {protocol} has no files for the set {opened.name}: it has none of "
            f"{', '.join(f'{opened.name}.{ending}' for ending in CUSTOM_FILES)}."
        )
    classnames = opened.classnames
    if "classnames.txt" in given:
        classnames = read_classnames(given["classnames.txt"])
        if len(classnames) != len(opened.classnames):
            raise UserError(
                f"{given['classnames.txt']}: has {len(classnames)} names for the "
                f"{len(opened.classnames)} classes of {opened.name}; give one a class, in the "
                "set's order."
            )
    metric = _metric(given["metric.txt"]) if "metric.txt" in given else ACC1
    if "json" not in given:
        path = given.get("templates.txt")
        templates = read_templates(path) if path else opened.templates
        return _of_templates(protocol, classnames, templates, metric)
    if "templates.txt" in given:
        raise UserError(
            f"{given['json']} and {given['templates.txt'].name} both give prompts for "
            f"{opened.name}; leave one of them out."
        )
    return _prompts(
        protocol, classnames, per_class(given["json"], classnames, opened.name), metric, None
    )


def _metric(path: Path) -> str:
    content = path.read_text(encoding="utf-8-sig", errors="replace").strip()
    if content not in METRICS:
        raise UserError(f"{path}: must hold {' or '.join(METRICS)}, found {content[:40]!r}.")
    return content


def _of_templates(
    protocol: str,
    classnames: list[str],
    templates: list[str],
    metric: str,
    renamed: Mapping[str, list[str]] = MappingProxyType({}),
) -> Prompts:
    """Return every template with every name of a class; `renamed` replace names of the folder."""
    texts = [
        [template.replace(PLACEHOLDER, text) for template in templates for text in names]
        for names in (renamed.get(name, [name]) for name in classnames)
    ]
    return _prompts(protocol, classnames, texts, metric, templates)


def _prompts(
    protocol: str,
    classnames: list[str],
    texts: Sequence[Sequence[str]],
    metric: str,
    templates: list[str] | None,
) -> Prompts:
    import numpy as np  # the workflow's plan needs only names from this module, and no arrays

    classes = np.repeat(np.arange(len(texts), dtype=np.int64), [len(group) for group in texts])
    flat = [text for group in texts for text in group]
    return Prompts(protocol, flat, classes, classnames, metric, templates)
