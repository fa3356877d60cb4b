"""The sign of the effect of wrong captions on the overlap of neurons, by pairs per parameter.

Projections are trained on right captions first, then fine-tuned on a part of the pairs with a share
C_m of the captions exchanged. The number of pairs, the number of neurons and the logit scale vary.
The number of steps does not, so that fewer pairs are seen more often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from mispair.core import files, seeds
from mispair.core.files import replacing_folder
from mispair.emoji import joining
from mispair.emoji.crossings import changes, crossings, pooled
from mispair.emoji.joining import features_of_pairs, read_pairs, train
from mispair.emoji.training_settings import Grid, Scale
from mispair.evaluation.purity import neuron_overlap, unit_columns
from mispair.evaluation.retrieval import recalls
from mispair.evaluation.sets import open_set
from mispair.evaluation.zeroshot import classifier, classify, embed
from mispair.pairs.corruption.corruption import shuffle_captions
from mispair.towers.activation_overlap import mean_abs_correlation
from mispair.towers.encoding import encode_images, encode_texts
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning.finetuning_settings import PRESETS, FinetuningLength
from mispair.towers.finetuning.projection import Projections, Tuned, finetune
from mispair.towers.loading import Towers, load_towers

Row = dict[str, Any]

ROWS, CHANGES, CROSSINGS, POOLED = "regimes.csv", "changes.csv", "crossings.csv", "pooled.csv"

PRESET = PRESETS["as-run-one-process"]
WARMUP_SHARE = 0.1
"""Share of the epochs in which the learning rate rises, as in the preset."""


class LabelledFeatures(NamedTuple):
    """Features of the images and the texts of an evaluation set, and labels.

    ``labels`` are the classes of the images of a classification set, and the image of each text
    of a retrieval set.
    """

    kind: Literal["classification", "retrieval"]
    images: np.ndarray
    texts: np.ndarray
    labels: np.ndarray


def labelled_features(towers: Towers, folder: Path) -> LabelledFeatures:
    """Encode an evaluation set for classification (by class names alone) or retrieval.

    Raises
    ------
    UserError
        If the set cannot be read, or is of another kind.
    """
    evaluation_set = open_set(folder)
    kind = evaluation_set.kind
    if kind not in ("classification", "retrieval"):
        raise files.UserError(f"{folder}: is for {kind}; give one for classification or retrieval.")
    examples = list(evaluation_set.samples())
    if kind == "classification":
        texts, labels = evaluation_set.classnames, np.array([one.label for one in examples])
    else:
        texts = [text for one in examples for text in one.captions]
        labels = np.repeat(np.arange(len(examples)), [len(one.captions) for one in examples])
    images = encode_images(towers, (one.decode() for one in examples), joining.BATCH_SIZE)
    return LabelledFeatures(kind, images, encode_texts(towers, texts, joining.BATCH_SIZE), labels)


def training(pairs: int, scale: Scale, steps: int) -> FinetuningLength:
    """Return the preset's training with at least `steps` steps for any number of pairs.

    Raises
    ------
    ValueError
        If the pairs do not fill a batch.
    """
    if pairs < PRESET.batch_size:
        raise ValueError(f"{pairs} pairs do not fill a batch of {PRESET.batch_size}")
    epochs = math.ceil(steps / (pairs // PRESET.batch_size))
    return replace(
        PRESET,
        epochs=epochs,
        warmup_epochs=min(max(1, round(WARMUP_SHARE * epochs)), epochs - 1),
        logit_scale="frozen" if scale == "frozen" else "solved",
    )


def corrupted(
    features: PairedFeatures, pairs: int, rate: float, seeds_of: Sequence[int]
) -> PairedFeatures:
    """Return a draw of pairs for each seed, with a share of the captions exchanged.

    The draws have the same pairs at every rate. Pairs whose captions are exchanged at a small rate
    are among those at a large one.

    Parameters
    ----------
    features : PairedFeatures
        One draw of n pairs whose captions are right.
    pairs : int
        Pairs of each draw, at most n.
    rate : float
        C_m.
    seeds_of : sequence of int
        Seeds of the draws.
    """
    images, texts, keeps = [], [], []
    for seed in seeds_of:
        order = seeds.generator(seed, "regimes", "pairs").permutation(features.pairs)
        rows = np.sort(order[:pairs])
        captions = features.text_rows[0][rows]
        swaps = shuffle_captions(
            np.array([f"{row:08d}" for row in rows]),
            rate,
            seeds.generator(seed, "regimes", "swaps"),
            captions,
        )
        images.append(rows)
        texts.append(captions[swaps])
        keeps.append(captions[swaps] == captions)
    return replace(
        features,
        text_rows=np.stack(texts),
        image_rows=np.stack(images),
        keeps_caption=np.stack(keeps),
    )


def measure(
    features: PairedFeatures,
    sets: Mapping[str, LabelledFeatures],
    models: Callable[[int, int], Projections],
    grid: Grid,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Yield tidy rows of every training of the grid.

    Parameters
    ----------
    features : PairedFeatures
        One draw of all pairs, with right captions.
    sets : mapping
        Evaluation sets by name.
    models : callable
        From a number of neurons and a seed to the projections that fine-tuning starts from.
    grid : Grid
        What is trained.
    progress : callable
        Gets a line on each finished training.

    Yields
    ------
    dict
        ``pairs``, ``neurons``, ``parameters``, ``scale``, ``rate``, ``seed``, ``metric`` and
        ``value``. Rows of the models before the fine-tuning have ``scale`` "untouched", no
        ``pairs`` and no ``rate``.

    Raises
    ------
    ValueError
        If the pairs do not fill a batch.
    FloatingPointError
        If a training diverges.
    """
    streams = [seeds.integer("regimes", number) for number in range(grid.seeds)]
    covariances = [np.cov(array.T) for array in (features.image_features, features.text_features)]
    numbers = sorted({min(number, features.pairs) for number in grid.numbers})
    for neurons in grid.neurons:
        model = _stacked([models(neurons, number) for number in range(grid.seeds)])
        widths = {"neurons": neurons, "parameters": model.image[0].size + model.text[0].size}
        for number in range(grid.seeds):
            labels = {**widths, "pairs": None, "scale": "untouched", "rate": None, "seed": number}
            yield from _named(labels, _of_projections(model, number, covariances, sets))
        for pairs in numbers:
            for scale in grid.scales:
                for rate in sorted(grid.rates):
                    data = corrupted(features, pairs, rate, streams)
                    tuned = finetune(data, model, training(pairs, scale, grid.steps), streams)
                    labels = {**widths, "pairs": pairs, "scale": scale, "rate": rate}
                    for number in range(grid.seeds):
                        values = _of_projections(tuned.projections, number, covariances, sets)
                        values |= _of_training(data, tuned, features, number)
                        yield from _named({**labels, "seed": number}, values)
                    progress(f"{neurons} neurons, {pairs} pairs, scale {scale}, C_m {rate:g}")


def run(
    pairs: Path,
    towers: Path,
    sets: Sequence[Path],
    target: Path,
    grid: Grid,
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
        return train(features, neurons, joining.training(grid.epochs), seed).projections

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


def _stacked(models: Sequence[Projections]) -> Projections:
    arrays = [model.tensors() for model in models]
    return Projections.from_tensors(
        {name: np.concatenate([one[name] for one in arrays]) for name in arrays[0]}
    )


def _named(labels: Row, values: Mapping[str, float]) -> Iterator[Row]:
    yield from ({**labels, "metric": metric, "value": value} for metric, value in values.items())


def _of_projections(
    projections: Projections,
    number: int,
    covariances: Sequence[np.ndarray],
    sets: Mapping[str, LabelledFeatures],
) -> dict[str, float]:
    """Return overlap, spectrum and accuracy of one run of a stack."""
    image, text = projections.image[number], projections.text[number]
    values = {"logit_scale": float(np.exp(projections.logit_scale[number]))}
    for tower, matrix, covariance in zip(
        ("image", "text"), (image, text), covariances, strict=True
    ):
        columns = unit_columns(matrix)
        values[f"mean_abs_cosine_{tower}"] = float(neuron_overlap(matrix).mean())
        values[f"mean_abs_correlation_{tower}"] = mean_abs_correlation(matrix, covariance)
        eigenvalues = np.linalg.eigvalsh(columns.T @ columns)
        values[f"participation_ratio_{tower}"] = float(
            eigenvalues.sum() ** 2 / (eigenvalues**2).sum()
        )
    for name, labelled in sets.items():
        images, label = embed(labelled.images, image), labelled.labels
        if labelled.kind == "classification":
            vectors = classifier(labelled.texts, np.arange(len(labelled.texts)), text)
            values[f"acc1_{name}"] = float((classify(images, vectors, label)[1] == 0).mean())
        else:
            rows = recalls(images, embed(labelled.texts, text), label)
            recall = {row["metric"]: float(row["value"]) for row in rows}
            values[f"image_recall@5_{name}"] = recall["image_recall@5"]
    return values


def _of_training(
    data: PairedFeatures, tuned: Tuned, clean: PairedFeatures, number: int
) -> dict[str, float]:
    """Return the last loss, and how many exchanged captions are learned."""
    projections, loss = tuned.projections, tuned.loss
    assert data.image_rows is not None
    assert data.keeps_caption is not None
    rows, given = data.image_rows[number], data.text_rows[number]
    images = embed(data.image_features[rows], projections.image[number])
    texts = embed(data.text_features, projections.text[number])
    cosines, own_cosines = (
        np.einsum("ij,ij->i", images, texts[of]) for of in (given, clean.text_rows[0][rows])
    )
    values = {"loss": float(loss[number, -max(1, loss.shape[1] // 10) :].mean())}
    wrong = ~data.keeps_caption[number]
    if wrong.any():
        values["learned_share"] = float((cosines > own_cosines)[wrong].mean())
    return values
