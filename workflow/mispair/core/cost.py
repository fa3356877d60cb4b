"""What jobs cost: their amounts of work, the sizes of files, and what they took when they ran.

The cost of a job is that of a job without work (``start``) and a measured rate for each unit
(`mispair.planning.estimates`). ``mispair/PACKAGE/cost.py`` has a function for each step of
the package: given the settings, the files and wildcards of a job and the sizes of files, it returns
the work and notes the sizes of the outputs. A step without a function takes the same time for all
inputs.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import re
import resource
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from mispair.core.devices import peak_with_workers
from mispair.core.files import UserError, write_text
from mispair.core.stamps import files_of, listing_of

Quantities = Mapping[str, float]

FETCHED = "MB fetched"
"""The unit of what a job reads from remote shards."""


@dataclass(frozen=True)
class Work:
    """Amounts by unit on which time, memory and output depend.

    ``variant`` is one of several methods of the step, each with its rates.
    """

    seconds: Quantities = field(default_factory=dict)
    megabytes: Quantities = field(default_factory=dict)
    disk_megabytes: Quantities = field(default_factory=dict)
    variant: str = ""

    def __add__(self, other: Work) -> Work:
        """Return the work of a job that does one after the other: memory is that of the larger."""
        return Work(
            _by_unit(sum, self.seconds, other.seconds),
            _by_unit(max, self.megabytes, other.megabytes),
            _by_unit(sum, self.disk_megabytes, other.disk_megabytes),
            self.variant or other.variant,
        )


def _by_unit(combined: Callable[[list[float]], float], *works: Quantities) -> Quantities:
    units = dict.fromkeys(unit for work in works for unit in work)
    return {unit: combined([work.get(unit, 0.0) for work in works]) for unit in units}


# Amounts in the files of a run: rows, pairs of a shard, widths of towers.


PAIRS_IN_A_SHARD = 10_000
"""Pairs that img2dataset writes to a shard; used for shards that cannot be counted."""

OWN_TRUNK = "cs3darknet_s"
"""The image tower of mispair's own small towers, with which rates are measured."""


@dataclass(frozen=True)
class ModelCosts:
    """Costs of a model, from its configuration and the header of its weights.

    Attributes
    ----------
    image_gflop, text_gflop : float
        Products for one image and one text; 0 where the tower is no transformer of open_clip.
    image_width, text_width : int
        Numbers in a feature before the projections.
    neurons : int
        Width of the embedding.
    megabytes : float
        Weights on disk.
    """

    image_gflop: float
    text_gflop: float
    image_width: int
    text_width: int
    neurons: int
    megabytes: float


@dataclass
class Sizes:
    """Amounts in files whose paths are relative to a folder.

    Attributes
    ----------
    is_finished : bool
        Whether all jobs have run: then existing tables are counted.
    planned : dict
        Rows of files that planned jobs will write.
    notes : set of str
        Assumptions that were made.
    """

    folder: Path
    is_finished: bool = False
    planned: dict[str, int] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)
    _known: dict[str, int] = field(default_factory=dict)
    _per_byte: dict[Path, float] = field(default_factory=dict)
    _towers: dict[str, ModelCosts] = field(default_factory=dict)
    _of_projection: dict[str, ModelCosts] = field(default_factory=dict)

    def rows(self, path: Path | str) -> int:
        """Return the rows of a table, the pairs of a shard, the features of a file."""
        name = str(path)
        # A planned table of captions has at most one for each pair; a written one can be counted.
        is_there = name.endswith(".parquet") and (self.folder / name).is_file()
        if name in self.planned and not (self.is_finished and is_there):
            return self.planned[name]
        if name not in self._known:
            listing = listing_of(Path(name))
            files = files_of(self.folder / listing) if listing else [self.folder / name]
            self._known[name] = sum(map(self._count, files))
        return self._known[name]

    def total(self, paths: Iterable[Path]) -> int:
        """Return the rows of several files together."""
        return sum(map(self.rows, paths))

    def bytes(self, paths: Iterable[Path | str]) -> int:
        """Return the bytes of existing files and folders."""
        total = 0
        for path in map(self.folder.__truediv__, map(str, paths)):
            inside = path.rglob("*") if path.is_dir() else [path]
            total += sum(one.stat().st_size for one in inside if one.is_file())
        return total

    def towers(self, files: list[Path]) -> ModelCosts:
        """Return the size of a model from its configuration (the first file) and its weights."""
        name = str(files[0])
        if name not in self._towers:
            weights = next((file for file in files if file.suffix == ".safetensors"), files[0])
            self._towers[name] = self._measure(self.folder / name, self.folder / weights)
        return self._towers[name]

    def set_projection(self, path: Path, towers: ModelCosts, seeds: int) -> None:
        """Note the model and the number of seeds of a planned file of projections."""
        self._of_projection[str(path)] = towers
        self.planned[str(path)] = seeds

    def projection(self, path: Path) -> ModelCosts:
        """Return the widths of projections (seeds, d, e) in a file."""
        name = str(path)
        if name not in self._of_projection:
            shapes = _shapes(self.folder / name)
            _, image, neurons = shapes.get("image_projection", [1, 768, 512])
            text = shapes.get("text_projection", [1, 512, 512])[1]
            self._of_projection[name] = ModelCosts(0, 0, image, text, neurons, 0)
        return self._of_projection[name]

    def _count(self, path: Path) -> int:
        match path.suffix:
            case ".parquet" if path.is_file():
                import pyarrow.parquet as pq

                return int(pq.read_metadata(path).num_rows)
            case ".safetensors":
                first = {name: shape[0] for name, shape in _shapes(path).items() if shape}
                # Answers are by set, protocol and seed; all other tensors have the same rows.
                answers = sum(rows for name, rows in first.items() if name.count("|") == 2)
                return answers or max(first.values(), default=0)
            case ".tar":
                return self._pairs(path)
        return 0

    def _pairs(self, shard: Path) -> int:
        statistics = shard.with_name(f"{shard.stem}_stats.json")
        if statistics.is_file():
            return int(json.loads(statistics.read_text())["successes"])
        size = shard.stat().st_size if shard.is_file() else 0
        if size and (per_byte := self._pairs_per_byte(shard)):
            return max(1, round(size * per_byte))
        self.notes.add(f"shards without pictures are counted as {PAIRS_IN_A_SHARD:,} pairs each")
        return PAIRS_IN_A_SHARD

    def _pairs_per_byte(self, shard: Path) -> float:
        """Count one shard of each folder, and assume as many pairs per byte for the others."""
        if shard.parent not in self._per_byte:
            try:
                with tarfile.open(shard) as opened:
                    keys = {name.partition(".")[0] for name in opened.getnames()}
            except (tarfile.TarError, OSError):
                keys = set()
            self._per_byte[shard.parent] = len(keys) / shard.stat().st_size
        return self._per_byte[shard.parent]

    def _measure(self, config: Path, weights: Path) -> ModelCosts:
        settings = json.loads(config.read_text()) if config.is_file() else {}
        if not settings:
            self.notes.add(f"{config.parent.name}: does not exist yet, taken for a ViT-B/32")
            settings = {"model_cfg": {"embed_dim": 512, "vision_cfg": {"patch_size": 32}}}
        model = settings.get("model_cfg", {})
        vision, text = model.get("vision_cfg", {}), model.get("text_cfg", {})
        shapes = _shapes(weights)
        neurons = int(model.get("embed_dim", 512))
        # open_clip's own defaults for what a configuration leaves out.
        width, layers = vision.get("width", 768), vision.get("layers", 12)
        image_gflop = 0.0
        if "timm_model_name" not in vision and isinstance(layers, int):
            side, patch = vision.get("image_size", 224), vision.get("patch_size", 16)
            tokens = ((max(side) if isinstance(side, list) else side) // patch) ** 2 + 1
            image_gflop = _gflop(tokens, layers, width) + 6e-9 * tokens * patch**2 * width
        else:
            self._note_other_trunk(config, vision)
            width = neurons
        text_width = text.get("width", 512)
        return ModelCosts(
            image_gflop=image_gflop,
            text_gflop=_gflop(text.get("context_length", 77), text.get("layers", 12), text_width),
            image_width=shapes.get("visual.head.proj.weight", [0, width])[1],
            text_width=text_width,
            neurons=neurons,
            megabytes=sum(map(prod, shapes.values())) * 4e-6,
        )

    def _note_other_trunk(self, config: Path, vision: dict[str, Any]) -> None:
        if vision.get("timm_model_name") != OWN_TRUNK:
            self.notes.add(
                f"{config.parent.name}: the cost of its image tower is unknown; that of the small "
                "towers of mispair is taken"
            )


def _gflop(tokens: int, layers: int, width: int) -> float:
    """Return the products of a transformer for one input: 24 t w^2 + 4 t^2 w in each layer."""
    return 1e-9 * layers * (24 * tokens * width**2 + 4 * tokens**2 * width)


def _shapes(path: Path) -> dict[str, list[int]]:
    """Return the shapes in a safetensors file from its header, or nothing."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as opened:
            return {name: opened.get_slice(name).get_shape() for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return {}


# Benchmarks: what each job took when it ran. A job writes its own, with columns of Snakemake's:
# Snakemake looks at a job each half minute only, and not at a fork (`mispair.forkserver`).


BEFORE = re.compile(r"\d+ of \d+ \w+ were \w+ before$", re.MULTILINE)
"""The line of a job's log that took results of former jobs, so that its time is no measure."""
MIB = 2**20
"""What benchmarks call MB."""
COLUMNS = ("s", "max_rss", "cpu_time")


@dataclass(frozen=True)
class Benchmark:
    """Wall time of a job, and its largest resident memory (None: it is not known)."""

    seconds: float
    megabytes: float | None = None


def texts_of(folder: Path) -> dict[str, str]:
    """Return the text of every benchmark file by its path below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.tsv"))
    }


def rows_by_step(texts: Mapping[str, str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the step and the numbers of each run of a job (`texts_of`).

    The first part of a path names the step. Numbers that are missing are NaN.
    """
    for path, text in texts.items():
        step = path.replace("\\", "/").split("/")[0].removesuffix(".tsv")
        for row in rows_of(text):
            yield step, row


def rows_of(text: str) -> list[dict[str, float]]:
    """Return wall time, memory and processor time, of all threads, of each run in a benchmark."""
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")
    return [{name: _number(row.get(name)) for name in COLUMNS} for row in table]


def write_benchmark(path: Path, seconds: float) -> None:
    """Write what this process and its workers have taken: `seconds`, memory, processor time.

    A file that cannot be written is a warning: the results of the process are whole.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = time.process_time() + ended.ru_utime + ended.ru_stime
    row = (f"{seconds:.2f}", f"{peak_with_workers() / MIB:.2f}", f"{busy:.2f}")
    try:
        write_text(path, "\t".join(COLUMNS) + "\n" + "\t".join(row) + "\n")
    except (OSError, UserError) as error:
        logging.getLogger(__name__).warning("%s is not written: %s", path, error)


def _number(text: str | None) -> float:
    """Return a finite number that is not negative, or NaN for ``NA``, ``-`` and the like."""
    try:
        value = float(text or "")
    except ValueError:
        return math.nan
    return value if math.isfinite(value) and value >= 0 else math.nan


def read_benchmark(path: Path, log: Path | None = None) -> Benchmark | str | None:
    """Read the benchmark of a job: the mean time and the largest memory of its repetitions.

    Parameters
    ----------
    path : Path
        The file.
    log : Path, optional
        The job's log. A job that took results of former jobs is left out.

    Returns
    -------
    Benchmark, str or None
        None if there is no file, or no measure in it; a message if it cannot be read.
    """
    try:
        rows = rows_of(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        return f"{path}: cannot be read ({error}); left out"
    seconds, memory = (
        [row[name] for row in rows if math.isfinite(row[name])] for name in ("s", "max_rss")
    )
    if not seconds or len(seconds) < len(rows):
        return f"{path}: holds no time in its column s; left out"
    if log and log.is_file() and BEFORE.search(log.read_text(encoding="utf-8", errors="replace")):
        return None
    return Benchmark(sum(seconds) / len(seconds), max(memory, default=None))
