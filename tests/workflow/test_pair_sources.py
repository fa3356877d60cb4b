"""A folder of pictures as the source of pairs: what a change packs and encodes again."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from tests.pairs.test_pair_sources import picture
from tests.workflow.conftest import Checkout, new_checkout

MINE: dict[str, Any] = {
    "studies": ["audit"],
    "corpus": "mine",
    "pairs": "photos",
    "pack_pairs": {"pairs_per_shard": 10},
    "gather_index": {"max_quarantined_share": 0.5},
}
FEATURES = [f"results/features/mine/scenes-small/000{group}.safetensors" for group in range(4)]
TARGET = ("results/pairs/mine/corpus.parquet", *FEATURES, "--configfile", "mine.yaml")
ONE_SHARD = {"pack_pairs": 1, "list_images": 1, "index_shards": 1, "list_files": 1,
             "gather_index": 1, "encode_features": 1}  # fmt: skip


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Index a folder of 24 pictures, one of them without a caption, in four shards."""
    checkout = new_checkout(tmp_path_factory.mktemp("photos") / "mispair")
    (checkout.folder / "mine.yaml").write_text(yaml.safe_dump(MINE))
    photos = checkout.folder / "photos/a folder"
    photos.mkdir(parents=True)
    for number in range(24):
        (photos / f"it's 1.{number}.jpg").write_bytes(picture(number % 6) + bytes([number]))
        (photos / f"it's 1.{number}.txt").write_text(f"text {number}")
    (photos / "it's 1.0.txt").unlink()
    printed = checkout.snakemake(*TARGET)
    assert "24 pictures with .txt captions, 1 without; packed into 4 shards" in printed
    return checkout


def test_the_books_of_a_folder_balance(indexed: Checkout) -> None:
    keys = pq.read_table(indexed.folder / TARGET[0])["key"].to_pylist()
    assert keys == sorted(f"a folder/it's 1.{number}" for number in range(1, 24))
    rejected = [
        row
        for path in (indexed.folder / "results/pairs/mine/index").glob("*.rejected.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    reasons = {row["key"]: row["reason"] for row in rejected}
    assert reasons == {"a folder/it's 1.0": "no-caption"}


def touch(photos: Path) -> None:
    for path in photos.iterdir():
        os.utime(path)


def correct(photos: Path) -> None:
    """Change a letter of a caption; size and time stay."""
    path = photos / "it's 1.7.txt"
    status = path.stat()
    path.write_text("tent 7")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda photos: None, {}),
        (touch, {}),
        (correct, ONE_SHARD),
        (lambda photos: (photos / "it's 1.7.jpg").write_bytes(picture(3)), ONE_SHARD),
        (lambda photos: (photos / "it's 1.0.txt").write_text("a text"), ONE_SHARD),
        (lambda photos: (photos / "it's 1.9.txt").unlink(), ONE_SHARD),
        (lambda photos: (photos / "new.jpg").write_bytes(picture(2)), ONE_SHARD),
    ],
    ids=["nothing", "touched", "letter", "picture", "caption-added", "caption-removed", "new"],
)  # fmt: skip
def test_a_change_packs_one_shard_again(indexed: Checkout, tmp_path: Path, change, expected):
    mine = indexed.copy(tmp_path / "mine")
    change(mine.folder / "photos/a folder")
    assert mine.planned(*TARGET) == expected


def test_corrected_captions_encode_no_picture(indexed: Checkout, tmp_path: Path) -> None:
    """A caption more and a longer one move the pictures within their shards."""
    mine = indexed.copy(tmp_path / "mine")
    photos = mine.folder / "photos/a folder"
    (photos / "it's 1.0.txt").write_text("a text")
    (photos / "it's 1.1.txt").write_text("a text " * 100)
    before = [(mine.folder / path).read_bytes() for path in FEATURES]
    mine.snakemake(*TARGET)
    assert mine.planned(*TARGET) == {}
    assert [(mine.folder / path).read_bytes() for path in FEATURES] == before
    records = [
        json.loads(path.read_text())
        for path in (mine.folder / "logs/encode_features/mine/scenes-small").glob("*.json")
    ]
    assert {record["resumed"] for record in records} > {0}
    assert all(record["resumed"] in (0, record["images"]) for record in records)
    shutil.rmtree(mine.folder / "results/features/mine/scenes-small/reuse")
    mine.snakemake(*TARGET, "--forcerun", "encode_features")
    assert [(mine.folder / path).read_bytes() for path in FEATURES] == before
