"""Read the samples of an evaluation set: images with their classes, captions or questions."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mispair.core.files import UserError
from mispair.core.provenance import fingerprint
from mispair.evaluation.sets import (
    CAPTIONED,
    COUNTER,
    TEMPLATES,
    Kind,
    files_of,
    kind_of,
    not_supported,
    read_classnames,
    read_templates,
    whole_number,
)
from mispair.pairs.shards.shards import (
    IMAGE_EXTENSIONS,
    SIDECAR_EXTENSION,
    Sample,
    TruncatedShardError,
    read_samples,
)

if TYPE_CHECKING:
    from PIL import Image

    from mispair.towers.encoding import Picture


MOST_LETTERS = 200
"""Length of the longest name of a category or a pair."""


class Example(NamedTuple):
    """An encoded image of a set, with its shard, key and labels or captions."""

    shard: Path
    key: str
    image: bytes
    label: int = -1
    """Number of its class; -1 in a set of captioned images."""
    captions: tuple[str, ...] = ()
    """Empty in a classification set; the true one first in a question."""
    category: str = ""
    """Kind of the question; empty if it has none."""
    pair: str = ""
    """The example that a question forms with another one; empty if it forms none."""

    def decode(self) -> Image.Image:
        """Return the image as RGB.

        Raises
        ------
        UserError
            If it cannot be decoded.
        """
        # Not at the top: the Snakefile imports this module where Pillow may not be installed.
        from mispair.pairs.shards.images import UndecodableImageError, decode_image

        try:
            return decode_image(self.image)
        except UndecodableImageError as error:
            raise UserError(
                f"{self.shard}: the image of {self.key!r} cannot be decoded ({error}). Fetch the "
                "shard again: an evaluation on a part of a set would not be comparable."
            ) from error


@dataclass(frozen=True)
class EvaluationSet:
    """One split of a set on disk.

    Attributes
    ----------
    classnames : list of str
        As in ``classnames.txt``. Empty for a set of captioned images, and for one that
        `open_images` opened: it does not compare labels with the class list.
    """

    directory: Path
    kind: Kind
    classnames: list[str]
    shards: list[Path]
    given_name: str | None = None

    @property
    def name(self) -> str:
        """The name that the configuration gives the set, or else the folder's."""
        return self.given_name or self.directory.name

    @property
    def templates(self) -> list[str]:
        """The templates in the folder; a UserError if there are none, or one cannot be used."""
        return read_templates(self.directory / TEMPLATES)

    def samples(self) -> Iterator[Example]:
        """Yield every image of the split, in order, with its class or its captions.

        Raises
        ------
        UserError
            If a shard is damaged, or a sample lacks its image, a class number of the list or its
            captions.
        """
        for shard in self.shards:
            try:
                for sample in read_samples(shard, "txt" if self.kind in CAPTIONED else "cls"):
                    yield self._example(shard, sample)
            except TruncatedShardError as error:
                raise UserError(
                    f"{shard}: is damaged ({error}). Fetch it again: an evaluation on a part of "
                    "a set would not be comparable."
                ) from error

    def count(self) -> int | None:
        """Return how many images the split has, by the names in its shards; None if one is damaged.

        It reads headers only; `samples` raises the error of a damaged shard.
        """
        images = 0
        for shard in self.shards:
            try:
                with tarfile.open(shard, "r:") as opened:
                    endings = [name.rpartition(".")[2].lower() for name in opened.getnames()]
                    images += sum(ending in IMAGE_EXTENSIONS for ending in endings)
            except (OSError, tarfile.TarError):
                return None
        return images

    def _example(self, shard: Path, sample: Sample) -> Example:
        if sample.image is None:
            raise UserError(
                f"{shard}: sample {sample.key} has no image. Add {sample.key}.jpg, or remove the "
                "sample's other files."
            )
        if self.kind == "retrieval":
            return Example(shard, sample.key, sample.image, captions=_captions(shard, sample))
        if self.kind == "image_caption_selection":
            captions = _choices(shard, sample)
            return Example(shard, sample.key, sample.image, -1, captions, *_about(shard, sample))
        label = _label(shard, sample, len(self.classnames))
        return Example(shard, sample.key, sample.image, label)


def open_set(directory: Path, split: str = "test", name: str | None = None) -> EvaluationSet:
    """Open a split of an evaluation set, under another name if one is given; check its class list.

    Raises
    ------
    UserError
        If a piece is missing, or the class list cannot be used.
    """
    directory = Path(directory)
    paths = files_of(directory, split)
    kind = kind_of(directory)
    classnames = read_classnames(paths[0]) if kind == "classification" else []
    shards = [path for path in paths if path.suffix == ".tar"]
    return EvaluationSet(directory, kind, classnames, shards, name)


def open_images(files: Sequence[Path], name: str | None = None) -> EvaluationSet:
    """Open a split by its `files_of_images`, without the class list.

    So a new name of a class changes prompts and no image features. Labels are compared with the
    class list where both are used.
    """
    (counter,) = [path for path in files if path.name == COUNTER]
    directory = counter.parents[1]
    shards = [path for path in files if path.suffix == ".tar"]
    return EvaluationSet(directory, kind_of(directory), [], shards, name)


def _label(shard: Path, sample: Sample, classes: int) -> int:
    if "cls" not in sample.members and "npy" in sample.members:
        raise UserError(f"{shard}: sample {sample.key}: {not_supported('multilabel')}")
    if "cls" not in sample.members:
        others = ", ".join(sorted(set(sample.members) - {*IMAGE_EXTENSIONS}))
        has = f", and its other members, {others}, are not read as a class" if others else ""
        raise UserError(
            f"{shard}: sample {sample.key} has no {sample.key}.cls{has}. Write the number of its "
            "line of the class list there, counted from 0."
        )
    text = sample.members["cls"].decode("utf-8-sig", errors="replace").strip()
    label = whole_number(text)
    if label is None:
        raise UserError(
            f"{shard}: sample {sample.key} has class {text[:40]!r}, but KEY.cls must hold the "
            "number of a line of the class list, counted from 0."
        )
    if classes and label >= classes:
        raise UserError(
            f"{shard}: sample {sample.key} has class {text[:40]!r}, but the class list has "
            f"{classes} names, so 0 to {classes - 1} are allowed. Labels and list do not fit."
        )
    return label


def _captions(shard: Path, sample: Sample) -> tuple[str, ...]:
    """Return the captions of an image, one a line or all in a list; empty lines are ignored."""
    try:
        text = (sample.caption or b"").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{shard}: sample {sample.key} has a caption that is not UTF-8. Write the shard again "
            "with texts in UTF-8, or without the sample."
        ) from error
    from mispair.pairs.captions.decoding import listed_texts  # the workflow's plan needs no texts

    try:
        listed = listed_texts(text)
    except ValueError as error:
        raise UserError(f"{shard}: the caption of sample {sample.key} is {error}.") from error
    lines = text.splitlines() if listed == [text] else listed
    captions = tuple(line.strip() for line in lines if line.strip())
    if not captions:
        raise UserError(
            f"{shard}: sample {sample.key} has no caption. KEY.txt must be next to each image, "
            "with one caption per line, at most 1 MiB."
        )
    return captions


def _choices(shard: Path, sample: Sample) -> tuple[str, ...]:
    """Return the captions of a question: at least one false one, and none like the true one."""
    captions = _captions(shard, sample)
    if len(captions) < 2:
        raise UserError(
            f"{shard}: sample {sample.key} has one caption only. A question has the true caption "
            "in the first line of KEY.txt and at least one false one after it."
        )
    true, *others = (" ".join(caption.casefold().split()) for caption in captions)
    if true in others:
        raise UserError(
            f"{shard}: sample {sample.key} has its true caption twice ({captions[0][:60]!r}). No "
            "answer to such a question is right or wrong: remove the sample, or correct KEY.txt."
        )
    return captions


def _about(shard: Path, sample: Sample) -> tuple[str, str]:
    """Return category and pair of a question from ``KEY.json``; empty if they are missing.

    The file may be missing, as in sets that others wrote.
    """
    fields = _sidecar(shard, sample)
    category, pair = (fields.get(name) for name in ("category", "pair"))
    texts = ["" if each is None else str(each) for each in (category, pair)]
    if any(isinstance(each, dict | list) or len(text) > MOST_LETTERS
           for each, text in zip((category, pair), texts, strict=True)):  # fmt: skip
        raise UserError(
            f"{shard}: {sample.key}.json must give category and pair as texts of at most "
            f"{MOST_LETTERS} letters."
        )
    return texts[0], texts[1]


def _sidecar(shard: Path, sample: Sample) -> dict[str, Any]:
    """Return the fields of ``KEY.json``; none if the file is missing or holds another value.

    Raises
    ------
    UserError
        If it is not JSON.
    """
    try:
        content = json.loads(sample.members.get(SIDECAR_EXTENSION, b"{}").decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{shard}: {sample.key}.json is not JSON ({error}). Write the shard again with a "
            "correct file, or without it."
        ) from error
    return content if isinstance(content, dict) else {}


# Labels and digests of the images of a set, next to their features.


class ImageFacts:
    """Labels and digests of the images of a split, collected while they are encoded."""

    def __init__(self, opened: EvaluationSet) -> None:
        self.opened = opened
        self.labels: list[int] = []
        self._contents: list[bytes] = []

    def pictures(self) -> Iterator[Picture]:
        """Yield every image for the tower, and collect its facts."""
        from mispair.towers.encoding import Picture  # only encoding needs torch

        for example in self.opened.samples():
            self.labels.append(example.label)
            self._contents.append(hashlib.sha256(example.image).digest())
            yield Picture(f"{example.shard}: {example.key}", example.image, example.decode)

    def targets(self) -> dict[str, np.ndarray]:
        """Return the targets that answers are compared with, each (n,) of int64.

        For classification these are ``labels``. For the choice of captions they are ``pictures``:
        images with the same number are the same picture, because several questions may be about
        one. Retrieval has none.
        """
        if self.opened.kind == "image_caption_selection":
            pictures = np.unique(self._contents, return_inverse=True)[1]
            return {"pictures": pictures.astype(np.int64)}
        if self.opened.kind != "classification":
            return {}
        return {"labels": np.asarray(self.labels, np.int64)}

    def fingerprint(self) -> str:
        """Return the fingerprint of the images and their labels."""
        return fingerprint([*self._contents, *map(str, self.labels)])
