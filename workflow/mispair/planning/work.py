"""How much work each step has: what its time, its memory and its output grow with.

A job costs what a job without work costs (``start``) and a rate for each unit of its work; the
rates are measured (see `mispair.planning.rates`), the units follow from the job's settings and
files. A step that is not named here takes the same time whatever it is given: it stands in
`CONSTANT`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mispair.core.listings import MARK, of_ending
from mispair.planning.sizes import Sizes, Towers
from mispair.report import studies

Quantities = Mapping[str, float]

CONSTANT = ("export_metrics", "laclip", "record_run", "write_report")
"""Steps whose work does not grow with the data."""


@dataclass(frozen=True)
class Work:
    """What a job is given to do.

    Attributes
    ----------
    seconds, megabytes, disk_megabytes : dict of str to float
        Amounts by unit that its time, its memory and its output grow with.
    variant : str
        Which of several methods of the step it is, each with rates of its own.
    """

    seconds: Quantities = field(default_factory=dict)
    megabytes: Quantities = field(default_factory=dict)
    disk_megabytes: Quantities = field(default_factory=dict)
    variant: str = ""


def _make_scenes(s: Any, job: Any, sizes: Sizes) -> Work:
    for number in range(s.shards):
        sizes.planned[f"{job.corpus}/{number:05d}.tar"] = s.pairs_per_shard
    pictures = {"megapixels": s.shards * s.pairs_per_shard * s.image_size**2 / 1e6}
    return Work(pictures, disk_megabytes=pictures)


def _make_evaluation_set(s: Any, job: Any, sizes: Sizes) -> Work:
    from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS

    chosen = EVALUATION_SETS[job.name]
    test = s.retrieval_images if chosen.kind == "retrieval" else s.images
    if job.name == "handwritten-digits":
        test = 1797
    train = s.train_images if "train" in chosen.splits else 0
    sizes.planned[f"{job.evaluation_set}/test/0.tar"] = test
    sizes.planned[f"{job.evaluation_set}/train/0.tar"] = train
    pictures = {"images": test + train}
    return Work(pictures, disk_megabytes=pictures)


def _read_captions(s: Any, job: Any, sizes: Sizes) -> Work:
    table = {"MB of the table": sizes.bytes([job.table]) / 1e6}
    return Work(table, table, table)


def _index_shards(s: Any, job: Any, sizes: Sizes) -> Work:
    pairs = sizes.total(job.shards)
    sizes.planned[str(job.index)] = pairs
    side_by_side = min(job.workers, len(job.shards))
    return Work({"pairs of a worker": pairs / side_by_side}, disk_megabytes={"pairs": pairs})


def _list_files(s: Any, job: Any, sizes: Sizes) -> Work:
    for listing in job.listings:
        sizes.planned[f"{MARK}{listing}"] = sizes.total(of_ending(job.files, listing))
    return Work({"rows read": sizes.total(job.files)})


def _gather_index(s: Any, job: Any, sizes: Sizes) -> Work:
    pairs = {"pairs": sizes.total(job.index)}
    sizes.planned[str(job.corpus)] = int(pairs["pairs"])
    for part in job.captions:
        # At most one caption a pair; equal ones are encoded once.
        sizes.planned[str(part)] = -(-int(pairs["pairs"]) // len(job.captions))
    return Work(pairs, pairs, pairs)


def _corrupt_captions(s: Any, job: Any, sizes: Sizes) -> Work:
    drawn = {"pairs": sizes.rows(job.corpus) * job.draws}
    writes = job.scheme in ("spurious", "missing", "drop") and job.rate > 0
    sizes.planned[str(job.pairing)] = sizes.rows(job.corpus)
    sizes.planned[str(job.captions)] = drawn["pairs"] * writes
    return Work(drawn, drawn, drawn)


def _find_similar_captions(s: Any, job: Any, sizes: Sizes) -> Work:
    captions = sizes.rows(job.corpus)
    compared = {"captions": captions, "million comparisons": captions**2 / 1e6}
    return Work(compared, {"captions": captions}, {"captions": captions}, variant=s.measure)


def _encoding(images: int, gflop: float, width: int, towers: Towers, hands: int, what: str) -> Work:
    return Work(
        {what: images / hands, f"{what}: GFLOP": images * gflop},
        {"MB of weights": towers.megabytes},
        {"MB of features": 4e-6 * images * width},
    )


def _encode_features(s: Any, job: Any, sizes: Sizes) -> Work:
    images, towers = sizes.total(job.shards) * s.crops, sizes.towers(job.towers)
    sizes.planned[str(job.features)] = sizes.planned[str(job.rows)] = images
    width, hands = towers.image_width, max(1, job.workers)
    return _encoding(images, towers.image_gflop, width, towers, hands, "images")


def _encode_captions(s: Any, job: Any, sizes: Sizes) -> Work:
    captions, towers = sizes.rows(job.captions), sizes.towers(job.towers)
    sizes.planned[str(job.features)] = sizes.planned[str(job.rows)] = captions
    return _encoding(captions, towers.text_gflop, towers.text_width, towers, 1, "captions")


def _encode_evaluation(s: Any, job: Any, sizes: Sizes) -> Work:
    shards = [path for path in job.evaluation_set if path.suffix == ".tar"]
    images, towers = sizes.total(shards), sizes.towers(job.towers)
    sizes.planned[str(job.evaluation_features)] = images
    hands = max(1, job.workers)
    return _encoding(images, towers.image_gflop, towers.image_width, towers, hands, "images")


def _encode_prompts(s: Any, job: Any, sizes: Sizes) -> Work:
    towers = sizes.towers(job.towers)
    prompts = sizes.planned[str(job.prompts)] = _prompts(job, sizes)
    return _encoding(prompts, towers.text_gflop, towers.text_width, towers, 1, "prompts")


PROMPTS_OF_A_CLASS = {"single-prompt": 1, "laclip": 18}
"""Templates of a protocol, about; of others they are counted in the set."""


def _prompts(job: Any, sizes: Sizes) -> int:
    from mispair.pairs.scenes.evaluation_sets import CAPTIONS_PER_IMAGE, EVALUATION_SETS

    files = {path.name: path for path in job.evaluation_set}
    shards = [path for path in job.evaluation_set if path.suffix == ".tar"]
    if job.protocol == "captions":
        return sizes.total(shards) * CAPTIONS_PER_IMAGE
    known = EVALUATION_SETS.get(job.evaluation_set[0].parent.name)
    if known is not None:
        classes, templates = len(known.classnames), len(known.templates)
    else:
        classes = _lines(sizes.folder, files.get("classnames.txt"))
        templates = _lines(sizes.folder, files.get("zeroshot_classification_templates.txt"))
    return classes * PROMPTS_OF_A_CLASS.get(job.protocol, templates)


def _lines(folder: Path, path: Path | None) -> int:
    if path is None or not (folder / path).is_file():
        return 1
    return len((folder / path).read_text(encoding="utf-8").split("\n"))


def _extract_projection(s: Any, job: Any, sizes: Sizes) -> Work:
    towers = sizes.towers(job.towers)
    sizes.set_projection(job.projection, towers, 1)
    weights = {"MB of weights": towers.megabytes}
    return Work(weights, weights, {"MB of projections": _projections(towers, 1)})


def _convert_checkpoint(s: Any, job: Any, sizes: Sizes) -> Work:
    weights = {"MB of the checkpoint": sizes.bytes(job.checkpoint) / 1e6}
    return Work(weights, weights, weights)


def _projections(towers: Towers, seeds: int) -> float:
    return 4e-6 * seeds * towers.neurons * (towers.image_width + towers.text_width)


def _finetune_projection(s: Any, job: Any, sizes: Sizes) -> Work:
    from mispair.towers.finetuning.finetuning_presets import (
        FIRST_NEWTON_STEPS,
        MEASURED_PAIRS,
        arm,
        resolve,
    )

    training, towers = arm(job.start, resolve(s)).training, sizes.projection(job.untouched)
    all_pairs = sizes.rows(job.pairing)
    pairs = min(all_pairs, s.pairs or all_pairs)
    sizes.set_projection(job.projection, towers, s.seeds)
    solves = training.epochs + FIRST_NEWTON_STEPS if training.logit_scale == "solved" else 0
    measured = min(pairs, MEASURED_PAIRS) * (1 + solves) * s.seeds
    # A third of a step, without the gradients.
    samples = pairs * training.epochs * s.seeds + measured / 3
    widths = towers.image_width + towers.text_width
    # Forward and twice backward: both projections, and each with all others of its batch.
    products = 6 * towers.neurons * (widths + 2 * training.batch_size)
    return Work(
        {"rows read": sizes.total(job.feature_rows), "GFLOP": 1e-9 * samples * products},
        # Each seed has its own pairs.
        {"MB of features": 4e-6 * min(all_pairs, s.seeds * pairs) * widths},
        {"MB of projections": _projections(towers, s.seeds)},
    )


def _answers(job: Any, sizes: Sizes) -> int:
    """Return how many images are answered, each under each protocol of its set."""
    images = {path.parent: sizes.rows(path) for path in job.images}
    return sum(images.get(path.parent, 0) for path in job.prompts)


def _evaluate_zeroshot(s: Any, job: Any, sizes: Sizes) -> Work:
    answers = _answers(job, sizes) * sizes.rows(job.projection)
    sizes.planned[str(job.answers)] = answers
    return Work({"answers": answers}, disk_megabytes={"answers": answers})


def _fit_linear_probe(s: Any, job: Any, sizes: Sizes) -> Work:
    seeds = min(s.seeds, sizes.rows(job.projection))
    return Work({"images": seeds * sizes.total(job.train)})


def _compare_arms(s: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"answers": sizes.total(job.zeroshot_answers)})


def _measure_purity(s: Any, job: Any, sizes: Sizes) -> Work:
    neurons, projections = sizes.projection(job.projection).neurons, 2 * sizes.rows(job.projection)
    # A rotation is drawn once, and multiplies each projection's Gram matrix from both sides.
    rotated = 4e-9 * s.rotations * (projections + 1) * neurons**3
    return Work({"million cosines": 1e-6 * projections * neurons**2, "rotated GFLOP": rotated})


def _measure_covariance(s: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"rows read": sizes.total(job.features)})


def _measure_semantics(s: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"rows read": sizes.total(job.feature_rows) * (1 + s.rotations)})


def _identify_basis(s: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"rows read": sizes.total(job.feature_rows), "inputs": 2 * s.inputs})


def _prune_neurons(s: Any, job: Any, sizes: Sizes) -> Work:
    # Random subsets of the basis and of rotated ones, and some 18 rankings, at each k.
    ks = s.kept_of(sizes.projection(job.projection).neurons)
    subsets = len(ks) * (2 * s.draws + 18) * min(s.seeds, sizes.rows(job.projection))
    kept = subsets * sum(ks) / len(ks)
    return Work(
        {"answers": _answers(job, sizes), "million products": 1e-6 * _answers(job, sizes) * kept},
        disk_megabytes={"subsets": subsets},
    )


def _export_pruned(s: Any, job: Any, sizes: Sizes) -> Work:
    weights = {"MB of weights": sizes.towers(job.towers).megabytes}
    return Work(weights, weights, weights)


def _pretrain_towers(s: Any, job: Any, sizes: Sizes) -> Work:
    samples = {"samples": sizes.total(job.shards) * s.epochs}
    return Work(samples)


def _simulate(s: Any, job: Any, sizes: Sizes) -> Work:
    runs = len(job.spurious_probabilities) * len(job.trials)
    first = s.epochs * ("raw" in job.arms) + s.epochs * ("high-quality-only" in job.arms)
    again = s.retrain_epochs * len(set(job.arms) - {"raw", "high-quality-only"})
    steps = s.steps_per_epoch * (first + again)
    # Two encoders, forward and twice backward.
    products = 12 * s.batch_size * s.m * s.d1
    return Work(
        {"GFLOP": 1e-9 * runs * steps * products},
        {"MB of pairs": 4e-6 * runs * s.d1 * (s.low_quality_pairs + s.high_quality_pairs)},
    )


def _trees(job: Any) -> Any:
    """Return the size of trees, which is in the path of their file."""
    from mispair.sufficiency.sizes import Size

    return Size.of(job.trees.parent.parent.name)


def _passes(number: int, size: Any, times: float = 1) -> Quantities:
    """Return the products of belief propagation, up and down, over so many pairs."""
    return {"BP GFLOP": 4e-9 * times * number * size.nodes * size.symbols**2}


def transformer_operations(tokens: int, width: int, blocks: int) -> float:
    """Return the operations of a transformer on one sequence, forward and twice backward."""
    return 3 * blocks * tokens * 2 * (11 * width**2 + 2 * tokens * width)


def _draw_trees(s: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"trees": 1})


def _measure_bayes(s: Any, job: Any, sizes: Sizes) -> Work:
    size = _trees(job)
    return Work(
        _passes(s.samples * len(s.flips), size, 4), {"MB": size.bytes_of_samples(s.samples) / 1e6}
    )


def _train_encoders(s: Any, job: Any, sizes: Sizes) -> Work:
    leaves = _trees(job).leaves
    blocks = s.shallow_blocks if job.variant == "shallow" else s.blocks
    pairs = s.steps * s.batch_size
    return Work(
        {"steps": s.steps, "GFLOP": 2e-9 * pairs * transformer_operations(leaves, s.width, blocks)}
    )


def _measure_sufficiency(s: Any, job: Any, sizes: Sizes) -> Work:
    size, encoders = _trees(job), len(job.encoders) + 1
    shifted = len(s.test_flips) if s.shifted_from in (None, job.flip) else 0
    prompts = size.symbols * max(s.per_class)
    encoded = 2 * s.samples * (2 + shifted) + (s.classified + prompts) * (1 + shifted)
    return Work(
        {"million leaves": 1e-6 * encoders * encoded * size.leaves},
        {"MB": size.bytes_of_samples(s.samples) / 1e6},
    )


def _train_head(s: Any, job: Any, sizes: Sizes) -> Work:
    leaves = _trees(job).leaves
    width = (s.vlm_width or s.width) if job.task == "vlm" else s.width
    tokens = 2 * leaves if job.arm in ("joint", "guided") else leaves + 1
    blocks = s.shallow_blocks if job.arm == "shallow" else s.blocks
    flops = s.steps * s.batch_size * transformer_operations(tokens, width, blocks)
    return Work({"steps": s.steps, "GFLOP": 1e-9 * flops})


def _measure_transfer(s: Any, job: Any, sizes: Sizes) -> Work:
    size = _trees(job)
    tests = 2 * (1 + 2 * len(s.test_flips))
    return Work(
        {**_passes(s.samples * tests, size, 3), "heads": s.samples * tests * len(job.heads)},
        {"MB": size.bytes_of_samples(s.samples) / 1e6},
    )


def _train_two_layer(s: Any, job: Any, sizes: Sizes) -> Work:
    from mispair.stepsize.cifar_files import CIFAR
    from mispair.stepsize.data_sets import MADE

    points, dimensions = (
        (6000, 3072) if job.data_set == CIFAR else MADE[job.data_set](0).points.shape
    )
    runs = len(job.stepsizes) * job.seeds
    activations = points * sum(job.widths) * runs * job.steps
    return Work(
        {"million activations": 1e-6 * activations,
         "GFLOP": 4e-9 * activations * dimensions,
         "thousand steps of a stack": 1e-3 * len(job.widths) * job.steps},
        {"MB of curves": 4e-5 * runs * job.steps},
    )  # fmt: skip


def _train_multilayer(s: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"thousand steps": 1e-3 * s.steps * len(s.stepsizes)})


def _decode_pictures(s: Any, job: Any, sizes: Sizes) -> Work:
    pairs = sizes.planned[str(job.pictures)] = sizes.rows(job.corpus)
    held = {"megabytes of pictures": 3e-6 * pairs * s.side**2}
    return Work({"pairs": pairs}, held, held)


def _train_small_towers(s: Any, job: Any, sizes: Sizes) -> Work:
    pairs = max(0, sizes.rows(job.pairing) - s.held_out)
    quarter = (s.crop // 4) ** 2
    # Products of the two convolutions, the layer behind them and the projection.
    products = (s.crop // 2) ** 2 * 48 * s.channels + quarter * 32 * s.channels**2
    products += quarter * 2 * s.channels * s.width + s.width * s.embedding
    return Work(
        {"pairs": pairs * s.epochs, "GFLOP": 6e-9 * pairs * s.epochs * products},
        {"pairs": sizes.rows(job.pairing)},
    )


def _measure_mixing(s: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.rows(job.corpus), "rotations": s.rotations})


OF_PAIRS = ("index", "pairing")
"""Kinds of results with a row for each pair."""


def _gather_metrics(s: Any, job: Any, sizes: Sizes) -> Work:
    of_pairs = [path for path in job.results if studies.of_result(str(path))[1] in OF_PAIRS]
    return Work({"files": len(job.results), "pairs": sizes.total(of_pairs)})


def _draw_contact_sheet(s: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.total([*job.index, *job.pairing])})


def _draw_figures(s: Any, job: Any, sizes: Sizes) -> Work:
    # Figures that have nothing to show are drawn quickly, so tables count as much as pictures.
    return Work({"tables": len(job.tables)})


def _draw_neurons(s: Any, job: Any, sizes: Sizes) -> Work:
    return Work({"pairs": sizes.total(job.index) + sizes.rows(job.corpus)})


WORK: dict[str, Callable[[Any, Any, Sizes], Work]] = {
    "compare_arms": _compare_arms,
    "convert_checkpoint": _convert_checkpoint,
    "corrupt_captions": _corrupt_captions,
    "decode_pictures": _decode_pictures,
    "draw_contact_sheet": _draw_contact_sheet,
    "draw_figures": _draw_figures,
    "draw_neurons": _draw_neurons,
    "draw_trees": _draw_trees,
    "encode_captions": _encode_captions,
    "encode_evaluation": _encode_evaluation,
    "encode_features": _encode_features,
    "encode_prompts": _encode_prompts,
    "evaluate_zeroshot": _evaluate_zeroshot,
    "export_pruned": _export_pruned,
    "extract_projection": _extract_projection,
    "find_similar_captions": _find_similar_captions,
    "finetune_projection": _finetune_projection,
    "fit_linear_probe": _fit_linear_probe,
    "gather_index": _gather_index,
    "gather_metrics": _gather_metrics,
    "identify_basis": _identify_basis,
    "index_shards": _index_shards,
    "list_files": _list_files,
    "make_evaluation_set": _make_evaluation_set,
    "make_scenes": _make_scenes,
    "measure_bayes": _measure_bayes,
    "measure_mixing": _measure_mixing,
    "measure_covariance": _measure_covariance,
    "measure_purity": _measure_purity,
    "measure_semantics": _measure_semantics,
    "measure_sufficiency": _measure_sufficiency,
    "measure_transfer": _measure_transfer,
    "pretrain_towers": _pretrain_towers,
    "prune_neurons": _prune_neurons,
    "read_captions": _read_captions,
    "simulate": _simulate,
    "train_encoders": _train_encoders,
    "train_head": _train_head,
    "train_multilayer": _train_multilayer,
    "train_small_towers": _train_small_towers,
    "train_two_layer": _train_two_layer,
}
"""The work of a job of each step, from its settings, its files and wildcards, and the sizes."""


def work_of(command: tuple[str, ...], sizes: Sizes) -> Work:
    """Return the work of a job from its command, and note what its outputs will hold."""
    from mispair.command import parsed

    step = command[0].replace("-", "_")
    if step in CONSTANT:
        return Work()
    settings, files_and_wildcards = parsed(step, command[1:])
    return WORK[step](settings, SimpleNamespace(**files_and_wildcards), sizes)
