"""Weigh the pairs that a fine-tuning learns from by how likely their captions are right."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`weigh_pairs` has no settings: it takes pairs and seeds of finetune_projection."""


def run(
    settings: Settings,
    *,
    pairing: Path,
    features: list[Path],
    feature_rows: list[Path],
    untouched: Path,
    seeds: int,
    seed: int,
    pairs: int | None,
    device: str,
    weights: Path,
) -> None:
    """Write ``rows``, positions in the pairing, and ``weights`` of these pairs; both (s, n).

    Each seed's pairs are audited as a corpus of its own.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    pairing : Path
        Which caption each image has, a draw for each seed.
    features, feature_rows : list of Path
        Cached features of images and captions, and the tables of their rows.
    untouched : Path
        Projections that were not trained on these pairs.
    seeds, seed, pairs
        As of finetune_projection.
    device : {"auto", "cpu", "cuda"}
        Where to compute.
    weights : Path
        Written.
    """
    import numpy as np

    from mispair.audit.weights import pair_weights
    from mispair.core import files
    from mispair.core.devices import choose_device
    from mispair.core.progress import Progress
    from mispair.core.seeds import integer
    from mispair.towers.features import gather, parts_of_towers
    from mispair.towers.finetuning.batches import subset

    table, origin = files.read_parquet(pairing)
    tensors, model = files.read_tensors(untouched)
    projections = tensors["image_projection"][0], tensors["text_projection"][0]
    chosen = [subset(len(table), pairs, seed, draw) for draw in range(seeds)]
    found, refusals = [], []
    try:
        data = gather(parts_of_towers(features, feature_rows, model.get("towers")), table, chosen)
        with Progress("weighing pairs", seeds, "seeds") as progress:
            for draw in range(seeds):
                stream = integer(seed, "weigh-pairs", draw)
                weighed, refused = pair_weights(
                    data, draw, projections, stream, choose_device(device)
                )
                found.append(weighed)
                refusals.append(refused)
                progress.advance()
    except ValueError as error:
        raise files.UserError(f"weigh_pairs: {error}.") from error
    files.write_tensors(
        weights,
        {"rows": np.stack(chosen), "weights": np.stack(found)},
        {**model, **origin, "refused": json.dumps(refusals)},
    )
    for draw, (weighed, refused) in enumerate(zip(found, refusals, strict=True)):
        log.info("seed %d: mean weight %.4f %s", draw, weighed.mean(), refused)
