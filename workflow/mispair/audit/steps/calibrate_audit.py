"""Try the audit on the user's own corpus, with known shares of wrong captions."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    rates: list[float] = Field(
        [0.0, 0.05, 0.1, 0.3, 0.5, 0.8],
        min_length=1,
        description="Shares of captions that are made wrong.",
    )
    compared_rate: float = Field(
        0.3, gt=0, lt=1,
        description="The one of these at which wrong pairs are told apart by other methods, too.",
    )  # fmt: skip
    pairs: int = Field(10_000, ge=1000, description="Pairs that it is tried on, at most.")
    trusted: int = Field(
        2000, ge=20,
        description="Pairs known to be right in trials with trusted pairs; at most a tenth of all.",
    )  # fmt: skip
    seed: int = Field(0, ge=0, description="Seed of samples, wrong captions and trainings.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute: auto takes a GPU where there is one."
    )


def run(
    settings: Settings,
    *,
    corpus: Path,
    captions: list[Path],
    features: list[Path],
    feature_rows: list[Path],
    projection: Path,
    similar: Path,
    calibration: Path,
) -> None:
    """Write estimated next to true rates, and how well wrong pairs are told apart.

    Captions of the corpus are taken for right, so its own wrong ones add to every estimate.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    corpus : Path
        The kept pairs; the first caption of each picture is used.
    captions : list of Path
        Texts of the captions.
    features, feature_rows : list of Path
        Cached features of images and captions, and the tables of their rows.
    projection : Path
        Projections of the model, untouched by these pairs; trained ones start from them.
    similar : Path
        The captions most similar to each.
    calibration : Path
        Written: metrics.
    """
    import numpy as np

    from mispair.audit import trials
    from mispair.audit.injection import inject
    from mispair.audit.pairs import (
        Audited,
        embedded,
        features_of_sample,
        nearest_captions,
        text_groups,
    )
    from mispair.core import files, metrics, seeds
    from mispair.core.devices import choose_device
    from mispair.pairs.captions.caption_texts import read_captioned_pairs
    from mispair.towers.finetuning.projection import Projections

    pairs = read_captioned_pairs(corpus, settings.seed)
    tensors, model = files.read_tensors(projection)
    audited = Audited(np.arange(len(pairs.table)), pairs.caption_ids)
    words = text_groups(captions, pairs.caption_ids)
    nearest = nearest_captions(similar, pairs.caption_ids)
    # All pairs are corrupted, so that a similar caption is there; a sample is looked at.
    injections = [
        inject(scheme, rate, words, nearest, settings.seed)
        for scheme in ("random", "similar")
        for rate in settings.rates
        if rate > 0 or scheme == "random"
    ]
    generator = seeds.generator(settings.seed, "calibrate-audit", "pairs")
    sample = np.sort(generator.permutation(len(words))[: settings.pairs])
    device = choose_device(settings.device)
    start = Projections.from_tensors(tensors)
    towers = model.get("towers")
    weights = start.image[0], start.text[0]
    rows: list[dict[str, Any]] = []
    with embedded(
        audited, audited.image, pairs, features, feature_rows, weights, towers, calibration.parent
    ) as (images, texts):
        trial = trials.Trial(
            images, texts, sample, (audited.image, words), nearest, settings.seed, device
        )
        for injection in injections:
            rows += trials.untouched_rows(trial, injection, settings.trusted)
            if injection.rate == settings.compared_rate:
                rows += trials.compared_rows(trial, injection)
            log.info("%s %g is done", injection.scheme, injection.rate)
    random = [injection for injection in injections if injection.scheme == "random"]
    held = features_of_sample(pairs, sample, [one.source for one in random], features, feature_rows)
    rows += trials.trained_rows(trial, random, held, start)
    origin = {"towers": towers, "pairs_fingerprint": pairs.fingerprint}
    metrics.write_metrics(calibration, rows, origin)
