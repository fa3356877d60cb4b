"""Audit a corpus: how many captions are wrong, and how likely each one is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from mispair.core import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

log = logging.getLogger(__name__)

BARS = 40
"""Bars of the histogram of p-values in the report."""

LEAST_PAIRS = 200
"""With fewer pairs an interval says nothing."""


class Settings(settings.Settings):
    seed: int = Field(0, ge=0, description="Seed of blocks, ties and bootstrap.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where blocks are multiplied: auto takes a GPU where there is one."
    )


def run(
    settings: Settings,
    *,
    corpus: Path,
    captions: list[Path],
    features: list[Path],
    feature_rows: list[Path],
    projection: Path,
    similar: list[Path],
    trusted: list[Path],
    audit: Path,
    rates: Path,
) -> None:
    """Write the probability of each pair, and the rates of the corpus.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    corpus : Path
        The kept pairs, sorted by key; every caption of a picture is audited.
    captions : list of Path
        Texts of the captions.
    features, feature_rows : list of Path
        Cached features of images and captions, and the tables of their rows.
    projection : Path
        The projections of the model that judges; it was not trained on these pairs.
    similar : list of Path
        With trusted pairs, the captions most similar to each; else none.
    trusted : list of Path
        The file of trusted keys, or none.
    audit : Path
        Written: ``key``, ``caption_id``, ``similarity``, ``p_value``, ``picture_p_value``,
        ``neighbour_p_value`` (null without trusted pairs), ``probability``, ``trusted``.
    rates : Path
        Written: metrics of the corpus.
    """
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    from mispair.audit import probability as probabilities
    from mispair.audit.neighbour_ranks import similar_ranks
    from mispair.audit.pairs import (
        Audited,
        caption_names,
        embedded,
        nearest_captions,
        text_groups,
    )
    from mispair.audit.ranks import deal, rank
    from mispair.audit.rate import rate_rows
    from mispair.audit.trusted import read_trusted
    from mispair.core import files, metrics, seeds
    from mispair.core.devices import choose_device
    from mispair.core.progress import Progress
    from mispair.pairs.captions.caption_texts import read_captioned_pairs

    pairs = read_captioned_pairs(corpus, 0)
    audited = Audited.of(pairs)
    n = len(audited)
    if n < LEAST_PAIRS:
        raise files.UserError(
            f"audit_pairs: {corpus} holds {n} pairs, too few for an interval that says anything. "
            f"Give at least {LEAST_PAIRS}."
        )
    texts_by_number = text_groups(captions, audited.caption_ids)
    if len(np.unique(texts_by_number)) < 2:
        raise files.UserError(
            f"audit_pairs: all captions of {corpus} are the same words, so there is nothing to "
            "rank a caption among. Check the column or sidecar that captions were read from."
        )
    known = read_trusted(trusted, pairs.table["key"])[audited.image]
    tensors, model = files.read_tensors(projection)
    blocks = deal(n, settings.seed)
    position = np.empty(n, np.int64)
    position[np.concatenate(blocks)] = np.arange(n)
    same = audited.image, texts_by_number
    projections = tensors["image_projection"][0], tensors["text_projection"][0]
    device = choose_device(settings.device)
    with (
        embedded(
            audited, position, pairs, features, feature_rows, projections, model.get("towers"),
            audit.parent,
        ) as (images, texts),
        Progress("ranking captions", n, "pairs") as progress,
    ):  # fmt: skip

        def dealt() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
            start = 0
            for block in blocks:
                rows = slice(start, start + len(block))
                yield block, images.get(rows), texts.get(rows)
                images.release()
                texts.release()
                start = rows.stop

        ranked = rank(dealt(), same, settings.seed, device, progress=progress.reach)
        near, swapped = np.full(n, np.nan), np.empty(0)
        if similar and known.any():
            nearest = nearest_captions(similar[0], audited.caption_ids)
            right, every = np.flatnonzero(known), np.arange(n)
            near, swapped = similar_ranks(
                images, texts, position, every, every, right, nearest, same, settings.seed
            )
    found, refused = rate_rows(ranked.histograms, ranked.p_value, near, swapped, known)
    chance = np.full(n, np.nan)
    if not refused:
        share = next(row["value"] for row in found if row["metric"] == "wrong_captions")
        folds = seeds.generator(settings.seed, "audit", "folds").integers(0, 2, n)
        chance = probabilities.probabilities(
            ranked.similarity, ranked.reference_similarity, share, folds
        )
    table = pd.DataFrame(
        {
            "key": pairs.table["key"].take(pa.array(audited.image)).to_pandas(),
            "caption_id": caption_names(audited.caption_ids),
            "similarity": ranked.similarity,
            "p_value": ranked.p_value,
            "picture_p_value": ranked.picture_p_value,
            "neighbour_p_value": near,
            "probability": chance,
            "trusted": known,
        }
    )
    counts = {
        "pairs": n,
        "pictures": len(pairs.table),
        "trusted_pairs": int(known.sum()),
        "excluded_comparisons": ranked.excluded,
        "repeated_captions": n - len(np.unique(texts_by_number)),
    }
    found += [{"metric": name, "value": value} for name, value in counts.items()]
    density = ranked.histograms[:, 0].sum(axis=0).reshape(BARS, -1).sum(axis=1) * BARS / n
    found += [
        {"metric": "p_value_density", "at": (bar + 0.5) / BARS, "value": value}
        for bar, value in enumerate(density)
    ]
    origin = {
        "towers": model.get("towers"),
        "pairs_fingerprint": pairs.fingerprint,
        "seed": settings.seed,
        "refused": refused,
    }
    files.write_parquet(audit, table, {key: str(value) for key, value in origin.items()})
    metrics.write_metrics(rates, found, origin)
    log.info("%s", refused or ", ".join(f"{row['metric']} {row['value']}" for row in found))
