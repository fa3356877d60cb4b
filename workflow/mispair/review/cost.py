"""How much work the steps of this package have: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import Sizes, Work


def draw_review(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = {"pairs": sizes.rows(job.corpus)}
    return Work(pairs, pairs)


def draw_replaced(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = {"pairs": sizes.rows(job.pairing)}
    return Work(pairs, pairs)


def measure_review(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = {"pairs": sizes.rows(job.audit[0]) if job.audit else 0}
    return Work(pairs, pairs, pairs)


def write_review(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.rows(job.sample)})
