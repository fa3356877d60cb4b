"""Measure which true feature each neuron stands for, on a corpus that knows them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from mispair.core import settings

if TYPE_CHECKING:
    import pandas as pd

    from mispair.evaluation.activations import Kind

log = logging.getLogger(__name__)

UNITS: dict[Kind, tuple[str, str]] = {
    "image": ("key", "image_features"),
    "text": ("caption_id", "caption_features"),
}
"""What goes into a tower, and the column of the ground truth with what it shows or says."""


class Settings(settings.Settings):
    rotations: int = Field(
        50, ge=0, description="Randomly rotated bases: the null of all measures."
    )
    shuffles: int = Field(3, ge=0, description="Times the true features are shuffled, as a null.")
    seeds: int = Field(3, ge=1, description="Fine-tuning seeds measured, the first ones.")
    seed: int = Field(0, ge=0, description="Seed of the random rotations and shuffles.")


def run(
    settings: Settings,
    *,
    projection: Path,
    index: list[Path],
    features: list[Path],
    feature_rows: list[Path],
    truth: list[Path],
    semantics: Path,
) -> None:
    """Write best features, selectivity and controls of every neuron of both towers."""
    from mispair.core import files, metrics, seeds
    from mispair.core.progress import Progress
    from mispair.evaluation.activations import feature_blocks
    from mispair.evaluation.purity import random_rotation
    from mispair.evaluation.semantics import Sample, binary_codes, measures
    from mispair.evaluation.zeroshot import embed

    tensors, origin = files.read_tensors(projection)
    names = json.loads(origin.get("seeds", "null")) or range(len(tensors["image_projection"]))
    neurons = tensors["image_projection"].shape[2]
    rotations = [
        random_rotation(neurons, seeds.generator(settings.seed, "rotation", number))
        for number in range(settings.rotations)
    ]
    pairs = _truth(truth, index)
    rows: list[metrics.Row] = []
    measured = len(UNITS) * min(settings.seeds, len(names))
    progress = Progress("measuring", measured, "towers and seeds")
    progress.reach(0)
    for tower, (unit, column) in UNITS.items():
        of_unit = pairs.drop_duplicates(unit)
        named, codes = binary_codes([() if f is None else f for f in of_unit[column]])
        row_of = {name: row for row, name in enumerate(of_unit[unit])}
        stack = zip(names, tensors[f"{tower}_projection"], strict=True)
        for seed, matrix in list(stack)[: settings.seeds]:
            draws = [
                seeds.generator(settings.seed, "shuffled-features", tower, shuffle)
                for shuffle in range(settings.shuffles)
            ]
            sample = Sample(neurons, len(named), draws)
            # A corpus may have left out pairs of the index, and then there are no features of them.
            parts = feature_blocks(
                features, feature_rows, tower, row_of, origin.get("towers"), every=False
            )
            try:
                for ids, block in parts:
                    sample.add(embed(block, matrix), codes[[row_of[name] for name in ids]])
                results = measures(sample, matrix, named, rotations, settings.shuffles)
            except ValueError as error:
                where = f"{projection}: {tower} tower, seed {seed}"
                raise files.UserError(f"{where}: {error}.") from error
            rows += [{"tower": tower, "seed": seed, **row} for row in results]
            log.info("%s tower, seed %s: %d inputs", tower, seed, sample.size)
            progress.advance()
    progress.close()
    metrics.write_metrics(semantics, rows, {"projection": origin})


def _truth(truth: list[Path], index: list[Path]) -> pd.DataFrame:
    """Return key, caption and true features of every pair of the index, sorted by key."""
    import pandas as pd

    from mispair.core.files import UserError
    from mispair.pairs.index.books import read_columns

    def read(paths: list[Path], columns: list[str]) -> pd.DataFrame:
        tables = [read_columns(path, columns)[0].to_pandas() for path in paths]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)

    pairs = read(index, ["key", "caption_id"]).drop_duplicates("key")
    table = read(truth, ["key", *(column for _, column in UNITS.values())]).drop_duplicates("key")
    merged = pairs.merge(table, on="key", how="left", indicator=True).sort_values("key")
    missing = merged.loc[merged["_merge"] == "left_only", "key"].tolist()
    if missing or merged.empty:
        which = (
            f"of {missing[0]!r} ({len(missing)} of {len(merged)} pairs)" if missing else "at all"
        )
        raise UserError(
            f"measure_semantics: there are no true features {which}. It needs a corpus with ground "
            "truth, such as scenes: Parquet tables next to the shards with the columns key, "
            "image_features and caption_features."
        )
    return merged
