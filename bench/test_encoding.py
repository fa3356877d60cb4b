"""The bench of encoding measures what it says, at a size that takes a moment."""

import io
from pathlib import Path

import pytest
import torch
from PIL import Image

from bench import encoding
from mispair.pairs.shards.shards import read_samples
from tests.towers.made_up import NATIVE, build


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    encoding.write_shards(tmp_path / "shards", shards=2, images=6, distinct=4)
    return tmp_path / "shards"


def test_its_pictures_are_of_the_size_that_img2dataset_keeps(shards: Path) -> None:
    samples = [sample for path in sorted(shards.glob("*.tar")) for sample in read_samples(path)]
    assert len({sample.key for sample in samples}) == 12
    assert len({sample.image for sample in samples}) == 4
    for sample in samples:
        size = Image.open(io.BytesIO(sample.image)).size
        assert min(size) == 256
        assert max(size) <= 400
        assert 10_000 < len(sample.image) < 100_000


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_both_are_measured_in_turns(
    precision: str, shards: Path, tmp_path: Path, monkeypatch
) -> None:
    towers = build(tmp_path / "vit", NATIVE)
    turns = []
    forward = encoding._forward
    monkeypatch.setattr(
        encoding, "_forward", lambda e, x, n: turns.append((len(x), n)) or forward(e, x, n)
    )
    found = encoding.compare(
        towers, shards, "cpu", batch_size=3, workers=1, repeats=2, precision=precision
    )
    assert turns == [(3, 4), (3, 4)]  # as many images as the pipeline's twelve
    assert len(found.pipeline) == len(found.forward) == 2
    assert all(rate > 0 for rate in found.pipeline + found.forward)
    assert all(0 < share < 1 for share in found.waiting)
    what, measured, against, ratio = found.row("tiny", "a remark")
    assert what == "encoding, tiny"
    assert "of the time waiting for data" in measured
    assert "a remark" in against
    assert ratio == f"{found.ratio:.2f}x"


def test_the_ratio_is_that_of_neighbouring_runs() -> None:
    found = encoding.Comparison([90.0, 45.0, 10.0], [100.0, 50.0, 100.0], [0.1, 0.2, 0.3])
    assert found.ratio == 0.9


def test_twins_that_differ_are_refused() -> None:
    features = torch.randn(4, 3)
    encoding._refuse_other_features(features, features + 1e-5)
    for other in (features.flip(0), features * torch.nan):
        with pytest.raises(SystemExit, match="do not encode alike"):
            encoding._refuse_other_features(features, other)


def test_reading_has_its_two_rows(shards: Path, tmp_path: Path) -> None:
    indexed, prepared = encoding.reading(build(tmp_path / "vit", NATIVE), shards)
    for row, what in ((indexed, "indexed"), (prepared, "resized for a tower")):
        assert what in row[0]
        assert float(row[1].removesuffix(" images/s").replace(",", "")) > 0
        assert "by Pillow" in row[2]
        assert float(row[3].removesuffix("x")) > 0
