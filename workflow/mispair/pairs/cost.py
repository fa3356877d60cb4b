"""Amount of work of the steps of this package: see `mispair.core.cost`."""

from typing import Any

from mispair.core.cost import FETCHED, Sizes, Work
from mispair.core.stamps import MARK, of_ending
from mispair.pairs.corruption.scheme import schemes
from mispair.pairs.sources.source import kept_listing
from mispair.pairs.steps.find_similar_captions import has_seismic, visits_cells


def make_scenes(settings: Any, job: Any, sizes: Sizes) -> Work:
    for number in range(settings.shards):
        sizes.planned[f"{job.corpus}/{number:05d}.tar"] = settings.pairs_per_shard
    pictures = {
        "megapixels": settings.shards * settings.pairs_per_shard * settings.image_size**2 / 1e6
    }
    return Work(pictures, disk_megabytes=pictures)


def make_evaluation_set(settings: Any, job: Any, sizes: Sizes) -> Work:
    from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS

    chosen = EVALUATION_SETS[job.name]
    test = {
        "classification": settings.images,
        "retrieval": settings.retrieval_images,
        "image_caption_selection": settings.questions,
    }[chosen.kind]
    if job.name == "handwritten-digits":
        test = 1797
    train = settings.train_images if "train" in chosen.splits else 0
    sizes.planned[f"{job.evaluation_set}/test/0.tar"] = test
    sizes.planned[f"{job.evaluation_set}/train/0.tar"] = train
    pictures = {"images": test + train}
    return Work(pictures, disk_megabytes=pictures)


def pack_pairs(settings: Any, job: Any, sizes: Sizes) -> Work:
    sizes.planned[str(job.shard)] = job.pairs
    pairs, listed = {"pairs": job.pairs}, kept_listing(job.listed, sizes.folder)
    copied = {"MB": sizes.bytes(listed.files) / 1e6} if listed else {}
    return Work(pairs, pairs, {**pairs, **copied})


def fetch_shard(settings: Any, job: Any, sizes: Sizes) -> Work:
    fetched = {FETCHED: job.size / 1e6}
    return Work(fetched, disk_megabytes=fetched)


def read_captions(settings: Any, job: Any, sizes: Sizes) -> Work:
    table = {"MB of the table": sizes.bytes(job.table) / 1e6}
    return Work(table, table, table)


def list_images(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = sizes.total(job.shards)
    sizes.planned[str(job.images)] = pairs
    side_by_side = min(job.workers, len(job.shards))
    return Work({"pairs of a worker": pairs / side_by_side}, disk_megabytes={"pairs": pairs})


def index_shards(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = sizes.total(job.shards)
    sizes.planned[str(job.index)] = pairs
    side_by_side = min(job.workers, len(job.shards))
    return Work({"pairs of a worker": pairs / side_by_side}, disk_megabytes={"pairs": pairs})


def list_files(settings: Any, job: Any, sizes: Sizes) -> Work:
    for listing in job.listings:
        sizes.planned[f"{MARK}{listing}"] = sizes.total(of_ending(job.files, listing))
    return Work({"rows read": sizes.total(job.files)})


def gather_index(settings: Any, job: Any, sizes: Sizes) -> Work:
    pairs = {"pairs": sizes.total(job.index)}
    sizes.planned[str(job.corpus)] = int(pairs["pairs"])
    for part in job.captions:
        # At most one caption a pair; equal ones are encoded once.
        sizes.planned[str(part)] = -(-int(pairs["pairs"]) // len(job.captions))
    return Work(pairs, pairs, pairs)


def find_similar_captions(settings: Any, job: Any, sizes: Sizes) -> Work:
    captions = sizes.rows(job.corpus)
    comparisons: float = captions**2
    if settings.measure == "features" and visits_cells(settings, captions, settings.device):
        # A visit of all is n^1.5 / 2 comparisons, and that with the centres is as much as four.
        comparisons = 4 * captions**1.5
    elif settings.measure == "tfidf" and settings.search != "exact" and has_seismic():
        comparisons = captions * min(captions, 500_000)  # as measured, see docs/measurements
    compared = {"captions": captions, "million comparisons": comparisons / 1e6}
    return Work(compared, {"captions": captions}, {"captions": captions}, variant=settings.measure)


def corrupt_captions(settings: Any, job: Any, sizes: Sizes) -> Work:
    drawn = {"pairs": sizes.rows(job.corpus) * job.draws}
    writes = schemes()[job.scheme].writes and job.rate > 0
    sizes.planned[str(job.pairing)] = sizes.rows(job.corpus)
    sizes.planned[str(job.captions)] = drawn["pairs"] * writes
    return Work(drawn, drawn, drawn)


def draw_contact_sheet(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.total([*job.index, *job.pairing])})
