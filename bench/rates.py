"""``make rates``: measure what each step costs, and write it where ``mispair plan`` looks.

Runs of several sizes, on a machine that does nothing else: the demo, the smoke configuration, the
sufficiency study at its standard setting, the whole stepsize study, a corpus of 100,000 pairs up to
its captions, a ViT-B/32 with random weights, towers that are trained, audits and repairs of three
corpora, and repairs from scratch of three. Memory and disk come from the same jobs. About 50
minutes on two cores. Rates of other devices stay as they are; with ``--only`` some runs, so do
those of steps that reached further. A folder named on the command line keeps the runs; those that
it has are not run again, and ``--busy`` takes processor time for wall time, if the machine was not
idle.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "workflow")]

SCENES = {"studies": ["image_text"], "make_scenes": {"shards": 2, "pairs_per_shard": 150}}
TRAINED = "results/towers/trained/open_clip_config.json"


def configurations(folder: Path) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Return each run's settings, and its targets."""
    import yaml

    def shipped(name: str) -> dict[str, Any]:
        path = REPOSITORY / "config" / f"{name}.yaml"
        return dict(yaml.safe_load(path.read_text()))

    large = {
        "corpus": "large",
        "studies": ["image_text"],
        "make_scenes": {"shards": 50, "pairs_per_shard": 2000},
        "index_shards": {"shards_per_job": 25},
    }
    vit = {
        **SCENES,
        "towers": str(folder / "ViT-B-32"),
        "evaluation_sets": ["scenes-digit", "scenes-retrieval"],
        "make_evaluation_set": {"images": 100, "train_images": 100, "retrieval_images": 50},
        "finetune_projection": {"starts": ["pretrained"], "pairs": None, "batch_size": 64},
        "find_similar_captions": {"measure": "features"},
        "corrupt_captions": {"schemes": ["random", "similar", "drop"], "rates": [0.0, 0.5]},
        "prune_neurons": {"ks": ["200-500:50"]},
    }
    trained = {
        name: ({**SCENES, "towers": "train", "pretrain_towers": {"epochs": epochs, "warmup": 1}},
               [TRAINED])
        for name, epochs in (("trained", 2), ("trained longer", 10))
    }  # fmt: skip
    audits = {
        f"audit of {shards * pairs}": (
            {
                "studies": ["audit", "image_text"],
                "make_scenes": {"shards": shards, "pairs_per_shard": pairs},
                "index_shards": {"shards_per_job": 10},
                "trusted": str(folder / "trusted.txt"),
                "finetune_projection": {"weights": "audit"},
            },
            ["audit", "results/audit/scenes/scenes-small/weights/random~0.3.safetensors"],
        )
        for shards, pairs in ((1, 1500), (10, 1500), (40, 1500))
    }
    repairs = {
        f"repair of {shards * pairs}": (
            {
                "studies": ["repair"],
                "make_scenes": {"shards": shards, "pairs_per_shard": pairs},
                "index_shards": {"shards_per_job": 10},
                "evaluation_sets": ["scenes-digit"],
                "corrupt_captions": {"schemes": ["random"], "rates": [0.0, 0.8]},
                "filter_captions": {"rules": ["raw", "factor", "drop"]},
                "finetune_projection": {"seeds": seeds},
            },
            ["repair"],
        )
        for shards, pairs, seeds in ((1, 1500, 2), (10, 1500, 1), (40, 1500, 1))
    }
    from_scratch = {
        f"repair from scratch of {shards * 1000}": (
            {
                "studies": ["repair"],
                "make_scenes": {"shards": shards, "pairs_per_shard": 1000},
                "evaluation_sets": ["scenes-digit"],
                "corrupt_captions": {"schemes": ["random"], "rates": [0.0, 0.8]},
                "filter_captions": {
                    "rules": ["raw", "factor"],
                    "rates": [0.8],
                    "trains": ["towers"],
                },
                "train_small_towers": {"seeds": 2, "epochs": epochs, "held_out": 1000},
            },
            ["repair"],
        )
        for shards, epochs in ((3, 2), (5, 4), (12, 3))
    }
    return {
        "demo": ({}, []),
        "smoke": (shipped("smoke"), []),
        "sufficiency": (shipped("sufficiency-standard"), ["sufficiency"]),
        "stepsize": (shipped("stepsize"), ["stepsize"]),
        "ViT-B-32": (vit, []),
        "large": (large, [f"results/pairs/large/pairing/{name}.parquet"
                          for name in ("random~0.3", "similar~0.3")]),
        **trained,
        **audits,
        **repairs,
        **from_scratch,
    }  # fmt: skip


def options(home: Path, targets: list[str]) -> list[str]:
    """Return Snakemake's options for a run."""
    return [*targets, "--snakefile", str(REPOSITORY / "Snakefile"), "--directory", str(home),
            "--cores", "2", "--configfile", str(home / "run.yaml")]  # fmt: skip


def reaches_as_far(work: dict[str, float], other: dict[str, float]) -> bool:
    """Tell whether jobs with this largest work were as large as the others, up to a tenth."""
    return all(work.get(unit, 0.0) >= 0.9 * amount for unit, amount in other.items())


def this_machine() -> dict[str, Any]:
    """Return the description of this machine."""
    from mispair.core.devices import device_name, usable_cores
    from mispair.planning.estimates import calibrate

    return {
        "device": "cpu",
        "processor": device_name("cpu").removeprefix("cpu (").removesuffix(")"),
        "cores": usable_cores(),
        "calibration_seconds": float(f"{calibrate():.3g}"),
    }


def write_rates(machines: list[Any], path: Path) -> None:
    """Write rates, one line a step."""
    from mispair.core.files import write_text

    written = []
    for one in machines:
        lines = [
            f"  {json.dumps(name)}: {json.dumps(asdict(rate))}" for name, rate in one.steps.items()
        ]
        machine = json.dumps(one.machine, ensure_ascii=False)
        written.append(f'{{"machine": {machine},\n "steps": {{\n' + ",\n".join(lines) + "}}")
    write_text(path, "[" + ",\n".join(written) + "]\n")


def main() -> None:
    """Run what has not run, and write the rates."""
    from bench.encoding import write_towers
    from bench.processor_time import processor_seconds
    from mispair.core.cost import Benchmark
    from mispair.core.forks import ADDRESS
    from mispair.planning.estimates import RATES, Measured, fit, read_rates
    from mispair.planning.jobs import Job
    from mispair.planning.plan import records_of

    def seconds(job: Job, benchmark: Benchmark) -> float:
        """Return the wall time of a job, or its processor time on a busy machine."""
        processor = processor_seconds(home / job.benchmark) if asked.busy else None
        if processor is None:
            return benchmark.seconds
        return min(benchmark.seconds, processor / job.threads)

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--only", nargs="*", help="names of runs")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "ViT-B-32").is_dir():
            write_towers(folder / "ViT-B-32", "ViT-B-32")
        keys = [f"00000{number:04d}" for number in range(1000)]
        (folder / "trusted.txt").write_text("\n".join(keys))
        records = []
        for name, (content, targets) in configurations(folder).items():
            if asked.only and name not in asked.only:
                continue
            home = folder / f"run of {name}"
            if not (home / "finished").is_file():
                home.mkdir(exist_ok=True)
                (home / "run.yaml").write_text(json.dumps(content))
                command = [sys.executable, "-m", "snakemake", *options(home, targets)]
                # Rates are of jobs that start alone, as those of a cluster do.
                environment = os.environ | {ADDRESS: "off"}
                subprocess.run([*command, "--quiet", "all"], check=True, env=environment)
                (home / "finished").touch()
            found = records_of(options(home, targets), seconds=seconds)
            print(f"{name}: {len(found)} jobs", flush=True)
            records += found
        recorded = read_rates() if RATES.is_file() else []
        kept = [one for one in recorded if one.machine["device"] != "cpu"]
        before = next((one.steps for one in recorded if one not in kept), {})
        steps = {
            name: rate for name, rate in fit(records).items()
            if not asked.only or name not in before
            or reaches_as_far(rate.largest, before[name].largest)
        }  # fmt: skip
        # Some steps are in none of these runs, such as pack_pairs and fetch_shard.
        write_rates([Measured(this_machine(), before | steps), *kept], RATES)
    print(f"Written: {RATES}")


if __name__ == "__main__":
    main()
