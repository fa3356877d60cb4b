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
    settings: Settings, *, pairing: Path, features: list[Path], feature_rows: list[Path],
    untouched: Path, seeds: int, seed: int, pairs: int | None, device: str, weights: Path,
) -> None:  # fmt: skip
    """Write ``rows``, positions in the pairing, and ``weights`` of these pairs; both (s, n).

    Each seed's pairs are audited as a corpus of its own, by the untouched projections, which were
    not trained on them. `seeds`, `seed`, `pairs` and `device` are those of finetune_projection.
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
    weighed, refusals = [], []
    try:
        data = gather(parts_of_towers(features, feature_rows, model.get("towers")), table, chosen)
        with Progress("weighing pairs", seeds, "seeds") as progress:
            for draw in range(seeds):
                stream = integer(seed, "weigh-pairs", draw)
                of_draw, refused = pair_weights(
                    data, draw, projections, stream, choose_device(device)
                )
                weighed.append(of_draw)
                refusals.append(refused)
                progress.advance()
                log.info("seed %d: mean weight %.4f %s", draw, of_draw.mean(), refused)
    except ValueError as error:
        raise files.UserError(f"weigh_pairs: {error}.") from error
    arrays = {"rows": np.stack(chosen), "weights": np.stack(weighed)}
    files.write_tensors(weights, arrays, {**model, **origin, "refused": json.dumps(refusals)})
