"""Estimate the share of captions of similar pictures from pairs that a person labelled right."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)

MOST_PAIRS = 20_000
"""Pairs whose ranks are compared with those of labelled ones, at most: their error is small."""


class Settings(settings.Settings):
    seed: int = Field(0, ge=0, description="Seed of the swapped captions, and of ties.")


def run(
    settings: Settings, *, corpus: Path, captions: list[Path], features: list[Path],
    feature_rows: list[Path], projection: Path, similar: Path, audit: Path, rates: Path,
    sample: Path, reviewed: list[Path], truth: list[Path], rate: Path,
) -> None:  # fmt: skip
    """Write the share of captions that were swapped for a similar one, or why there is none.

    Only drawn pairs serve, weighted by their strata: the person chose the others because they
    looked suspicious, so they are no random part of the right ones. `sample`, `reviewed` and
    `truth` are as measure_review takes them; `audit` and `rates` are results of audit_pairs. One
    caption of each picture counts, as in the sample. ``fault`` of the provenance is ``refused`` (by
    the audit), or as `mispair.audit.similar.similar_rate_by_labels` has it.
    """
    import numpy as np
    import pandas as pd

    from mispair.audit.captions import caption_texts, groups_of, nearest_captions
    from mispair.audit.pairs import Audited, embedded, first_places
    from mispair.audit.rate import mixture_rate
    from mispair.audit.score import BINS
    from mispair.audit.similar import draw_similar, neighbour_p_values, similar_rate_by_labels
    from mispair.core import files, metrics, seeds
    from mispair.pairs.captions.caption_texts import read_captioned_pairs
    from mispair.review.draw import read_kept
    from mispair.review.labels import RIGHT, by_truth, of_sample, read_labels

    pairs = read_captioned_pairs(corpus, 0)
    audited = Audited.of(pairs)
    texts, text_of_pair = caption_texts(captions, audited.caption_ids)
    same = audited.image, groups_of(texts)[text_of_pair]
    nearest = nearest_captions(similar, audited.caption_ids)
    judged = pd.read_parquet(audit, columns=["p_value", "text_check"])
    is_prose = (judged["text_check"] == "").to_numpy()
    of_audit, about = metrics.read_metrics(rates)
    dispersion = next(row["value"] for row in of_audit if row["metric"] == "dispersion")

    drawn, design = read_kept(sample)
    answers = read_labels(reviewed[0]) if reviewed else by_truth(drawn, truth)
    labels = of_sample(answers, drawn)[0].query("label != ''")
    # Places of one caption of each picture; a labelled one may be in the corpus no more.
    places = np.flatnonzero(audited.caption_ids == pairs.caption_ids[audited.image])
    picture = pd.Index(pairs.table["key"].to_pylist()).get_indexer(labels["key"])
    place = places[first_places(picture, audited.image[places])]
    is_right = (labels["label"] == RIGHT).to_numpy() & (picture >= 0) & is_prose[place]
    right = place[is_right]
    generator = seeds.generator(settings.seed, "rate-similar")
    similar_one = draw_similar(right, same[1], nearest, generator)
    some = np.sort(generator.permutation(places)[:MOST_PAIRS])
    tensors, model = files.read_tensors(projection)
    projections = tensors["image_projection"][0], tensors["text_projection"][0]
    with embedded(
        audited, np.arange(len(audited)), pairs, features, feature_rows, projections,
        model.get("towers"), rate.parent,
    ) as embeddings:  # fmt: skip

        def ranks(of: np.ndarray, source: np.ndarray) -> np.ndarray:
            return neighbour_p_values(embeddings, of, source, nearest, same, settings.seed)

        near = np.where(is_prose[some], ranks(some, some), np.nan)
        own, swapped = (np.full(len(labels), np.nan) for _ in range(2))
        own[is_right], swapped[is_right] = ranks(right, right), ranks(right, similar_one)
    swapped[is_right] = np.where(same[1][similar_one] != same[1][right], swapped[is_right], np.nan)
    both = int((np.isfinite(own) & np.isfinite(swapped)).sum())
    rows: list[metrics.Row] = [{"metric": "checked_right_ranked", "value": both, "n": len(labels)}]
    fault = "refused" if about["refused"] else ""
    try:
        if not fault:
            p_values = judged["p_value"].to_numpy()[some][np.isfinite(near)]
            unrelated = mixture_rate(np.histogram(p_values, BINS, (0, 1))[0], dispersion)
            strata = np.array([of["pairs"] for of in design["strata"]])
            of_labels = own, swapped, labels["stratum"].to_numpy(), strata
            found = similar_rate_by_labels(near, *of_labels, unrelated)
            rows.append({"metric": "checked_similar", "value": found.value, "n": both,
                         "low": found.low, "high": found.high})  # fmt: skip
    except ValueError as error:
        fault = str(error)
    metrics.write_metrics(rate, rows, {"fault": fault, "digest": design["digest"]})
    log.info("%s", fault or rows[-1])
