"""The audit: its error and coverage where the true share is known, its speed, and its scores.

Errors on the demo's own corpus, all pairs, with many draws of wrong captions; speed on a million
pairs that are made up, as files on the disk, through the command.

Scores next to those of other methods, on scenes that the shipped towers have not seen, encoded by
them, and on embeddings that are made up like those of towers that were joined on few photographs
(`tests.audit.made_up.photographs`). Wrong captions are exchanged among pairs, or are degenerate:
names of files, addresses, placeholders and texts that are cut off after two words. The checks of
texts are those of the audit; made-up embeddings have no texts, so there the degenerate ones count
as found.

Limits and intervals of few pairs, whose embeddings are made up.
"""

import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.processor_time import alone
from mispair.audit.probability import probabilities_of
from mispair.audit.rate import LEAST_TRUSTED, untrusted_rates
from mispair.audit.score import deal, rank
from mispair.audit.text_checks import checked, is_empty
from mispair.audit.trials import neighbour_disagreement, two_gaussians
from tests.audit.made_up import audited_shares, corpora, degenerate, photographs, swapped

Row = tuple[str, str, str, str]
Replaced = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "results"
RATES = (0.0, 0.05, 0.1, 0.3, 0.5, 0.8)
DRAWS = 17
SIMILAR_DRAWS = 5
TRAINED_DRAWS = 2
TRUSTED = 2000

PAIRS, WIDTH, PARTS = 1_000_000, 512, 10

SCORED = 2000
"""Pairs whose scores are compared."""
SHARES = (0.03, 0.12, 0.3, 0.5)
SEED = 1
"""Seed of the scenes: the shipped towers learned from those of seed 0."""

CORPORA = 100
"""Corpora of few pairs that are drawn for each number, model, kind and share of wrong captions."""
NOISES, FEW_SHARES = (0.7, 1.0, 2.0), (0.0, 0.2, 0.5)
FEW, FEW_TRUSTED = (20, 30, 50, 100, 200), (40, 60, 100, 200)
KINDS = ("another corpus", "empty", "one text")


def measure() -> Iterator[Row]:
    """Measure errors on the demo's corpus, and the time of a large one."""
    if (RESULTS / "pairs/scenes/similar.parquet").is_file():
        yield from on_scenes(RESULTS, DRAWS, SIMILAR_DRAWS, TRAINED_DRAWS)
    else:
        yield ("audit, errors on scenes", "not measured", "run make demo first", "")
    yield speed(PAIRS, WIDTH, PARTS)


def on_scenes(results: Path, draws: int, similar_draws: int, trained_draws: int) -> Iterator[Row]:
    """Estimate shares of wrong captions of the demo's corpus, draw after draw."""
    from mispair.audit import trials
    from mispair.audit.captions import caption_texts, groups_of, nearest_captions
    from mispair.audit.pairs import Audited, embedded, features_of_sample
    from mispair.core import files
    from mispair.pairs.captions.caption_texts import read_captioned_pairs
    from mispair.towers.finetuning.projection import Projections

    folder = results / "features/scenes/scenes-small"
    pairs = read_captioned_pairs(results / "pairs/scenes/corpus.parquet", 0)
    features = sorted([*folder.glob("0*.safetensors"), *folder.glob("captions-*.safetensors")])
    rows = [path.with_suffix(".parquet") for path in features]
    arms = results / "arms/scenes/scenes-small"
    tensors, model = files.read_tensors(arms / "untouched/projection.safetensors")
    tables = sorted((results / "pairs/scenes").glob("captions-*.parquet"))
    texts, of_pair = caption_texts(tables, pairs.caption_ids)
    words = groups_of(texts)[of_pair]
    nearest = nearest_captions(results / "pairs/scenes/similar.parquet", pairs.caption_ids)
    start = Projections.from_tensors(tensors)
    every = Audited(np.arange(len(words)), pairs.caption_ids)
    found: list[dict[str, float]] = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        embedded(
            every, every.image, pairs, features, rows, (start.image[0], start.text[0]),
            model.get("towers"), Path(scratch),
        ) as embeddings,
    ):  # fmt: skip
        for draw in range(draws):
            same = every.image, words
            trial = trials.AuditTrial(embeddings, every.image, same, nearest, draw, "cpu")
            random = [trials.inject("random", rate, words, nearest, draw) for rate in RATES]
            similar = [trials.inject("similar", rate, words, nearest, draw) for rate in RATES[1:]]
            for injection in [*random, *(similar if draw < similar_draws else [])]:
                found += trials.untouched_rows(trial, injection, TRUSTED)
            if draw < trained_draws:
                sources = [injection.source for injection in random]
                held = features_of_sample(pairs, every.image, sources, features, rows)
                found += trials.trained_rows(trial, random, held, start)
    for scheme, scorer, method in (
        ("random", "untouched", "mixture"),
        ("random", "untouched", "storey"),
        ("random", "untouched", "trusted"),
        ("random", "cross-fitted", "mixture"),
        ("random", "memorised", "mixture"),
        ("similar", "untouched", "similar"),
    ):
        yield _errors(found, scheme, scorer, method)


def _errors(rows: list[dict[str, float]], scheme: str, scorer: str, method: str) -> Row:
    own = [row for row in rows if (row["scheme"], row["scorer"], row["method"]) ==
           (scheme, scorer, method)]  # fmt: skip
    means = []
    for rate in sorted({row["injected"] for row in own}):
        errors = [row["value"] - row["made"] for row in own if row["injected"] == rate]
        worst = max(map(abs, errors))
        means.append(f"{rate:g}: {np.mean(errors):+.4f}, worst {worst:.3f}")
    # Without a lower limit `low` is NaN.
    covered = sum(
        row["made"] <= row["high"] + 1e-9 and not row["low"] > row["made"] + 1e-9 for row in own
    )
    return (
        f"audit of scenes, {scheme} captions, {scorer}, {method}",
        "error by share " + "; ".join(means),
        f"{len(own)} draws",
        f"{covered} of {len(own)} intervals cover",
    )


def speed(pairs: int, width: int, parts: int) -> Row:
    """Audit made-up features on the disk, through the command, on two threads."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = write_corpus(folder, pairs, width, parts)
        started = time.perf_counter()
        done = alone("-m", "mispair", *command, OMP_NUM_THREADS="2")
        seconds = time.perf_counter() - started
        rows = json.loads((folder / "audit.json").read_text())["rows"]
    peak = done.stderr.split("peak memory was ")[1].split()[0]
    share = next(row["value"] for row in rows if row["metric"] == "wrong_captions")
    from mispair.audit.score import BLOCK

    least = 2 * pairs * BLOCK * width / square_peak()
    return (
        f"audit, {pairs:,} pairs x {width}, 2 cores, from features on the disk",
        f"{seconds:.0f} s, {peak} MB at its peak; share {share:.3f} (true 0.300)",
        f"{least:.0f} s for the products of its blocks at torch.matmul's peak of both cores",
        f"{least / seconds:.0%}",
    )


def square_peak() -> float:
    """Return operations per second of large products on two cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    matrix = torch.randn(2048, 2048)
    best = 0.0
    for _ in range(5):
        started = time.perf_counter()
        matrix @ matrix
        best = max(best, 2 * 2048**3 / (time.perf_counter() - started))
    torch.set_num_threads(threads)
    return best


def write_corpus(folder: Path, pairs: int, width: int, parts: int) -> list[str]:
    """Write features of a corpus with 0.3 of its captions wrong; return the command that audits."""
    from mispair.core import files
    from mispair.pairs.index.corpus import CORPUS
    from mispair.pairs.index.identities import hexadecimal

    size = pairs // parts
    about = {"towers": "T", "precision": "fp32"}
    names, tables = [], []
    wrong = np.random.default_rng(1).random(pairs) < 0.3
    for part in range(parts):
        draw = np.random.default_rng([2, part])
        numbers = np.arange(part * size, (part + 1) * size)
        keys = [f"{number:09d}" for number in numbers]
        ids = hexadecimal(numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
        images = draw.standard_normal((size, width), np.float32)
        texts = draw.standard_normal((size, width), np.float32)
        texts[~wrong[numbers]] += 0.25 * images[~wrong[numbers]]
        for kind, name, ids_of, array in (
            ("image", f"{part:04d}", pa.array(keys), images),
            ("text", f"captions-{part}", ids, texts),
        ):
            files.write_tensors(
                folder / f"f/{name}.safetensors", {f"{kind}_features": array}, about
            )
            table = pa.table({"kind": pa.array([kind] * size), "id": ids_of,
                              "row": pa.array(np.arange(size))})  # fmt: skip
            (folder / "r").mkdir(exist_ok=True)
            pq.write_table(table, folder / f"r/{name}.parquet")
            names.append(name)
        empty = pa.array([[]] * size, pa.list_(pa.string()))
        columns = [pa.array(keys), pa.array([f"{part:04d}"] * size),
                   pa.array(np.arange(size, dtype=np.int32)), ids, empty]  # fmt: skip
        tables.append(pa.table(columns, schema=CORPUS))
        captions = pa.array([f"caption {key}" for key in keys])
        pq.write_table(pa.table({"caption_id": ids, "caption": captions}),
                       folder / f"texts-{part}.parquet")  # fmt: skip
    pq.write_table(pa.concat_tables(tables), folder / "corpus.parquet")
    eye = np.eye(width, dtype=np.float32)[None]
    held = {"image_projection": eye, "text_projection": eye}
    files.write_tensors(folder / "projection.safetensors", held, {"towers": "T"})
    words = [
        "audit-pairs", "--training", "--shards", "--corpus", folder / "corpus.parquet",
        "--captions",
        *(folder / f"texts-{part}.parquet" for part in range(parts)), "--features",
        *(folder / f"f/{name}.safetensors" for name in names), "--feature-rows",
        *(folder / f"r/{name}.parquet" for name in names), "--projection",
        folder / "projection.safetensors", "--similar", "--trusted", "--audit",
        folder / "audit.parquet", "--rates", folder / "audit.json", "--device", "cpu",
    ]  # fmt: skip
    return [str(word) for word in words]


def scores() -> Iterator[Row]:
    """Compare scores of pairs."""
    yield from rows("scenes", *scenes(SCORED))
    different = np.arange(SCORED)
    for name, apart, noise in (("", 1.2, 2.2), (", further apart", 2.5, 1.4)):
        images, texts = photographs(SCORED, 0, apart, noise)

        def empty(chosen: np.ndarray, texts: np.ndarray = texts) -> tuple[np.ndarray, np.ndarray]:
            return degenerate(texts, chosen), chosen

        yield from rows(f"photographs{name}", images, texts, different, empty)


def few() -> Iterator[Row]:
    """Measure how often limits and intervals of few pairs hold, where they are given."""
    for noise in NOISES:
        ((ranked, _),) = corpora(SCORED, 0, number=1, noise=noise)
        model = f"right captions win {1 - ranked.p_values.mean():.2%} of comparisons"
        for n in FEW:
            cells = [[*audited_shares(n, share, number=CORPORA, noise=noise)]
                     for share in FEW_SHARES]  # fmt: skip
            yield _held(f"limit of {n} pairs, {model}, shares 0, 0.2, 0.5", cells)
    for n in FEW[:3]:
        cells = [[*audited_shares(n, share, kind=kind, number=CORPORA)]
                 for kind in KINDS for share in FEW_SHARES[1:]]  # fmt: skip
        yield _held(f"limit of {n} pairs, wrong ones: {', '.join(KINDS)}; shares 0.2, 0.5", cells)
    for n in FEW_TRUSTED:
        cells = [[*audited_shares(n, share, LEAST_TRUSTED, number=CORPORA, noise=noise)]
                 for noise in NOISES for share in FEW_SHARES]  # fmt: skip
        yield _held(f"interval of {n} pairs, {LEAST_TRUSTED} of them trusted, all models", cells)


def _held(what: str, cells: Sequence[Sequence[tuple[float, bool] | None]]) -> Row:
    """Return how often intervals hold, their mean upper limit and refusals, by cell."""
    given = [[*filter(None, cell)] for cell in cells]
    means = [np.mean(cell, axis=0) if cell else (np.nan, np.nan) for cell in given]
    limits, held = (
        ", ".join(f"{each:.2f}" for each in column) for column in zip(*means, strict=True)
    )
    refused = (str(len(cell) - len(of)) for cell, of in zip(cells, given, strict=True))
    return (
        what,
        f"holds in {held.replace('nan', '–')}",
        f"0.95; {CORPORA} corpora a cell, refused: {', '.join(refused)}",
        f"mean limit {limits.replace('nan', '–')}",
    )


def rows(
    name: str, images: np.ndarray, texts: np.ndarray, words: np.ndarray, empty: Replaced
) -> Iterator[Row]:
    """Yield a row for each kind and share of wrong captions.

    Parameters
    ----------
    name : str
        Name of the corpus.
    images, texts : (n, e) arrays
        Embeddings of pictures and of their own captions.
    words : (n,) int array
        Captions with the same words have the same number.
    empty : callable
        Returns the embeddings of all captions, of which the chosen ones, (n,) bool, are degenerate,
        and which of them the checks of texts find.
    """
    for kind in ("exchanged", "degenerate"):
        for share in SHARES:
            source, _ = swapped(len(images), share)
            wrong = words[source] != words
            held, captions, found = words[source], texts[source], np.zeros(len(wrong), bool)
            if kind == "degenerate":
                held, (captions, found) = words, empty(wrong)
            what = f"AUROC, AUPRC: {name}, {kind} captions, {share:g} wrong"
            yield _row(what, images, captions, held, wrong, found)


def _row(
    what: str, images: np.ndarray, texts: np.ndarray, words: np.ndarray, wrong: np.ndarray,
    empty: np.ndarray,
) -> Row:  # fmt: skip
    from sklearn.metrics import average_precision_score, roc_auc_score

    blocks = ((block, images[block], texts[block]) for block in deal(len(images), 0))
    ranked = rank(blocks, (np.arange(len(images)), words), 0, scored=True, empty=empty)
    rate = untrusted_rates(ranked.histograms)[1].value
    scores = {
        "mispair": probabilities_of(ranked, rate, 0),
        "cosine": -ranked.similarity,
        "two Gaussians (NCR)": two_gaussians(ranked.similarity, 0),
        "LEMoN": neighbour_disagreement(images, texts),
    }
    areas = {
        name: np.array([roc_auc_score(wrong, score), average_precision_score(wrong, score)])
        for name, score in scores.items()
    }
    own = areas.pop("mispair")
    less = own - np.max([*areas.values()], axis=0)
    return (
        what, "{:.4f}, {:.4f}".format(*own),
        "; ".join("{} {:.4f}, {:.4f}".format(name, *area) for name, area in areas.items()),
        "{:+.4f}, {:+.4f}".format(*less),
    )  # fmt: skip


def scenes(pairs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Replaced]:
    """Return what `rows` takes of new scenes and their captions."""
    from pathlib import Path

    import torch
    from PIL import Image

    import mispair.towers
    from mispair.audit.pairs import project
    from mispair.pairs.scenes.scenes import make_pair
    from mispair.pairs.steps.make_scenes import Settings
    from mispair.towers.loading import load_towers

    towers = load_towers(Path(mispair.towers.__file__).parent / "shipped/scenes-small")
    settings = Settings()
    made = [
        make_pair(
            f"{number:06d}", seed=SEED, size=settings.image_size, quality=settings.jpeg_quality,
            high_quality_share=1.0, spurious=0.0,
        )
        for number in range(pairs)
    ]  # fmt: skip

    def of_texts(captions: list[str]) -> np.ndarray:
        parts = [
            towers.text_features(towers.tokenizer(captions[start : start + 500]))
            for start in range(0, len(captions), 500)
        ]
        return project(torch.cat(parts).numpy(), towers.text_projection.numpy())

    captions = [pair["caption"] for pair in made]
    pictures = [
        towers.preprocess(Image.open(io.BytesIO(pair["jpg"])).convert("RGB")) for pair in made
    ]
    parts = [
        towers.image_features(torch.stack(pictures[start : start + 500]))
        for start in range(0, pairs, 500)
    ]
    images = project(torch.cat(parts).numpy(), towers.image_projection.numpy())

    def empty(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        held = [
            _degenerate(number, text) if wrong else text
            for number, (text, wrong) in enumerate(zip(captions, chosen, strict=True))
        ]
        distinct, of_pair = np.unique(held, return_inverse=True)
        names = checked(pa.array(distinct), np.bincount(of_pair))
        return of_texts(held), is_empty(names)[of_pair]

    _, words = np.unique(captions, return_inverse=True)
    return images, of_texts(captions), words, empty


def _degenerate(number: int, caption: str) -> str:
    texts = (
        f"IMG_{number:04d}.jpg", f"https://pictures.example/{number}.png", "untitled",
        " ".join(caption.split()[:2]) + "...",
    )  # fmt: skip
    return texts[number % len(texts)]
