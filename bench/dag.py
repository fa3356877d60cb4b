"""How long Snakemake takes to see what there is to do, and a job on a cluster to begin.

Dry runs of as many jobs: ours for CC12M, and a bare Snakefile of two rules without settings, code
versions, logs or functions, with as many jobs and files. Then plans of about 100, 1,000 and 10,000
jobs; and for each what a SLURM job pays before its command runs: it starts Snakemake, which starts
Snakemake again under `srun`, and both read the Snakefile again. All shards but the first are empty
files, and `srun` is a script that runs what it is given.
"""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

REPOSITORY = Path(__file__).parents[1]
REPETITIONS = 3

FEW_ARMS = {
    "corrupt_captions": {"schemes": ["random"], "rates": [0.0, 0.5]},
    "finetune_projection": {"starts": ["pretrained"]},
}
SIZES: list[tuple[int, dict[str, Any]]] = [(26, FEW_ARMS), (400, {}), (4650, {})]
"""Groups of shards, and what else differs from cc12m.yaml, for 100, 1,000 and 10,000 jobs."""

SRUN = """#!/bin/sh
while case $1 in -*) ;; *) false ;; esac; do shift; done
exec "$@"
"""

BARE = """
rule all:
    input:
        expand("second/{{number}}.{{kind}}", number=range({pairs}), kind=["a", "b", "c"]),

rule first:
    input:
        "shards/{{number}}",
    output:
        "first/{{number}}.a",
        "first/{{number}}.b",
    shell:
        "touch {{output}}"

rule second:
    input:
        "first/{{number}}.a",
        "first/{{number}}.b",
    output:
        "second/{{number}}.a",
        "second/{{number}}.b",
        "second/{{number}}.c",
    shell:
        "touch {{output}}"
"""
"""Two jobs a shard, which have the files of index_shards and encode_features."""

AS_BARE = "{:.1f} s for a bare Snakefile of two rules with as many jobs and files"

SNAKEMAKE = [sys.executable, "-m", "snakemake"]
AS_SUBMITTED = [
    *("--target-jobs", "encode_features:corpus=cc12m,towers=ViT-B-32,group=0001"),
    *("--allowed-rules", "encode_features", "--attempt", "1", "--force-use-threads", "--force"),
    *("--target-files-omit-workdir-adjustment", "--max-inventory-time", "0", "--retries", "0"),
    *("--nocolor", "--no-hooks", "--nolock", "--ignore-incomplete", "--mode", "remote"),
    *("--executor", "slurm-jobstep", "--jobs", "1"),
]
"""What the SLURM plugin gives Snakemake on a node, besides the configuration."""

Row = tuple[str, str, str, str]


def measure() -> Iterator[Row]:
    """Yield the rows."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = at_home("cc12m", folder)
        ours = _dry_run(folder, config)
        jobs = planned(_run(ours, folder))
        least, bare_least = _least((ours, folder), _bare(folder, jobs))
        yield (
            f"dry run of cc12m.yaml: {jobs} jobs, 2,176 shards",
            f"{least:.1f} s",
            AS_BARE.format(bare_least),
            f"{least / bare_least:.2f}x its time",
        )
        _put_in_place(folder)
        empty = [*SNAKEMAKE, "--snakefile", "/dev/null", "--cores", "2", "--list-rules"]
        for groups, changes in SIZES:
            sized = _of_size(config, groups, changes)
            command = _dry_run(folder, sized)
            jobs = planned(_run(command, folder))
            repetitions = 1 if jobs > 5000 else REPETITIONS
            least, bare_least = _least(
                (command, folder), _bare(folder, jobs), repetitions=repetitions
            )
            yield (
                f"dry run of {jobs:,} jobs: cc12m.yaml with {groups:,} groups of shards",
                f"{least:.1f} s, {1000 * least / jobs:.1f} ms a job",
                AS_BARE.format(bare_least),
                f"{least / bare_least:.2f}x its time",
            )
            read = [*_snakemake(folder, sized), "--list-rules"]
            parsed, nothing = _least((read, folder), (empty, folder))
            yield (
                f"reading the Snakefile of {jobs:,} jobs",
                f"{parsed:.2f} s with the start of Snakemake",
                f"{nothing:.2f} s for an empty Snakefile",
                f"{parsed - nothing:.2f} s more",
            )
            started = min(_until_its_command(folder, sized) for _ in range(REPETITIONS))
            yield (
                "a SLURM job of that plan until its command runs, without SLURM's own part",
                f"{started:.2f} s",
                f"{2 * nothing:.2f} s for starting Snakemake twice on an empty Snakefile",
                f"{started / (2 * nothing):.2f}x its time",
            )


def _snakemake(folder: Path, config: Path) -> list[str]:
    return [*SNAKEMAKE, "--snakefile", str(REPOSITORY / "Snakefile"), "--directory", str(folder),
            "--cores", "2", "--configfile", str(config)]  # fmt: skip


def _dry_run(folder: Path, config: Path) -> list[str]:
    return [*_snakemake(folder, config), "--dry-run", "--quiet", "rules"]


def _bare(folder: Path, jobs: int) -> tuple[list[str], Path]:
    """Return the dry run of a bare Snakefile with so many jobs and files, and its folder."""
    bare, pairs = folder / f"bare-{jobs}", jobs // 2
    (bare / "shards").mkdir(parents=True, exist_ok=True)
    (bare / "Snakefile").write_text(BARE.format(pairs=pairs))
    for number in range(pairs):
        (bare / "shards" / str(number)).touch()
    return [*SNAKEMAKE, "--cores", "2", "--dry-run", "--quiet", "rules"], bare


def _least(*commands: tuple[list[str], Path], repetitions: int = REPETITIONS) -> list[float]:
    """Return the least time of each command, in seconds, measured by turns."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(repetitions):
        for (command, where), measured in zip(commands, times, strict=True):
            started = time.perf_counter()
            _run(command, where)
            measured.append(time.perf_counter() - started)
    return [min(measured) for measured in times]


def _of_size(config: Path, groups: int, changes: dict[str, Any]) -> Path:
    """Write a configuration with so many groups of one shard; empty shards are made as needed."""
    content = yaml.safe_load(config.read_text())
    first = content["shards"].split("{")[0]
    for number in range(groups):
        Path(f"{first}{number:04d}.tar").touch()
    content["shards"] = f"{first}{{0000..{groups - 1:04d}}}.tar"
    content["index_shards"]["shards_per_job"] = 1
    for section, keys in changes.items():
        content[section] = {**content[section], **keys}
    copy = config.with_name(f"{groups}.yaml")
    copy.write_text(yaml.safe_dump(content))
    return copy


def _put_in_place(folder: Path) -> None:
    """Write what the job that is timed reads, and a `srun` without SLURM."""
    index = folder / "results/pairs/cc12m/index"
    index.mkdir(parents=True)
    (index / "0001.parquet").touch()
    (index.parent / "corpus.parquet").touch()
    (folder / "bin").mkdir()
    (folder / "bin/srun").write_text(SRUN)
    (folder / "bin/srun").chmod(0o755)


def _until_its_command(folder: Path, config: Path) -> float:
    """Start an encoding as SLURM's plugin does; return the seconds until its log is opened."""
    log = folder / "logs/encode_features/cc12m/ViT-B-32/0001.log"
    log.unlink(missing_ok=True)
    command = [*_snakemake(folder, config), *AS_SUBMITTED]
    environment = {**_environment(), "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    printed = folder / "printed.txt"
    with printed.open("w") as output:
        started = time.perf_counter()
        job = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        while not log.exists() and job.poll() is None:
            time.sleep(0.005)
        seconds = time.perf_counter() - started
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    if not log.exists():
        raise SystemExit(f"the job never ran its command:\n{printed.read_text()[-3000:]}")
    return seconds


SHARD_BYTES = 2**20
"""Of a shard at home, nearly all a hole; img2dataset's statistics say that it has 10,000 pairs."""


def at_home(name: str, folder: Path) -> Path:
    """Copy a configuration for a data set, and put nearly empty files where it expects data.

    Returns
    -------
    Path
        The copy: the same but for its paths, which began with ``/data``.
    """
    from mispair.pairs.shards.sources import expand_braces

    text = (REPOSITORY / "config" / f"{name}.yaml").read_text()
    text = text.replace("/data/", f"{folder}/data/")
    content = yaml.safe_load(text)
    picture = io.BytesIO()
    Image.new("RGB", (64, 64)).save(picture, "png")
    for number, shard in enumerate(map(Path, expand_braces(content["shards"]))):
        shard.parent.mkdir(parents=True, exist_ok=True)
        _write_tar(shard, {f"{number}.png": picture.getvalue(), f"{number}.txt": b"a text"})
        os.truncate(shard, SHARD_BYTES)  # so many that pairs are not counted before the jobs
        shard.with_name(f"{shard.stem}_stats.json").write_text('{"successes": 10000}')
    towers = Path(content["towers"])
    towers.mkdir(parents=True)
    (towers / "open_clip_config.json").write_text('{"model_cfg": {"embed_dim": 512}}')
    no_tensors = b"\x02" + bytes(7) + b"{}"
    (towers / "open_clip_model.safetensors").write_bytes(no_tensors)
    for path in content["evaluation_sets"]:
        test = Path(path) / "test"
        test.mkdir(parents=True)
        (test.parent / "classnames.txt").write_text("one\ntwo\n")
        (test.parent / "zeroshot_classification_templates.txt").write_text("a photo of a {c}\n")
        (test / "nshards.txt").write_text("1")
        _write_tar(test / "0.tar", {"0.jpg": b"0", "0.cls": b"0"})
    copy = folder / f"{name}.yaml"
    copy.write_text(text)
    return copy


def _write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def planned(printed: str) -> int:
    """Return the number of jobs that a dry run says it would start."""
    found = re.search(r"^total\s+(\d+)$", printed, re.MULTILINE)
    if found is None:
        raise SystemExit(f"no job counts in what Snakemake printed:\n{printed[-2000:]}")
    return int(found[1])


def _environment() -> dict[str, str]:
    # As Python does by default, for all: what it has compiled once it keeps.
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=_environment(), text=True, capture_output=True, check=False
    )
    printed = done.stdout + done.stderr
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{printed[-3000:]}")
    return printed
