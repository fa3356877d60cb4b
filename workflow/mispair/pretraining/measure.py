"""Measures of small towers: mixing scores, recovery, overlap and zero-shot accuracy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.core.metrics import Row
from mispair.evaluation.classification import accuracies, classifier, classify, embed
from mispair.evaluation.protocols import CLIP_BENCHMARK
from mispair.evaluation.purity import neuron_overlap
from mispair.evaluation.set_samples import open_set
from mispair.evaluation.sets import PLACEHOLDER
from mispair.pairs.captions.caption_texts import read_pictured_features
from mispair.pairs.scenes.scene_captions import FEATURES, VOCABULARY, codes
from mispair.pretraining.data import bags, resized
from mispair.pretraining.mixing import (
    Sample,
    centred_by_kind,
    comparisons,
    correlations,
    cross_fitted,
    halves,
    identify,
    mixing,
    readouts,
)
from mispair.pretraining.settings import IDENTIFIED, LINEAR, NEURONS, PROMPTS
from mispair.pretraining.towers import SmallTowers, features_of_pictures, features_of_texts


@dataclass(frozen=True)
class HeldOutPairs:
    """Pairs that towers were not trained on.

    Attributes
    ----------
    images : (n, side, side, 3) uint8 array
    captions : list of str
    codes : (n, f) bool array
        Which of `FEATURES` each picture shows.
    """

    images: np.ndarray
    captions: list[str]
    codes: np.ndarray


def true_features(keys: Sequence[str], truth: Iterable[Path]) -> np.ndarray:
    """Return which of `FEATURES` the pictures of pairs show, (n, f) bool.

    The tables of `truth` have the columns ``key`` and ``image_features``.

    Raises
    ------
    UserError
        If a pair has no features in `truth`.
    """
    shown = read_pictured_features(truth)
    if missing := next((key for key in keys if key not in shown), None):
        raise UserError(
            f"measure_mixing: there are no true features of the pair {missing!r}. The study needs "
            "the generated corpus: set `shards: generated`."
        )
    return codes([shown[key] for key in keys])


def words_of_features(features: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return every text of the vocabulary, and the column (t,) of the feature that it names."""
    texts = [VOCABULARY[kind][value] for kind, value in (name.split(":") for name in features)]
    columns = np.repeat(np.arange(len(features)), [len(of_feature) for of_feature in texts])
    return [text for of_feature in texts for text in of_feature], columns


def embeddings_of(
    text_features: np.ndarray, projection: np.ndarray, features: np.ndarray
) -> np.ndarray:
    """Return the mean embedding of the words of each feature as directions, (e, f).

    Parameters
    ----------
    text_features : (t, d) array
        Of the words, before the projection.
    projection : (d, e) array
        Text projection.
    features : (t,) array of int
        Column of the feature that each word names.
    """
    embedded = embed(text_features, projection)
    means = [embedded[features == column].mean(axis=0) for column in np.unique(features)]
    return np.stack(means, axis=1)


def measure_towers(
    model: SmallTowers, words: Sequence[str], pairs: HeldOutPairs, partners: Mapping[str, str],
    components: int, seed: int,
) -> list[Row]:  # fmt: skip
    """Return the rows of `measure_tower` and the overlap of neurons of both towers.

    `words` is the vocabulary of the text tower; for other parameters see `measure_tower`.
    """
    features = {
        "image": features_of_pictures(model, pairs.images),
        "text": features_of_texts(model, bags(pairs.captions, words)),
    }
    projections = {
        "image": model.image_projection.detach().numpy(),
        "text": model.text_projection.detach().numpy(),
    }
    texts, columns = words_of_features(FEATURES)
    prompts = embeddings_of(
        features_of_texts(model, bags(texts, words)), projections["text"], columns
    )
    rows: list[Row] = []
    for tower, projection in projections.items():
        of_tower = measure_tower(
            features[tower], projection, pairs.codes, FEATURES, partners, components, seed,
            prompts if tower == "image" else None,
        )  # fmt: skip
        overlap = float(neuron_overlap(projection).mean())
        of_tower.append({"metric": "mean_abs_cosine", "value": overlap, "n": projection.shape[1]})
        rows += [{"tower": tower, **row} for row in of_tower]
    return rows


def accuracy_rows(model: SmallTowers, words: Sequence[str], folder: Path, side: int) -> list[Row]:
    """Return the row of acc1 of one evaluation set for classification.

    Its pictures are resized to squares of `side` pixels; its prompts are those in its folder.
    """
    opened = open_set(folder)
    names, templates = opened.classnames, opened.templates
    examples = list(opened.samples())
    images = np.stack([resized(example.decode(), side) for example in examples])
    labels = np.array([example.label for example in examples])
    prompts = [template.replace(PLACEHOLDER, name) for name in names for template in templates]
    embeddings = embed(features_of_pictures(model, images), model.image_projection.detach().numpy())
    texts = features_of_texts(model, bags(prompts, words))
    projection = model.text_projection.detach().numpy()
    classes = classifier(texts, np.repeat(np.arange(len(names)), len(templates)), projection)
    _, ranks = classify(embeddings, classes, labels)
    return [
        {"evaluation_set": opened.name, "protocol": CLIP_BENCHMARK, **row}
        for row in accuracies(ranks, labels, len(names))
        if row["metric"] == "acc1"
    ]


def measure_tower(
    tower_features: np.ndarray, projection: np.ndarray, codes: np.ndarray, names: Sequence[str],
    partners: Mapping[str, str], components: int, seed: int,
    prompt_directions: np.ndarray | None = None,
) -> list[Row]:  # fmt: skip
    """Return mixing scores and recovery of one tower.

    Parameters
    ----------
    tower_features : (n, d) array
        Of inputs that the tower was not trained on, before the projection.
    projection : (d, e) array
        Columns are neurons.
    codes : (n, f) bool array
        True features of the inputs, whose `names` are ``kind:value``.
    partners : mapping of str to str
        The feature that wrong captions name in place of each.
    components : int
        Principal components of the search for a basis.
    seed : int
        Of the halves and starts.
    prompt_directions : (e, f) array, optional
        Embeddings of the features' words.

    Returns
    -------
    list of dict
        For each ``basis``: ``mixing`` (n features), which is ``linked_correlation`` minus
        ``other_correlation``, both of them, and ``followed_correlation`` (of the same features).
        Over all features that vary: ``recovery`` of the identified basis and of the linear
        readout.

    Raises
    ------
    ValueError
        If no feature has linked and other features, or the embedding is too narrow.
    """
    embeddings = embed(tower_features, projection)
    draw = seeds.generator(seed, "measure-mixing")
    split = halves(len(embeddings), draw)
    truth = codes.astype(np.float64)
    samples = [(embeddings[rows], truth[rows]) for rows in split]
    varying = np.all([np.ptp(sample[1], axis=0) > 0 for sample in samples], axis=0)
    compared = comparisons(names, partners, varying.tolist())
    searched = identify(embeddings, split, components, draw, truth[:, varying])
    neurons = np.eye(embeddings.shape[1])
    bases: dict[str, tuple[list[np.ndarray], bool]] = {
        IDENTIFIED: (list(searched.bases), False),
        LINEAR: ([readouts(sample) for sample in samples], True),
        NEURONS: ([neurons, neurons], False),
    }
    if prompt_directions is not None:
        centred = centred_by_kind(prompt_directions, names)
        bases[PROMPTS] = ([centred, centred], True)
    rows: list[Row] = []
    for basis, (directions, matched) in bases.items():
        score = cross_fitted(
            [
                mixing(directions[fit], samples[fit], samples[1 - fit], compared, matched)
                for fit in (0, 1)
            ]
        )
        means = {
            "mixing": score.score, "linked_correlation": score.linked,
            "other_correlation": score.others, "followed_correlation": score.recovery,
        }  # fmt: skip
        rows += [
            {"basis": basis, "metric": metric, "value": value, "n": score.features}
            for metric, value in means.items()
        ]
    varied = [(embedded, features[:, varying]) for embedded, features in samples]
    recoveries = {
        IDENTIFIED: searched.recovery,
        LINEAR: np.mean([_followed(varied[fit], varied[1 - fit]) for fit in (0, 1)], axis=0),
    }
    rows += [
        {"basis": basis, "metric": "recovery", "value": values.mean(), "n": len(values)}
        for basis, values in recoveries.items()
    ]
    return rows


def _followed(fitted_on: Sample, scored_on: Sample) -> np.ndarray:
    """Return how well the linear readout of each feature follows it, (f,)."""
    return np.abs(np.diag(correlations(readouts(fitted_on), *scored_on)))
