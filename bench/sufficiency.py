"""Belief propagation against the published algorithm and its floor, and the time of training.

The published code (Oko, Lin, Cai and Mei, 2025) keeps messages as logarithms in single precision,
for a whole batch at once: each goes through exp, a product with the transition matrix and log. What
comes down leaves a child's own message out by subtraction. The peer here is written in the same
way, and by levels with einsum where the published code goes from node to node. Results
are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from mispair.sufficiency.trees import Trees

CONFIGS = Path(__file__).parents[1] / "config"
PUBLISHED = (4, 3, 10)
FLIP = 0.2
BATCHES = (128, 500, 1000, 4000)

AGREEMENT = 1e-4
"""Largest difference of the probabilities, in single precision."""

STEPS = 30
"""Steps of training that are timed, unless they are slow."""

Row = tuple[str, str, str, str]


def measure() -> Iterator[Row]:
    """Yield the rows."""
    from mispair.sufficiency.settings import Size
    from mispair.sufficiency.trees import draw_skeletons, trees_at

    torch.set_num_threads(1)
    skeletons = draw_skeletons(42, Size(*PUBLISHED))
    yield from _propagation(trees_at(skeletons, FLIP))
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        yield from _training(device)


def _seconds(run: Callable[[], Any], least: float = 0.5) -> float:
    """Return the best time of a call, of as many as fit."""
    run()
    best, until = float("inf"), time.perf_counter() + least
    while (started := time.perf_counter()) < until:
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - started)
    return best


def _paired(ours: Callable[[], Tensor], peer: Callable[[], Tensor]) -> tuple[float, float]:
    """Return the best times of both; they take turns, so that other load hits both."""
    turns = [(_seconds(ours, 0.1), _seconds(peer, 0.1)) for _ in range(10)]
    return min(first for first, _ in turns), min(second for _, second in turns)


def _agree(what: str, ours: Tensor, naive: Tensor) -> float:
    difference = float((ours - naive).abs().max())
    if not difference <= AGREEMENT:
        raise SystemExit(f"{what} do not agree: they differ by {difference:.1e}")
    return difference


# Belief propagation -------------------------------------------------------------------------------


def _published(transitions: Tensor, evidence: Tensor) -> Tensor:
    """Return the beliefs of all leaves by the published algorithm: (batch, leaves, symbols)."""
    branching = transitions.shape[1]
    messages, likelihood = [], evidence.log()
    for matrices in transitions.flip(0):
        children = likelihood.exp().unflatten(1, (-1, branching))
        message = torch.einsum("cas,nucs->nuca", matrices, children).log()
        messages.append((likelihood, message))
        likelihood = message.sum(dim=2)
        likelihood = likelihood - likelihood.amax(dim=-1, keepdim=True)
    belief = likelihood
    for matrices, (likelihood, message) in zip(transitions, reversed(messages), strict=True):
        rest = (belief[:, :, None] - message).exp()
        falling = torch.einsum("cas,nuca->nucs", matrices, rest).log().flatten(1, 2)
        belief = likelihood + falling
        belief = belief - belief.amax(dim=-1, keepdim=True)
    return belief.softmax(dim=-1)


def _evidence(trees: Trees, batch: int) -> Tensor:
    from mispair.sufficiency.belief_propagation import noisy_evidence
    from mispair.sufficiency.trees import add_noise, draw_pairs

    draw = torch.Generator(trees.image.device).manual_seed(0)
    noisy = add_noise(draw_pairs(trees, batch, draw).image, 1.0, draw)
    logs = noisy_evidence(noisy.to(trees.image.dtype), trees.size.symbols, 1.0)
    return (logs - logs.amax(dim=-1, keepdim=True)).exp().contiguous()


def _propagation(trees: Trees) -> Iterator[Row]:
    from mispair.sufficiency.belief_propagation import leaf_beliefs

    depth, branching, symbols = PUBLISHED
    what = (
        f"sufficiency, belief propagation up and down, tree of {branching**depth} leaves with "
        f"{symbols} symbols"
    )
    for batch in BATCHES:
        evidence = _evidence(trees, batch)
        ours = partial(leaf_beliefs, trees.image, evidence)
        peer = partial(_published, trees.image, evidence)
        difference = _agree(what, ours(), peer())
        our_time, peer_time = _paired(ours, peer)
        yield (
            f"{what}, batches of {batch:,}, one core",
            f"{batch / our_time:,.0f} samples/s",
            f"{batch / peer_time:,.0f} samples/s by the published algorithm, batched "
            f"(probabilities differ by {difference:.0e})",
            f"{peer_time / our_time:.1f}x",
        )
    yield _floor(trees)


def _floor(trees: Trees) -> Row:
    """Compare with the arithmetic and the traffic that no implementation can avoid."""
    from mispair.sufficiency.belief_propagation import leaf_beliefs

    batch, size = 1000, trees.size
    evidence, matrix = _evidence(trees, batch), torch.rand(1024, 1024)
    target = torch.empty_like(evidence)
    peak = 2 * 1024**3 / _seconds(lambda: matrix @ matrix)
    bandwidth = 8 * evidence.numel() / _seconds(lambda: target.copy_(evidence))
    operations = 4 * size.nodes * size.symbols**2
    # Evidence is read and beliefs are written; each message is written and read once.
    traffic = 4 * size.symbols * 2 * (size.leaves + size.nodes)
    seconds = _seconds(lambda: leaf_beliefs(trees.image, evidence)) / batch
    floor = max(operations / peak, traffic / bandwidth)
    return (
        f"the same, batches of {batch:,}: distance to the floor",
        f"{1e6 * seconds:.1f} µs a sample",
        f"{1e6 * operations / peak:.1f} µs for {operations:,} operations at {peak / 1e9:.0f} "
        f"GFLOP/s, {1e6 * traffic / bandwidth:.1f} µs for {traffic:,} bytes at "
        f"{bandwidth / 1e9:.0f} GB/s",
        f"{seconds / floor:.1f}x the floor",
    )


# Training -----------------------------------------------------------------------------------------


def _training(device: str) -> Iterator[Row]:
    """Time steps at the standard and the paper's setting; project the hours of all trainings.

    One kind of encoders and one head are timed; the others follow by their operations.
    """
    from mispair.sufficiency.settings import Size
    from mispair.sufficiency.trees import draw_skeletons

    for name in ("standard", "paper"):
        config = _config(name)
        trees, encoders, heads = config.draw_trees, config.train_encoders, config.train_head
        skeletons = draw_skeletons(42, Size(trees.depth, trees.branching, trees.symbols))
        leaves = skeletons.size.leaves
        step = _encoder_step(encoders, skeletons, "standard", device)
        of_encoders = {
            variant: step * _operations(encoders, leaves, variant)
            / _operations(encoders, leaves, "standard")
            for variant in encoders.variants
        }  # fmt: skip
        step = _head_step(heads, skeletons, "cdm", "frozen", device)
        of_heads = {
            (task, arm): step * _operations(heads, leaves, arm, task)
            / _operations(heads, leaves, "frozen", "cdm")
            for task in heads.tasks for arm in heads.arms
        }  # fmt: skip
        yield _row(name, config, of_encoders, of_heads, device)


def _operations(s: Any, leaves: int, kind: str, task: str = "") -> float:
    """Return the operations of a step, as the plan reckons them."""
    from mispair.sufficiency.cost import transformer_operations

    width = (s.vlm_width or s.width) if task == "vlm" else s.width
    blocks = s.shallow_blocks if kind == "shallow" else s.blocks
    tokens = leaves if not task else 2 * leaves if kind == "joint" else leaves + 1
    return transformer_operations(tokens, width, blocks)


def _row(
    name: str, config: Any, steps: dict[str, float], heads: dict[tuple[str, str], float],
    device: str,
) -> Row:  # fmt: skip
    trees, seeds = len(config.draw_trees.seeds), len(config.train_encoders.seeds)
    encoders, of_heads = config.train_encoders, config.train_head
    runs = {
        variant: trees * seeds * len(
            encoders.flips if variant == "standard" or encoders.variants_flips is None
            else encoders.variants_flips
        )
        for variant in steps
    }  # fmt: skip
    seconds = sum(runs[variant] * encoders.steps * time_ for variant, time_ in steps.items())
    seconds += trees * seeds * len(of_heads.flips) * of_heads.steps * sum(heads.values())
    where = "this core" if device == "cpu" else torch.cuda.get_device_name()
    trained = trees * seeds * len(of_heads.flips) * len(heads)
    return (
        f"sufficiency, training at the setting {name} on {where}, batches of {encoders.batch_size}",
        f"{1 / steps['standard']:.1f} steps/s of standard encoders, "
        f"{1 / heads['cdm', 'frozen']:.1f} of a denoising head",
        f"all {sum(runs.values())} trainings of encoders and {trained} of heads one after another, "
        "projected by operations",
        f"{seconds / 60:,.0f} minutes" if seconds < 3600 else f"{seconds / 3600:,.0f} h",
    )


def _config(name: str) -> Any:
    import yaml

    from mispair.config import validate

    path = CONFIGS / f"sufficiency-{name}.yaml"
    return validate(yaml.safe_load(path.read_text()), path.name)


def _encoder_step(s: Any, skeletons: Any, variant: str, device: str) -> float:
    from mispair.sufficiency import encoders
    from mispair.sufficiency.trees import trees_at

    blocks = s.shallow_blocks if variant == "shallow" else s.blocks
    towers = encoders.start_towers(skeletons.size, s.width, blocks, 0).to(device)
    loss = encoders.loss_of_step(
        towers, trees_at(skeletons, FLIP, device), batch_size=s.batch_size,
        candidates=s.candidates, seed=0,
        guidance_weight=s.guidance_weight if variant == "guided" else 0.0,
    )  # fmt: skip
    return _step(towers, loss, device)


def _head_step(s: Any, skeletons: Any, task: Any, arm: Any, device: str) -> float:
    from mispair.sufficiency import encoders, heads
    from mispair.sufficiency.settings import OF_ENCODERS
    from mispair.sufficiency.trees import trees_at

    size = skeletons.size
    head = heads.start_head(task, arm, size, s.width_of(task), s.blocks_of(arm), 0).to(device)
    reads = arm in OF_ENCODERS
    towers = encoders.start_towers(size, s.width, s.blocks, 0).to(device) if reads else None
    loss = heads.loss_of_step(
        task, arm, head, trees_at(skeletons, FLIP, device), towers,
        batch_size=s.batch_size, sigma=s.noise, seed=0,
    )  # fmt: skip
    return _step(head, loss, device)


def _step(model: Any, loss: Callable[[int], Tensor], device: str) -> float:
    """Return the mean time of a step, once it is warm; of slow ones fewer are taken."""
    from mispair.core.training import TrainingPlan, train

    def run(steps: int) -> float:
        started = time.perf_counter()
        train(model, loss, TrainingPlan(steps, 1e-4, 1e-7, 1e-3, 1.0))
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - started) / steps

    return run(STEPS) if run(1) < 0.5 else run(1)
