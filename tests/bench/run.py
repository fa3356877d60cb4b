"""``make bench``: measure the speed that mispair claims, and print it as a table.

Every row is a ratio or a share that was measured in this run, on this machine; nothing here is a
test. Name rows to measure only these: ``.venv/bin/python tests/bench/run.py finetuning``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "workflow")]

from tests.bench import (  # noqa: E402
    audit,
    dag,
    demo,
    encoding,
    faults,
    finetuning,
    pruning,
    silhouette,
    similar_captions,
    simulation,
    slurm,
    stepsize,
    sufficiency,
)

BENCHES = {
    "audit": audit.measure,
    "finetuning": finetuning.measure,
    "simulation": simulation.measure,
    "sufficiency": sufficiency.measure,
    "encoding": encoding.measure,
    "silhouette": silhouette.measure,
    "pruning": pruning.measure,
    "similar_captions": similar_captions.measure,
    "stepsize": stepsize.measure,
    "dag": dag.measure,
    "faults": faults.measure,
    "slurm": slurm.measure,
    "demo": demo.measure,
}


def main() -> None:
    """Measure the rows named on the command line, or all."""
    chosen = sys.argv[1:] or list(BENCHES)
    unknown = set(chosen) - BENCHES.keys()
    if unknown:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    rows = []
    print("| what | measured | against | ratio or share |\n| --- | --- | --- | --- |", flush=True)
    for name in chosen:
        for row in BENCHES[name]():
            rows.append(row)
            print("| " + " | ".join(row) + " |", flush=True)
    target = REPOSITORY / "benchmarks" / "bench.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(f"\nAlso in {target}")


if __name__ == "__main__":
    main()
