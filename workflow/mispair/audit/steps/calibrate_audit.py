"""Try the audit on the user's own corpus, with known shares of wrong captions."""

import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    rates: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        [0.0, 0.05, 0.1, 0.3, 0.5, 0.8], min_length=1,
        description="Shares of captions that are made wrong.",
    )  # fmt: skip
    compared_rate: float = Field(
        0.3, gt=0, lt=1,
        description="Share at which other methods are compared, if it is one of these rates, and "
        "at which errors are tried that ranks cannot see: ten captions for many pairs, each the "
        "one that fits best (boilerplate), and pairs that a filter by cosines left (filtered).",
    )  # fmt: skip
    pairs: int = Field(10_000, ge=1000, description="Most pairs that it is tried on.")
    trusted: int = Field(
        2000, ge=20,
        description="Pairs known to be right in trials with trusted pairs; at most a tenth of all.",
    )  # fmt: skip
    seed: int = Field(
        0, ge=0, lt=2**32, description="Seed of samples, wrong captions and trainings."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute: auto takes a GPU where there is one."
    )


def run(
    settings: Settings, *, corpus: Path, captions: list[Path], features: list[Path],
    feature_rows: list[Path], projection: Path, similar: Path, truth: list[Path],
    training: list[Path], shards: list[Path], calibration: Path,
) -> None:  # fmt: skip
    """Write estimated and true rates, and how well wrong pairs are separated from right ones.

    Shares of fewer than two pairs are left out.

    The first caption of each picture is used. Trained projections start from the untouched ones.
    Wrong captions of the corpus add to every estimate; with `truth`, a corpus has none. `training`
    and `shards` are as `mispair.audit.seen_pairs.refuse_seen` takes them.
    """
    import numpy as np

    from mispair.audit import trials
    from mispair.audit.captions import caption_texts, groups_of, nearest_captions
    from mispair.audit.pairs import Audited, embedded, features_of_sample
    from mispair.audit.results import described
    from mispair.audit.seen_pairs import refuse_seen
    from mispair.audit.text_checks import is_empty
    from mispair.core import files, metrics, seeds
    from mispair.core.devices import choose_device
    from mispair.pairs.captions.caption_texts import read_captioned_pairs
    from mispair.pairs.corruption.scheme import MAIN, can_exchange
    from mispair.towers.finetuning.projection import Projections

    refuse_seen(training, shards)
    (tensors, model), seed = files.read_tensors(projection), settings.seed
    pairs = read_captioned_pairs(corpus, seed)
    audited = Audited(np.arange(len(pairs.table)), pairs.caption_ids)
    distinct, of_pair = caption_texts(captions, pairs.caption_ids)
    texts = groups_of(distinct)[of_pair]
    empty = is_empty(described(distinct, of_pair)["text_check"])
    nearest = nearest_captions(similar, pairs.caption_ids)
    order = seeds.generator(seed, "calibrate-audit", "pairs").permutation(len(texts))
    sample = np.sort(order[: settings.pairs])
    start, device = Projections.from_tensors(tensors), choose_device(settings.device)
    towers, weights = model.get("towers"), (start.image[0], start.text[0])
    # All pairs are corrupted, so that similar captions exist; a sample is judged.
    injections, rows = trials.injections(settings.rates, texts, nearest, seed), []
    scratch, same = calibration.parent, (audited.image, texts)
    with embedded(
        audited, audited.image, pairs, features, feature_rows, weights, towers, scratch
    ) as embeddings:
        trial = trials.AuditTrial(embeddings, sample, same, nearest, seed, device, empty)
        for injection in injections:
            is_compared = injection.rate == settings.compared_rate
            ranked = trial.ranks(injection, scored=is_compared)
            rows += trials.untouched_rows(trial, injection, settings.trusted, ranked)
            if is_compared:
                rows += trials.compared_rows(trial, injection, ranked)
            log.info("%s %g is done", injection.scheme, injection.rate)
        share = settings.compared_rate
        if can_exchange(share, len(sample)):
            rows += trials.untouched_rows(trial, trials.boilerplate(trial, share), settings.trusted)
            rows += trials.untouched_rows(*trials.filtered(trial, share), settings.trusted)
    random = [injection for injection in injections if injection.scheme == MAIN]
    held = features_of_sample(pairs, sample, [one.source for one in random], features, feature_rows)
    rows += trials.trained_rows(trial, random, held, start)
    origin = {"towers": towers, "pairs_fingerprint": pairs.fingerprint, "right": str(bool(truth))}
    metrics.write_metrics(calibration, rows, origin)
