"""Measure which true feature each neuron represents, on a corpus with ground truth."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    rotations: int = Field(
        50, ge=0, description="Randomly rotated bases: the null of all measures."
    )
    seeds: int = Field(3, ge=1, description="Number of fine-tuning seeds measured, from the first.")
    seed: int = Field(0, ge=0, description="Seed of the random rotations.")


def run(
    settings: Settings, *, projection: Path, index: list[Path], features: list[Path],
    feature_rows: list[Path], truth: list[Path], semantics: Path,
) -> None:  # fmt: skip
    """Write best features, selectivity and controls of every neuron of both towers."""
    import pandas as pd

    from mispair.core import metrics
    from mispair.core.progress import Progress
    from mispair.evaluation.activations import UNITS, feature_blocks, with_truth
    from mispair.evaluation.classification import embed
    from mispair.evaluation.inputs import naming, read_projections
    from mispair.evaluation.purity import random_rotations
    from mispair.evaluation.semantics import FeatureSample, binary_codes, measures
    from mispair.pairs.index.books import read_columns

    arm = read_projections(projection)
    rotations = random_rotations(arm.neurons, settings.rotations, settings.seed)
    tables = [read_columns(path, ["key", "caption_id"])[0].to_pandas() for path in index]
    indexed = pd.concat(tables or [pd.DataFrame(columns=["key", "caption_id"], dtype="str")])
    pairs = with_truth(indexed.drop_duplicates("key"), truth, "measure_semantics")
    pairs = pairs.sort_values("key")
    rows: list[metrics.Row] = []
    some = arm.of_seeds(settings.seeds)
    with Progress("measuring", len(UNITS) * len(some), "towers and seeds") as progress:
        progress.reach(0)
        for tower, (unit, column) in UNITS.items():
            of_unit = pairs.drop_duplicates(unit)
            named, codes = binary_codes([() if f is None else f for f in of_unit[column]])
            row_of = {name: row for row, name in enumerate(of_unit[unit])}
            for seed, *of_towers in some:
                matrix = of_towers[tower == "text"]
                sample = FeatureSample(arm.neurons, len(named))
                # Pairs of the index that a corpus leaves out have no features.
                given = features, feature_rows, tower, row_of, arm.towers
                with naming(f"{projection}: {tower} tower, seed {seed}"):
                    for ids, block in feature_blocks(*given, every=False):
                        of_inputs = codes[[row_of[name] for name in ids]]
                        sample.add_inputs(embed(block, matrix), of_inputs)
                    results = measures(sample, matrix, named, rotations)
                rows += [{"tower": tower, "seed": seed, **row} for row in results]
                log.info("%s tower, seed %s: %d inputs", tower, seed, sample.size)
                progress.advance()
    metrics.write_metrics(semantics, rows, {"projection": arm.origin})
