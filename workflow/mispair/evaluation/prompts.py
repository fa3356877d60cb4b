"""The prompts of a protocol for a set, of its classes or its captions; see `protocols`."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mispair.core.files import UserError, text_of_user
from mispair.core.provenance import fingerprint
from mispair.core.words import composed, nearest
from mispair.evaluation.protocols import (
    CAPTIONS,
    CLIP_BENCHMARK,
    CUSTOM_FILES,
    LACLIP,
    SINGLE_PROMPT,
    laclip_sets,
    of_laclip,
)
from mispair.evaluation.set_samples import EvaluationSet, Example
from mispair.evaluation.sets import (
    CAPTIONED,
    PLACEHOLDER,
    Kind,
    canonical,
    read_classnames,
    read_json,
    read_templates,
)

ACC1 = "acc1"
METRICS = (ACC1, "mean_per_class_recall")
METRIC_OF_CAPTIONS: dict[Kind, str] = {
    "retrieval": "image_recall@1",
    "image_caption_selection": "selection_acc",
}


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
        of_set = of_laclip(opened.name)
        templates = of_set["templates"]
        if laion and of_set is laclip_sets()["imagenet"]:
            from mispair.towers.light_open_clip import open_clip

            templates = [make(PLACEHOLDER) for make in open_clip.OPENAI_IMAGENET_TEMPLATES]
        renamed = of_set.get("classnames", {})
        return _of_templates(protocol, opened.classnames, templates, of_set["metric"], renamed)
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


def _custom(opened: EvaluationSet, protocol: str, custom: Sequence[Path]) -> Prompts:
    """Return the prompts that the user's files describe."""
    prefix = composed(f"{opened.name}.")
    files = {composed(path.name).removeprefix(prefix): path for path in custom}
    given = {ending: files[ending] for ending in CUSTOM_FILES if ending in files}
    if not given:
        raise UserError(
            f"protocol {protocol} has no files for the set {opened.name}: it has none of "
            f"{', '.join(f'{opened.name}.{ending}' for ending in CUSTOM_FILES)}. Add one, or take "
            "the protocol out of `protocols`."
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
    content = text_of_user(path, "replace").strip()
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
    classes = np.repeat(np.arange(len(texts), dtype=np.int64), [len(group) for group in texts])
    flat = [text for group in texts for text in group]
    return Prompts(protocol, flat, classes, classnames, metric, templates)


# Prompts that a user's file gives for each class, flat or nested under the names of sets.


def per_class(path: Path, classnames: Sequence[str], set_name: str) -> list[list[str]]:
    """Read prompts for each class from JSON, ``{class name: [prompt, ...]}``.

    CuPL's files of CLIP_benchmark have such tables of several sets, by the names of the sets.

    Parameters
    ----------
    path : Path
        The file.
    classnames : sequence of str
        Classes of the set; each needs prompts. Names that differ only by Unicode composition are
        the same.
    set_name : str
        Name of the set.

    Returns
    -------
    list of list of str
        Prompts of each class, with its name for ``{c}``.

    Raises
    ------
    UserError
        If it cannot be read, a class has no prompts, or a name is no class of the set.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError(
            f"{path}: is JSON of another form. Write {{class name: [prompt, ...], ...}} with all "
            "classes."
        )
    given = _of_set(content, set_name, path)
    content = {composed(name): texts for name, texts in given.items()}
    if len(content) < len(given):
        twice = [name for name, times in Counter(map(composed, given)).items() if times > 1]
        raise UserError(
            f"{path}: {_some(twice)} is given twice, in two forms of Unicode. Remove one of them."
        )
    names = [*map(composed, classnames)]
    missing = [name for name in names if name not in content]
    unknown = [name for name in content if name not in names]
    if missing:
        near = nearest(missing[0], unknown or content)
        raise UserError(
            f"{path}: has no prompts for {_some(missing)}.{near} Write a list of prompts for each "
            "class."
        )
    if unknown:
        near = nearest(unknown[0], names)
        raise UserError(
            f"{path}: {_some(unknown)} is no class of the set.{near} Rename or remove it."
        )
    for name in names:
        texts = content[name]
        usable = isinstance(texts, list) and all(isinstance(t, str) and t.strip() for t in texts)
        if not usable or not texts:
            raise UserError(f"{path}: {name!r} must have a list of at least one prompt.")
        if any("{}" in text for text in texts):
            raise UserError(
                f"{path}: a prompt of {name!r} has {{}}. Write {PLACEHOLDER} for the class's name."
            )
    return [
        [text.replace(PLACEHOLDER, name) for text in content[composed(name)]] for name in classnames
    ]


def _of_set(content: dict[str, Any], set_name: str, path: Path) -> dict[str, Any]:
    """Return the table of a set, from a file that may have those of several sets by name."""
    if not content or not all(isinstance(value, dict) for value in content.values()):
        return content
    names = [name for name in content if canonical(name) == canonical(set_name)]
    if len(names) > 1:
        raise UserError(f"{path}: has {_some(names)} for the set {set_name}; remove all but one.")
    if len(content) > 1 and not names:
        raise UserError(
            f"{path}: has prompts for the sets {_some([*content])}, and none for {set_name}. Name "
            f"the table of this set {set_name!r}."
        )
    # The file is named after the set: a single table in it is the set's.
    table: dict[str, Any] = content[names[0] if names else next(iter(content))]
    return table


def _some(names: Sequence[str], most: int = 5) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
