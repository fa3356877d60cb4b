"""A folder of pictures: what one command costs beyond encoding, and how fast it is indexed."""

import io
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from bench.processor_time import processor_seconds

Row = tuple[str, str, str, str]

REPOSITORY = Path(__file__).parents[1]
PHOTOGRAPHS, SIZE = 2000, (360, 280)
SMALL, SMALL_SIZE = 100_000, (80, 80)
DRAWN = 2000
"""Pictures that are drawn; further ones have the same content and another comment."""
UNTIL = ("--until", "index_shards")
COLOURS = ("red", "green", "blue", "white", "black", "yellow", "orange", "purple")
SHAPES = ("ellipse", "rectangle", "line")


def measure() -> Iterator[Row]:
    """Run the audit of a folder of photographs, and index a folder of small pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "photographs", PHOTOGRAPHS, SIZE)
        audit = ["audit", str(folder / "photographs"), "--towers", "shipped", "--cores", "1"]
        whole = run([*audit, "--out", str(folder / "run")])
        benchmarks = sorted((folder / "run/benchmarks").glob("encode_*/**/*.tsv"))
        encoding = sum(processor_seconds(path) or 0.0 for path in benchmarks)
        what = f"{PHOTOGRAPHS:,} JPEGs of 0.1 megapixels"
        yield ("folder, audit but encoding", f"{whole - encoding:.0f} s of a core",
               f"{encoding:.0f} s of encoding by the shipped towers", what)  # fmt: skip
        make(folder / "small", SMALL, SMALL_SIZE)
        words = ["audit", str(folder / "small"), "--out", str(folder / "indexed")]
        seconds = run([*words, "--towers", "shipped", "--cores", "1", *UNTIL])
        jobs = sum(
            processor_seconds(path) or 0.0
            for path in (folder / "indexed/benchmarks").glob("*/**/*.tsv")
        )
        yield ("folder, indexed", f"{SMALL / seconds:,.0f} pictures/s of a core",
               f"{seconds:.0f} s with Snakemake, {jobs:.0f} s of jobs",
               f"{SMALL:,} JPEGs of {SMALL_SIZE[0]} pixels")  # fmt: skip


def run(words: list[str]) -> float:
    """Run a command of mispair; return its processor time with that of its jobs (s)."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "workflow")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "mispair", *words]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make(folder: Path, number: int, size: tuple[int, int]) -> None:
    """Write pictures of shapes on blurred noise, like photographs in bytes, with captions."""
    drawn = [_drawn(index, size) for index in range(min(number, DRAWN))]
    for index in range(number):
        name = folder / f"{index // 1000:03d}" / f"{index:06d}"
        name.parent.mkdir(parents=True, exist_ok=True)
        picture, text = drawn[index % DRAWN]
        comment = f"number {index}".encode()
        marked = b"\xff\xd8\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment
        Path(f"{name}.jpg").write_bytes(marked + picture[2:])
        Path(f"{name}.txt").write_text(f"{text}, number {index}", encoding="utf-8")


def _drawn(index: int, size: tuple[int, int]) -> tuple[bytes, str]:
    """Return a picture as JPEG, and what it shows."""
    rng = np.random.default_rng(index)
    noise = rng.integers(0, 256, (size[1] // 4, size[0] // 4, 3), dtype=np.uint8)
    image = Image.fromarray(noise).resize(size).filter(ImageFilter.GaussianBlur(1))
    colour, shape = str(rng.choice(COLOURS)), str(rng.choice(SHAPES))
    left, top = (int(rng.integers(0, side // 2)) for side in size)
    box = (left, top, left + size[0] // 3, top + size[1] // 3)
    getattr(ImageDraw.Draw(image), shape)(box, fill=colour)
    content = io.BytesIO()
    image.save(content, "JPEG", quality=85)
    return content.getvalue(), f"a {colour} {shape} at {left} and {top}"
