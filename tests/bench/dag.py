"""How long Snakemake takes to see what there is to do for CC12M, against a Snakefile that is bare.

Both dry runs start as many jobs; the bare Snakefile has two rules without settings, code versions,
logs or functions, and as many files. Shards are empty files of the right names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[2]
REPETITIONS = 3

BARE = """
rule all:
    input:
        expand("second/{{number}}", number=range({jobs})),

rule first:
    output:
        "first/{{number}}",
    shell:
        "touch {{output}}"

rule second:
    input:
        "first/{{number}}",
    output:
        "second/{{number}}",
    shell:
        "touch {{output}}"
"""

Row = tuple[str, str, str, str]


def measure() -> Iterator[Row]:
    """Yield the row."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = at_home("cc12m", folder)
        ours = [sys.executable, "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile"),
                "--directory", str(folder), "--configfile", str(config), "--cores", "2",
                "--dry-run", "--quiet", "rules"]  # fmt: skip
        jobs = planned(_run(ours, folder))
        bare = folder / "bare"
        bare.mkdir()
        (bare / "Snakefile").write_text(BARE.format(jobs=jobs // 2))
        theirs = [
            sys.executable,
            "-m",
            "snakemake",
            "--cores",
            "2",
            "--dry-run",
            "--quiet",
            "rules",
        ]
        times: dict[str, list[float]] = {"ours": [], "bare": []}
        for _ in range(REPETITIONS):
            for name, command, where in (("ours", ours, folder), ("bare", theirs, bare)):
                started = time.perf_counter()
                _run(command, where)
                times[name].append(time.perf_counter() - started)
        least, bare_least = min(times["ours"]), min(times["bare"])
    yield (
        f"dry run of cc12m.yaml: {jobs} jobs, 2,176 shards",
        f"{least:.1f} s",
        f"{bare_least:.1f} s for a bare Snakefile of two rules with as many jobs",
        f"{least / bare_least:.2f}x its time",
    )


def at_home(name: str, folder: Path) -> Path:
    """Copy a configuration for a data set, and put empty files where it expects data.

    Returns
    -------
    Path
        The copy: the same but for its paths, which began with ``/data``.
    """
    from mispair.pairs.sources import expand_braces

    text = (REPOSITORY / "workflow" / "configs" / f"{name}.yaml").read_text()
    text = text.replace("/data/", f"{folder}/data/")
    content = yaml.safe_load(text)
    for shard in expand_braces(content["shards"]):
        Path(shard).parent.mkdir(parents=True, exist_ok=True)
        Path(shard).touch()
    towers = Path(content["towers"])
    towers.mkdir(parents=True)
    (towers / "open_clip_config.json").write_text('{"model_cfg": {"embed_dim": 512}}')
    (towers / "open_clip_model.safetensors").touch()
    for path in content["evaluation_sets"]:
        test = Path(path) / "test"
        test.mkdir(parents=True)
        (test.parent / "classnames.txt").write_text("one\ntwo\n")
        (test.parent / "zeroshot_classification_templates.txt").write_text("a photo of a {c}\n")
        (test / "nshards.txt").write_text("1")
        (test / "0.tar").touch()
    copy = folder / f"{name}.yaml"
    copy.write_text(text)
    return copy


def planned(printed: str) -> int:
    """Return the number of jobs that a dry run says it would start."""
    found = re.search(r"^total\s+(\d+)$", printed, re.MULTILINE)
    if found is None:
        raise SystemExit(f"no job counts in what Snakemake printed:\n{printed[-2000:]}")
    return int(found[1])


def _run(command: list[str], folder: Path) -> str:
    # As Python does by default, for both: what it has compiled once it keeps.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, check=False
    )
    printed = done.stdout + done.stderr
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{printed[-3000:]}")
    return printed
