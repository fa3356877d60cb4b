"""Fine-tuning on cached features against the same fine-tuning through the frozen towers.

The naive twin does what a training script does: every step decodes its images, preprocesses them,
tokenises its captions, runs both towers and lets autograd and torch's AdamW train the projections.
It sees the same batches in the same order, so its losses must be those of the cached run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

STEPS = 39
"""Steps that the twin is measured on, the whole warm-up; the sweep's thousands take an hour."""

AGREEMENT = 1e-4
"""Largest relative difference of losses between the twins."""


def measure() -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows of the comparison at the demo's sizes."""
    from mispair import config, seeds
    from mispair.dag import SHIPPED_TOWERS
    from mispair.pairs.corruption import shuffle_captions
    from mispair.towers import projection
    from mispair.towers.encoding import encode_images, encode_texts
    from mispair.towers.features import PairedFeatures
    from mispair.towers.loading import load_towers

    torch.set_num_threads(1)
    defaults = config.Config()
    tuning = defaults.finetune_projection
    towers = load_towers(SHIPPED_TOWERS, "cpu")
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
    training = projection.Training()
    training_seconds, steps, orders, losses = 0.0, 0, {}, {}
    for rate in defaults.corrupt_captions.rates:
        keys = np.array([f"{number:06d}" for number in range(len(encoded))])
        orders[rate] = shuffle_captions(keys, rate, seeds.generator("bench", "captions"))
        data = PairedFeatures(image_features, text_features, orders[rate])
        initial = projection.starting_point("pretrained", model, streams)
        started = time.perf_counter()
        _, losses[rate] = projection.finetune(data, initial, training, streams)
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
    work = _flops(training, model) * steps / training_seconds / 1e9
    peak = _sgemm_peak()
    yield (
        "fine-tuning, share of this core's sgemm peak",
        f"{work:.0f} GFLOP/s",
        f"{peak:.0f} GFLOP/s",
        f"{work / peak:.0%}",
    )


def _pairs(number: int) -> tuple[list[bytes], list[str]]:
    from mispair.pairs.shards import read_samples
    from mispair.steps import make_scenes

    with tempfile.TemporaryDirectory() as folder:
        settings = make_scenes.Settings(shards=-(-number // 1000), pairs_per_shard=1000)
        make_scenes.run(settings, corpus=Path(folder) / "shards")
        samples = [
            sample
            for shard in sorted(Path(folder).rglob("*.tar"))
            for sample in read_samples(shard)
        ]
    return [s.image for s in samples[:number]], [s.caption.decode() for s in samples[:number]]


def _decode(data: bytes):
    from mispair.pairs.images import decode_image

    return decode_image(data)


def _online(
    towers, model, training, encoded, captions, order, stream, steps
) -> tuple[float, np.ndarray]:
    """Train one seed for some steps through the towers; return seconds and losses."""
    from mispair.towers.projection import BETAS, batch_order, learning_rates

    per_epoch = len(encoded) // training.batch_size
    assert steps == per_epoch * training.epochs
    image = torch.nn.Parameter(torch.tensor(model.image[0]))
    text = torch.nn.Parameter(torch.tensor(model.text[0]))
    scale = float(np.exp(model.logit_scale[0]))
    optimiser = torch.optim.AdamW([image, text], betas=BETAS, weight_decay=training.weight_decay)
    rates = learning_rates(training, per_epoch)
    batches = batch_order(len(encoded), per_epoch, training.batch_size, [stream], 0)
    targets = torch.arange(training.batch_size)
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
        u = torch.nn.functional.normalize(x @ image, dim=1)
        v = torch.nn.functional.normalize(y @ text, dim=1)
        logits = scale * u @ v.T
        loss = (
            torch.nn.functional.cross_entropy(logits, targets)
            + torch.nn.functional.cross_entropy(logits.T, targets)
        ) / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.param_groups[0]["lr"] = float(rates[step])
        optimiser.step()
        losses.append(loss.item())
    return time.perf_counter() - started, np.array(losses)


def _flops(training, model) -> float:
    """Return the floating-point operations of the matrix products of one seed's step."""
    b, e = training.batch_size, model.image.shape[2]
    widths = model.image.shape[1] + model.text.shape[1]
    return 2 * b * e * widths * 2 + 2 * b * b * e * 3


def _sgemm_peak(size: int = 1536, repetitions: int = 8) -> float:
    matrix = torch.randn(size, size)
    matrix @ matrix
    started = time.perf_counter()
    for _ in range(repetitions):
        matrix @ matrix
    return 2 * size**3 * repetitions / (time.perf_counter() - started) / 1e9
