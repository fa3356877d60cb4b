"""Draw a random sample of pairs that a person checks by eye."""

import logging
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    size: int = Field(
        200, ge=20, le=100_000,
        description="Pairs that are drawn. A larger number keeps the pairs that were drawn, and "
        "their labels.",
    )  # fmt: skip
    seed: int = Field(0, ge=0, description="Seed of the draw.")
    kept: Annotated[str | None, settings.Located()] = settings.sweep(
        None,
        description="A copy of an earlier sample.parquet, which is used as it is. So labels stay "
        "those of a random sample after a change of the model or of the corpus.",
    )


def run(
    settings: Settings, *, corpus: Path, captions: list[Path], audit: list[Path],
    kept: list[Path], sample: Path, strata: Path,
) -> None:  # fmt: skip
    """Write the sample in the order in which its pairs are shown, and the sizes of its strata.

    A picture with several captions counts with one of them, drawn at random: that of every scheme
    and rate. `audit` is the table of an audit's probabilities, or none; without them, or where the
    audit refused, the draw is uniform. No label is an input: a label must not change the draw.

    `sample` has ``key``, ``stratum``, ``order``, ``probability`` (null without a model),
    ``caption`` and ``share`` (inclusion probability), and the content of `strata` as metadata.
    """
    import json

    import numpy as np
    import pandas as pd

    from mispair.core import files, provenance
    from mispair.pairs.captions.caption_texts import read_captioned_pairs, texts_by_id
    from mispair.pairs.index.identities import hexadecimal
    from mispair.review import draw

    pairs = read_captioned_pairs(corpus, 0)
    probability = draw.probabilities(audit[0] if audit else None, pairs)
    if kept:
        drawn, design = draw.read_kept(kept[0])
        place = {key: row for row, key in enumerate(pairs.table["key"].to_pylist())}
        rows = np.array([place.get(key, -1) for key in drawn["key"]])
        log.info("%s is used as it is: %d of its %d pairs are in the corpus",
                 kept[0], (rows >= 0).sum(), len(rows))  # fmt: skip
        drawn["probability"] = np.where(rows >= 0, probability[rows], np.nan)
    else:
        drawn, of_strata = draw.draw(
            pairs.table["key"].to_pylist(), probability, settings.size, settings.seed
        )
        rows = drawn.pop("row").to_numpy()
        ids = hexadecimal(pairs.caption_ids[rows]).to_pylist()
        drawn["caption"] = pd.Series(ids).map(texts_by_id(captions, ids))
        drawn = drawn[["key", "stratum", "order", "probability", "caption", "share"]]
        digest = provenance.fingerprint([*drawn["key"], *map(str, drawn["stratum"])])
        design = {
            "corpus": corpus.parent.name, "size": len(drawn), "seed": settings.seed,
            "strata": of_strata, "digest": digest,
        }  # fmt: skip
    files.write_parquet(sample, drawn, {draw.DESIGN: json.dumps(design)})
    files.write_json(strata, design)
    log.info("%d pairs are drawn from %d strata", len(drawn), len(design["strata"]))
