"""Amount of work of the steps of this package: see `mispair.core.cost`."""

from pathlib import Path
from typing import Any

from mispair.core.cost import Sizes, Work
from mispair.towers.cost import encoding


def encode_evaluation(settings: Any, job: Any, sizes: Sizes) -> Work:
    shards = [path for path in job.evaluation_set if path.suffix == ".tar"]
    images, towers = sizes.total(shards), sizes.towers(job.towers)
    sizes.planned[str(job.evaluation_features)] = images
    gflop, width = towers.image_gflop, towers.image_width
    return encoding(images, "images", gflop, width, towers, job.workers)


def _lines(folder: Path, path: Path | None) -> int:
    if path is None or not (folder / path).is_file():
        return 1
    return len((folder / path).read_text(encoding="utf-8").split("\n"))


PROMPTS_OF_A_CLASS = {"single-prompt": 1, "laclip": 18}
"""Approximate number of templates of a protocol; those of others are counted in the set."""


def _prompts(job: Any, sizes: Sizes) -> int:
    from mispair.pairs.scenes.evaluation_sets import CAPTIONS_PER_IMAGE, EVALUATION_SETS

    files = {path.name: path for path in job.evaluation_set}
    shards = [path for path in job.evaluation_set if path.suffix == ".tar"]
    generated = EVALUATION_SETS.get(job.evaluation_set[0].parent.name)
    if job.protocol == "captions":
        choices = generated is not None and generated.kind == "image_caption_selection"
        return sizes.total(shards) * (2 if choices else CAPTIONS_PER_IMAGE)
    if generated is not None:
        classes, templates = len(generated.classnames), len(generated.templates)
    else:
        classes = _lines(sizes.folder, files.get("classnames.txt"))
        templates = _lines(sizes.folder, files.get("zeroshot_classification_templates.txt"))
    return classes * PROMPTS_OF_A_CLASS.get(job.protocol, templates)


def encode_prompts(settings: Any, job: Any, sizes: Sizes) -> Work:
    towers = sizes.towers(job.towers)
    prompts = sizes.planned[str(job.prompts)] = _prompts(job, sizes)
    return encoding(prompts, "prompts", towers.text_gflop, towers.text_width, towers, 1)


def _answers(job: Any, sizes: Sizes) -> int:
    """Return how many images are answered, each under each protocol of its set."""
    images = {path.parent: sizes.rows(path) for path in job.images}
    return sum(images.get(path.parent, 0) for path in job.prompts)


def evaluate_zeroshot(settings: Any, job: Any, sizes: Sizes) -> Work:
    answers = _answers(job, sizes) * sizes.rows(job.projection)
    sizes.planned[str(job.answers)] = answers
    return Work({"answers": answers}, disk_megabytes={"answers": answers})


def fit_linear_probe(settings: Any, job: Any, sizes: Sizes) -> Work:
    seeds = min(settings.seeds, sizes.rows(job.projection))
    return Work({"images": seeds * sizes.total(job.train)})


def compare_arms(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"answers": sizes.total(job.zeroshot_answers)})


def measure_purity(settings: Any, job: Any, sizes: Sizes) -> Work:
    neurons, projections = sizes.projection(job.projection).neurons, 2 * sizes.rows(job.projection)
    # A rotation is drawn once, and multiplies each projection's Gram matrix from both sides.
    rotated = 4e-9 * settings.rotations * (projections + 1) * neurons**3
    return Work({"million cosines": 1e-6 * projections * neurons**2, "rotated GFLOP": rotated})


def measure_semantics(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"rows read": sizes.total(job.feature_rows) * (1 + settings.rotations)})


def prune_neurons(settings: Any, job: Any, sizes: Sizes) -> Work:
    # Random subsets of the basis and of rotated ones, and some 18 rankings, at each k.
    ks = settings.kept_of(sizes.projection(job.projection).neurons)
    subsets = len(ks) * (2 * settings.draws + 18) * min(settings.seeds, sizes.rows(job.projection))
    kept = subsets * sum(ks) / len(ks)
    return Work(
        {"answers": _answers(job, sizes), "million products": 1e-6 * _answers(job, sizes) * kept},
        disk_megabytes={"subsets": subsets},
    )


def draw_neurons(settings: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.total(job.index) + sizes.rows(job.corpus)})
