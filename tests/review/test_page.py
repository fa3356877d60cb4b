"""The page of the review as a file: its pictures and size, and the step that writes it."""

import base64
import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from mispair.core import files
from mispair.pairs.index.image_list import image_id
from mispair.review.report import page as pages
from mispair.review.steps import write_review
from tests.review.made_up_draw import CAPTIONS, DIGEST, KEYS, STRATA, jpeg, parts, sample


def data_of(html: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    return json.loads(found[1])


def opened(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def test_the_data_are_whole_and_end_no_script() -> None:
    html = pages.page(parts(), {KEYS[0]: jpeg(), KEYS[1]: b"broken"})
    data = data_of(html)
    assert html.count("</script>") == 2
    assert "\u2028" not in html
    shown = data["parts"][0]["pairs"]
    assert [(pair["key"], *pair["texts"]) for pair in shown] == [*zip(KEYS, CAPTIONS, strict=True)]
    assert data["parts"][0]["strata"] == [stratum["pairs"] for stratum in STRATA]
    assert [picture is None for picture in data["pictures"][:3]] == [False, True, True]
    assert not {"probability", "share"} & set().union(*shown)
    # A pair of both questions has one picture.
    assert data["parts"][1]["pairs"][0]["picture"] == 1
    assert len(data["pictures"]) == len(KEYS) + 9


def test_three_hundred_pairs_of_noise_have_25_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    number, of = 6, 300
    monkeypatch.setattr(pages, "LARGEST", pages.LARGEST * number // of)
    images = {f"k{seed}": jpeg(900, seed) for seed in range(number)}
    drawn = pd.DataFrame({"key": list(images), "stratum": 0, "order": range(number)})
    part = pages.of_captions(drawn.assign(caption="x" * 500), [{"pairs": 9}], DIGEST)
    html = pages.page([part], images)
    of_pairs = [uri for uri in data_of(html)["pictures"]]
    without = len(html) - sum(map(len, of_pairs))
    assert sum(map(len, of_pairs)) * of / number + without <= 25_000_000
    assert all(192 <= max(opened(uri).size) <= 640 for uri in of_pairs)


def test_a_picture_is_as_large_as_there_is_room() -> None:
    noise = jpeg(900, 0)
    sizes = [pages.picture(noise, most) for most in (10**7, 10**5, 10**4, 10)]
    assert max(opened(sizes[0]).size) == 640
    assert [len(uri) for uri in sizes] == sorted((len(uri) for uri in sizes), reverse=True)
    assert len(sizes[1]) <= 10**5
    assert max(opened(pages.picture(jpeg(40), 10**5)).size) == 40


def write_index(folder: Path, images: dict[str, bytes]) -> tuple[Path, Path]:
    """Write images one after another, as in a shard, and an index with their places."""
    shard, index = folder / "0.tar", folder / "0.parquet"
    shard.write_bytes(b"".join(images.values()))
    rows, offset = [], 0
    for key, image in images.items():
        place = {"image_offset": offset, "image_bytes": len(image), "image_id": image_id(image)}
        rows.append({"key": key, "shard": shard.name, "width": 9, "height": 9, **place})
        offset += len(image)
    files.write_parquet(index, pd.DataFrame(rows))
    return index, shard


def test_the_step_reads_pictures_of_the_drawn_pairs(tmp_path: Path) -> None:
    index, shard = write_index(tmp_path, {"12": jpeg(50), "last": jpeg(60), "other": jpeg(70)})
    files.write_parquet(tmp_path / "sample.parquet", sample())
    files.write_json(tmp_path / "strata.json", {"digest": DIGEST, "strata": STRATA})
    repaired = pd.DataFrame({"key": ["other"], "order": [0], "old": ["a"], "new": ["b"]})
    files.write_parquet(tmp_path / "replaced.parquet", repaired, {"replaced": "70"})
    write_review.run(
        write_review.Settings(),
        sample=tmp_path / "sample.parquet", strata=tmp_path / "strata.json",
        replaced=[tmp_path / "replaced.parquet"],
        index=[index], shards=[shard], sources=[], page=tmp_path / "review.html",
    )  # fmt: skip
    data = data_of((tmp_path / "review.html").read_text())
    sizes = [uri and opened(uri).width for uri in data["pictures"]]
    assert sizes == [None, 50, None, None, 60, None, 70]
    assert data["parts"][1]["strata"] == [70]
    first, second = (part["digest"] for part in data["parts"])
    assert (first, len(second)) == (DIGEST, 16)
