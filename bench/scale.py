"""``make scale``: time and memory of each step from generated pairs to the report, by size.

Pairs are drawn scenes and towers are the shipped ones. The studies audit and image_text have few
arms, because arms multiply the last steps only. ``python -m bench.scale run FOLDER PAIRS`` makes
one run, of any size; if it is interrupted, it continues. ``python -m bench.scale table FOLDER ...``
prints the table of runs, smallest first, with the exponents.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "workflow")]

SIZES = (10_000, 100_000)
"""Pairs of the runs of ``make scale``."""
PAIRS_PER_SHARD = 1_000
CONFIG = "scale.yaml"
SECONDS = "seconds"
LEAST_SECONDS = 20
"""Processor time from which on an exponent is printed; below it, the start of processes counts."""


@dataclass(frozen=True)
class Cost:
    """Processor time of a step's jobs in seconds, and the largest job's memory in megabytes."""

    seconds: float
    megabytes: float


def configuration(pairs: int) -> dict[str, object]:
    """Return the settings of a run."""
    shards = max(1, pairs // PAIRS_PER_SHARD)
    return {
        "studies": ["audit", "image_text"],
        "corpus": "scale",
        "make_scenes": {"shards": shards, "pairs_per_shard": min(pairs, PAIRS_PER_SHARD)},
        "towers": "shipped",
        "evaluation_sets": ["scenes-shape", "scenes-retrieval"],
        "index_shards": {"shards_per_job": max(1, shards // 10)},
        "corrupt_captions": {"schemes": ["random", "similar"], "rates": [0.0, 0.3]},
        "find_similar_captions": {"measure": "features"},
        "finetune_projection": {
            "starts": ["pretrained"], "control_rates": None, "pairs": None, "seeds": 1,
            "epochs": 2, "batch_size": 256,
        },
        "prune_neurons": {"ks": [16, 64]},
    }  # fmt: skip


def run(home: Path, pairs: int) -> None:
    """Run all steps on two cores."""
    from mispair.core.forks import ADDRESS

    home.mkdir(parents=True, exist_ok=True)
    (home / CONFIG).write_text(json.dumps(configuration(pairs)))
    command = [
        sys.executable, "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile"),
        "--directory", str(home), "--cores", "2", "--rerun-incomplete",
        "--configfile", str(home / CONFIG),
    ]  # fmt: skip
    started = time.perf_counter()
    # Memory is that of a job which starts alone.
    subprocess.run(command, check=True, env=os.environ | {ADDRESS: "off"})
    with (home / SECONDS).open("a") as opened:
        opened.write(f"{time.perf_counter() - started:.0f}\n")


def table(homes: list[Path]) -> list[str]:
    """Return the table in Markdown: steps, then folders of results, by runs."""
    sizes = [_pairs(home) for home in homes]
    costs = [_costs(home) for home in homes]
    disks = [_disks(home) for home in homes]
    head = [f"{size:,} pairs" for size in sizes]
    lines = [f"| step | {' | '.join(head)} | exponent |", "| --- |" + " --- |" * (len(homes) + 1)]
    for step in sorted(costs[-1], key=lambda step: -costs[-1][step].seconds):
        found = [cost.get(step) for cost in costs]
        cells = [f"{one.seconds:.1f} s, {one.megabytes:.0f} MB" if one else "" for one in found]
        lines.append(f"| {step} | {' | '.join(cells)} | {_of_time(sizes, found)} |")
    total = [Cost(sum(one.seconds for one in cost.values()), 0) for cost in costs]
    cells = [f"{one.seconds:.0f} s" for one in total]
    lines.append(f"| processor time | {' | '.join(cells)} | {_of_time(sizes, total)} |")
    lines.append(f"| wall time | {' | '.join(map(_wall, homes))} | |")
    for folder in disks[-1]:
        sizes_on_disk = [disk.get(folder, 0) for disk in disks]
        cells = [f"{size / 1e6:.0f} MB" for size in sizes_on_disk]
        grown = _exponent(sizes, sizes_on_disk) if sizes_on_disk[0] > 1e6 else ""
        lines.append(f"| disk: {folder} | {' | '.join(cells)} | {grown} |")
    return lines


def _pairs(home: Path) -> int:
    scenes = json.loads((home / CONFIG).read_text())["make_scenes"]
    return int(scenes["shards"] * scenes["pairs_per_shard"])


def _costs(home: Path) -> dict[str, Cost]:
    """Add up the jobs of each step; one that was too short to be looked at counts nothing."""
    from mispair.core.cost import rows_by_step, texts_of

    costs: dict[str, Cost] = {}
    for step, row in rows_by_step(texts_of(home / "benchmarks")):
        before = costs.get(step, Cost(0, 0))
        seconds, megabytes = (
            0.0 if math.isnan(row[name]) else row[name] for name in ("cpu_time", "max_rss")
        )
        costs[step] = Cost(before.seconds + seconds, max(before.megabytes, megabytes))
    return costs


def _disks(home: Path) -> dict[str, int]:
    folders = [*sorted((home / "results").iterdir()), home / "reports"]
    return {
        str(folder.relative_to(home)): sum(
            path.stat().st_size for path in folder.rglob("*") if path.is_file()
        )
        for folder in folders
        if folder.is_dir()
    }


def _of_time(sizes: list[int], found: Sequence[Cost | None]) -> str:
    """Return the exponent from the first run on that took long enough."""
    long = [
        (size, cost.seconds)
        for size, cost in zip(sizes, found, strict=True)
        if cost and cost.seconds >= LEAST_SECONDS
    ]
    return _exponent([size for size, _ in long], [seconds for _, seconds in long])


def _exponent(sizes: list[int], values: list[int] | list[float]) -> str:
    if len(sizes) < 2 or min(values[0], values[-1]) <= 0:
        return ""
    return f"{math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0]):.2f}"


def _wall(home: Path) -> str:
    path = home / SECONDS
    if not path.exists():
        return "not finished"
    seconds = [int(line) for line in path.read_text().split()]
    return f"{sum(seconds) / 60:.0f} min"


def main() -> None:
    """Make runs, or print what they took."""
    match sys.argv[1:]:
        case []:
            with tempfile.TemporaryDirectory() as folder:
                homes = [Path(folder) / str(pairs) for pairs in SIZES]
                for home, pairs in zip(homes, SIZES, strict=True):
                    run(home, pairs)
                print("\n".join(table(homes)))
        case ["run", folder, pairs]:
            run(Path(folder), int(pairs.replace("_", "").replace(",", "")))
        case ["table", *folders] if folders:
            print("\n".join(table(sorted(map(Path, folders), key=_pairs))))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
