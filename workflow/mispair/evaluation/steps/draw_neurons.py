"""Show the images and captions that activate the most and the least pure neurons most."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from mispair.core import settings

if TYPE_CHECKING:
    from mispair.evaluation.activations import Block, Kind

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    neurons: int = Field(6, ge=1, le=50, description="Neurons at either end of each ranking.")
    pictures: int = Field(8, ge=0, le=50, description="Images shown of a neuron.")
    captions: int = Field(5, ge=0, le=50, description="Captions shown of a neuron.")
    pairs: int = Field(
        20_000, ge=1, description="Most pairs among which images and captions are searched."
    )
    rotated: bool = Field(
        True, description="Show neurons of a randomly rotated basis too, as a control."
    )
    seed: int = Field(0, ge=0, description="Seed of the draw of pairs and of the rotation.")


def run(
    settings: Settings, *, projection: Path, index: list[Path], shards: list[Path],
    sources: list[str], features: list[Path], feature_rows: list[Path], corpus: Path, gallery: Path,
) -> None:  # fmt: skip
    """Write an HTML fragment on the first seed's neurons, with pairs of the given groups."""
    from mispair.core import files
    from mispair.evaluation.activations import drawn_pairs, feature_blocks
    from mispair.evaluation.inputs import naming, read_projections
    from mispair.evaluation.purity import random_rotations
    from mispair.evaluation.report import neurons
    from mispair.pairs.index.image_list import by_name
    from mispair.pairs.report.contact_sheet import alone

    arm = read_projections(projection)
    towers = {tower: arm.tensors[f"{tower}_projection"][0] for tower in neurons.TOWERS}
    pairs = drawn_pairs(corpus, index, neurons.COLUMNS, settings.pairs, settings.seed, "neurons")
    # An image or a caption of several pairs is shown once.
    images = pairs.drop_duplicates("image_id")["key"]
    needed = {"image": set(images), "text": set(pairs["caption_id"])}

    def blocks(kind: Kind) -> Iterator[Block]:
        return feature_blocks(features, feature_rows, kind, needed[kind], arm.towers)

    rankings = []
    rotations = random_rotations(arm.neurons, int(settings.rotated), settings.seed)
    counts = (settings.neurons, settings.pictures, settings.captions)
    texts = dict(zip(pairs["caption_id"], pairs["caption"], strict=True))
    with naming(projection):
        if len(pairs):
            rankings = neurons.rankings(towers, blocks, texts, counts, *rotations)
    shown = {key for ranking in rankings for neuron in ranking.all for key, _ in neuron.pictures}
    encoded = neurons.encoded_images(by_name(shards, sources), pairs[pairs["key"].isin(shown)])
    sample = neurons.ShownSample(neurons.arm_of(arm.origin), len(images), len(needed["text"]))
    html = neurons.fragment(rankings, encoded, towers, sample)
    files.write_text(gallery, alone(html, "What the neurons respond to"))
    log.info("%d pictures of %d pairs, %d bytes", len(shown), len(pairs), len(html.encode()))
