"""Measure which features small towers mix, how well they classify, and how neurons overlap."""

import json
import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    components: int = Field(
        48, ge=2, description="Principal components among whose rotations varimax searches."
    )
    seed: int = Field(0, ge=0, description="Seed of the halves and the starts of the search.")


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

    `corpus` holds the kept pairs, sorted by key, and `truth` the features that their pictures show;
    `evaluation_sets` are the files of the sets for classification.
    """
    import torch

    from mispair.core import files, metrics
    from mispair.core.provenance import fingerprint
    from mispair.evaluation.sets import CLASSNAMES
    from mispair.pairs.scenes.scene_captions import spurious_partners
    from mispair.pretraining import data, measure
    from mispair.pretraining.settings import CLEAN
    from mispair.pretraining.towers import read_towers

    torch.set_num_threads(1)
    model, held_out, metadata = read_towers(towers)
    words = json.loads(metadata.pop("words"))
    table, _ = files.read_parquet(corpus)
    images = data.pictures_of(pictures, metadata["pairs"])
    if fingerprint(table["key"]) != metadata["pairs"]:
        raise files.UserError(f"{towers}: was trained on other pairs. Delete it and run again.")
    pairs = table.iloc[held_out]
    held = measure.HeldOutPairs(
        images[held_out],
        data.texts_of(pairs["caption_id"].tolist(), index),
        measure.true_features(pairs["key"].tolist(), truth),
    )
    partners = spurious_partners(int(metadata["corruption_seed"]))
    try:
        rows = measure.measure_towers(
            model, words, held, partners, settings.components, settings.seed
        )
    except ValueError as error:
        raise files.UserError(f"{towers}: {error}.") from error
    for folder in dict.fromkeys(file.parent for file in evaluation_sets if file.name == CLASSNAMES):
        rows += measure.accuracy_rows(model, words, folder, images.shape[1])
    rows.append({"metric": "logit_scale", "value": model.log_scale.exp().item()})
    rate = float(metadata["rate"])
    labels = {"scheme": metadata["scheme"] if rate else CLEAN, "rate": rate,
             "seed": int(metadata["draw"])}  # fmt: skip
    metrics.write_metrics(mixing, [{**labels, **row} for row in rows], {"trained": metadata})
    for row in rows:
        log.info("%s", ", ".join(f"{name} {value}" for name, value in row.items()))
