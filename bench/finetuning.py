"""Fine-tuning on cached features against the same fine-tuning through the frozen towers.

The naive twin does what a training script does: every step decodes its images, preprocesses them,
tokenises its captions, runs both towers and lets autograd and torch's AdamW train the projections.
At the demo's sizes it sees the same batches in the same order, so its losses must be those of the
cached run. At the paper's, on made-up features of the widths of its towers, a step of the twin is
put together from parts that are measured: towers of the size of ViT-B/16 on a few pairs, and a step
of both projections on a whole batch.
"""

from __future__ import annotations

import io
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bench.simulation import SQUARE, device_title, square_rate

if TYPE_CHECKING:
    from mispair.towers.features import PairedFeatures
    from mispair.towers.finetuning.finetuning_settings import FinetuningLength
    from mispair.towers.finetuning.projection import Projections

Row = tuple[str, str, str, str]

STEPS = 39
"""Steps that the twin is measured on, the whole warm-up; the sweep's thousands take an hour."""

AGREEMENT = 1e-4
"""Largest relative difference of losses between the twins."""


def measure() -> Iterator[Row]:
    """Yield the rows: at the demo's sizes, at the paper's, and on a GPU where there is one."""
    from mispair.towers.finetuning.finetuning_settings import PRESETS

    torch.set_num_threads(1)
    yield from _demo()
    yield from sweep(Sizes(), PRESETS["as-run-one-process"])
    if torch.cuda.is_available():
        for preset, training in PRESETS.items():
            if preset != "as-written":  # as-run, to the number
                yield on_a_gpu(Sizes(pairs=3_000_000), preset, training)


def _demo() -> Iterator[Row]:
    """Compare the twins at the demo's sizes."""
    from mispair import config
    from mispair.core import seeds
    from mispair.pairs.corruption.corruption import shuffle_captions
    from mispair.towers.dag import SHIPPED
    from mispair.towers.encoding import encode_images, encode_texts
    from mispair.towers.features import PairedFeatures
    from mispair.towers.finetuning import projection
    from mispair.towers.finetuning.finetuning_settings import resolve
    from mispair.towers.loading import load_towers

    defaults = config.Config()
    tuning = defaults.finetune_projection
    towers = load_towers(SHIPPED["shipped"], "cpu")
    encoded, captions = _pairs(tuning.pairs)

    started = time.perf_counter()
    image_features = encode_images(towers, (_decode(data) for data in encoded), 256)
    text_features = encode_texts(towers, captions, 256)
    encoding = time.perf_counter() - started

    model = projection.Projections(
        towers.image_projection.detach().numpy()[None],
        towers.text_projection.detach().numpy()[None],
        np.array([float(towers.logit_scale)], np.float32),
    )
    streams = [seeds.integer("bench", number) for number in range(tuning.seeds)]
    training = resolve(tuning)
    training_seconds, steps, orders, losses = 0.0, 0, {}, {}
    for rate in defaults.corrupt_captions.rates:
        keys = np.array([f"{number:06d}" for number in range(len(encoded))])
        orders[rate] = shuffle_captions(keys, rate, seeds.generator("bench", "captions"))
        data = PairedFeatures(image_features, text_features, orders[rate][None])
        initial = projection.starting_point(model, streams)
        started = time.perf_counter()
        _, losses[rate], *_ = projection.finetune(data, initial, training, streams)
        training_seconds += time.perf_counter() - started
        steps += losses[rate].size
    cached = encoding + training_seconds

    rate = defaults.corrupt_captions.rates[-1]
    online, online_losses = _online(
        towers, model, training, encoded, captions, orders[rate], streams[0], losses[rate].shape[1]
    )
    difference = float(np.max(np.abs(online_losses / losses[rate][0, :STEPS] - 1)))
    if difference > AGREEMENT:
        raise SystemExit(f"the twins do not train alike: losses differ by {difference:.1e}")
    whole = online * steps / STEPS
    yield (
        "fine-tuning, whole C_m sweep on cached features, features included",
        f"{cached:.1f} s ({encoding:.1f} s to encode, {training_seconds:.1f} s for {steps} steps)",
        f"{whole:.0f} s through the towers ({online / STEPS * 1e3:.0f} ms a step, "
        f"{STEPS} steps measured; losses agree to {difference:.0e})",
        f"{whole / cached:.0f}x",
    )
    widths = Sizes(
        image=model.image.shape[1], text=model.text.shape[1], neurons=model.image.shape[2]
    )
    yield _share("the same", widths, training.batch_size, steps, training_seconds)


def _pairs(number: int) -> tuple[list[bytes], list[str]]:
    from mispair.pairs.shards.shards import read_samples
    from mispair.pairs.steps import make_scenes

    with tempfile.TemporaryDirectory() as folder:
        settings = make_scenes.Settings(shards=-(-number // 1000), pairs_per_shard=1000)
        make_scenes.run(settings, corpus=Path(folder) / "shards")
        samples = [
            sample
            for shard in sorted(Path(folder).rglob("*.tar"))
            for sample in read_samples(shard)
        ]
    return [s.image for s in samples[:number]], [s.caption.decode() for s in samples[:number]]


def _decode(data: bytes) -> Any:
    from mispair.pairs.shards.images import decode_image

    return decode_image(data)


def _online(
    towers: Any,
    model: Projections,
    training: FinetuningLength,
    encoded: list[bytes],
    captions: list[str],
    order: np.ndarray,
    stream: int,
    steps: int,
) -> tuple[float, np.ndarray]:
    """Train one seed for some steps through the towers; return seconds and losses."""
    from mispair.towers.finetuning.batches import batch_order
    from mispair.towers.finetuning.projection import BETAS, learning_rates

    per_epoch = len(encoded) // training.batch_size
    assert steps == per_epoch * training.epochs
    image = torch.nn.Parameter(torch.tensor(model.image[0]))
    text = torch.nn.Parameter(torch.tensor(model.text[0]))
    scale = float(np.exp(model.logit_scale[0]))
    optimiser = torch.optim.AdamW([image, text], betas=BETAS, weight_decay=training.weight_decay)
    rates = learning_rates(training, per_epoch)
    batches = batch_order(len(encoded), per_epoch, training.batch_size, [stream], 0)
    losses = []
    started = time.perf_counter()
    for step in range(STEPS):
        batch = batches[step]
        with torch.no_grad():
            pixels = torch.stack([towers.preprocess(_decode(encoded[row])) for row in batch])
            # Clones are ordinary tensors again: autograd refuses those of inference mode.
            x = towers.image_features(pixels).clone()
            tokens = towers.tokenizer([captions[order[row]] for row in batch])
            y = towers.text_features(tokens).clone()
        loss = _infonce(x @ image, y @ text, scale)
        optimiser.zero_grad()
        loss.backward()
        optimiser.param_groups[0]["lr"] = float(rates[step])
        optimiser.step()
        losses.append(loss.item())
    return time.perf_counter() - started, np.array(losses)


@dataclass(frozen=True)
class Sizes:
    """What is fine-tuned: widths before the projections, neurons, and how often."""

    pairs: int = 100_000
    image: int = 768
    text: int = 512
    neurons: int = 512
    rates: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 0.8)
    seeds: int = 3

    def flops(self, batch: int) -> float:
        """Return the operations of the products of one seed's step."""
        widths = self.image + self.text
        return 2.0 * batch * self.neurons * (2 * widths + 3 * batch)

    def steps(self, training: FinetuningLength) -> int:
        """Return the steps of the whole sweep, each of one seed."""
        per_epoch = self.pairs // training.batch_size
        return per_epoch * training.epochs * len(self.rates) * self.seeds


def sweep(
    sizes: Sizes, training: FinetuningLength, model: str = "ViT-B-16", towers_pairs: int = 8
) -> Iterator[Row]:
    """Measure the whole sweep on cached features on one core, and what it comes to through towers.

    Parameters
    ----------
    sizes, training : Sizes, Training
        All of it is run.
    model : str
        Of open_clip's architectures, with random weights: the towers of the twin.
    towers_pairs : int
        Pairs that they are measured on, three times.
    """
    from mispair.core import seeds
    from mispair.pairs.corruption.corruption import shuffle_captions
    from mispair.towers.finetuning import projection

    features, start = _made_up(sizes, torch.float32)
    keys = np.array([f"{number:07d}" for number in range(sizes.pairs)])
    seconds = 0.0
    for rate in sizes.rates:
        order = shuffle_captions(keys, rate, seeds.generator("bench", "captions"))
        paired = replace(features, text_rows=order[None])
        started = time.perf_counter()
        _, losses, *_ = projection.finetune(paired, start, training, range(sizes.seeds))
        seconds += time.perf_counter() - started
        assert np.isfinite(losses).all()
    steps, batch = sizes.steps(training), training.batch_size
    tower = _towers_seconds(model, towers_pairs)
    tail = _autograd_seconds(features, start, training)
    online = batch * tower + tail
    yield (
        f"fine-tuning, whole C_m sweep on cached features: {len(sizes.rates)} rates x "
        f"{sizes.seeds} seeds, {training.epochs} epochs of {sizes.pairs:,} pairs, "
        f"{sizes.image} + {sizes.text} wide, {sizes.neurons} neurons, batches of {batch}, one core",
        f"{seconds:.0f} s for {steps:,} steps",
        f"{steps * online / 3600:,.0f} h through the towers of a {model}, extrapolated from 3 "
        f"measurements of {towers_pairs} pairs ({tower:.2f} s a pair) and of a step of the "
        f"projections by autograd ({1e3 * tail:.0f} ms)",
        f"{steps * online / seconds:,.0f}x",
    )
    yield (
        "fine-tuning, a step of the projections by hand-written gradients, those of a sweep",
        f"{1e3 * seconds / steps:.2f} ms a step and seed",
        f"{1e3 * tail:.2f} ms by autograd and torch's AdamW, on cached features too",
        f"{tail * steps / seconds:.2f}x",
    )
    yield _share("whole C_m sweep", sizes, batch, steps, seconds)


def _share(what: str, sizes: Sizes, batch: int, steps: int, seconds: float) -> Row:
    """Compare what a sweep computes in a second with the products alone."""
    from mispair.core.training import times

    b, d, e = batch, sizes.image, sizes.neurons
    shapes = {
        "embeddings": ((b, d), (d, e), False),
        "cosines": ((b, e), (e, b), False),
        "gradients by weights": ((d, b), (b, e), True),
    }
    rates = {name: _product_rate(times, *shape) for name, shape in shapes.items()}
    square = (SQUARE, SQUARE)
    squares = {
        "the products of trainings": _product_rate(times, square, square, False),
        "torch.matmul": square_rate("cpu") / 1e9,
    }
    work = sizes.flops(batch) * steps / seconds / 1e9
    peak = max(*rates.values(), *squares.values())
    return (
        f"fine-tuning, {what}: share of this core's measured sgemm peak",
        f"{work:.0f} GFLOP/s",
        f"{peak:.0f} GFLOP/s, the largest of "
        + ", ".join(f"{rate:.0f} ({name} of a step)" for name, rate in rates.items())
        + f" and squares of {SQUARE}: "
        + ", ".join(f"{rate:.0f} by {name}" for name, rate in squares.items()),
        f"{work / peak:.0%}",
    )


def _product_rate(
    product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    one: tuple[int, int],
    other: tuple[int, int],
    transposed: bool,
    seconds: float = 0.3,
) -> float:
    """Return the best of many products, in GFLOP/s; the first factor may be stored transposed."""
    left = torch.randn(one[::-1]).T if transposed else torch.randn(one)
    right = torch.randn(other)
    best, until = math.inf, time.perf_counter() + seconds
    while (started := time.perf_counter()) < until:
        product(left, right)
        best = min(best, time.perf_counter() - started)
    return 2 * one[0] * one[1] * other[1] / best / 1e9


def _made_up(sizes: Sizes, dtype: torch.dtype) -> tuple[PairedFeatures, Projections]:
    """Return random features with one caption a pair, and random projections of all seeds.

    A block of features is repeated: their values change no number of operations.
    """
    from mispair.towers.features import PairedFeatures
    from mispair.towers.finetuning.projection import Projections

    draw = torch.Generator().manual_seed(0)

    def features(width: int) -> np.ndarray:
        block = torch.randn(min(sizes.pairs, 2**15), width, generator=draw).to(dtype).numpy()
        return np.resize(block, (sizes.pairs, width))

    def weights(width: int) -> np.ndarray:
        drawn = torch.randn(1, width, sizes.neurons, generator=draw) * width**-0.5
        return np.repeat(drawn.numpy(), sizes.seeds, axis=0)

    scale = np.full(sizes.seeds, math.log(1 / 0.07), np.float32)
    return (
        PairedFeatures(features(sizes.image), features(sizes.text), np.arange(sizes.pairs)[None]),
        Projections(weights(sizes.image), weights(sizes.text), scale),
    )


def _towers_seconds(model: str, pairs: int) -> float:
    """Return what decoding, preparing and both towers take for a pair; the median of three."""
    import open_clip
    from PIL import Image

    from bench.encoding import write_shards
    from mispair.pairs.shards.shards import read_samples

    with tempfile.TemporaryDirectory() as folder:
        write_shards(Path(folder) / "shards", shards=1, images=pairs)
        (shard,) = (Path(folder) / "shards").glob("*.tar")
        pictures = [sample.image for sample in read_samples(shard)]
    captions = [f"a photo of number {number} in the rain" for number in range(pairs)]
    whole, _, prepare = open_clip.create_model_and_transforms(model)
    tokenizer = open_clip.get_tokenizer(model)
    whole.eval()
    spent = []
    for _ in range(4):
        started = time.perf_counter()
        with torch.no_grad():
            decoded = (Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures)
            whole.encode_image(torch.stack([prepare(picture) for picture in decoded]))
            whole.encode_text(tokenizer(captions))
        spent.append(time.perf_counter() - started)
    return float(np.median(spent[1:])) / pairs  # the first time counts for none


def _autograd_seconds(
    features: PairedFeatures, start: Projections, training: FinetuningLength
) -> float:
    """Return what a step of both projections of one seed takes by autograd; the median."""
    batch = training.batch_size
    x, y = (
        torch.as_tensor(array[:batch])
        for array in (features.image_features, features.text_features)
    )
    image, text = (
        torch.nn.Parameter(torch.tensor(array[0])) for array in (start.image, start.text)
    )
    optimiser = torch.optim.AdamW([image, text], weight_decay=training.weight_decay)
    spent = []
    for _ in range(12):
        began = time.perf_counter()
        loss = _infonce(x @ image, y @ text, math.exp(start.logit_scale[0]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        spent.append(time.perf_counter() - began)
    return float(np.median(spent[2:]))


def _infonce(image: torch.Tensor, text: torch.Tensor, scale: float) -> torch.Tensor:
    normalize, entropy = torch.nn.functional.normalize, torch.nn.functional.cross_entropy
    logits = scale * normalize(image, dim=1) @ normalize(text, dim=1).T
    targets = torch.arange(len(logits))
    return (entropy(logits, targets) + entropy(logits.T, targets)) / 2


def on_a_gpu(sizes: Sizes, preset: str, training: FinetuningLength, device: str = "cuda") -> Row:
    """Measure one epoch of one rate, all seeds side by side, features on the device throughout."""
    from mispair.towers.finetuning import projection

    features, start = _made_up(sizes, torch.float16)
    epoch = replace(training, epochs=1, warmup_epochs=0)
    few = 4 * training.batch_size
    warm = replace(features, text_rows=features.text_rows[:, :few])
    projection.finetune(warm, start, epoch, range(sizes.seeds), device)  # what is loaded once
    started = time.perf_counter()
    projection.finetune(features, start, epoch, range(sizes.seeds), device)
    seconds = time.perf_counter() - started
    steps = sizes.pairs // training.batch_size * sizes.seeds
    work = sizes.flops(training.batch_size) * steps / seconds
    peak = square_rate(device)
    whole = seconds * training.epochs * len(sizes.rates)
    return (
        f"fine-tuning, {preset}, {sizes.pairs:,} pairs of {sizes.image} + {sizes.text} numbers in "
        f"half precision on {device_title(device)}, batches of {training.batch_size:,}, "
        f"{sizes.seeds} seeds side by side",
        f"{seconds:.1f} s an epoch, features copied there included; a sweep of "
        f"{len(sizes.rates)} rates, {training.epochs} epochs each, comes to {whole / 60:.0f} min "
        "(extrapolated from that epoch)",
        f"{work / 1e12:.2f} TFLOP/s, of {peak / 1e12:.1f} by torch.matmul in float32 (TF32 off)",
        f"{work / peak:.0%} of peak",
    )
