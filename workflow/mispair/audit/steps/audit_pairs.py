"""Audit a corpus: how many captions are wrong, and how likely each one is."""

import logging
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)

LEAST_PAIRS = 20
"""With fewer pairs no limit was measured; where all 20 captions are right it is about a third."""


class Settings(settings.Settings):
    seed: int = Field(0, ge=0, description="Seed of blocks, ties and bootstrap.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where blocks are multiplied: auto takes a GPU where there is one."
    )


def run(
    settings: Settings, *, corpus: Path, captions: list[Path], features: list[Path],
    feature_rows: list[Path], projection: Path, similar: list[Path], trusted: list[Path],
    training: list[Path], shards: list[Path], audit: Path, rates: Path,
    left_out: list[Path] | None = None,
) -> None:  # fmt: skip
    """Write the probability of each pair, and the rates of the corpus.

    Metadata of both state what is identified (`mispair.audit.probability.what_is_known`), and why
    nothing is (``refused``). Without an estimate all probabilities are null.

    Every caption of a picture is audited, by projections that were not trained on these pairs. With
    a list of trusted keys, captions are also ranked among the most similar ones; without it, and
    for conspicuous texts (``text_check``), ``neighbour_p_value`` is null. `left_out` are tables of
    rejected and excluded samples. `training` and `shards` are a record of towers and the shards of
    the corpus, or none, as `mispair.audit.seen_pairs.refuse_seen` takes them.
    """
    import numpy as np

    from mispair.audit.captions import caption_texts, groups_of, nearest_captions
    from mispair.audit.pairs import Audited, embedded, refuse_unusable
    from mispair.audit.probability import judged, what_is_known
    from mispair.audit.rate import CONFIDENCE
    from mispair.audit.results import corpus_rows, described, pair_table, text_rows
    from mispair.audit.score import deal, rank
    from mispair.audit.seen_pairs import refuse_seen
    from mispair.audit.similar import similar_ranks
    from mispair.audit.text_checks import is_empty, word_counts
    from mispair.audit.user_lists import left_out_rows, read_trusted
    from mispair.core import files, metrics
    from mispair.core.devices import choose_device
    from mispair.core.progress import Progress
    from mispair.pairs.captions.caption_texts import read_captioned_pairs

    refuse_seen(training, shards)
    pairs = read_captioned_pairs(corpus, 0)
    audited = Audited.of(pairs)
    texts, text_of_pair = caption_texts(captions, audited.caption_ids)
    same = audited.image, groups_of(texts)[text_of_pair]
    refuse_unusable(corpus, same[1], LEAST_PAIRS)
    is_trusted = read_trusted(trusted, pairs.table["key"], left_out)[audited.image]
    of_texts = described(texts, text_of_pair)
    is_prose = of_texts["text_check"] == ""
    tensors, model = files.read_tensors(projection)
    projections = tensors["image_projection"][0], tensors["text_projection"][0]
    blocks, seed = deal(len(audited), settings.seed), settings.seed
    device, near, swapped = choose_device(settings.device), None, None
    with (
        # Rows in the order of the blocks, so that each block is read from one place.
        embedded(audited, np.argsort(np.concatenate(blocks)), pairs, features, feature_rows,
                 projections, model.get("towers"), audit.parent) as embeddings,
        Progress("ranking captions", len(audited), "pairs") as progress,
    ):  # fmt: skip
        ranked = rank(
            embeddings.blocks(blocks), same, seed, device, progress=progress.reach, scored=True,
            empty=is_empty(of_texts["text_check"]),
        )  # fmt: skip
        if similar and (is_trusted & is_prose).any():
            nearest = nearest_captions(similar[0], audited.caption_ids)
            # Conspicuous texts, such as cut-off ones, rank like captions of similar pictures.
            every, right = np.arange(len(is_trusted)), np.flatnonzero(is_trusted & is_prose)
            near, swapped = similar_ranks(embeddings, every, every, right, nearest, same, seed)
            near[~is_prose] = np.nan
    words = word_counts(texts)[text_of_pair]
    rows, refused, chance = judged(ranked, seed, is_trusted, near, swapped, [words])
    rows += corpus_rows(ranked, *same, is_trusted) + left_out_rows(trusted, pairs.table["key"])
    rows += text_rows(texts, text_of_pair, of_texts["text_check"], chance, ranked.similarity)
    origin: dict[str, Any] = {"towers": model.get("towers"), "seed": seed}
    origin["pairs_fingerprint"] = pairs.fingerprint
    origin |= {"refused": refused, "confidence": CONFIDENCE, **what_is_known(rows, refused)}
    table = pair_table(pairs.table["key"], audited, ranked, near, chance, is_trusted, of_texts)
    files.write_parquet(audit, table, {key: str(value) for key, value in origin.items()})
    metrics.write_metrics(rates, rows, origin)
    log.info("%s", refused or ", ".join(f"{row['metric']} {row['value']}" for row in rows))
