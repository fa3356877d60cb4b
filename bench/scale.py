"""``make scale``: time and memory of each step from shards to fine-tuned projections, by size.

A generated corpus of 200 shards of 1,000 pairs is run whole, and its first 10 and 50 shards, by
Snakemake on two cores; towers are tiny, so that the steps around them are what is measured. Time
is the sum over a step's jobs and memory the largest job's.
"""

import csv
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "workflow")]

SHARDS = (10, 50, 200)
PAIRS_PER_SHARD = 1000
STEPS = (
    "list_images", "index_shards", "gather_index", "encode_features", "encode_captions",
    "corrupt_captions", "finetune_projection",
)  # fmt: skip
WHOLE = ("gather_index", "corrupt_captions", "finetune_projection")
"""Steps of which one job sees all pairs."""
FAR = (3_000_000, 12_000_000)
TARGET = "results/arms/scale/tiny/pretrained_random~0.3/projection.safetensors"


@dataclass(frozen=True)
class Cost:
    """What a step took: seconds over all of its jobs, and the largest job's megabytes."""

    seconds: float
    megabytes: float


def main(shards: Sequence[int] = SHARDS, pairs_per_shard: int = PAIRS_PER_SHARD) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_towers(folder / "tiny")
        make_corpus(folder / "shards", max(shards), pairs_per_shard)
        found = {}
        for number in shards:
            found[number] = run(folder, number)
            shutil.rmtree(folder / f"run-{number}")
        sizes = [number * pairs_per_shard for number in shards]
        print("\n".join(table(sizes, [found[number] for number in shards])))


def run(folder: Path, number: int) -> dict[str, Cost]:
    """Run the first shards of the corpus in a folder of their own."""
    home = folder / f"run-{number}"
    home.mkdir()
    shards = sorted((folder / "shards").glob("*.tar"))[:number]
    content = {
        "studies": ["image_text"],
        "corpus": "scale",
        "shards": [str(shard) for shard in shards],
        "towers": str(folder / "tiny"),
        "evaluation_sets": ["handwritten-digits"],
        "index_shards": {"shards_per_job": max(1, number // 8)},
        "finetune_projection": {"pairs": None, "seeds": 1, "epochs": 2, "batch_size": 256},
        "prune_neurons": {"ks": [16]},
    }
    (home / "scale.yaml").write_text(json.dumps(content))
    started = time.perf_counter()
    snakemake(TARGET, home, home / "scale.yaml")
    seconds = time.perf_counter() - started
    costs = {step: cost(home, step) for step in STEPS}
    return {**costs, "wall time": Cost(seconds, math.nan)}


def cost(home: Path, step: str) -> Cost:
    """Add up the jobs of a step, from Snakemake's benchmark files and the step's own logs."""
    rows = []
    for path in (home / "benchmarks" / step).rglob("*.tsv"):
        with path.open(newline="") as opened:
            rows += list(csv.DictReader(opened, delimiter="\t"))
    if not rows:
        raise SystemExit(f"{home}: no job of {step} has run")
    # Snakemake looks at a job and its children now and then; a process knows its own peak.
    seen = [float(row["max_rss"]) for row in rows if row["max_rss"] not in ("NA", "-")]
    logs = "".join(path.read_text() for path in (home / "logs" / step).rglob("*.log"))
    own = [float(number) for number in re.findall(r"its peak memory was (\d+) MB", logs)]
    return Cost(sum(float(row["s"]) for row in rows), max([*seen, *own]))


def table(sizes: Sequence[int], found: Sequence[dict[str, Cost]]) -> list[str]:
    """Return the lines of the table, in Markdown.

    The last columns go on along the line through the two larger sizes. Memory goes on only where
    one job sees the whole corpus; elsewhere it is that of a group of shards.
    """
    head = [f"{size:,} pairs" for size in sizes] + [f"{size // 10**6} million" for size in FAR]
    lines = [f"| step | {' | '.join(head)} |", "| --- |" + " --- |" * len(head)]
    for step in found[0]:
        costs = [costs[step] for costs in found]
        cells = [_cell(one.seconds, one.megabytes) for one in costs]
        before, last = costs[-2:]
        for size in FAR:
            share = (size - sizes[-1]) / (sizes[-1] - sizes[-2])
            seconds = last.seconds + share * (last.seconds - before.seconds)
            more = share * max(0, last.megabytes - before.megabytes) if step in WHOLE else 0
            cells.append(_cell(seconds, last.megabytes + more))
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return lines


def _cell(seconds: float, megabytes: float) -> str:
    time_ = f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
    if math.isnan(megabytes):
        return time_
    memory = f"{megabytes:.0f} MB" if megabytes < 10_000 else f"{megabytes / 1000:.0f} GB"
    return f"{time_}, {memory}"


def make_corpus(folder: Path, shards: int, pairs_per_shard: int) -> None:
    """Generate the shards."""
    from mispair.pairs.steps import make_scenes

    settings = make_scenes.Settings(shards=shards, pairs_per_shard=pairs_per_shard, image_size=64)
    make_scenes.run(settings, corpus=folder)


def write_towers(folder: Path) -> None:
    """Write towers of one layer with random weights, as a local open_clip model."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    model = {
        "embed_dim": 32,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16,
                       "head_width": 32},
        "text_cfg": {"context_length": 32, "vocab_size": 49408, "width": 64, "heads": 2,
                     "layers": 1},
    }  # fmt: skip
    preprocess = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    config = {"model_cfg": model, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    weights = open_clip.CLIP(**model).state_dict()
    save_file(weights, folder / "open_clip_model.safetensors")


def snakemake(target: str, home: Path, config: Path) -> None:
    """Run Snakemake on two cores."""
    command = [sys.executable, "-m", "snakemake", target, "--snakefile",
               str(REPOSITORY / "Snakefile"), "--directory", str(home), "--cores", "2",
               "--quiet", "all", "--configfile", str(config)]  # fmt: skip
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
