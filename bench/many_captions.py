"""``python -m bench.many_captions NUMBER ...``: search the nearest among very many features.

Features in nested groups (`bench.similar_captions`) are written to disk in half precision, and a
process of its own reads them as a memory map, on one thread. A line for each number has the wall
time, the processor time and the peak memory; the last has the exponent of the processor time.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.similar_captions import WIDTH, K, nested_blocks, peak_memory

THREADS = 1
"""As in a job of the step: threads that wait for each other on a busy machine cost its time."""


def main(numbers: list[int]) -> None:
    """Search among each number of features, and print what it took."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            path = Path(folder) / "vectors.npy"
            _write(path, number)
            code = "import sys; from bench.many_captions import search; search(sys.argv[1])"
            where = os.pathsep.join(part for part in sys.path if part)
            done = subprocess.run(
                [sys.executable, "-c", code, str(path)],
                check=True, stdout=subprocess.PIPE, text=True,
                env={**os.environ, "PYTHONPATH": where},
            )  # fmt: skip
            result = json.loads(done.stdout.splitlines()[-1])
            seconds.append(result["processor seconds"])
            print(f"{number:,} x {WIDTH}: {result}", flush=True)
    if len(numbers) > 1:
        exponent = np.polyfit(np.log(numbers), np.log(seconds), 1)[0]
        print(f"exponent of the processor time: {exponent:.2f}")


def search(path: str) -> None:
    """Search in this process, and print the seconds and the megabytes as JSON."""
    import torch

    from mispair.pairs.neighbours.approximate import nearest_by_cells

    torch.set_num_threads(THREADS)
    rows = np.load(path, mmap_mode="r")
    started, used = time.perf_counter(), _processor()

    def progress(share: float) -> None:
        print(
            f"{time.perf_counter() - started:.0f} s, {_processor() - used:.0f} s of processor "
            f"time, {peak_memory():.0f} MB, {share:.4f} of the wanted recall",
            file=sys.stderr,
            flush=True,
        )

    found = nearest_by_cells(rows, K, progress=progress)
    count = sum(len(others) for others, _ in found.portions)
    if count != len(rows):
        raise SystemExit(f"{count} of {len(rows)} rows were yielded")
    print(json.dumps({
        "seconds": round(time.perf_counter() - started, 1),
        "processor seconds": round(_processor() - used, 1),
        "peak megabytes": round(peak_memory()), "recall": round(found.recall, 4),
        "visits": found.visits,
    }))  # fmt: skip


def _write(path: Path, number: int) -> None:
    rows = np.lib.format.open_memmap(path, "w+", np.float16, (number, WIDTH))
    start = 0
    for block in nested_blocks(number):
        rows[start : start + len(block)] = block
        start += len(block)
    rows.flush()


def _processor() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main([int(number.replace(",", "").replace("_", "")) for number in sys.argv[1:]])
