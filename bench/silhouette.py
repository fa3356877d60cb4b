"""The cosine silhouette from cluster means against scikit-learn's, which takes all pairs.

Both run on one thread, and times are the processor's, so that a busy machine does not count. Memory
is measured in a process of its own, because a process can tell no more than the most it ever held;
it is what was held on top of the features and the imported libraries.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

Row = tuple[str, str, str, str]

WIDTH = 512

AGREEMENT = {"float64": 1e-9, "float32": 1e-6}
"""Largest difference of the scores; ours are in double precision, whatever the features' is."""

RUNS = 5


def measure(
    compared: tuple[int, int] = (20_000, 100), large: tuple[int, int] = (50_000, 1_000)
) -> Iterator[Row]:
    """Compare at a number of images and classes, and go where all pairs are too many."""
    from sklearn import get_config
    from sklearn.metrics import silhouette_score

    from mispair.evaluation.classification import silhouette_samples

    n, classes = compared
    whole = 0.0
    for precision, tolerance in AGREEMENT.items():
        features, labels = clusters(n, classes, WIDTH, precision)
        ours = fastest(lambda: silhouette_samples(features, labels), RUNS)  # noqa: B023
        started = time.process_time()
        score = silhouette_score(features, labels, metric="cosine")
        theirs = time.process_time() - started
        difference = abs(silhouette_samples(features, labels).mean() - score)
        if not difference <= tolerance:
            raise SystemExit(f"the twins have other silhouettes: {difference:.1e} apart")
        yield (
            f"silhouette, {n:,} images, {classes} classes, {WIDTH} neurons in {precision}",
            f"{ours * 1e3:.0f} ms",
            f"{theirs:.1f} s by scikit-learn (scores agree to {difference:.0e})",
            f"{theirs / ours:.0f}x",
        )
        if precision == "float64":
            whole = theirs
            means = features[:classes]
            floor = fastest(lambda: features @ means.T, RUNS)  # noqa: B023
            yield (
                "silhouette, share of the one product that it cannot do without",
                f"{ours * 1e3:.0f} ms",
                f"{floor * 1e3:.0f} ms, {2 * means.size * n / floor / 1e9:.0f} GFLOP/s",
                f"{floor / ours:.0%}",
            )
    n, classes = large
    code = f"from bench.silhouette import alone; alone({n}, {classes})"
    where = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": where},
    )
    seconds, megabytes = map(float, done.stdout.split())
    square = whole * (n / compared[0]) ** 2
    yield (
        f"silhouette, {n:,} images, {classes:,} classes, {WIDTH} neurons in float64",
        f"{seconds:.1f} s, {megabytes:.0f} MB beyond the features' {n * WIDTH * 8 / 2**20:.0f} MB",
        f"{square:.0f} s by scikit-learn, if by the square of the images, with distances in "
        f"portions of {get_config()['working_memory']:,} MB",
        f"{square / seconds:.0f}x",
    )


def alone(n: int, classes: int) -> None:
    """Print seconds and megabytes of one score in this process."""
    from bench.similar_captions import peak_memory
    from mispair.evaluation.classification import silhouette_samples

    features, labels = clusters(n, classes, WIDTH, "float64")
    silhouette_samples(features[:1000], labels[:1000])
    before, started = peak_memory(forget=True), time.process_time()
    silhouette_samples(features, labels)
    print(time.process_time() - started, peak_memory() - before)


def clusters(n: int, classes: int, width: int, precision: str) -> tuple[np.ndarray, np.ndarray]:
    """Draw unit vectors around the centres of classes, in any order."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, classes, n)
    features = draw.standard_normal((classes, width))[labels]
    features += 2 * draw.standard_normal((n, width))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features.astype(precision), labels


def fastest(work: Callable[[], object], runs: int) -> float:
    """Return the least processor time of some runs, in seconds."""
    times = []
    for _ in range(runs):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)
