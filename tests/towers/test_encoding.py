"""Frozen towers run over images and texts."""

import logging
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mispair.core.devices import Precision, is_out_of_memory
from mispair.core.files import UserError
from mispair.core.resume import Checkpoints
from mispair.towers import encoding
from mispair.towers.encoding import Encoder, Growing, Picture, Tower, encode_images, encode_texts
from mispair.towers.encoding_record import EncodingRecord
from mispair.towers.loading import Towers, load_towers
from mispair.towers.preparation import autocast
from tests.towers.made_up import NATIVE, SHIPPED, build

TEXTS = ["a red circle", "two", "", "a small orange ring on the left of the large blue square"]


@pytest.fixture
def native(tmp_path: Path) -> Towers:
    return load_towers(build(tmp_path / "vit", NATIVE))


def pictures(number: int, size: tuple[int, int] = (60, 50)) -> list[Image.Image]:
    draw = np.random.default_rng(0)
    shapes = draw.integers(0, 256, (number, 6, 6, 3), dtype=np.uint8)
    return [Image.fromarray(pixels).resize(size) for pixels in shapes]


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def tower(forward, *, batch_size: int = 16, precision: Precision = "fp32"):
    return Tower("image", forward, 2, batch_size, precision, "cpu")


def features_of(run: Tower, inputs: torch.Tensor, names: str) -> torch.Tensor:
    part = Growing(run, names, len(inputs), None)
    part.add(run(inputs))
    return part.on_host()


# Against the models themselves ----------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3, 256])
def test_features_times_projection_are_the_models_embeddings(native, batch_size):
    images = pictures(7)
    with torch.no_grad():
        by_image = torch.cat(
            [native.model.encode_image(native.preprocess(i)[None]) for i in images]
        )
        by_text = native.model.encode_text(native.tokenizer(TEXTS))
    found = encode_images(native, iter(images), batch_size)
    assert found.dtype == np.float32
    assert np.allclose(found @ native.image_projection.numpy(), by_image, atol=1e-5)
    found = encode_texts(native, TEXTS, batch_size)
    assert np.allclose(found @ native.text_projection.numpy(), by_text, atol=1e-5)


@pytest.mark.parametrize("folder", ["shipped", "native"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_points_the_same_way(folder, precision, native):
    towers = native if folder == "native" else load_towers(SHIPPED)
    for encode, what in [(encode_images, pictures(12)), (encode_texts, TEXTS)]:
        exact = encode(towers, what, 5)
        halved = encode(towers, what, 5, precision)
        assert halved.dtype == np.float16
        assert cosines(exact, halved).min() >= 0.999
        assert not np.array_equal(exact.astype(np.float16), halved)  # it did compute in half


def test_single_precision_is_not_tf32() -> None:
    switches = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [switch.allow_tf32 for switch in switches]
    try:
        for switch in switches:
            switch.allow_tf32 = True
        with autocast("bf16", "cpu"):
            assert [switch.allow_tf32 for switch in switches] == [True, True]
        with autocast("fp32", "cpu"):
            assert [switch.allow_tf32 for switch in switches] == [False, False]
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value


def test_channels_last_gives_the_same_features(native: Towers, monkeypatch) -> None:
    expected = encode_images(native, pictures(3), 2)
    monkeypatch.setitem(encoding.MEMORY_FORMAT, "cpu", torch.channels_last)
    seen = []
    native.image_tower.register_forward_pre_hook(
        lambda _, given: seen.append(given[0].is_contiguous(memory_format=torch.channels_last))
    )
    assert np.allclose(encode_images(native, pictures(3), 2), expected, atol=1e-5)
    assert seen == [True, True]
    weights = native.image_tower.get_submodule("tower.conv1").weight
    assert weights.is_contiguous(memory_format=torch.channels_last)


def test_texts_that_the_tokenizer_cuts_are_counted(native: Towers) -> None:
    # 12 places, of which the marks of start and end take two.
    texts = [" ".join(["red"] * number) for number in (1, 10, 11, 40, 9)]
    record = EncodingRecord("cpu")
    features = Encoder(native, 2).encode_texts(texts, list("abcde"), record)
    assert len(features) == 5
    assert (record.captions, record.truncated) == (5, 2)
    assert record.seconds["captions"] > 0
    assert Encoder(native, 2).encode_texts([], [], record).shape == (0, 16)


def test_progress_counts_every_image_and_text_once(native, tmp_path, monkeypatch):
    monkeypatch.setattr("mispair.towers.encoding.TEXTS_OF_A_PART", 4)
    monkeypatch.setattr("mispair.towers.encoding.IMAGES_OF_A_PART", 4)
    images = [Picture(str(n), bytes([n]), partial(Image.Image.copy, i))
              for n, i in enumerate(pictures(7))]  # fmt: skip
    texts = [f"a {number}" for number in range(7)]
    encoder, states = Encoder(native, 2), Checkpoints(tmp_path, "job")

    def told(states: Checkpoints | None, number: int) -> tuple[list[int], list[int]]:
        by_image: list[int] = []
        by_text: list[int] = []
        record = EncodingRecord("cpu")
        encoder.encode_images(images[:number], record, states, by_image.append)
        encoder.encode_texts(texts[:number], texts[:number], record, states, by_text.append)
        return by_image, by_text

    whole = [0, 2, 4, 4, 6, 7]  # parts of four, batches of two
    assert told(states, 4) == ([0, 2, 4], [0, 2, 4])
    assert told(states, 7) == ([4, 4, 6, 7], [4, 4, 6, 7])  # the first part was there
    assert told(Checkpoints(tmp_path / "other", "job"), 7) == (whole, whole)


# Memory ---------------------------------------------------------------------------------------


def limited(limit: int, sizes: list[int], error: Exception):
    """Return a tower that has no memory for more than `limit` inputs."""

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        sizes.append(len(inputs))
        if len(inputs) > limit:
            raise error
        return inputs * 2

    return forward


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried ..."),
    MemoryError(),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_out_of_memory_halves_the_batch_and_goes_on(error: Exception, caplog) -> None:
    sizes: list[int] = []
    inputs = torch.arange(40.0).reshape(20, 2)
    run = tower(limited(5, sizes, error))
    with caplog.at_level(logging.WARNING):
        assert torch.equal(run(inputs), inputs * 2)
    assert sizes == [16, 8, 4, 4, 4, 4, 4]
    assert run.smallest == 4
    assert "out of memory with a batch of 8: going on with 4" in caplog.text
    run(inputs[:6])
    assert sizes[7:] == [4, 2]  # it has learnt ...
    run.restart()
    run(inputs[:6])
    assert sizes[9:] == [6, 3, 3]  # ... and a new shard does not depend on what that was


def test_no_memory_for_a_single_image_is_the_end() -> None:
    sizes: list[int] = []
    run = tower(limited(0, sizes, OUT_OF_MEMORY[0]))
    with pytest.raises(UserError, match=r"batch_size: .* a single image .*2\.00 GiB"):
        run(torch.zeros(7, 2))
    assert sizes == [7, 3, 1]


def test_the_machines_own_words_are_known() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(raised.value)


def test_other_errors_are_not_taken_for_it() -> None:
    sizes: list[int] = []
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        tower(limited(0, sizes, RuntimeError("shapes cannot be multiplied")))(torch.zeros(4, 2))
    assert sizes == [4]


# Numbers that are none ------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_feature_that_is_no_number_names_its_image(value: float) -> None:
    inputs = torch.zeros(12, 2)
    inputs[7, 1] = value  # the second view of the fourth of six images
    with pytest.raises(UserError, match="features of image 'd' are not finite in fp32"):
        features_of(tower(lambda x: x, batch_size=5), inputs, "abcdef")


def test_an_overflow_of_half_precision_has_its_remedy() -> None:
    inputs = torch.full((2, 2), 1e5)
    assert features_of(tower(lambda x: x), inputs, "ab").isfinite().all()
    with pytest.raises(UserError, match="image 'a' are not finite in fp16.*bf16 or fp32"):
        features_of(tower(lambda x: x, precision="fp16"), inputs, "ab")


def test_a_text_is_named(native: Towers) -> None:
    # The end of the text follows its start: an empty one.
    end = native.tokenizer([""])[0, 1]
    native.text_tower.register_forward_hook(
        lambda _, given, result: torch.where(given[0][:, 1:2] == end, torch.nan, result)
    )
    with pytest.raises(UserError, match="features of text '' are not finite"):
        encode_texts(native, TEXTS, 2)


# The record -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("waiting", "warns"), [(2.9, False), (3.1, True)])
def test_a_gpu_that_waits_is_reported(waiting: float, warns: bool, monkeypatch, caplog) -> None:
    module = "mispair.towers.encoding_record"
    monkeypatch.setattr(f"{module}.device_name", lambda device: "NVIDIA Some")
    monkeypatch.setattr(f"{module}.peak_memory", lambda device: 2**31)
    record = EncodingRecord("cuda", images=1_100, resumed=100, captions=50, truncated=3, workers=12)
    record.seconds.update(images=8.0, captions=2.0, waiting=waiting)
    with caplog.at_level(logging.INFO):
        content = record.finish(precision="bf16", batch_size=64)
    assert content == {
        "device": "NVIDIA Some", "images": 1_100, "resumed": 100, "captions": 50, "truncated": 3,
        "seconds": 10.0, "images_per_s": 125.0, "captions_per_s": 25.0,
        "waiting_share": pytest.approx(waiting / 10), "memory_bytes": 2**31,
        "precision": "bf16", "batch_size": 64, "workers": 12,
    }  # fmt: skip
    assert "images_per_s 125, " in caplog.text
    assert ("the GPU waited for data 31% of the time" in caplog.text) is warns


def test_the_record_has_the_time_that_a_tower_waits_for_pictures(native: Towers) -> None:
    def slow() -> Iterator[Picture]:
        for number, image in enumerate(pictures(5)):
            time.sleep(0.05)
            yield Picture(str(number), b"", partial(Image.Image.copy, image))

    record, encoder = EncodingRecord("cpu"), Encoder(native, 2)
    encoder.encode_images(slow(), record)
    encoder.encode_texts(TEXTS, TEXTS, record)
    assert (record.images, record.captions) == (5, 4)
    assert 0.25 <= record.seconds["waiting"] <= record.seconds["images"]
    assert record.seconds["captions"] > 0


def test_a_cpu_may_wait(caplog) -> None:
    record = EncodingRecord("cpu")
    assert record.finish()["waiting_share"] == 0  # nothing was done
    with record.timing("images"), record.timing("waiting"):
        time.sleep(0.02)
    assert record.finish()["waiting_share"] > 0.3
    assert not [line for line in caplog.records if line.levelno >= logging.WARNING]


def test_workers_decode_while_the_tower_runs_and_change_no_feature(native: Towers) -> None:
    threads: set[str] = set()

    def decode(number: int) -> Image.Image:
        threads.add(threading.current_thread().name)
        if number == 9:
            raise UserError("picture 9 cannot be decoded")
        return Image.new("RGB", (30 + number, 40), (20 * number, 0, 90))

    def features(numbers: range, workers: int) -> torch.Tensor:
        threads.clear()
        some = [Picture(str(n), b"", partial(decode, n)) for n in numbers]
        return Encoder(native, 2).encode_images(some, EncodingRecord("cpu"), workers=workers)

    assert torch.equal(features(range(7), 0), features(range(7), 3))
    with pytest.raises(UserError, match="picture 9"):
        features(range(4, 12), 2)
    assert threading.main_thread().name not in threads
