"""How much work the steps of this package have: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import Sizes, Work

BLOCK = 2048
"""Pairs that each pair is compared with."""

SCORED = 2
"""Time of ranks with scores (`mispair.audit.score`) over that of ranks alone, as measured."""


def audit_pairs(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = sizes.planned[str(job.audit)] = sizes.rows(job.corpus)
    width = sizes.projection(job.projection).neurons
    products = {"pairs": pairs, "GFLOP": 2e-9 * pairs * BLOCK * width * SCORED}
    # Embeddings are on scratch space, two bytes a number.
    return Work(products, {"pairs": pairs}, {"pairs": pairs, "MB": 4e-6 * pairs * width})


def calibrate_audit(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = min(settings.pairs, sizes.rows(job.corpus))
    width = sizes.projection(job.projection).neurons
    shares = len(settings.rates)
    work = {"pairs": pairs * shares, "GFLOP": 2e-9 * pairs * BLOCK * width * 3 * shares}
    return Work(work, {"pairs": pairs * shares})


def rate_similar(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = sizes.rows(job.corpus)
    width = sizes.projection(job.projection).neurons
    return Work({"pairs": pairs}, {"pairs": pairs}, {"MB": 4e-6 * pairs * width})


def weigh_pairs(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = min(job.pairs or sizes.rows(job.pairing), sizes.rows(job.pairing)) * job.seeds
    projection = sizes.projection(job.untouched)
    products = projection.image_width + projection.text_width + SCORED * BLOCK
    return Work({"pairs": pairs, "GFLOP": 2e-9 * pairs * products * projection.neurons})


def select_pairs(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = {"pairs": sizes.rows(job.audit)}
    return Work(pairs, pairs, pairs)


def draw_suspects(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.rows(job.audit)})
