"""Weigh the pairs that a fine-tuning learns from by how likely their captions are right."""

import logging
from pathlib import Path

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`weigh_pairs` has no settings: it takes pairs and seeds of finetune_projection."""


def run(
    settings: Settings, *, pairing: Path, features: list[Path], feature_rows: list[Path],
    untouched: Path, trusted: list[Path], training: list[Path], shards: list[Path],
    key: str, seeds: int, seed: int, pairs: int | None, device: str,
    weights: Path, left_out: list[Path] | None = None,
) -> None:  # fmt: skip
    """Write ``rows``, positions in the pairing, and ``weights`` of these pairs; both (s, n).

    The metadata have of all seeds what is least known of the share of wrong captions
    (`mispair.audit.probability.what_is_known`), and ``share`` by seed.

    Each seed's pairs are audited as a corpus of its own, by the untouched projections, which were
    not trained on them. `trusted` is the user's file of trusted keys, if there is one; where the
    pairing changed a caption, it is not trusted. `seeds`, `seed`, `pairs` and `device` are those of
    finetune_projection. `key` is the setting that needs the weights: where the audit refuses, there
    are none, and the message names it. `training` and `shards` are as
    `mispair.audit.seen_pairs.refuse_seen` takes them, and `left_out` as
    `mispair.audit.user_lists.read_trusted` does.
    """
    import json

    import numpy as np
    import pyarrow as pa

    from mispair.audit.probability import least_known, pair_weights
    from mispair.audit.seen_pairs import refuse_seen
    from mispair.audit.user_lists import read_trusted
    from mispair.core import files
    from mispair.core.devices import choose_device
    from mispair.core.progress import Progress
    from mispair.core.seeds import integer
    from mispair.pairs.corruption.draws import column
    from mispair.towers.features import gather, parts_of_towers
    from mispair.towers.finetuning.batches import subset

    refuse_seen(training, shards)
    table, origin = files.read_parquet(pairing)
    tensors, model = files.read_tensors(untouched)
    projections = tensors["image_projection"][0], tensors["text_projection"][0]
    chosen = [subset(len(table), pairs, seed, draw) for draw in range(seeds)]
    is_trusted = read_trusted(trusted, pa.array(table["key"], pa.large_string()), left_out)
    weighed = []
    try:
        data = gather(parts_of_towers(features, feature_rows, model.get("towers")), table, chosen)
        with Progress("weighing pairs", seeds, "seeds") as progress:
            for draw in range(seeds):
                stream = integer(seed, "weigh-pairs", draw)
                still_right = is_trusted & ~table[column("text_changed", draw)].to_numpy(bool)
                of_draw = pair_weights(
                    data, draw, projections, stream, choose_device(device),
                    still_right[chosen[draw]],
                )  # fmt: skip
                weighed.append(of_draw)
                progress.advance()
                log.info("seed %d: mean weight %.4f", draw, of_draw.weights.mean())
    except ValueError as error:
        raise files.UserError(
            f"weigh_pairs ({pairing}): {error}. Without probabilities there is nothing to weigh "
            f"or to replace: take this out of the configuration ({key})."
        ) from error
    arrays = {"rows": np.stack(chosen), "weights": np.stack([one.weights for one in weighed])}
    known = least_known([one.known for one in weighed])
    if known["identified"] != "interval":
        log.warning("Weights are for an assumed share of wrong captions. %s", known["condition"])
    shares = json.dumps([one.known["share"] for one in weighed])
    about = {name: str(value) for name, value in known.items()} | {"share": shares}
    files.write_tensors(weights, arrays, {**model, **origin, **about})
