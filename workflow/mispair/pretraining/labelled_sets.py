"""Evaluation sets for the zero-shot classification by small towers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mispair.evaluation.sets import CLASSNAMES, PLACEHOLDER, open_set
from mispair.pretraining.pictures import resized


@dataclass(frozen=True)
class LabelledSet:
    """An evaluation set for classification: resized pictures with labels, prompts with classes."""

    name: str
    images: np.ndarray
    labels: np.ndarray
    prompts: list[str]
    prompt_classes: np.ndarray
    classes: int


def folders_of_sets(paths: Iterable[Path]) -> list[Path]:
    """Return the folders of evaluation sets for classification, from their files."""
    return list(dict.fromkeys(path.parent for path in paths if path.name == CLASSNAMES))


def read_set(folder: Path, side: int) -> LabelledSet:
    """Read an evaluation set with pictures of a side, and the prompts in its folder."""
    opened = open_set(folder)
    examples = list(opened.samples())
    names, templates = opened.classnames, opened.templates
    return LabelledSet(
        opened.name,
        np.stack([resized(example.decode(), side) for example in examples]),
        np.array([example.label for example in examples]),
        [template.replace(PLACEHOLDER, name) for name in names for template in templates],
        np.repeat(np.arange(len(names)), len(templates)),
        len(names),
    )
