"""Train small image and text towers from scratch on the captions of one pairing."""

import json
from dataclasses import asdict
from pathlib import Path

from mispair.pretraining.settings import TowerSettings as Settings


def run(
    settings: Settings,
    *,
    scheme: str,
    rate: float,
    draw: int,
    pictures: Path,
    index: list[Path],
    pairing: Path,
    captions: list[Path],
    checkpoint: Path,
    towers: Path,
) -> None:
    """Write the weights of both towers, the loss of every step and the held-out pairs.

    The rate is 0 for clean captions; `draw` is the number of the run, from 0 up; `captions` are the
    tables of texts that the corruption or a captioner wrote. Pairs that the pairing does not keep
    (column ``kept``) are not trained on; the number of updates is that of all pairs. A job that is
    killed continues from its state in the folder `checkpoint`.
    """
    import numpy as np
    import torch

    from mispair.core import files, seeds
    from mispair.core.provenance import fingerprint
    from mispair.core.training import TrainingPlan, training_job
    from mispair.pretraining.data import bags, held_out_rows, pictures_of, texts_of, vocabulary
    from mispair.pretraining.towers import Batches, SmallTowers, TowerSizes

    torch.set_num_threads(1)
    table, origin = files.read_parquet(pairing)
    keys = fingerprint(table["key"])
    images = pictures_of(pictures, keys)
    seed = seeds.integer(settings.seed, "train-small-towers", draw)
    job = [settings.model_dump_json(), str(draw), keys, fingerprint(table["caption_id"]),
           str(images.shape)]  # fmt: skip
    if "kept" in table:
        job.append(fingerprint([table["kept"].to_numpy(bool).tobytes()]))
    label = f"{scheme} {rate:g}, seed {draw}"
    with training_job("train_small_towers", label, job, checkpoint) as train:
        held_out = held_out_rows(len(table), settings.held_out, seeds.generator(seed, "held-out"))
        trained = np.setdiff1d(np.arange(len(table)), held_out)
        updates = settings.epochs * (len(trained) // settings.batch_size)
        trained = trained[table["kept"].to_numpy(bool)[trained]] if "kept" in table else trained
        texts = texts_of(table["caption_id"][trained].tolist(), index, captions)
        words = vocabulary(texts)
        sizes = TowerSizes(settings.crop, settings.channels, settings.width, settings.embedding,
                      len(words))  # fmt: skip
        model = SmallTowers(sizes, seed)
        batches = Batches(images[trained], bags(texts, words), settings.batch_size, settings.crop,
                          seed)  # fmt: skip
        plan = TrainingPlan.of(settings, settings.lr, updates)
        losses = train(model, lambda step: model.loss(*batches.of_step(step)), plan)
        weights = {name: values.detach().numpy() for name, values in model.named_parameters()}
        metadata = {name: str(size) for name, size in asdict(sizes).items()} | {
            "scheme": scheme, "rate": repr(rate), "draw": str(draw), "pairs": keys,
            "corruption_seed": origin["seed"], "words": json.dumps(words),
        }  # fmt: skip
        if "repair" in origin:  # the rule that made the pairing
            metadata["repair"] = origin["repair"]
        files.write_tensors(
            towers, {**weights, "losses": losses.numpy(), "held_out": held_out}, metadata
        )
