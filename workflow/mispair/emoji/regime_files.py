"""Run the regimes on a corpus and towers on disk, and write tables and the figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from mispair.core import files
from mispair.core.folders import replacing_folder
from mispair.emoji import joining
from mispair.emoji.crossings import changes, crossings, pooled
from mispair.emoji.joining import features_of_pairs, read_pairs, train
from mispair.emoji.regimes import Grid, LabelledFeatures, measure
from mispair.evaluation.sets import open_set
from mispair.towers.encoding import encode_images, encode_texts
from mispair.towers.finetuning.projection import Projections
from mispair.towers.loading import Towers, load_towers

ROWS, CHANGES, CROSSINGS, POOLED = "regimes.csv", "changes.csv", "crossings.csv", "pooled.csv"


def labelled_features(towers: Towers, folder: Path) -> LabelledFeatures:
    """Encode an evaluation set for classification (by class names alone) or retrieval.

    Raises
    ------
    UserError
        If the set cannot be read, or is of another kind.
    """
    evaluation_set = open_set(folder)
    examples = list(evaluation_set.samples())
    images = encode_images(towers, (one.decode() for one in examples), joining.BATCH_SIZE)
    if evaluation_set.kind == "classification":
        texts, labels = evaluation_set.classnames, np.array([one.label for one in examples])
        return LabelledFeatures(
            "classification", images, encode_texts(towers, texts, joining.BATCH_SIZE), labels
        )
    if evaluation_set.kind == "retrieval":
        texts = [text for one in examples for text in one.captions]
        labels = np.repeat(np.arange(len(examples)), [len(one.captions) for one in examples])
        return LabelledFeatures(
            "retrieval", images, encode_texts(towers, texts, joining.BATCH_SIZE), labels
        )
    raise files.UserError(
        f"{folder}: is for {evaluation_set.kind}; give one for classification or retrieval."
    )


def run(
    pairs: Path,
    towers: Path,
    sets: Sequence[Path],
    target: Path,
    grid: Grid,
    epochs: int,
    progress: Callable[[str], None] = lambda text: None,
) -> pd.DataFrame:
    """Write all rows, the changes with their intervals, and the crossings; return the crossings.

    Parameters
    ----------
    pairs : Path
        Folder of shards whose captions are right.
    towers : Path
        Folder of towers; their own projections are not used.
    sets : sequence of Path
        Folders of evaluation sets.
    target : Path
        Folder to write; replaced as a whole.
    grid : Grid
        What is trained.
    epochs : int
        Passes over all pairs of the models that fine-tuning starts from.
    progress : callable
        Gets a line on each finished training.

    Raises
    ------
    UserError
        If a file cannot be read, or a training is impossible or diverges.
    """
    frozen = load_towers(towers)
    features = features_of_pairs(frozen, read_pairs(pairs))
    labelled = {path.name: labelled_features(frozen, path) for path in sets}
    progress(f"{features.pairs} pairs and {len(labelled)} evaluation sets are encoded")

    def model(neurons: int, seed: int) -> Projections:
        return train(features, neurons, joining.training(epochs), seed).projections

    try:
        rows = pd.DataFrame(measure(features, labelled, model, grid, progress))
    except (ValueError, FloatingPointError) as error:
        raise files.UserError(f"measure-regimes: {error}.") from error
    changed = changes(rows)
    crossed = crossings(changed)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing_folder(target) as folder:
        files.write_csv(folder / ROWS, rows)
        files.write_csv(folder / CHANGES, changed.drop(columns="by_seed"))
        files.write_csv(folder / CROSSINGS, crossed)
        files.write_csv(folder / POOLED, pooled(changed))
    return crossed
