"""The simulation's engine against a plain per-trial loop, at the paper's size and on one core.

The naive twin does what a first script does: it makes every batch as dense matrices, which means
drawing all coordinates of fresh noise, takes B x B or 2B x 2B matrices of similarities, and lets
autograd and torch's optimisers do the rest; its decoder has all d1 coordinates. Every arm is
trained once from beginning to end; a step is the median over its steps, with the making of its
batch. That the engine keeps the memory of freed batches holds for the whole process, and so speeds
the twin up too.

The twin meets the same draws in the same order, except for fresh noise: the engine's, in projected
form, is other noise of the same distribution. On a fixed sample the weights at the end of the arms
are compared. Fresh data lead InfoNCE and Adam through a chaotic beginning, in which float32 forgets
its origin within a hundred steps: there the last losses of whole arms are compared, and the weights
of a short arm in float64 without noise.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from mispair.simulation.decoder import Decoder
    from mispair.simulation.encoder import Encoders
    from mispair.simulation.inputs import Batch, BatchSource, Inputs
    from mispair.simulation.pairs import TrialDraws
    from mispair.simulation.study import Study

CONFIGS = Path(__file__).parents[1] / "config"

C_S = 0.3
"""At which arms are measured; it changes no number of operations."""

AGREEMENT = {"float32": 1e-2, "float64": 1e-9}
"""Largest difference of the twins' weights at the end, relative to the weights."""

LOSS_AGREEMENT = 0.02
"""Largest relative difference of their mean losses in the last epoch, if data are fresh."""

MOVED = 0.1
"""Least change of weights, relative to the start, that makes the comparison worth something."""

SHORT = 5
"""Epochs of the arms in float64, and of those that both cores train at once."""

CORES = 2

SQUARE = 1536
"""Size of the large matrices whose product shows a core's peak."""

GEMM_SECONDS = 0.5
"""Time for which a product is repeated."""

Row = tuple[str, str, str, str]


def measure(epochs: int | None = None) -> Iterator[Row]:
    """Yield the rows; fewer `epochs` than the presets have are for trying this out."""
    torch.set_num_threads(1)
    as_run = _study("as-run", epochs)
    peak = yield from _products(as_run)
    ours, _ = yield from _arms(as_run, peak)
    yield from _beside(as_run, ours)

    as_written = _study("as-written", epochs)
    ours, twin = yield from _arms(as_written, peak)
    yield from _beside(as_written, ours)
    in_span, in_full = yield from _decoders(as_written, ours.encoders)
    yield _reuse(ours.seconds, in_span, twin.seconds, in_full)


def _study(preset: str, epochs: int | None) -> Study:
    from mispair.simulation.study import Study

    study = Study.model_validate({"preset": preset})
    lengths = ("epochs", "retrain_epochs", "retrain_epochs_filtered_only")
    return study.model_copy(update={} if epochs is None else dict.fromkeys(lengths, epochs))


def _products(study: Study) -> Generator[Row, None, float]:
    """Measure products of large squares and of a step's shapes; return the core's peak."""
    squares, features, gradients = _gemm_rates(study)
    by_torch = _gemm_rate(SQUARE, SQUARE, SQUARE, torch.matmul)
    peak = max(squares, features, gradients, by_torch)
    yield (
        "simulation, float32 products at the shapes of a step",
        f"{features:.0f} GFLOP/s (features), {gradients:.0f} GFLOP/s (gradients)",
        f"squares of {SQUARE}: {squares:.0f} GFLOP/s, {by_torch:.0f} GFLOP/s by torch.matmul; the "
        "largest of the four is this core's peak",
        f"{features / peak:.0%}, {gradients / peak:.0%}",
    )
    return peak


# One arm, by either twin --------------------------------------------------------------------------


@dataclass(frozen=True)
class Arm:
    """An arm on raw pairs, as it was trained.

    Attributes
    ----------
    seconds : float
        From the dictionaries to the trained weights.
    step : float
        Median seconds of a step.
    start, encoders : Encoders
        Before and after.
    loss : float
        Mean over the last epoch.
    """

    seconds: float
    step: float
    start: Encoders
    encoders: Encoders
    loss: float


Trainer = Callable[["Study", "Encoders", "BatchSource"], "tuple[Encoders, float]"]


def _arm(study: Study, trainer: Trainer) -> Arm:
    from mispair.simulation.encoder import draw_encoders

    started = time.perf_counter()
    draws = _draws(study)
    source = _Clock(_source(draws, study))
    start = draw_encoders(draws, "raw", study)
    encoders, loss = trainer(study, start, source)
    ended = time.perf_counter()
    between = zip(source.times, [*source.times[1:], ended], strict=True)
    step = median(end - begin for begin, end in between)
    return Arm(ended - started, step, start, encoders, loss)


class _Clock:
    """A source that notes when each batch was asked for."""

    def __init__(self, source: BatchSource) -> None:
        self.steps_per_epoch = source.steps_per_epoch
        self.times: list[float] = []
        self._source = source

    def batch(self, step: int) -> Batch:
        self.times.append(time.perf_counter())
        return self._source.batch(step)


def _draws(study: Study) -> TrialDraws:
    from mispair.simulation.pairs import TrialDraws

    return TrialDraws(study.seed, 0, getattr(torch, study.precision))


def _source(draws: TrialDraws, study: Study) -> BatchSource:
    from mispair.simulation.trial import Trial

    return Trial(study, C_S, draws).pretraining().source


def _engine(study: Study, start: Encoders, source: BatchSource) -> tuple[Encoders, float]:
    from mispair.simulation.training import TrainingLength, train

    plan = TrainingLength(study, study.epochs, study.steps_per_epoch)
    trained = train(start, source.batch, plan)
    return trained.encoders, float(trained.losses[-1].mean())


def _naive(study: Study, start: Encoders, source: BatchSource) -> tuple[Encoders, float]:
    """Train by autograd on dense matrices, as either preset says."""
    from mispair.simulation.encoder import Encoders

    weights, biases = (value.clone() for value in (start.weights, start.biases))
    learned = [weights, biases] if start.kind == "relu" else [weights]
    for value in learned:
        value.requires_grad_()
    kind = torch.optim.Adam if study.optimiser == "adam" else torch.optim.SGD
    optimiser = kind(learned, lr=study.lr)
    at_start, began, losses = float(start.weights.square().sum()), None, []
    for step in range(study.epochs * study.steps_per_epoch):
        epoch = step // study.steps_per_epoch
        rate = study.lr * study.lr_decay ** (epoch // study.lr_decay_every)
        optimiser.param_groups[0]["lr"] = rate
        with torch.no_grad():
            if study.unit_rows:
                _rescale(weights, biases)
            if start.kind == "symmetric-relu":
                norms = weights.square().sum(dim=2)
                if began is None and float(norms.sum()) >= 2 * at_start:
                    began = step
                if began is not None and step < began + study.phase2_steps:
                    share = math.log(study.d) / study.d
                    biases.copy_(study.bias_scale * (share * norms.mean(dim=0)).sqrt())
        batch = source.batch(step)
        image, text = (
            _with_noise(inputs) @ rows.T
            for inputs, rows in zip((batch.image, batch.text), weights, strict=True)
        )
        if start.kind == "relu":
            image, text = (image + biases[0]).relu(), (text + biases[1]).relu()
            loss = _infonce(image, text, study.temperature)
        else:
            image = (image - biases[0]).relu() - (-image - biases[0]).relu()
            text = (text - biases[1]).relu() - (-text - biases[1]).relu()
            loss = _spectral(image, text, study.temperature)
        if study.weight_penalty:
            loss = loss + study.weight_penalty * sum(value.square().sum() for value in learned)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    with torch.no_grad():
        if study.unit_rows:
            _rescale(weights, biases)
    encoders = Encoders(start.kind, weights.detach(), biases.detach())
    return encoders, fmean(losses[-study.steps_per_epoch :])


def _with_noise(inputs: Inputs) -> Tensor:
    """Return dense inputs, with fresh noise of all coordinates where the engine projects it."""
    from mispair.simulation.inputs import Coded

    if not isinstance(inputs, Coded) or inputs.fresh is None:
        return inputs.dense()
    values = replace(inputs, fresh=None).dense()
    count = len(inputs.fresh.seen)
    values[:count] += inputs.fresh.std * torch.randn(count, values.shape[1], dtype=values.dtype)
    return values


def _rescale(weights: Tensor, biases: Tensor) -> None:
    norms = weights.norm(dim=2)
    weights.div_(norms[:, :, None])
    biases.div_(norms)


def _infonce(image: Tensor, text: Tensor, temperature: float) -> Tensor:
    """Mean over the 2B rows of both modalities, by the library's cross entropy."""
    both = torch.cat([image, text])
    similar = both @ both.T / temperature
    similar = similar.masked_fill(torch.eye(len(both), dtype=torch.bool), -math.inf)
    partners = torch.arange(len(both)).roll(len(image))
    return torch.nn.functional.cross_entropy(similar, partners)


def _spectral(image: Tensor, text: Tensor, temperature: float) -> Tensor:
    """Eq. 1, summed over the batch."""
    similar = image @ text.T
    positive = similar.diagonal()
    return (similar.square().sum() - positive.square().sum()) / temperature - positive.sum()


# The rows -----------------------------------------------------------------------------------------


def _arms(study: Study, peak: float) -> Generator[Row, None, tuple[Arm, Arm]]:
    """Train an arm by both twins, and compare their times and results."""
    for trainer in (_engine, _naive):
        _arm(study.model_copy(update={"epochs": 1}), trainer)  # imports count for none
    ours, twin = _arm(study, _engine), _arm(study, _naive)
    same = _agreement(study, ours, twin)
    yield (
        f"simulation, {study.preset}, step of S1",
        f"{1e3 * ours.step:.2f} ms",
        f"{1e3 * twin.step:.2f} ms by the naive twin",
        f"{twin.step / ours.step:.2f}x",
    )
    yield (
        f"simulation, {study.preset}, arm of {study.epochs * study.steps_per_epoch} steps, its "
        "data included",
        f"{ours.seconds:.1f} s",
        f"{twin.seconds:.1f} s by the naive twin ({same})",
        f"{twin.seconds / ours.seconds:.2f}x",
    )
    rate = _flops(study) / ours.step / 1e9
    yield (
        f"simulation, {study.preset}, share of this core's peak in float32 products",
        f"{rate:.0f} GFLOP/s ({_flops(study) / 1e9:.2f} GFLOP a step)",
        f"{peak:.0f} GFLOP/s",
        f"{rate / peak:.0%}",
    )
    return ours, twin


def _agreement(study: Study, ours: Arm, twin: Arm) -> str:
    """Say how well the twins agree; stop if they do not."""
    said = "weights"
    if study.data == "fresh":
        if not abs(ours.loss / twin.loss - 1) <= LOSS_AGREEMENT:
            raise SystemExit(f"the twins end on unlike losses: {ours.loss:.4f}, {twin.loss:.4f}")
        losses = f"losses of the last epoch {ours.loss:.3f} and {twin.loss:.3f}"
        said = f"{losses}; in float64 without noise, weights"
        exact = {"precision": "float64", "text_noise": 0.0, "epochs": min(SHORT, study.epochs)}
        study = study.model_copy(update=exact)
        ours, twin = _arm(study, _engine), _arm(study, _naive)
    start = ours.start.clone()
    if study.unit_rows:
        start.rescale()
    difference = _distance(ours.encoders, twin.encoders, ours.encoders)
    moved = _distance(start, ours.encoders, start)
    if not difference <= AGREEMENT[study.precision]:
        raise SystemExit(f"the twins do not train alike: weights differ by {difference:.1e}")
    if not moved >= MOVED:
        raise SystemExit(f"weights moved by {moved:.1e} only: that they agree says nothing")
    return f"{said} differ by {difference:.0e} and moved by {moved:.2g} of their start"


def _distance(one: Encoders, other: Encoders, unit: Encoders) -> float:
    return float((one.weights - other.weights).norm() / unit.weights.norm())


def _flops(study: Study) -> float:
    """Return the operations of the products that a step of the engine makes; see `training`."""
    b, d1, d, m = study.batch_size, study.d1, study.d, study.m
    if study.data == "fixed":
        return 2.0 * (4 * b * m * d1 + 4 * b * m * m)
    return 2.0 * (4 * m * d * d1 + 4 * m * m * d1 + 7 * b * b * m)


def _beside(study: Study, alone: Arm) -> Iterator[Row]:
    """Measure a step and a whole trial while the other core trains too."""
    from mispair.simulation.trial import run_trials

    short = study.model_copy(update={"epochs": min(SHORT, study.epochs)})
    with _other_core_busy(short):
        peak = max(_gemm_rates(study))
        by_torch = _gemm_rate(SQUARE, SQUARE, SQUARE, torch.matmul)
        step = _arm(short, _engine).step
        started = time.perf_counter()
        run_trials(study, C_S, [0])
        trial = time.perf_counter() - started
    rate = _flops(study) / step / 1e9
    yield (
        f"simulation, {study.preset}, step of S1 while the other core takes the same",
        f"{1e3 * step:.2f} ms: {rate / by_torch:.0%} of torch.matmul's rate under that load "
        f"({by_torch:.0f} GFLOP/s), {rate / peak:.0%} of this core's ({peak:.0f} GFLOP/s)",
        f"{1e3 * alone.step:.2f} ms alone",
        f"{CORES * alone.step / step:.2f} times one core",
    )
    sweep = _sweep(study.preset)
    number = len(sweep["spurious_probabilities"]) * sweep["trials"]
    yield (
        f"simulation, {study.preset}, complete figure 1 on {CORES} cores (projected)",
        f"{number * trial / CORES / 60:.0f} min",
        f"{number} trials of {trial:.1f} s, S1 to S4 and all measures, the other core busy",
        f"{number * trial / 60:.0f} core minutes",
    )


@contextlib.contextmanager
def _other_core_busy(study: Study) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    begun, enough = context.Event(), context.Event()
    other = context.Process(target=_train_until, args=(study, begun, enough), daemon=True)
    other.start()
    try:
        if not begun.wait(120):
            raise SystemExit("the process for the other core did not start")
        yield
    finally:
        enough.set()
        other.join()


def _train_until(study: Study, begun: Event, enough: Event) -> None:
    torch.set_num_threads(1)
    while not enough.is_set():
        begun.set()
        _arm(study, _engine)


def _decoders(study: Study, encoders: Encoders) -> Generator[Row, None, tuple[float, float]]:
    """Fit the decoder (S2) in the span of its pairs and in all coordinates."""
    from mispair.simulation.decoder import fit_decoder, start_decoder
    from mispair.simulation.trial import Trial

    draws = _draws(study)
    trial = Trial(study, C_S, draws)
    dictionaries, pairs = trial.dictionaries, trial.high_quality
    start = start_decoder(draws, encoders, study)
    started = time.perf_counter()
    decoder, _ = fit_decoder(draws, start, dictionaries, pairs, study)
    in_span = time.perf_counter() - started
    started = time.perf_counter()
    _naive_decoder(start, pairs.image.dense(), pairs.text.dense(), study)
    in_full = time.perf_counter() - started
    began = torch.stack([start.input_weights, start.output_rows])
    ended = torch.stack([decoder.input_weights, decoder.output_rows])
    moved = float((ended - began).norm() / began.norm())
    difference = _decoders_differ(study, start)
    yield (
        f"simulation, {study.preset}, decoder (S2), {study.decoder_steps} steps in the span of "
        "its pairs",
        f"{in_span:.2f} s",
        f"{in_full:.2f} s by autograd in {study.d1} dimensions (in float64, weights "
        f"differ by {difference:.0e}; they moved by {moved:.2g} of their start)",
        f"{in_full / in_span:.2f}x",
    )
    return in_span, in_full


def _decoders_differ(study: Study, start: Decoder) -> float:
    """Return the relative difference of the decoders in float64, where rounding does not grow."""
    from mispair.simulation.decoder import fit_decoder
    from mispair.simulation.trial import Trial

    study = study.model_copy(update={"precision": "float64"})
    draws = _draws(study)
    trial = Trial(study, C_S, draws)
    pairs = trial.high_quality
    tensors = {name: value.double() for name, value in vars(start).items() if name != "kind"}
    start = replace(start, **tensors)
    decoder, _ = fit_decoder(draws, start, trial.dictionaries, pairs, study)
    ours = torch.stack([decoder.input_weights, decoder.output_rows])
    twin = torch.stack(_naive_decoder(start, pairs.image.dense(), pairs.text.dense(), study))
    difference = float((ours - twin).norm() / ours.norm())
    if not difference <= AGREEMENT[study.precision]:
        raise SystemExit(f"the decoders do not fit alike: weights differ by {difference:.1e}")
    return difference


def _naive_decoder(
    start: Decoder, images: Tensor, captions: Tensor, study: Study
) -> tuple[Tensor, Tensor]:
    weights = start.input_weights.clone().requires_grad_()
    output = start.output_rows.clone().requires_grad_()
    optimiser = torch.optim.SGD([weights, output], lr=study.decoder_lr)
    for _ in range(study.decoder_steps):
        inner = images @ weights.T
        hidden = (inner - start.input_bias).relu() - (-inner - start.input_bias).relu()
        loss = (hidden @ output - captions).square().sum() / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return weights.detach(), output.detach()


def _reuse(arm: float, decoder: float, naive_arm: float, naive_decoder: float) -> Row:
    """Compose one trial of figure 1 with its two references from the parts that were measured."""
    points = len(_sweep("as-written")["spurious_probabilities"])
    ours = points * (2 * arm + decoder) + arm
    naive = points * (4 * naive_arm + naive_decoder)
    return (
        f"simulation, as-written, one trial of figure 1 with right captions and S_h alone next to "
        f"its {points} C_s (composed of the measured parts)",
        f"{ours:.0f} s: {points} x (raw, filtered, decoder in the span), S_h alone once, right "
        "captions as raw at 0",
        f"{naive:.0f} s: {points} x (four arms, decoder in full) by the naive twin",
        f"{naive / ours:.2f}x",
    )


def device_title(device: str) -> str:
    """Name a device in a row."""
    return torch.cuda.get_device_name() if device == "cuda" else "the CPU"


def square_rate(device: str) -> float:
    """Return the best rate of a product of large squares on a GPU or one core, in FLOP/s."""
    side = 8192 if device == "cuda" else SQUARE
    one, other = torch.randn(side, side, device=device), torch.randn(side, side, device=device)
    clock = time.perf_counter if device == "cuda" else time.process_time  # not of other programs
    best, until = math.inf, clock() + GEMM_SECONDS
    while (started := clock()) < until:
        one @ other
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, clock() - started)
    return 2 * side**3 / best


def _sweep(preset: str) -> dict:
    import yaml

    return yaml.safe_load((CONFIGS / f"simulation-{preset}.yaml").read_text())["simulate"]


def _gemm_rates(study: Study) -> list[float]:
    """Return the rates of the engine's products: of squares, for features, for gradients."""
    from mispair.core.training import times

    b, d1, m = study.batch_size, study.d1, study.m
    shapes = [(SQUARE, SQUARE, SQUARE), (b, d1, m), (m, b, d1)]
    return [_gemm_rate(*shape, times) for shape in shapes]


def _gemm_rate(n: int, k: int, m: int, product: Callable[[Tensor, Tensor], Tensor]) -> float:
    """Return the best of many products (n, k) by (k, m), in GFLOP/s."""
    # Stored as in a step, where features are X Wᵀ and gradients Gᵀ X.
    if n >= m:
        one, other = torch.randn(n, k), torch.randn(m, k).T
    else:
        one, other = torch.randn(k, n).T, torch.randn(k, m)
    best, until = math.inf, time.perf_counter() + GEMM_SECONDS
    while (started := time.perf_counter()) < until:
        product(one, other)
        best = min(best, time.perf_counter() - started)
    return 2 * n * k * m / best / 1e9
