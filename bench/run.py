"""``make bench``: measure the speed that mispair claims, print it, and write it into the docs.

Every row is a ratio or a share that was measured in this run, on this machine; nothing here is a
test. Name benches to measure only these: ``.venv/bin/python bench/run.py finetuning``. Each
replaces its table in ``docs/measurements/benchmarks.md``, with the day and the machine.
"""

import os
import re
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "measurements" / "benchmarks.md"
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "workflow")]

from bench import (  # noqa: E402
    audit,
    captioners,
    cpu_types,
    dag,
    demo,
    encoding,
    evaluation,
    faults,
    finetuning,
    folder,
    review,
    similar_captions,
    simulation,
    stepsize,
    sufficiency,
)
from bench.readme import filled  # noqa: E402

BENCHES = {
    "audit": audit.measure,
    "review": review.measure,
    "audit_scores": audit.scores,
    "audit_few": audit.few,
    "finetuning": finetuning.measure,
    "simulation": simulation.measure,
    "cpu_types": cpu_types.measure,
    "sufficiency": sufficiency.measure,
    "encoding": encoding.measure,
    "silhouette": evaluation.silhouettes,
    "pruning": evaluation.pruning,
    "similar_captions": similar_captions.measure,
    "stepsize": stepsize.measure,
    "captioners": captioners.measure,
    "dag": dag.measure,
    "faults": faults.measure,
    "folder": folder.measure,
    "slurm": faults.through_slurm,
    "start": demo.starts,
    "demo": demo.measure,
}

Row = tuple[str, str, str, str]
COLUMNS = ("what", "measured", "against", "ratio or share")


def main() -> None:
    """Measure the rows named on the command line, or all."""
    chosen = sys.argv[1:] or list(BENCHES)
    unknown = set(chosen) - BENCHES.keys()
    if unknown:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    machine = describe_machine()
    print("| " + " | ".join(COLUMNS) + " |\n" + "| --- " * len(COLUMNS) + "|", flush=True)
    for name in chosen:
        rows = []
        for row in BENCHES[name]():
            rows.append(row)
            print("| " + " | ".join(row) + " |", flush=True)
        text = block(rows, date.today(), machine)
        PAGE.write_text(filled(PAGE.read_text(), f"bench: {name}", text))
    print(f"\nAlso in {PAGE}")


def describe_machine() -> str:
    """Return the processor and the number of cores that are to be had."""
    from mispair.core.devices import device_name, usable_cores

    processor = device_name("cpu").removeprefix("cpu (").removesuffix(")")
    return f"{usable_cores()} cores of {processor}"


def block(rows: Sequence[Row], day: date, machine: str) -> str:
    """Return day, machine and table of a bench, as Markdown."""
    lines = [f"{day.day} {day:%B %Y}, {machine}:", "", "| " + " | ".join(COLUMNS) + " |"]
    lines += ["| --- " * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def names(page: str) -> list[str]:
    """Return the benches that a page has blocks of, in their order."""
    return re.findall(r"^<!-- bench: (\w+) -->$", page, re.MULTILINE)


if __name__ == "__main__":
    main()
