"""Evaluate one pair of projections on every evaluation set, under every protocol."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core import settings

if TYPE_CHECKING:
    import numpy as np

    from mispair.core.distributions import Row
    from mispair.evaluation.inputs import EncodedSet, Stack


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
    """Write scores of every set, protocol and seed, and the answers that they were computed from.

    Classification sets have accuracies, recalls and silhouette. Sets of captioned pictures have the
    recalls of retrieval or the shares of right choices. A file of prompts belongs to the file of
    images in its folder. Sets that a former job scored with the same projections are not scored
    again.
    """
    from mispair.core import files, metrics
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, file_digest
    from mispair.core.reuse import Parts
    from mispair.evaluation.inputs import read_projections, read_sets
    from mispair.evaluation.set_scores import Results

    stack = read_projections(projection)
    results = Results()
    code = code_version("evaluate_zeroshot")
    kept = Parts(zeroshot, [zeroshot.name, file_digest(projection), *code])
    number = len(images) * len(stack.seeds)
    with Progress("evaluating", number, "sets and seeds") as progress:
        progress.reach(0)
        for encoded in read_sets(images, prompts, stack.towers):
            results.add_set(encoded)
            results.add(*kept.measured(encoded.digest(), partial(_results, stack, encoded)))
            progress.advance(len(stack.seeds))
    provenance = {"projection": stack.origin, **results.provenance()}
    metrics.write_metrics(zeroshot, results.rows, provenance)
    files.write_tensors(answers, results.answers, results.metadata(stack.origin))
    kept.replace()


def _results(stack: Stack, encoded: EncodedSet) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Return the scores of a set by every seed and protocol, and its answers by name."""
    from mispair.evaluation.set_scores import scores_of

    rows: list[Row] = []
    answers: dict[str, np.ndarray] = {}
    for seed, image, text in stack.of_seeds():
        for protocol, of_images, scores in _scores(encoded, image, text):
            name, of_protocol = scores_of(encoded.name, protocol, seed, scores)
            rows += of_protocol
            if of_images is not None:
                answers[name] = of_images
    return rows, answers


def _scores(
    encoded: EncodedSet, image: np.ndarray, text: np.ndarray
) -> Iterator[tuple[dict[str, str], np.ndarray | None, list[Row]]]:
    """Yield for each protocol its metadata, the answers and the scores; errors name the files."""
    from mispair.evaluation.classification import embed, silhouette_row
    from mispair.evaluation.inputs import naming
    from mispair.evaluation.set_scores import SCORES, Asked

    path, tensors, metadata = encoded.images
    with naming(path):
        embeddings = embed(tensors["image_features"], image)
    silhouette = [] if encoded.labels is None else [silhouette_row(embeddings, encoded.labels)]
    for source, texts, protocol in encoded.prompts:
        with naming(source):
            prompted = embed(texts["prompt_features"], text)
        query = Asked(embeddings, tensors, prompted, texts, protocol)
        with naming(f"{path} with {source}"):
            answers, scores = SCORES[metadata["kind"]](query)
        yield protocol, answers, [*scores, *silhouette]
