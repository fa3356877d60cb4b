"""Evaluate one pair of projections on every evaluation set, under every protocol."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mispair.core import settings

if TYPE_CHECKING:
    import numpy as np

    from mispair.core.intervals import Row

    Scored = tuple[np.ndarray | None, list[Row]]

log = logging.getLogger(__name__)


class Asked(NamedTuple):
    """The embeddings of a set and of its texts, of one seed, with what is known of both."""

    key: str
    images: np.ndarray
    of_images: Mapping[str, np.ndarray]
    texts: np.ndarray
    of_texts: Mapping[str, np.ndarray]
    protocol: Mapping[str, str]


class Settings(settings.Settings):
    """`evaluate_zeroshot` has no settings: a protocol belongs to the features of its prompts."""


def run(
    settings: Settings,
    *,
    projection: Path,
    images: list[Path],
    prompts: list[Path],
    zeroshot: Path,
    answers: Path,
) -> None:
    """Write scores of every set, protocol and seed, and the answers that they were taken from.

    Classification sets have accuracies, recalls, silhouette and the check of the class list, sets
    of captioned pictures the recalls of retrieval or the shares of right choices. A file of prompts
    belongs to the file of images in its folder.
    """
    from mispair.core import files, metrics
    from mispair.core.progress import Progress
    from mispair.evaluation.zeroshot import embed, silhouette_row

    tensors, origin = files.read_tensors(projection)
    stacks = tensors["image_projection"], tensors["text_projection"]
    names = json.loads(origin.get("seeds", "null")) or range(len(stacks[0]))
    rows: list[Row] = []
    given: dict[str, np.ndarray] = {}
    chances: dict[str, float] = {}
    sets: dict[str, dict[str, str]] = {}
    protocols: dict[str, dict[str, dict[str, str]]] = {}
    folders = {path.parent for path in images}
    if alone := [path for path in prompts if path.parent not in folders]:
        raise files.UserError(f"{alone[0]}: has no images next to it, {alone[0].parent}.")
    progress = Progress("evaluating", len(images) * len(stacks[0]), "sets and seeds")
    progress.reach(0)
    for path in images:
        pictures, metadata = files.read_tensors(path)
        name, kind = metadata["name"], metadata["kind"]
        asked = {p: files.read_tensors(p) for p in prompts if p.parent == path.parent}
        if not asked or name in sets:
            raise files.UserError(f"{path}: has no prompts next to it, or {name} is given twice.")
        sets[name] = metadata
        protocols[name] = {protocol["protocol"]: protocol for _, protocol in asked.values()}
        _refuse_other_towers(
            origin,
            {path: metadata} | {p: facts for p, (_, facts) in asked.items()},
        )
        for about_images in ("labels", "pictures"):
            if about_images in pictures:
                given[f"{name}|{about_images}"] = pictures[about_images]
        for seed, image, text in zip(names, *stacks, strict=True):
            with _naming(path):
                embeddings = embed(pictures["image_features"], image)
            labels = pictures.get("labels")
            silhouette = [] if labels is None else [silhouette_row(embeddings, labels)]
            for source, (texts, protocol) in asked.items():
                key = f"{name}|{protocol['protocol']}|{seed}"
                with _naming(source):
                    prompted = embed(texts["prompt_features"], text)
                with _naming(path, source):
                    credited, scores = SCORES[kind](
                        Asked(key, embeddings, pictures, prompted, texts, protocol)
                    )
                if credited is not None:
                    given[key] = credited
                    chances[key.rpartition("|")[0]] = scores[0]["chance"]
                keys = {"evaluation_set": name, "protocol": protocol["protocol"], "seed": seed}
                keys["fingerprint"] = protocol["fingerprint"]
                rows += [{**keys, **row} for row in [*scores, *silhouette]]
                _log(key, [*scores, *silhouette])
            progress.advance()
    progress.close()
    headline = {
        name: {protocol: metadata["metric"] for protocol, metadata in of_set.items()}
        for name, of_set in protocols.items()
    }
    about_sets = {"evaluation_sets": sets, "protocols": protocols, "headline": headline}
    metrics.write_metrics(zeroshot, rows, {"projection": origin, **about_sets})
    of_images = {name: metadata["images_fingerprint"] for name, metadata in sets.items()}
    of_prompts = {
        f"{name}|{protocol}": metadata["fingerprint"]
        for name, of_set in protocols.items()
        for protocol, metadata in of_set.items()
    }
    about = {"projection": origin, "sets": of_images, "protocols": of_prompts, "chances": chances}
    files.write_tensors(answers, given, {key: json.dumps(one) for key, one in about.items()})


def _classification(asked: Asked) -> Scored:
    """Return the answers and the scores, and warn of a class list that does not fit."""
    import numpy as np

    from mispair.evaluation.label_check import check
    from mispair.evaluation.zeroshot import accuracies, classifier_of, classify

    classnames, labels = json.loads(asked.protocol["classnames"]), asked.of_images["labels"]
    classes = classifier_of(asked.texts, asked.of_texts["prompt_classes"])
    if len(classnames) != len(classes):
        raise ValueError(f"only {len(classes)} of {len(classnames)} classes have prompts")
    answers, ranks = classify(asked.images, classes, labels)
    checked = check(answers, labels, len(classes))
    if checked.flagged:
        log.warning("%s: %s.", asked.key, checked.described(classnames))
    rows = accuracies(ranks, labels, len(classes))
    for row in rows:
        if "class" in row:
            row["classname"] = classnames[row.pop("class")]
    return answers.astype(np.int32), [*rows, *checked.rows()]


def _retrieval(asked: Asked) -> Scored:
    from mispair.evaluation.retrieval import recalls

    return None, recalls(asked.images, asked.texts, asked.of_texts["prompt_classes"])


def _selection(asked: Asked) -> Scored:
    """Return the credits of the answers, which are no classes, and the scores."""
    import numpy as np

    from mispair.evaluation.selection import Questions, selections

    names, of_texts = tuple(json.loads(asked.protocol["categories"])), asked.of_texts
    questions = Questions(
        of_texts["prompt_classes"], of_texts["categories"], names, of_texts["pairs"]
    )
    credit, rows = selections(asked.images, asked.texts, questions, asked.of_images["pictures"])
    return credit.astype(np.float32), rows


SCORES = {
    "classification": _classification,
    "retrieval": _retrieval,
    "image_caption_selection": _selection,
}
"""By the kind of a set: what returns the answers, if they can be compared image by image, and
the scores, the main one first."""


def _log(key: str, rows: list[Row]) -> None:
    for row in rows:
        if math.isnan(row["value"]):
            log.warning("%s: no silhouette (images of one class, or one image a class)", key)
        elif "classname" not in row:
            log.info("%s: %s %.4f (n = %d)", key, row["metric"], row["value"], row["n"])


def _refuse_other_towers(
    origin: Mapping[str, str], inputs: Mapping[Path, Mapping[str, str]]
) -> None:
    from mispair.core.files import UserError

    for path, metadata in inputs.items():
        if metadata.get("towers") != origin.get("towers"):
            raise UserError(
                f"{path}: comes from other towers than the projection. Encode it again."
            )


@contextmanager
def _naming(*paths: Path) -> Iterator[None]:
    """Name the files in which something is wrong."""
    from mispair.core.files import UserError

    try:
        yield
    except ValueError as error:
        raise UserError(f"{' with '.join(map(str, paths))}: {error}.") from error
