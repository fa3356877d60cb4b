"""The demo as a newcomer runs it: its wall time, the share of each step, and the overhead.

Beside it what the start of a job costs: processor time of the imports that a job with towers needs,
without the server of a run, which forks jobs from a process that has them.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from mispair import forkserver

REPOSITORY = Path(__file__).parents[1]


def measure() -> Iterator[tuple[str, str, str, str]]:
    """Run config.yaml from nothing in a folder of its own and yield the rows."""
    from mispair.core.cost import rows_by_step, texts_of

    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        planned = _planned(folder, cores)
        wall = _snakemake(folder, cores)
        seconds, jobs = Counter[str](), Counter[str]()
        for step, row in rows_by_step(texts_of(Path(folder) / "benchmarks")):
            seconds[step] += row["s"]
            jobs[step] += 1
        again = _snakemake(folder, cores)
    busy = sum(seconds.values())
    (start_up,) = _least([PARTS["the command line and the options of a step"]])
    total = sum(jobs.values())
    yield (
        "demo, wall time",
        f"{wall:.0f} s",
        f"{total} jobs on {cores} cores",
        f"{wall / 60:.1f} min",
    )
    yield (
        "demo, as `mispair plan` estimates it",
        f"{planned:.0f} s",
        f"{wall:.0f} s measured",
        f"{planned / wall:.2f}x",
    )
    for step, spent in seconds.most_common():
        yield (
            f"demo, {step}",
            f"{spent:.1f} s",
            f"{jobs[step]} jobs",
            f"{spent / busy:.1%} of job time",
        )
    overhead = again + total * start_up
    yield (
        "Snakemake's overhead",
        f"{again:.1f} s to find nothing to do + {total} x {start_up:.2f} s to start a job",
        f"{wall * cores:.0f} core seconds",
        f"{overhead / (wall * cores):.1%}",
    )
    yield (
        "cores not busy with a job",
        f"{wall * cores - busy:.0f} s",
        f"{wall * cores:.0f} core seconds",
        f"{1 - busy / (wall * cores):.1%}",
    )


def _snakemake(folder: str, cores: int) -> float:
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile"),
         "--directory", folder, "--cores", str(cores), "--quiet", "all"],
        check=True, cwd=REPOSITORY,
    )  # fmt: skip
    return time.perf_counter() - started


def _planned(folder: str, cores: int) -> float:
    """Return the wall time that the plan expects, in seconds."""
    snakefile = str(REPOSITORY / "Snakefile")
    done = subprocess.run(
        [sys.executable, "-m", "mispair", "plan", "--json", "--cores", str(cores),
         "--snakefile", snakefile, "--directory", folder],
        check=True, cwd=REPOSITORY, text=True, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "workflow")},
    )  # fmt: skip
    return 3600 * float(json.loads(done.stdout)["totals"]["wall_hours"])


SHIPPED = "mispair/towers/shipped/scenes-small"

PARTS = {
    "Python": "pass",
    "the command line and the options of a step": "from mispair import cli",
    "numpy": "import numpy",
    "torch": "import torch",
    "open_clip, timm and torchvision": "import mispair.towers.light_open_clip",
    "modules of mispair that encode": "from mispair.towers import encoding, loading",
    "the towers": f"towers = loading.load_towers(loading.Path({SHIPPED!r}))",
    "their tokenizer": "tokens = towers.tokenizer(['a red circle'])",
    "features of one text": "towers.text_features(tokens)",
}
"""What a job of `encode_prompts` does before its first text, in order; each needs those before."""

CLOCK = "print(time.process_time())"


def starts() -> Iterator[tuple[str, str, str, str]]:
    """Yield a small job with and without the server of a run, and the parts of a start."""
    what = "processor time"
    with tempfile.TemporaryDirectory() as folder:
        own, served = _small_job(Path(folder))
    yield (
        "job of `encode_prompts`, 8 classes", f"{served:.2f} s",
        f"{own:.2f} s in a process of its own", f"{served / own:.2f}",
    )  # fmt: skip
    by_then = 0.0
    for name, seconds in zip(PARTS, _least(PARTS.values()), strict=True):
        by_then += seconds
        yield f"start, {name}", f"{seconds:.2f} s", f"{by_then:.2f} s by then", what


def _small_job(folder: Path) -> tuple[float, float]:
    """Return the processor time of a job with towers: alone, and by the server of a run."""
    from bench.processor_time import processor_seconds

    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "workflow")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def job(*words: str | Path) -> float:
        took = folder / "took.tsv"
        subprocess.run(
            [sys.executable, "-m", "mispair", *words, "--took", took],
            check=True, cwd=folder, env=environment, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return processor_seconds(took) or 0.0

    made, towers = folder / "set", REPOSITORY / "workflow" / SHIPPED
    job("make-evaluation-set", "--name", "scenes-shape", "--evaluation-set", made,
        "--images", "80")  # fmt: skip
    words = (
        "encode-prompts", "--name", "scenes-shape", "--protocol", "clip_benchmark",
        "--evaluation-set", *made.glob("*.txt"), *made.glob("test/*"), "--protocol-files",
        made / "zeroshot_classification_templates.txt", "--towers", *towers.glob("*.*"),
        "--prompts", folder / "prompts.safetensors",
    )  # fmt: skip
    own = min(job(*words) for _ in range(3))
    forkserver.start()
    environment[forkserver.ADDRESS] = os.environ.pop(forkserver.ADDRESS)
    job(*words)  # the server learns what to import
    time.sleep(8)
    return own, min(job(*words) for _ in range(3))


def _least(parts: Iterable[str], repetitions: int = 5) -> list[float]:
    """Return the least processor time of each part of a program, which runs several times."""
    program = "\n".join(["import time", *(f"{part}\n{CLOCK}" for part in parts)])
    environment = {**os.environ, "PYTHONPATH": "."}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    runs = []
    for _ in range(repetitions + 1):
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=True, env=environment, cwd=REPOSITORY / "workflow", text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        clocks = [0.0, *map(float, done.stdout.split())]
        runs.append([after - before for before, after in pairwise(clocks)])
    return [min(times) for times in zip(*runs[1:], strict=True)]  # the first run compiles modules
