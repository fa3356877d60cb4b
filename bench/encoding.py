"""Encoding of shards, from JPEG bytes to features, against the forward passes alone.

The twin has its pixels in memory already and does nothing but run the same tower on batches of
the same size in the same precision. What is left of its speed is what reading, decoding, resizing
and copying cost. The two are measured in turns, because other work on the machine comes and goes.
"""

import io
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

MODEL = "ViT-B-32"

PUBLISHED = (
    "published for the forward pass alone, in AMP on made-up pixels, by timm: 10,128 images/s on "
    "an RTX 4090, 14,023 on a 5090, 16,868 on an RTX PRO 6000 Max-Q"
)

AGREEMENT = 1e-3
"""Largest difference of the twins' features, relative to the largest feature."""


@dataclass
class Comparison:
    """Images per second of each run, and the share of time in which the pipeline's tower waited."""

    pipeline: list[float] = field(default_factory=list)
    forward: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Speed of the pipeline over that of the forward pass run right after it; the median."""
        return median(p / f for p, f in zip(self.pipeline, self.forward, strict=True))

    def row(self, what: str, remark: str = "") -> tuple[str, str, str, str]:
        """Return a row of the table."""
        return (
            f"encoding, {what}",
            f"{median(self.pipeline):,.3g} images/s from JPEGs in shards to features, "
            f"{median(self.waiting):.0%} of the time waiting for data",
            f"{median(self.forward):,.3g} images/s on pixels in memory (median of "
            f"{len(self.forward)} runs in turns{'; ' if remark else ''}{remark})",
            f"{self.ratio:.2f}x",
        )


def measure() -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows: of one core and one worker, and of a GPU where there is one."""
    from mispair.core.devices import device_name, usable_cores

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_towers(folder / "towers", MODEL)
        write_shards(folder / "read", shards=1, images=1_000)
        yield from reading(folder / "towers", folder / "read")
        write_shards(folder / "cpu", shards=2, images=32)
        found = compare(
            folder / "towers", folder / "cpu", "cpu", batch_size=32, workers=1, repeats=7
        )
        yield found.row(f"{MODEL}, fp32, one core of {device_name('cpu')} and one worker")
        if not torch.cuda.is_available():
            return
        write_shards(folder / "cuda", shards=4, images=5_000)
        workers = min(12, usable_cores())
        for precision in ("fp32", "bf16"):
            found = compare(
                folder / "towers", folder / "cuda", "cuda",
                batch_size=512, workers=workers, repeats=2, precision=precision,
            )  # fmt: skip
            yield found.row(
                f"{MODEL}, {precision}, {device_name('cuda')} and {workers} workers", PUBLISHED
            )


def reading(towers: Path, shards: Path) -> Iterator[tuple[str, str, str, str]]:
    """Measure on one core how fast shards are indexed and pictures made ready for a tower.

    Parameters
    ----------
    towers, shards : Path
        From `write_towers` and `write_shards`.
    """
    import pandas as pd
    from PIL import Image

    from mispair.pairs.index.image_list import locations, read_encoded, read_images
    from mispair.pairs.index.index import index_shard
    from mispair.pairs.index.policy import Policy
    from mispair.towers.loading import load_towers
    from mispair.towers.preparation import preparation

    prepare = preparation(load_towers(towers))
    paths = sorted(shards.glob("*.tar"))
    seconds = dict.fromkeys(("index", "decode", "prepare"), 0.0)
    pictures = 0
    for path in paths:
        started = time.process_time()
        kept = index_shard(path, Policy()).kept
        seconds["index"] += time.process_time() - started
        wanted = locations(pd.DataFrame(kept))
        pictures += len(wanted)
        started = time.process_time()
        for encoded in read_encoded(path, wanted):
            Image.open(io.BytesIO(encoded)).convert("RGB")
        seconds["decode"] += time.process_time() - started
        started = time.process_time()
        for place, image in zip(wanted, read_images(path, wanted), strict=True):
            prepare(image, place.key)
        seconds["prepare"] += time.process_time() - started
    rates = {name: pictures / spent for name, spent in seconds.items()}
    bare = f"{rates['decode']:,.0f} images/s read and decoded whole by Pillow"
    for name, what in (
        ("index", "indexed, every pair judged"),
        ("prepare", "read, decoded and resized for a tower"),
    ):
        yield (
            f"reading, JPEGs of 256 pixels in shards, one core: {what}",
            f"{rates[name]:,.0f} images/s",
            bare,
            f"{rates[name] / rates['decode']:.2f}x",
        )


def compare(
    towers: Path,
    shards: Path,
    device: str,
    *,
    batch_size: int,
    workers: int,
    repeats: int,
    precision: Any = "fp32",
) -> Comparison:
    """Measure both in turns, after one batch that counts for neither.

    Parameters
    ----------
    towers, shards : Path
        From `write_towers` and `write_shards`.
    """
    import pandas as pd

    from mispair.core.resume import Checkpoints
    from mispair.pairs.index.index import index_shard
    from mispair.pairs.index.policy import Policy
    from mispair.towers.corpus_features import ShardImages, encode_shards
    from mispair.towers.encoding import Encoder
    from mispair.towers.encoding_record import EncodingRecord
    from mispair.towers.loading import load_towers
    from mispair.towers.preparation import preparation

    encoder = Encoder(load_towers(towers, device), batch_size, precision)
    paths = sorted(shards.glob("*.tar"))
    index = pd.DataFrame([row for path in paths for row in index_shard(path, Policy()).kept])
    named = {path.name: path for path in paths}
    images = ShardImages(named, index, preparation(encoder.towers), encoder.form)
    first = images[images.rows_of_shards()[paths[0].name][:batch_size]]
    assert isinstance(first, torch.Tensor)
    expected = encoder.image(first).cpu()
    on_device = first.to(device)
    batches = -(-len(index) // len(first))
    result = Comparison()
    for _ in range(repeats):
        record = EncodingRecord(device)
        with tempfile.TemporaryDirectory() as parts:
            started = time.perf_counter()
            kept = Checkpoints(Path(parts) / "parts", "bench")
            features = encode_shards(encoder, images, kept, record, workers)
            result.pipeline.append(len(features) / (time.perf_counter() - started))
        result.waiting.append(record.seconds["waiting"] / record.seconds["images"])
        _refuse_other_features(features[: len(first)], expected)
        started = time.perf_counter()
        _forward(encoder, on_device, batches)
        result.forward.append(batches * len(first) / (time.perf_counter() - started))
    return result


def _forward(encoder: Any, pixels: torch.Tensor, batches: int) -> None:
    from mispair.towers.preparation import autocast

    with torch.inference_mode(), autocast(encoder.image.precision, encoder.device):
        for _ in range(batches):
            features = encoder.towers.image_features(pixels)
    features.cpu()  # waits for a GPU


def _refuse_other_features(found: torch.Tensor, expected: torch.Tensor) -> None:
    difference = float((found.float() - expected.float()).abs().max() / expected.abs().max())
    if not difference <= AGREEMENT:
        raise SystemExit(f"the twins do not encode alike: features differ by {difference:.1e}")


def write_towers(folder: Path, model: str) -> None:
    """Write towers of one of open_clip's architectures, with random weights."""
    import open_clip

    from mispair.towers.loading import CONFIG_NAME, WEIGHTS_NAME
    from mispair.towers.pretraining.pretraining import write_weights

    folder.mkdir()
    torch.manual_seed(0)
    content = {"model_cfg": open_clip.get_model_config(model), "preprocess_cfg": {}}
    (folder / CONFIG_NAME).write_text(json.dumps(content))
    write_weights(folder / WEIGHTS_NAME, open_clip.create_model(model).state_dict())


def write_shards(folder: Path, shards: int, images: int, distinct: int = 64) -> None:
    """Write tar shards of JPEGs with a shorter side of 256 and a longer one of up to 400 pixels."""
    from mispair.pairs.shards.shard_writer import img2dataset_row, key_of, write_shard

    folder.mkdir()
    draw = np.random.default_rng(0)
    pictures = [_jpeg(draw) for _ in range(min(distinct, images))]
    for shard in range(shards):
        samples = []
        for number in range(images):
            jpeg, size = pictures[number % len(pictures)]
            key = key_of(shard, number, images)
            samples.append((jpeg, img2dataset_row(key, jpeg, f"picture {key}", "", *size)))
        write_shard(folder, shard, samples)


def _jpeg(draw: np.random.Generator) -> tuple[bytes, tuple[int, int]]:
    """Return a JPEG of coarse shapes and grain, as large as of a photograph, and its size."""
    from PIL import Image

    size = (256, int(draw.integers(256, 401)))
    size = size if draw.random() < 0.5 else size[::-1]
    coarse = Image.fromarray(draw.integers(0, 256, (12, 12, 3), dtype=np.uint8)).resize(size)
    grain = draw.normal(0, 6, (size[1], size[0], 3))
    pixels = np.clip(np.asarray(coarse) + grain, 0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=90)
    return stream.getvalue(), size
