"""Which samples of a shard are kept: whole pairs, and nothing else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from mispair.pairs import index as verdicts
from mispair.pairs.index import index_shard


def jpeg(size: tuple[int, int] = (40, 30)) -> bytes:
    # Noise, so that the file is long enough to be cut in the middle of its picture.
    image = Image.effect_noise(size, 90).convert("RGB")
    stream = io.BytesIO()
    image.save(stream, "JPEG")
    return stream.getvalue()


def write_tar(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def whole(key: str) -> list[tuple[str, bytes]]:
    return [(f"{key}.jpg", jpeg()), (f"{key}.txt", f"caption {key}".encode())]


def reasons(result: verdicts.ShardIndex) -> dict[str, str]:
    return {row["key"]: row["reason"] for row in result.rejected}


def test_each_fault_has_its_reason_and_spares_its_neighbours(tmp_path: Path) -> None:
    members = [
        *whole("good1"),
        ("noimage.txt", b"x"),
        ("nocaption.jpg", jpeg()),
        ("empty.jpg", jpeg()), ("empty.txt", b"  \n"),
        ("latin.jpg", jpeg()), ("latin.txt", b"caf\xe9"),
        ("cut.jpg", jpeg()[:400]), ("cut.txt", b"x"),
        ("html.jpg", b"<html>404</html>"), ("html.txt", b"x"),
        ("twice.jpg", jpeg()), ("twice.txt", b"x"), *whole("good2"), ("twice.json", b"{}"),
    ]  # fmt: skip
    result = index_shard(write_tar(tmp_path / "a.tar", members))
    assert [row["key"] for row in result.kept] == ["good1", "good2"]
    assert reasons(result) == {
        "noimage": verdicts.NO_IMAGE,
        "nocaption": verdicts.NO_CAPTION,
        "empty": verdicts.EMPTY_CAPTION,
        "latin": verdicts.UNDECODABLE_CAPTION,
        "cut": verdicts.UNDECODABLE_IMAGE,
        "html": verdicts.UNDECODABLE_IMAGE,
        "twice": verdicts.SCATTERED,
    }
    assert result.read == len(result.kept) + len(result.rejected)
    assert result.kept[0] | {"caption_id": ""} == {
        "key": "good1", "shard": "a.tar", "caption": "caption good1", "caption_id": "",
        "width": 40, "height": 30,
    }  # fmt: skip


@pytest.mark.parametrize("cut", [100, 700, 2_000, -600, -1_100])
def test_a_truncated_shard_yields_whole_samples_only(tmp_path: Path, cut: int) -> None:
    path = write_tar(tmp_path / "a.tar", [m for n in range(4) for m in whole(f"{n}")])
    content = path.read_bytes()
    end = content.rindex(b"caption 3") + 512 - content.rindex(b"caption 3") % 512
    path.write_bytes(content[: cut if cut > 0 else end + cut])
    result = index_shard(path)
    assert verdicts.DAMAGED_SHARD in reasons(result).values()
    assert len(result.kept) < 4
    assert all(row["caption"] == f"caption {row['key']}" for row in result.kept)


@pytest.mark.parametrize("content", [b"", b"<!DOCTYPE html>" * 100, b"\x1f\x8b\x08 gzip" * 200])
def test_what_is_no_tar_is_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(content)
    result = index_shard(path)
    assert result.kept == []
    assert [row["reason"] for row in result.rejected] == [verdicts.DAMAGED_SHARD]


def test_the_same_caption_has_the_same_name_everywhere() -> None:
    assert verdicts.caption_id("a cat") == verdicts.caption_id("a cat") != verdicts.caption_id("a")


def test_a_decompression_bomb_is_refused_before_decoding(tmp_path: Path) -> None:
    stream = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(stream, "PNG")
    path = write_tar(tmp_path / "a.tar", [("bomb.png", stream.getvalue()), ("bomb.txt", b"x")])
    result = index_shard(path)
    assert reasons(result) == {"bomb": verdicts.UNDECODABLE_IMAGE}
    assert "pixels" in result.rejected[0]["detail"]
