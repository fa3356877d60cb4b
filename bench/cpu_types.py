"""The simulation's primary claims with the kernels of this CPU and with torch's default ones.

Another type of CPU has other vector instructions, so torch's kernels round otherwise, and a
training amplifies that. ``ATEN_CPU_CAPABILITY=default`` does the same on one machine. Numbers must
differ, or nothing was tested, and verdicts must agree.
"""

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

REPOSITORY = Path(__file__).parents[1]
KERNELS = "ATEN_CPU_CAPABILITY"
NATIVE, DEFAULT = "native", "default"
CLAIMS = "reports/tables/claims.csv"
SIMULATION: dict[str, Any] = {"trials": 12}
"""The trials of the demo, which has no other settings of `simulate`."""


def measure() -> Iterator[tuple[str, str, str, str]]:
    """Run the simulation with both kernels and yield a row for each primary claim."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: Path(folder) / name for name in (NATIVE, DEFAULT)}
        for kernels, run in runs.items():
            simulate(run, kernels, SIMULATION)
        yield from rows(runs[NATIVE], runs[DEFAULT])


def simulate(folder: Path, kernels: str, settings: Mapping[str, Any]) -> None:
    """Run the simulation and its claims in a new folder."""
    folder.mkdir(parents=True)
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"studies": ["simulation"], "simulate": dict(settings)}))
    environment = {name: value for name, value in os.environ.items() if name != KERNELS}
    if kernels != NATIVE:
        environment[KERNELS] = kernels
    subprocess.run(
        [sys.executable, "-m", "snakemake", CLAIMS, "--snakefile", str(REPOSITORY / "Snakefile"),
         "--configfile", str(config), "--directory", str(folder), "--cores", "all",
         "--quiet", "all"],
        check=True, cwd=REPOSITORY, env=environment,
    )  # fmt: skip


def rows(native: Path, default: Path) -> Iterator[tuple[str, str, str, str]]:
    """Compare the primary claims of two runs.

    Raises
    ------
    SystemExit
        If all results have the same bytes, no claim was judged, or outcomes differ.
    """
    results = [path.relative_to(native) for path in _results(native)]
    changed = sum((native / one).read_bytes() != (default / one).read_bytes() for one in results)
    if not changed:
        raise SystemExit(f"{KERNELS}=default changed none of {len(results)} results: no test")
    claims = [_primary(run) for run in (native, default)]
    if claims[0].empty:
        raise SystemExit("no primary claim of the simulation was judged")
    apart = []
    for key in claims[0].index:
        one, other = (frame.loc[key] for frame in claims)
        agree = one["outcome"] == other["outcome"]
        if not agree:
            apart.append(f"{key[0]}: {one['outcome']}, {other['outcome']}")
        shift = abs(one["effect"] - other["effect"])
        yield (
            f"{' '.join(part for part in key if part)}, {len(results)} jobs, native kernels",
            _said(one),
            f"{_said(other)}, by torch's default kernels",
            f"{'the same verdict' if agree else 'other verdicts'}, effects {shift:.4f} apart, "
            f"{changed} of {len(results)} results with other bytes",
        )
    if apart:
        raise SystemExit(f"verdicts depend on the type of CPU: {'; '.join(apart)}")


def _results(run: Path) -> list[Path]:
    found = sorted((run / "results" / "simulation").rglob("trials~*.json"))
    return [path for path in found if not path.name.endswith(".run.json")]


def _primary(run: Path) -> pd.DataFrame:
    """Return the primary claims of the simulation that were judged, by claim and preset."""
    claims = pd.read_csv(run / CLAIMS)
    chosen = claims[claims["primary"] & (claims["study"] == "simulation") & claims["p"].notna()]
    keyed = chosen.assign(preset=chosen["preset"].fillna(""))
    return keyed.set_index(["claim", "preset"]).sort_index()


def _said(row: pd.Series) -> str:
    interval = f" ({row['low']:+.4f} to {row['high']:+.4f})" if math.isfinite(row["low"]) else ""
    return f"{row['effect']:+.4f}{interval}, p = {row['p']:.2g}: {row['outcome']}"
