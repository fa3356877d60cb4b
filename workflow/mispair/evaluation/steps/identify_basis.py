"""Search for a basis that the embeddings identify, and compare it with the neurons' own."""

from __future__ import annotations

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
"""What goes into a tower, and the column of the ground truth with its true features."""


class Settings(settings.Settings):
    components: int = Field(
        48, ge=1, description="Principal components, whitened, among whose rotations varimax and "
        "ICA search; fewer where embeddings vary in fewer directions. Scenes have 48 features.",
    )  # fmt: skip
    inputs: int = Field(10_000, ge=100, description="Images or captions looked at, at most.")
    rotations: int = Field(50, ge=0, description="Random (Haar) rotations: the null of all bases.")
    words: int = Field(
        300, ge=0, description="The most frequent words of captions, by which neurons are named; "
        "0 for no names.",
    )  # fmt: skip
    seed: int = Field(0, ge=0, description="Seed of pairs, halves, starts and rotations.")


def run(
    settings: Settings,
    *,
    projection: Path,
    index: list[Path],
    features: list[Path],
    feature_rows: list[Path],
    corpus: Path,
    truth: list[Path],
    basis: Path,
) -> None:
    """Write recovery, split-half agreement, monosemanticity and names of both towers' bases.

    They are of the first seed. Without ground truth there is no recovery.
    """
    import numpy as np

    from mispair.core import files, metrics, seeds
    from mispair.evaluation.activations import feature_blocks
    from mispair.evaluation.basis_measures import Inputs, measures
    from mispair.evaluation.semantics import binary_codes
    from mispair.evaluation.zeroshot import embed
    from mispair.pairs.captions.drawn_pairs import drawn_pairs

    tensors, origin = files.read_tensors(projection)
    columns = ["key", "caption_id", "caption"]
    pairs = drawn_pairs(corpus, index, columns, settings.inputs, settings.seed, "basis")
    true_features = _truth(truth, pairs)
    rows: list[metrics.Row] = []
    for tower, (unit, column) in UNITS.items():
        matrix = tensors[f"{tower}_projection"][0]
        table = true_features.drop_duplicates(unit).set_index(unit)
        parts = feature_blocks(
            features, feature_rows, tower, set(table.index), origin.get("towers"), every=False
        )
        blocks = [*parts]
        names = [name for ids, _ in blocks for name in ids]
        if not names:
            raise files.UserError(f"{projection}: no feature of the {tower} tower was given.")
        # By name, so that the order of the files changes nothing.
        order = np.argsort(np.array(names), kind="stable")
        stacked = np.concatenate([block for _, block in blocks])[order]
        table = table.loc[[names[position] for position in order]]
        named, codes = binary_codes(table[column].tolist()) if truth else ([], None)
        inputs = Inputs(embed(stacked, matrix), stacked, table["caption"].tolist(), codes, named)
        draw = seeds.generator(settings.seed, "basis", tower)
        measured = measures(inputs, settings.components, settings.rotations, settings.words, draw)
        rows += [{"tower": tower, "seed": _seed(origin), **row} for row in measured]
        log.info("%s tower: %d inputs", tower, len(order))
    metrics.write_metrics(basis, rows, {"projection": origin})


def _seed(origin: dict[str, str]) -> int:
    """Return the first of the seeds of a file of projections."""
    import json

    return int((json.loads(origin.get("seeds", "null")) or [0])[0])


def _truth(truth: list[Path], pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with their true features, where there are any."""
    import pandas as pd

    from mispair.core.files import UserError
    from mispair.pairs.index.books import read_columns

    if not truth:
        return pairs
    columns = ["key", *(column for _, column in UNITS.values())]
    tables = [read_columns(path, columns)[0].to_pandas() for path in truth]
    joined = pairs.merge(pd.concat(tables).drop_duplicates("key"), on="key", how="left")
    missing = joined.loc[joined["image_features"].isna(), "key"].tolist()
    if missing:
        raise UserError(
            f"identify_basis: there are no true features of {missing[0]!r} ({len(missing)} of "
            f"{len(joined)} pairs). Give the tables of all shards, or none."
        )
    return joined
