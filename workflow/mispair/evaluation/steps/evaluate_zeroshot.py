"""Evaluate one pair of projections on every evaluation set, under every protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core import settings

if TYPE_CHECKING:
    import numpy as np

    from mispair.core.intervals import Row
    from mispair.evaluation.inputs import EncodedSet


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
    images in its folder.
    """
    from mispair.core import files, metrics
    from mispair.core.progress import Progress
    from mispair.evaluation.inputs import read_projections, read_sets
    from mispair.evaluation.set_scores import Results

    stack = read_projections(projection)
    results = Results()
    number = len(images) * len(stack.seeds)
    with Progress("evaluating", number, "sets and seeds") as progress:
        progress.reach(0)
        for encoded in read_sets(images, prompts, stack.towers):
            results.add_set(encoded)
            for seed, image, text in stack.of_seeds():
                for protocol, of_images, scores in _scores(encoded, image, text):
                    results.add(encoded.name, protocol, seed, of_images, scores)
                progress.advance()
    provenance = {"projection": stack.origin, **results.provenance()}
    metrics.write_metrics(zeroshot, results.rows, provenance)
    files.write_tensors(answers, results.answers, results.metadata(stack.origin))


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
