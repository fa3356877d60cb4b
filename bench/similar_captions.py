"""The most similar captions against a dense matrix, and against faiss's exact search.

Captions: a first script makes scikit-learn's TF-IDF vectors, takes the dense matrix of their
cosines and partitions each row of it. Features: faiss's `IndexFlatIP`, which is exact, too.

Every search runs in a process of its own, on one thread and on inputs that it reads from a file,
because a process can tell no more than the most memory it ever held. Times are the processor's, so
that a busy machine does not count; the best of the runs is taken, both sides taking turns. Memory
is what was held on top of the inputs and the imported libraries.

``python -m bench.similar_captions NUMBER ...`` searches by visits among very many features, and
``python -m bench.similar_captions words NUMBER ...`` approximately among very many captions.
"""

import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.processor_time import alone, peak_memory
from mispair.pairs.neighbours.similar_captions import measured_recall
from mispair.pairs.steps.find_similar_captions import has_seismic

Row = tuple[str, str, str, str]

CAPTIONS, MANY_CAPTIONS, VECTORS, WIDTH, K = 20_000, 300_000, 100_000, 512, 10

VISITED = (30_000, 100_000, 300_000)

VECTORS_ON_A_GPU = 1_000_000

CC3M = 3_000_000

RUNS = 2

ROUNDING = 1e-5
"""Largest difference of similarities that is put down to rounding."""


def measure() -> Iterator[Row]:
    """Search by all sides and compare what they found, how long it took and what they held."""
    import torch

    yield from _on_a_core()
    if torch.cuda.is_available():
        yield on_a_gpu(VECTORS_ON_A_GPU, "cuda")


def on_a_gpu(number: int, device: str) -> Row:
    """Search features on a device, and say how near its products come to its peak."""
    from bench.simulation import device_title, square_rate
    from mispair.pairs.neighbours.similarity import nearest_rows

    vectors = _vectors(number)
    peak = square_rate(device)
    started = time.perf_counter()
    found = sum(len(others) for others, _ in nearest_rows(vectors, K, device=device))
    seconds = time.perf_counter() - started
    if found != number:
        raise SystemExit(f"{found} of {number} rows have neighbours")
    least = float(number) ** 2 * WIDTH / peak  # half of the products serves both sides of a pair
    return (
        f"similar captions, the {K} nearest of {number:,} x {WIDTH} features on "
        f"{device_title(device)}",
        f"{seconds:.2f} s",
        f"{least:.2f} s for the products at torch.matmul's peak, {peak / 1e12:.1f} TFLOP/s; "
        f"{seconds * (CC3M / number) ** 2 / 60:.0f} min at 3 million, if by the square",
        f"{least / seconds:.0%} of peak",
    )


def _on_a_core() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / f"{CAPTIONS}.json").write_text(json.dumps(_captions(CAPTIONS)))
        many = _captions(MANY_CAPTIONS, vocabulary=20_000, first=2)
        (folder / f"{MANY_CAPTIONS}.json").write_text(json.dumps(many))
        ours, dense = _compare(folder, f"{CAPTIONS}.json", "_by_words", "_by_dense_matrix")
        _agree(ours, dense)
        yield from _rows(f"{CAPTIONS:,} captions by TF-IDF", ours, dense, "the dense matrix")
        sides = ("_by_words", "_by_pruning") if has_seismic() else ("_by_words",)
        exact, *pruned = _compare(folder, f"{MANY_CAPTIONS}.json", *sides, runs=1)
        yield (
            f"similar captions, {MANY_CAPTIONS:,} by TF-IDF",
            f"{exact.seconds:.1f} s, {exact.megabytes:.0f} MB",
            "",
            f"{_whole(exact, MANY_CAPTIONS):.1f} h at 3 million, if by the square of their number",
        )
        for found in pruned:
            yield (
                f"similar captions, {MANY_CAPTIONS:,} by TF-IDF, approximately",
                f"{found.seconds:.1f} s, {found.megabytes:.0f} MB, "
                f"recall {_recall_by_words(found, exact):.3f}",
                f"{exact.seconds:.1f} s by the exact search",
                f"{exact.seconds / found.seconds:.1f}x",
            )
        np.save(folder / "vectors.npy", _vectors(VECTORS))
        if importlib.util.find_spec("faiss") is None:
            (ours,) = _compare(folder, "vectors.npy", "_by_blocks")
            missing = "faiss-cpu is not installed"
            yield ("similar captions by features", f"{ours.seconds:.1f} s", missing, "")
            return
        ours, faiss = _compare(folder, "vectors.npy", "_by_blocks", "_by_faiss")
        _agree(ours, faiss)
        what = f"{VECTORS:,} x {WIDTH} features"
        yield from _rows(what, ours, faiss, "faiss's IndexFlatIP")
        yield (
            f"similar captions, 3 million x {WIDTH} features on one core, if by the square",
            f"{_whole(ours, VECTORS):.1f} h",
            f"{_whole(faiss, VECTORS):.1f} h by faiss",
            f"{faiss.seconds / ours.seconds:.1f}x",
        )
    yield from by_number(VISITED, exact=ours.seconds / VECTORS**2)


def by_number(numbers: Sequence[int], exact: float | None = None) -> Iterator[Row]:
    """Search by visits among more and more features in half precision, mapped from a file.

    Parameters
    ----------
    numbers : sequence of int
        Numbers of features.
    exact : float, optional
        Seconds of the exact search for each two features; with them, the last search is compared
        with faiss's inverted file.
    """
    seconds = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in numbers:
            write_nested(folder / "vectors.npy", number)
            last = exact is not None and number == numbers[-1]
            sides = ("_by_visits", "_by_ivf") if last else ("_by_visits",)
            runs = RUNS if exact is not None and not last else 1
            ours, *faiss = _compare(folder, "vectors.npy", *sides, runs=runs)
            seconds.append(ours.seconds)
            beside = [] if exact is None else [
                f"{exact * number**2:.1f} s by the exact search, if by the square"
            ]  # fmt: skip
            beside += [
                f"{found.seconds:.1f} s by faiss's IndexIVFFlat, recall {found.recall:.3f}"
                for found in faiss
            ]
            yield (
                f"similar captions, {number:,} x {WIDTH} features by visits",
                f"{ours.seconds:.1f} s, recall {ours.recall:.3f}, {ours.megabytes:.0f} MB",
                "; ".join(beside),
                f"{faiss[0].seconds / ours.seconds:.1f}x" if faiss else "",
            )
    if len(numbers) < 2:
        return
    exponent = np.polyfit(np.log(numbers), np.log(seconds), 1)[0]
    whole = seconds[-1] * (CC3M / numbers[-1]) ** exponent
    yield (
        "similar captions by visits, exponent of the time in their number",
        f"{exponent:.2f}",
        "1.5 for visits of a fixed number of cells, 2 for the exact search",
        f"{whole / 60:.0f} min of a core at 3 million, if by this exponent",
    )


def by_words_and_number(numbers: Sequence[int]) -> Iterator[Row]:
    """Search approximately among more and more captions that share words as Flickr8k's do."""
    for number in numbers:
        texts = _captions(number, vocabulary=20_000, first=2)
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "texts.json").write_text(json.dumps(texts))
            (found,) = _compare(Path(name), "texts.json", "_by_pruning", runs=1)
        yield (
            f"similar captions, {number:,} by TF-IDF, approximately",
            f"{found.seconds:.1f} s, {found.megabytes:.0f} MB",
            "",
            "",
        )


class Found:
    """What a search found, in seconds and with megabytes at its peak."""

    def __init__(self, runs: list[Path]) -> None:
        loaded = [np.load(path) for path in runs]
        self.others, self.scores = loaded[0]["others"], loaded[0]["scores"]
        self.seconds = min(float(run["seconds"]) for run in loaded)
        self.megabytes = min(float(run["megabytes"]) for run in loaded)
        self.recall = float(loaded[0]["recall"])


def _rows(what: str, ours: Found, theirs: Found, name: str) -> Iterator[Row]:
    yield (
        f"similar captions, the {K} nearest of {what}",
        f"{ours.seconds:.1f} s",
        f"{theirs.seconds:.1f} s by {name} (same neighbours)",
        f"{theirs.seconds / ours.seconds:.1f}x",
    )
    yield (
        f"similar captions, peak memory beyond the input, {what}",
        f"{ours.megabytes:.0f} MB",
        f"{theirs.megabytes:.0f} MB by {name}",
        f"{theirs.megabytes / ours.megabytes:.1f}x",
    )


def _recall_by_words(found: Found, exact: Found) -> float:
    sides = (np.where(side.scores > 0, side.scores, -np.inf) for side in (found, exact))
    return measured_recall(*sides)[0]


def _whole(found: Found, number: int) -> float:
    return found.seconds * (CC3M / number) ** 2 / 3600


def _agree(ours: Found, theirs: Found) -> None:
    """Stop unless both found the same, but for others that are as near up to rounding."""
    difference = np.abs(ours.scores - theirs.scores).max()
    same = (np.sort(ours.others, axis=1) == np.sort(theirs.others, axis=1)).all(axis=1)
    # Where lists differ, all that differs must be as near as the last, which is a tie.
    last = ours.scores[:, -1:]
    for one, other in ((ours, theirs), (theirs, ours)):
        shared = (one.others[:, :, None] == other.others[:, None, :]).any(axis=2)
        tied = np.abs(one.scores - last) <= ROUNDING
        if not (difference <= ROUNDING and (shared | tied).all()):
            raise SystemExit(
                f"the twins find other neighbours: similarities differ by {difference:.1e}, "
                f"{(~same).sum()} lists of {len(same)} differ"
            )


# What is compared ---------------------------------------------------------------------------------


def _by_words(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
    from mispair.pairs.neighbours.tfidf import nearest_texts, tfidf

    texts = json.loads(path.read_text())
    yield None
    yield _together(nearest_texts(tfidf(texts), K))


def _by_pruning(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
    from mispair.pairs.neighbours.pruned import nearest_by_pruning
    from mispair.pairs.neighbours.tfidf import tfidf

    texts = json.loads(path.read_text())
    yield None
    yield _together(nearest_by_pruning(tfidf(texts), K).portions)


def _by_dense_matrix(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    texts = json.loads(path.read_text())
    yield None
    cosines = cosine_similarity(TfidfVectorizer(stop_words="english").fit_transform(texts))
    others = np.empty((len(texts), K), np.int64)
    for number, row in enumerate(cosines):
        row[number] = -1
        largest = np.argpartition(-row, K)[:K]
        others[number] = largest[np.argsort(-row[largest], kind="stable")]
    yield others, np.take_along_axis(cosines, others, axis=1).astype(np.float32)


def _by_blocks(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
    import torch

    from mispair.pairs.neighbours.similarity import nearest_rows

    torch.set_num_threads(1)
    vectors = np.load(path)
    yield None
    yield _together(nearest_rows(vectors, K))


def _by_visits(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
    import torch

    from mispair.pairs.neighbours.approximate import nearest_by_cells

    torch.set_num_threads(1)
    vectors = np.load(path, mmap_mode="r")
    yield None
    yield _together(nearest_by_cells(vectors, K).portions)


def _by_ivf(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
    """Search faiss's inverted file with as many lists, in more and more of them, as ours does."""
    import faiss

    from mispair.pairs.neighbours.approximate import QUERIES, RECALL

    faiss.omp_set_num_threads(1)
    vectors = np.load(path).astype(np.float32)
    queries = np.random.default_rng(1).permutation(len(vectors))[:QUERIES]
    exact = faiss.IndexFlatIP(vectors.shape[1])
    exact.add(vectors)
    yield None
    known, _ = exact.search(vectors[queries], K + 1)
    lists = round(2 * len(vectors) ** 0.5)
    index = faiss.IndexIVFFlat(
        faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], lists, faiss.METRIC_INNER_PRODUCT
    )
    index.train(vectors)
    index.add(vectors)
    for index.nprobe in range(1, lists):
        scores, _ = index.search(vectors[queries], K + 1)
        if (scores >= known[:, -1:] - 1e-6).mean() >= RECALL:
            break
    scores, others = index.search(vectors, K + 1)
    yield others[:, 1:], scores[:, 1:]


def _by_faiss(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
    import faiss

    faiss.omp_set_num_threads(1)
    vectors = np.load(path)
    yield None
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    scores, others = index.search(vectors, K + 1)
    # Each row finds itself, but not always first: rounding can put an equal one before it.
    own = others == np.arange(len(others))[:, None]
    own[~own.any(axis=1), -1] = True
    kept = (len(others), K)
    yield others[~own].reshape(kept), scores[~own].reshape(kept)


def _together(portions: Iterator[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    others, scores = (np.concatenate(parts) for parts in zip(*portions, strict=True))
    scores[np.isneginf(scores)] = 0  # nobody else shares a word, so all the others are as far
    return others, scores


def _captions(number: int, vocabulary: int = 50_000, first: int = 10) -> list[str]:
    """Draw texts of about six words each from a vocabulary by Zipf's law.

    The commonest word stands in 7 % of them, as "person" or "background" in captions of the web.
    With a vocabulary of 20,000 and `first` 2 two texts share 0.2 words, as two captions of Flickr8k
    do.
    """
    draw = np.random.default_rng(0)
    lengths = np.maximum(draw.poisson(6.5, number), 1)
    words = _zipf(draw, vocabulary, lengths.sum(), first)
    parts = np.split(words, lengths.cumsum()[:-1])
    return [" ".join(f"word{word}" for word in part) for part in parts]


def _zipf(draw: np.random.Generator, kinds: int, number: int, first: int = 10) -> np.ndarray:
    share = 1 / (np.arange(kinds) + first)
    return np.searchsorted((share / share.sum()).cumsum()[:-1], draw.random(number))


def _vectors(number: int) -> np.ndarray:
    """Draw features in 2,000 clusters around directions that share one component."""
    from mispair.pairs.neighbours.similarity import unit_rows

    draw = np.random.default_rng(0)
    centres = draw.standard_normal((2_000, WIDTH)) + draw.standard_normal(WIDTH)
    noise = draw.standard_normal((number, WIDTH), dtype=np.float32)
    return unit_rows(centres[draw.integers(len(centres), size=number)] + 0.7 * noise)


def write_nested(path: Path, number: int) -> None:
    """Write features of captions in topics, scenes in topics, and variants of scenes.

    Directions of each level are drawn around those of the level above: 50 topics, 50 scenes in
    each, 50 variants of each. So at any number of captions the nearest share the deepest level that
    has others. Of 20,000, the median cosine is 0.72 with the nearest, 0.53 with the tenth, and 0.12
    is the mean of all.
    """
    from mispair.pairs.neighbours.similarity import unit_rows

    draw = np.random.default_rng(0)
    directions = draw.standard_normal((1, WIDTH), dtype=np.float32) * 0.5
    for spread in (0.9, 0.75, 0.55):
        directions = np.repeat(directions, 50, axis=0)
        noise = draw.standard_normal(directions.shape, dtype=np.float32)
        directions += np.float32(spread) * noise
    rows = np.lib.format.open_memmap(path, "w+", np.float16, (number, WIDTH))
    for start in range(0, number, 100_000):
        some = directions[draw.integers(len(directions), size=min(100_000, number - start))]
        noise = draw.standard_normal(some.shape, dtype=np.float32)
        rows[start : start + len(some)] = unit_rows(some + np.float32(0.65) * noise)
    rows.flush()


# Processes ----------------------------------------------------------------------------------------


def _compare(folder: Path, inputs: str, *searches: str, runs: int = RUNS) -> list[Found]:
    done: dict[str, list[Path]] = {search: [] for search in searches}
    for run in range(runs):
        for search, results in done.items():
            results.append(folder / f"{search}-{run}-{inputs}.npz")
            code = "import sys; from bench.similar_captions import run; run(*sys.argv[1:])"
            alone("-c", code, search, str(folder / inputs), str(results[-1]))
    return [Found(results) for results in done.values()]


def run(search: str, inputs: str, results: str) -> None:
    """Search in this process, and save what was found, the seconds and the megabytes."""
    steps = globals()[search](Path(inputs))
    next(steps)
    before, started = peak_memory(forget=True), time.process_time()
    others, scores = next(steps)
    seconds, megabytes = time.process_time() - started, peak_memory() - before
    found = {"others": others, "scores": scores, "seconds": seconds, "megabytes": megabytes}
    np.savez(results, **found, recall=_recall_of(Path(inputs), scores))


def _recall_of(inputs: Path, scores: np.ndarray) -> float:
    """Return the share of the nearest of 200 features that were found; 1 for captions."""
    if inputs.suffix != ".npy":
        return 1.0
    vectors = np.load(inputs, mmap_mode="r")
    queries = np.random.default_rng(2).permutation(len(vectors))[:200]
    asked = vectors[queries].astype(np.float32)
    parts = np.array_split(vectors, 1 + len(vectors) // 100_000)
    cosines = np.hstack([asked @ part.astype(np.float32).T for part in parts])
    cosines[np.arange(len(queries)), queries] = -1
    last = np.partition(cosines, -K, axis=1)[:, -K]
    found = scores[queries] >= last[:, None] - ROUNDING
    return float(np.minimum(found.sum(axis=1), K).mean() / K)


if __name__ == "__main__":
    by_words = sys.argv[1:2] == ["words"]
    numbers = [int(number.replace(",", "")) for number in sys.argv[1 + by_words :]]
    for row in by_words_and_number(numbers) if by_words else by_number(numbers):
        print("; ".join(filter(None, row)), flush=True)
