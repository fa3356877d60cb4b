"""Measure which features small towers mix, how well they classify, and how neurons overlap."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from mispair.core import settings

if TYPE_CHECKING:
    import numpy as np

    from mispair.core.metrics import Row
    from mispair.pretraining.towers import SmallTowers

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    components: int = Field(
        48, ge=2, description="Principal components among whose rotations varimax searches."
    )
    rotations: int = Field(
        20, ge=1, description="Random rotations of them, the null of the recovery of features."
    )
    seed: int = Field(0, ge=0, description="Seed of the halves, the starts and the rotations.")


def run(
    settings: Settings,
    *,
    towers: Path,
    pictures: Path,
    corpus: Path,
    index: list[Path],
    truth: list[Path],
    evaluation_sets: list[Path],
    mixing: Path,
) -> None:
    """Write mixing scores, recovery, zero-shot accuracy and overlap of one pair of towers.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    towers : Path
        Of train_small_towers.
    pictures : Path
        Of decode_pictures.
    corpus : Path
        The kept pairs, sorted by key.
    index : list of Path
        The index of each group, for texts.
    truth : list of Path
        Tables next to the shards with the features that pictures show.
    evaluation_sets : list of Path
        Files of the sets for classification.
    mixing : Path
        Written.
    """
    import torch

    from mispair.core import files, metrics
    from mispair.core.provenance import fingerprint
    from mispair.evaluation.purity import neuron_overlap, random_overlap
    from mispair.pairs.scenes.scene_features import FEATURES, spurious_partners
    from mispair.pretraining.data import refuse_other_pairs, texts_of, true_features
    from mispair.pretraining.measure import embeddings_of, measure_tower, words_of_features
    from mispair.pretraining.names import CLEAN
    from mispair.pretraining.towers import features_of_pictures, features_of_texts, read_towers
    from mispair.pretraining.words import bags

    torch.set_num_threads(1)
    model, held_out, metadata = read_towers(towers)
    table, _ = files.read_parquet(corpus)
    arrays, of_pictures = files.read_tensors(pictures)
    refuse_other_pairs(pictures, of_pictures, metadata["pairs"])
    if fingerprint(table["key"]) != metadata["pairs"]:
        raise files.UserError(f"{towers}: was trained on other pairs. Delete it and run again.")
    pairs, known_words = table.iloc[held_out], json.loads(metadata["words"])
    codes = true_features(pairs["key"].tolist(), truth, FEATURES)
    captions = texts_of(pairs["caption_id"].tolist(), index)
    partners = spurious_partners(int(metadata["corruption_seed"]))
    features = {
        "image": features_of_pictures(model, arrays["pictures"][held_out]),
        "text": features_of_texts(model, bags(captions, known_words)),
    }
    projections = {
        "image": model.image_projection.detach().numpy(),
        "text": model.text_projection.detach().numpy(),
    }
    prompts = words_of_features(FEATURES)
    rows: list[Row] = []
    try:
        directions = embeddings_of(
            features_of_texts(model, bags(prompts.texts, known_words)), projections["text"],
            prompts.features,
        )  # fmt: skip
        for tower, projection in projections.items():
            rows += [
                {"tower": tower, **row}
                for row in measure_tower(
                    features[tower], projection, codes, FEATURES, partners, settings.components,
                    settings.rotations, settings.seed, directions if tower == "image" else None,
                )
            ]  # fmt: skip
            overlap = float(neuron_overlap(projection).mean())
            rows += [
                {"tower": tower, "metric": "mean_abs_cosine", "value": overlap,
                 "n": projection.shape[1]},
                {"tower": tower, "metric": "mean_abs_cosine_random",
                 "value": random_overlap(len(projection)), "n": projection.shape[1]},
            ]  # fmt: skip
    except ValueError as error:
        raise files.UserError(f"{towers}: {error}.") from error
    for folder in dict.fromkeys(path.parent for path in evaluation_sets if path.name == CLASSES):
        rows += _accuracy(model, folder, known_words, arrays["pictures"].shape[1])
    rows.append({"metric": "logit_scale", "value": model.log_scale.exp().item()})
    which = {
        "scheme": CLEAN if float(metadata["rate"]) == 0 else metadata["scheme"],
        "rate": float(metadata["rate"]),
        "seed": int(metadata["draw"]),
    }
    metadata.pop("words")
    metrics.write_metrics(mixing, [{**which, **row} for row in rows], {"trained": metadata})
    for row in rows:
        log.info("%s", ", ".join(f"{name} {value}" for name, value in row.items()))


CLASSES = "classnames.txt"


def _accuracy(model: SmallTowers, folder: Path, known_words: list[str], side: int) -> list[Row]:
    """Return the rows of acc1 of one set, with the prompts in its folder."""
    import numpy as np

    from mispair.evaluation.protocols import CLIP_BENCHMARK
    from mispair.evaluation.sets import PLACEHOLDER, open_set
    from mispair.evaluation.zeroshot import accuracies, classifier, classify, embed
    from mispair.pretraining.pictures import resized
    from mispair.pretraining.towers import features_of_pictures, features_of_texts
    from mispair.pretraining.words import bags

    opened = open_set(folder)
    examples = list(opened.samples())
    images: np.ndarray = np.stack([resized(example.decode(), side) for example in examples])
    labels = np.array([example.label for example in examples])
    prompts = [t.replace(PLACEHOLDER, name) for name in opened.classnames for t in opened.templates]
    classes = np.repeat(np.arange(len(opened.classnames)), len(opened.templates))
    embeddings = embed(features_of_pictures(model, images), model.image_projection.detach().numpy())
    texts = features_of_texts(model, bags(prompts, known_words))
    class_embeddings = classifier(texts, classes, model.text_projection.detach().numpy())
    _, ranks = classify(embeddings, class_embeddings, labels)
    return [
        {"evaluation_set": opened.name, "protocol": CLIP_BENCHMARK, **row}
        for row in accuracies(ranks, labels, len(opened.classnames))
        if row["metric"] == "acc1"
    ]
