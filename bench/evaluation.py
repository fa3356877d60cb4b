"""Silhouettes and the pruning sweep against what a first script does.

The cosine silhouette from cluster means is compared with scikit-learn's, which takes all pairs.
Memory is measured in a process of its own, because a process can tell no more than the most it ever
held; it is what was held on top of the features and the imported libraries.

The pruning sweep, which adds neurons from k to k, is compared with one that evaluates every k anew.
The naive twin does at each k what a script does: it embeds the images and the prompts, normalises,
sets all but the k neurons to zero, classifies by the argmax of the product, and has scikit-learn
compute the silhouette. It is measured at some numbers of neurons and taken times all of them. Once
in double precision, as ours, where results must be the same; once in single, as such scripts run.

All run on one thread, and times are the processor's, so that a busy machine does not count.
"""

import time
from collections.abc import Iterator, Sequence

import numpy as np

from bench.processor_time import alone, fastest, peak_memory

Row = tuple[str, str, str, str]

D_IMAGE, D_TEXT, NEURONS = 768, 512, 512

SCORES_AGREE = {"float64": 1e-9, "float32": 1e-6}
"""Largest difference of the scores; ours are in double precision, whatever the features' is."""

RUNS = 5

MEASURED = 3
"""Numbers of neurons at which the twin of the sweep is measured."""

SILHOUETTES_AGREE = 1e-9
"""Largest difference of silhouettes of the sweep; accuracies must be equal."""


def silhouettes(
    compared: tuple[int, int] = (20_000, 100), large: tuple[int, int] = (50_000, 1_000)
) -> Iterator[Row]:
    """Compare at a number of images and classes, and go where all pairs are too many."""
    from sklearn import get_config
    from sklearn.metrics import silhouette_score

    from mispair.evaluation.classification import silhouette_samples

    n, classes = compared
    whole = 0.0
    for precision, tolerance in SCORES_AGREE.items():
        features, labels = clusters(n, classes, NEURONS, precision)
        ours = fastest(lambda: silhouette_samples(features, labels), RUNS)  # noqa: B023
        started = time.process_time()
        score = silhouette_score(features, labels, metric="cosine")
        theirs = time.process_time() - started
        difference = abs(silhouette_samples(features, labels).mean() - score)
        if not difference <= tolerance:
            raise SystemExit(f"the twins have other silhouettes: {difference:.1e} apart")
        yield (
            f"silhouette, {n:,} images, {classes} classes, {NEURONS} neurons in {precision}",
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
    done = alone("-c", f"from bench.evaluation import one_score; one_score({n}, {classes})")
    seconds, megabytes = map(float, done.stdout.split())
    square, features = whole * (n / compared[0]) ** 2, n * NEURONS * 8 / 2**20
    yield (
        f"silhouette, {n:,} images, {classes:,} classes, {NEURONS} neurons in float64",
        f"{seconds:.1f} s, {megabytes:.0f} MB beyond the features' {features:.0f} MB",
        f"{square:.0f} s by scikit-learn, if by the square of the images, with distances in "
        f"portions of {get_config()['working_memory']:,} MB",
        f"{square / seconds:.0f}x",
    )


def one_score(n: int, classes: int) -> None:
    """Print seconds and megabytes of one score in this process."""
    from mispair.evaluation.classification import silhouette_samples

    features, labels = clusters(n, classes, NEURONS, "float64")
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


def pruning(
    images: int = 10_000, classes: int = 100, ks: Sequence[int] = range(200, 501)
) -> Iterator[Row]:
    """Sweep one ranking, and compare with the twin at the first, the middle and the last k."""
    from mispair.evaluation.pruning import PrunableModel
    from tests.evaluation.encoded import encoded_set

    features, labels = clusters(images, classes, D_IMAGE, "float32")
    draw = np.random.default_rng(1)
    # Centres that the text tower sees, too: accuracy is neither chance nor 1.
    centres = np.stack([features[labels == number].mean(0) for number in range(classes)])
    prompts = (centres @ draw.standard_normal((D_IMAGE, D_TEXT))).astype(np.float32)
    image = draw.standard_normal((D_IMAGE, NEURONS), dtype=np.float32)
    text = np.linalg.lstsq(prompts, centres @ image, rcond=None)[0].astype(np.float32)
    data = encoded_set(features, labels, {"one": (prompts, np.arange(classes))})
    model = PrunableModel(data, image, text)
    order = model.ranking("high-purity", "both").order
    started = time.process_time()
    rows = list(model.scores(order, ks))
    ours = time.process_time() - started
    found = {
        (row["k"], row["metric"]): row["value"] for row in rows if row["normalised"] == "masked"
    }
    chosen = [ks[place] for place in np.linspace(0, len(ks) - 1, MEASURED).round().astype(int)]
    seconds: dict[str, float] = {}
    difference = 0.0
    for precision in ("float64", "float32"):
        started = time.process_time()
        scores = [_naive(features, labels, prompts, image, text, order[:k], precision)
                  for k in chosen]  # fmt: skip
        seconds[precision] = (time.process_time() - started) / len(chosen)
        if precision == "float64":
            for k, (accuracy, silhouette) in zip(chosen, scores, strict=True):
                difference = max(difference, abs(silhouette - found[k, "silhouette"]))
                if accuracy != found[k, "acc1"] or not difference <= SILHOUETTES_AGREE:
                    raise SystemExit(f"the twins differ at {k} neurons: {scores}, {found}")
    whole = {precision: own * len(ks) for precision, own in seconds.items()}
    yield (
        f"pruning, one ranking at {len(ks)} numbers of neurons from {ks[0]} to {ks[-1]} of "
        f"{NEURONS}, {images:,} images, {classes} classes",
        f"{ours:.1f} s, {ours / len(ks) * 1e3:.0f} ms each, renormalised scores included",
        f"{whole['float64']:,.0f} s evaluating each from nothing, "
        f"{whole['float32']:,.0f} s in float32 ({len(chosen)} of {len(ks)} measured; "
        f"same accuracy, silhouettes to {difference:.0e})",
        f"{whole['float64'] / ours:.0f}x, {whole['float32'] / ours:.0f}x",
    )
    square = draw.standard_normal((1536, 1536))
    peak = 2 * len(square) ** 3 / fastest(lambda: square @ square, 3) / 1e9
    # Of the silhouettes the products with the clusters' means, and the means; logits once.
    work = 2.0 * images * (sum(ks) * (classes + 1) + max(ks) * classes) / ours / 1e9
    yield (
        "pruning, share of this core's dgemm peak",
        f"{work:.0f} GFLOP/s",
        f"{peak:.0f} GFLOP/s",
        f"{work / peak:.0%}",
    )


def _naive(
    features: np.ndarray,
    labels: np.ndarray,
    prompts: np.ndarray,
    image: np.ndarray,
    text: np.ndarray,
    kept: np.ndarray,
    precision: str,
) -> tuple[float, float]:
    """Evaluate k neurons from the towers' features: accuracy and silhouette."""
    from sklearn.metrics import silhouette_score

    units = (features @ image).astype(precision)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    classes = (prompts @ text).astype(precision)
    classes /= np.linalg.norm(classes, axis=1, keepdims=True)
    mask = np.zeros(image.shape[1], precision)
    mask[kept] = 1
    masked = units * mask
    accuracy = float(((masked @ classes.T).argmax(axis=1) == labels).mean())
    return accuracy, silhouette_score(masked, labels, metric="cosine")
