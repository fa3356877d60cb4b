"""How much work the steps of this package have: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import Sizes, Work
from mispair.repair.captioners.recaption_settings import TRAINED


def trust_pairs(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = sizes.rows(job.pairing)
    sizes.planned[str(job.trusted)] = round(settings.share * pairs)
    return Work({"pairs": pairs}, {"pairs": pairs}, {"pairs": settings.share * pairs})


def score_captions(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs, projection = sizes.rows(job.pairing), sizes.projection(job.projection)
    draws = sizes.rows(job.projection)
    products = 2e-9 * pairs * draws * projection.neurons
    products *= projection.image_width + projection.text_width
    return Work({"pairs": pairs * draws, "GFLOP": 2 * products}, {"pairs": pairs})


def filter_captions(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = {"pairs": sizes.rows(job.pairing)}
    sizes.planned[str(job.repaired)] = sizes.rows(job.pairing)
    return Work(pairs, pairs, pairs)


def draw_examples(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.total(job.index)})


def compare_repairs(settings: Any, job: Any, sizes: Sizes) -> Work:
    answers = {"answers": sizes.total(job.answers)}
    return Work(answers, answers)


def export_repaired(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = {"pairs": sizes.rows(job.repaired)}
    return Work(pairs, pairs, pairs)


def recaption_pairs(settings: Any, job: Any, sizes: Sizes) -> Work:
    kind = settings.captioner if not settings.kind.load else "pictures"
    captions = sizes.total(job.shards) if kind == "pictures" else sizes.rows(job.corpus)
    sizes.planned[str(job.recaptions)] = captions
    work = {"captions": captions}
    if kind == TRAINED:
        size = settings.width**2 * settings.blocks
        work["GFLOP"] = 1e-9 * settings.steps * settings.train_batch_size * size
    return Work(work, {"captions": captions}, {"captions": captions}, variant=kind)


def gather_recaptions(settings: Any, job: Any, sizes: Sizes) -> Work:
    captions = sizes.total(job.parts)
    sizes.planned[str(job.recaptions)] = sizes.planned[str(job.texts)] = captions
    return Work({"captions": captions}, {"captions": captions}, {"captions": captions})
