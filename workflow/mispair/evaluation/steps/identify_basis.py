"""Search for a basis that the embeddings identify, and compare it with the neurons' own."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    components: int = Field(
        48, ge=1, description="Whitened principal components whose rotations varimax and ICA "
        "search; fewer if embeddings vary in fewer directions. Scenes have 48 features.",
    )  # fmt: skip
    inputs: int = Field(10_000, ge=100, description="Most images or captions that are used.")
    rotations: int = Field(50, ge=0, description="Random (Haar) rotations: the null of all bases.")
    words: int = Field(
        300, ge=0, description="Number of most frequent words of captions that name neurons; "
        "0 for no names.",
    )  # fmt: skip
    seed: int = Field(0, ge=0, description="Seed of pairs, halves, starts and rotations.")


def run(
    settings: Settings, *, projection: Path, index: list[Path], features: list[Path],
    feature_rows: list[Path], corpus: Path, truth: list[Path], basis: Path,
) -> None:  # fmt: skip
    """Write recovery, split-half agreement, monosemanticity and names of both towers' bases.

    All results are of the first seed. Without ground truth there is no recovery.
    """
    from mispair.core import metrics, seeds
    from mispair.evaluation.activations import UNITS, features_by_name, with_truth
    from mispair.evaluation.basis_measures import Inputs, measures
    from mispair.evaluation.projections import read_projections
    from mispair.evaluation.semantics import binary_codes
    from mispair.evaluation.zeroshot import embed
    from mispair.pairs.captions.drawn_pairs import drawn_pairs

    arm = read_projections(projection)
    columns = ["key", "caption_id", "caption"]
    pairs = drawn_pairs(corpus, index, columns, settings.inputs, settings.seed, "basis")
    if truth:
        pairs = with_truth(pairs, truth, "identify_basis")
    rows: list[metrics.Row] = []
    for tower, (unit, column) in UNITS.items():
        matrix = arm.tensors[f"{tower}_projection"][0]
        table = pairs.drop_duplicates(unit).set_index(unit)
        names, stacked = features_by_name(features, feature_rows, tower, table.index, arm.towers)
        table = table.loc[names]
        named, codes = binary_codes(table[column].tolist()) if truth else ([], None)
        inputs = Inputs(embed(stacked, matrix), stacked, table["caption"].tolist(), codes, named)
        draw = seeds.generator(settings.seed, "basis", tower)
        measured = measures(inputs, settings.components, settings.rotations, settings.words, draw)
        rows += [{"tower": tower, "seed": int(arm.seeds[0]), **row} for row in measured]
        log.info("%s tower: %d inputs", tower, len(names))
    metrics.write_metrics(basis, rows, {"projection": arm.origin})
