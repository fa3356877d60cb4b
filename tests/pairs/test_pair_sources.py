"""Any folder or table of pairs as a source: the same pairs in each format give the same index."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mispair.pairs.index.index import index_shard
from mispair.pairs.index.policy import Policy
from mispair.pairs.sources.packing import pack
from mispair.pairs.sources.recognition import KINDS, recognise
from mispair.pairs.sources.source import Source

CAPTIONS = {
    "a/1": "a red cup", "a/2": "a café, \"quoted\"", "b c/3": "two words", "b c/it's": "a cat",
}  # fmt: skip
"""Captions by key."""


def picture(number: int, ending: str = "jpg") -> bytes:
    content = io.BytesIO()
    image = Image.new("RGB", (24, 24), (40 * number, 90, 200 - 30 * number))
    image.save(content, {"jpg": "JPEG"}.get(ending, ending.upper()))
    return content.getvalue()


PICTURES = {key: picture(number) for number, key in enumerate(CAPTIONS)}


def write_pictures(folder: Path) -> None:
    for key, content in PICTURES.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{key}.jpg").write_bytes(content)


def write_csv(path: Path, columns: tuple[str, str], delimiter: str = ",", start: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as opened:
        opened.write(start)
        rows = csv.writer(opened, delimiter=delimiter)
        rows.writerow(columns)
        rows.writerows([f"{key}.jpg", caption] for key, caption in CAPTIONS.items())
    return path


def rows(image: str, caption: str) -> list[dict[str, str]]:
    return [{image: f"{key}.jpg", caption: text} for key, text in CAPTIONS.items()]


def texts(folder: Path, ending: str = "txt") -> Path:
    write_pictures(folder)
    for key, caption in CAPTIONS.items():
        (folder / f"{key}.{ending}").write_text(caption, encoding="utf-8")
    return folder


def img2dataset_files(folder: Path) -> Path:
    """As `--output_format files`: JSON next to each picture, tables next to the folders."""
    texts(folder)
    for key, caption in CAPTIONS.items():
        record = {"caption": caption, "url": f"http://x.invalid/{key}"}
        (folder / f"{key}.json").write_text(json.dumps(record))
    pq.write_table(pa.table({"key": [*CAPTIONS], "caption": [*CAPTIONS.values()]}),
                   folder / "00000.parquet")  # fmt: skip
    (folder / "00000_stats.json").write_text("{}")
    return folder


def metadata(ending: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        write_pictures(folder)
        path = folder / f"metadata.{ending}"
        if ending == "csv":
            write_csv(path, ("file_name", "text"))
        elif ending == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows("file_name", "text")))
        else:
            pq.write_table(pa.Table.from_pylist(rows("file_name", "text")), path)
        return folder

    return write


def table(ending: str, columns: tuple[str, str]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        write_pictures(folder)
        path = folder / f"pairs.{ending}"
        if ending == "parquet":
            pq.write_table(pa.Table.from_pylist(rows(*columns)), path)
        elif ending == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows(*columns)))
        else:
            write_csv(path, columns, "\t" if ending == "tsv" else ",")
        return path

    return write


def open_clip(folder: Path) -> Path:
    """Its default: tabs in .csv; here with Windows line ends and a byte order mark."""
    write_pictures(folder)
    return write_csv(folder / "train.csv", ("filepath", "title"), "\t", start="\ufeff")


def flickr(folder: Path) -> Path:
    write_pictures(folder / "Images")
    write_csv(folder / "captions.txt", ("image", "caption"))
    return folder


def coco(folder: Path) -> Path:
    write_pictures(folder / "val2017")
    images = [{"id": n, "file_name": f"{key}.jpg"} for n, key in enumerate(CAPTIONS)]
    notes = [{"image_id": n, "id": n, "caption": text} for n, text in enumerate(CAPTIONS.values())]
    (folder / "annotations").mkdir()
    path = folder / "annotations/captions_val2017.json"
    path.write_text(json.dumps({"info": {}, "images": images, "annotations": notes}))
    (folder / "annotations/instances_val2017.json").write_text(
        json.dumps({"images": images, "annotations": [{"image_id": 0, "bbox": [0, 0, 1, 1]}]})
    )
    return folder


def hub_parquet(folder: Path) -> dict[str, str]:
    folder.mkdir()
    halves = [[*CAPTIONS][:2], [*CAPTIONS][2:]]
    for number, keys in enumerate(halves):
        cells = [{"bytes": PICTURES[key], "path": f"{key}.jpg"} for key in keys]
        columns = {"image": cells, "caption": [CAPTIONS[key] for key in keys], "id": keys}
        pq.write_table(pa.table(columns), folder / f"train-{number:05d}-of-00002.parquet")
    return {"path": str(folder), "key_column": "id"}


def img2dataset_parquet(folder: Path) -> Path:
    folder.mkdir()
    urls = ["http://x.invalid"] * len(CAPTIONS)
    columns = {"caption": [*CAPTIONS.values()], "key": [*CAPTIONS], "url": urls,
               "jpg": [*PICTURES.values()]}  # fmt: skip
    pq.write_table(pa.table(columns), folder / "00000.parquet")
    (folder / "00000_stats.json").write_text("{}")
    return folder


FORMATS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "txt": ("folder", texts),
    "caption": ("folder", lambda folder: texts(folder, "caption")),
    "TXT": ("folder", lambda folder: texts(folder, "TXT")),
    "img2dataset files": ("folder", img2dataset_files),
    "metadata.csv": ("imagefolder", metadata("csv")),
    "metadata.jsonl": ("imagefolder", metadata("jsonl")),
    "metadata.parquet": ("imagefolder", metadata("parquet")),
    "csv": ("table", table("csv", ("image_path", "caption"))),
    "tsv": ("table", table("tsv", ("Image", "Text"))),
    "jsonl": ("table", table("jsonl", ("filepath", "title"))),
    "parquet": ("table", table("parquet", ("path", "caption"))),
    "open_clip": ("table", open_clip),
    "flickr": ("table", flickr),
    "coco": ("coco", coco),
    "hub parquet": ("parquet", hub_parquet),
    "img2dataset parquet": ("parquet", img2dataset_parquet),
}


def packed(source: Source, folder: Path) -> list[Path]:
    shards = []
    folder.mkdir()
    for number, entries in enumerate(source.divided(5000)):
        shards.append(folder / f"{number:04d}.tar")
        pack(source, entries, shards[-1], lambda: None)
    return shards


def indexed(given: Any, folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return kept rows by key, and the reason of each key that is rejected."""
    source = recognise(given if isinstance(given, dict) else str(given))
    policy = Policy(caption_from=source.captions_in)
    shards = [index_shard(shard, policy) for shard in packed(source, folder)]
    kept = {row["key"]: row for shard in shards for row in shard.kept}
    refused = {row["key"]: row["reason"] for shard in shards for row in shard.rejected}
    assert sum(shard.read for shard in shards) == len(kept) + len(refused) == source.pairs
    return kept, refused


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The index of a folder with a text next to each picture."""
    folder = tmp_path_factory.mktemp("plain")
    return indexed(texts(folder / "mine"), folder / "packed")[0]


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_pairs_in_each_format_give_the_same_index(
    name: str, tmp_path: Path, plain: dict[str, dict[str, Any]]
) -> None:
    kind, write = FORMATS[name]
    given = write(tmp_path / "mine")
    assert recognise(given if isinstance(given, dict) else str(given)).kind == kind
    kept, refused = indexed(given, tmp_path / "packed")
    assert {key: row["caption"] for key, row in kept.items()} == CAPTIONS
    assert refused == {}
    same = plain["a/1"].keys() - {"shard", "row", "url", "image_offset"}
    assert {"caption_id", "image_id"} <= same
    assert {key: {name: row[name] for name in same} for key, row in kept.items()} == {
        key: {name: row[name] for name in same} for key, row in plain.items()
    }


def test_each_kind_has_a_format_in_this_test() -> None:
    assert {kind for kind, _ in FORMATS.values()} | {"shards"} == {kind.name for kind in KINDS}
