"""Embeddings and files of a corpus whose wrong captions are known."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import norm

from mispair.audit.probability import rate_rows
from mispair.audit.score import Ranks, deal, rank
from mispair.core import files
from mispair.pairs.index.corpus import CORPUS
from mispair.pairs.index.index import caption_id


def embeddings(n: int, seed: int = 0, noise: float = 1.0, e: int = 32) -> tuple[np.ndarray, ...]:
    """Return embeddings of pictures and of their own captions: less alike with more noise."""
    generator = np.random.default_rng(seed)
    images = generator.standard_normal((n, e))
    texts = images + noise * generator.standard_normal((n, e))
    images, texts = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (images, texts))
    return images.astype(np.float32), texts.astype(np.float32)


def swapped(n: int, rate: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return whose caption each pair has, a share being rolled among themselves, and which."""
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(n)[: round(rate * n)]
    source = np.arange(n)
    source[chosen] = np.roll(chosen, 1)
    return source, source != np.arange(n)


def unit(x: np.ndarray) -> np.ndarray:
    """Return rows of length 1."""
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def photographs(
    n: int, seed: int, apart: float = 1.2, noise: float = 2.2, topics: int = 120
) -> tuple[np.ndarray, ...]:
    """Return embeddings as of towers that were joined on few photographs.

    Pictures and captions have many topics, of which some are frequent. Each kind of embedding
    orders its own kind well; `apart` is how far their common space is out of line, and all pictures
    are on one side of it.
    """
    generator = np.random.default_rng(seed)
    normal = generator.standard_normal
    topic = generator.choice(topics, n, p=generator.dirichlet(np.ones(topics)))
    meaning = normal((topics, 24))[topic] + 0.7 * normal((n, 24))
    common, own = normal((24, 64)) / 24**0.5, normal((24, 64)) / 24**0.5
    bent = np.tanh(meaning @ normal((24, 24)) / 3)
    images = meaning @ common + apart * bent @ own + 0.6 * noise * normal((n, 64))
    texts = meaning @ common + 0.8 * noise * normal((n, 64))
    side = 0.3 * normal(64)
    return unit(images + side), unit(texts - side)


def degenerate(texts: np.ndarray, chosen: np.ndarray, kinds: int = 6) -> np.ndarray:
    """Return embeddings in which the chosen texts are names of files and the like.

    They are a few kinds, each near the mean of all texts and near each other.
    """
    normal = np.random.default_rng(3).standard_normal
    e, m = texts.shape[1], int(chosen.sum())
    centres = unit(texts.mean(axis=0) + 0.5 * unit(normal((kinds, e))))
    held = texts.copy()
    held[chosen] = unit(centres[np.arange(m) % kinds] + 0.4 * unit(normal((m, e))))
    return held


def unlike(kind: str, texts: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return captions of which the wrong ones are of another corpus, empty, or boilerplate."""
    n, e = texts.shape
    normal = np.random.default_rng(9).standard_normal
    if kind == "empty":
        return degenerate(texts, wrong)
    foreign = {"another corpus": unit(normal(e) + 0.3 * normal((n, e))),
               "one text": np.repeat(unit(normal((1, e))), n, axis=0),
               "texts of the corpus": texts[:5][np.arange(n) % 5]}[kind]  # fmt: skip
    return np.where(wrong[:, None], foreign, texts)


def corpora(
    n: int, share: float, kind: str = "", number: int = 50, noise: float = 0.7
) -> Iterator[tuple[Ranks, np.ndarray]]:
    """Yield ranks of some corpora, and which of their captions are wrong: swapped, or `unlike`."""
    for seed in range(number):
        images, texts = embeddings(n, seed, noise)
        source, wrong = swapped(n, share, seed + 1)
        texts = unlike(kind, texts, wrong) if kind else texts[source]
        blocks = ((block, images[block], texts[block]) for block in deal(n, seed))
        yield rank(blocks, (np.arange(n), source), seed), wrong


def audited_shares(
    n: int, share: float, trusted: int = 0, **corpus: Any
) -> Iterator[tuple[float, bool] | None]:
    """Yield the upper limit of the share of wrong captions, and whether its interval has the share.

    For each corpus of `corpora`, some right pairs of which are trusted; None where it is refused.
    """
    for seed, (ranked, wrong) in enumerate(corpora(n, share, **corpus)):
        is_trusted = np.zeros(n, bool)
        right = np.random.default_rng(seed).permutation(np.flatnonzero(~wrong))
        is_trusted[right[:trusted]] = True
        no_neighbours = np.full(n, np.nan), np.empty(0)
        rows, refused = rate_rows(ranked.histograms, ranked.p_values, *no_neighbours, is_trusted)
        if refused:
            yield None
            continue
        row = next(row for row in rows if row["metric"] == "wrong_captions")
        low, high = np.nan_to_num(row["low"]) - 1e-9, row["high"] + 1e-9
        yield row["high"], bool(low <= wrong.mean() <= high)


def kinds_of_pictures(folder: Path, number: int, seed: int) -> tuple["Files", np.ndarray]:
    """Return a corpus of eight near pictures of each kind, and the centres of the kinds."""
    generator, centres = np.random.default_rng(seed), embeddings(number, seed=seed)[0].repeat(8, 0)
    images = unit(centres + 0.08 * generator.standard_normal(centres.shape))
    return Files(folder / "corpus", images, images.copy()), centres


def ranks_near(generator: np.random.Generator, kind: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return ranks among ten similar captions, those of swapped ones, and how hard pictures are.

    Pairs are right (0), or have the caption of an unrelated (1) or a similar picture (2). Hard
    pictures rank their right caption badly among similar ones, and a similar one worse.
    """
    pairs = len(kind)
    hard = generator.normal(size=pairs)

    def ranks(score: np.ndarray) -> np.ndarray:
        better = generator.binomial(10, norm.cdf(score + 0.5 * generator.normal(size=pairs)))
        return (better + generator.random(pairs)) / 11

    right, swapped = ranks(0.7 * hard - 1.5), ranks(0.5 * hard)
    return np.choose(kind, [right, generator.random(pairs), swapped]), swapped, hard


def kinds(generator: np.random.Generator, unrelated: float, similar: float, n: int) -> np.ndarray:
    """Return the kind of each pair: right (0), of an unrelated (1) or a similar picture (2)."""
    kind, order, first = np.zeros(n, int), generator.permutation(n), round(unrelated * n)
    kind[order[:first]], kind[order[first : first + round(similar * n)]] = 1, 2
    return kind


class Files:
    """Files that the steps of the audit read, of n pairs in two groups."""

    def __init__(self, folder: Path, images: np.ndarray, texts: np.ndarray) -> None:
        self.folder, n = folder, len(images)
        folder.mkdir(parents=True, exist_ok=True)
        self.keys = [f"key{number:05d}" for number in range(n)]
        self.captions = [f"caption number {number}" for number in range(n)]
        self.images, self.texts, self.n = images, texts, n
        self.second: tuple[list[str], np.ndarray] = [], texts[:0]
        """Second captions, one for each picture, and their embeddings."""
        self.crops = 1

    def write(self, **metadata: str) -> None:
        """Write all files as they are now."""
        ids = [caption_id(text) for text in self.captions]
        group = np.arange(self.n) % 2
        columns = [
            pa.array(self.keys), pa.array([str(number) for number in group]),
            pa.array((np.arange(self.n) // 2).astype(np.int32)), pa.array(ids),
            pa.array([[] for _ in ids] if not self.second[0] else
                     [[caption_id(text)] for text in self.second[0]], pa.list_(pa.string())),
        ]  # fmt: skip
        pq.write_table(pa.table(columns, schema=CORPUS), self.folder / "corpus.parquet")
        captions = [*self.captions, *self.second[0]]
        texts = pd.DataFrame(
            {"caption_id": [caption_id(text) for text in captions], "caption": captions}
        )
        distinct = texts.drop_duplicates("caption_id")
        files.write_parquet(self.folder / "texts.parquet", distinct)
        about = {"towers": "T", "precision": "fp32", **metadata}
        for part in (0, 1):
            rows = np.flatnonzero(group == part)
            table = pd.DataFrame(
                {"kind": "image", "id": [self.keys[row] for row in rows],
                 "row": np.arange(len(rows)) * self.crops}
            )  # fmt: skip
            files.write_parquet(self.folder / f"rows/{part}.parquet", table)
            held = {"image_features": np.repeat(self.images[rows], self.crops, axis=0)}
            files.write_tensors(
                self.folder / f"features/{part}.safetensors", held,
                {**about, "crops": str(self.crops)},
            )  # fmt: skip
        table = pd.DataFrame(
            {"kind": "text", "id": distinct["caption_id"], "row": np.arange(len(distinct))}
        )
        files.write_parquet(self.folder / "rows/captions-0.parquet", table)
        vectors = np.concatenate([self.texts, self.second[1]])
        held = {"text_features": vectors[distinct.index.to_numpy()]}
        files.write_tensors(self.folder / "features/captions-0.safetensors", held, about)
        e = self.images.shape[1]
        projections = {"image_projection": np.eye(e, dtype=np.float32)[None],
                       "text_projection": np.eye(e, dtype=np.float32)[None],
                       "logit_scale": np.array([np.log(20.0)], np.float32)}  # fmt: skip
        files.write_tensors(self.folder / "projection.safetensors", projections, {"towers": "T"})

    def write_similar(self, k: int = 5) -> Path:
        """Write the captions nearest to each by their embeddings."""
        scores = self.texts @ self.texts.T
        np.fill_diagonal(scores, -np.inf)
        best = np.argsort(-scores, axis=1)[:, :k]
        ids = np.array([caption_id(text) for text in self.captions])
        table = pd.DataFrame(
            {"caption_id": ids, "neighbour_ids": [list(ids[row]) for row in best],
             "similarities": [[1.0] * k for _ in best]}
        )  # fmt: skip
        files.write_parquet(self.folder / "similar.parquet", table)
        return self.folder / "similar.parquet"

    def swap_similar(self, number: int, generator: np.random.Generator) -> np.ndarray:
        """Give some pictures the caption of a near one, and return which have it."""
        nearest = np.argsort(-(self.images @ self.images.T) + 2 * np.eye(self.n), axis=1)[:, :5]
        chosen = generator.permutation(self.n)[:number]
        source = np.arange(self.n)
        source[chosen] = nearest[chosen, generator.integers(0, 5, number)]
        self.captions = [self.captions[row] for row in source]
        self.texts = self.images[source]
        self.write()
        return source != np.arange(self.n)

    def command(self, step: str, **more: str) -> list[str]:
        """Return a command of a step."""
        names = ("0", "1", "captions-0")
        arguments = [
            step, "--corpus", self.folder / "corpus.parquet", "--captions",
            self.folder / "texts.parquet", "--features",
            *(self.folder / f"features/{name}.safetensors" for name in names), "--feature-rows",
            *(self.folder / f"rows/{name}.parquet" for name in names), "--projection",
            self.folder / "projection.safetensors",
        ]  # fmt: skip
        if step != "rate-similar":
            arguments += ["--device", "cpu", "--training", "--shards"]
        if step in ("audit-pairs", "weigh-pairs"):
            more = {"left_out": "", **more}
        for key, value in more.items():
            arguments += [f"--{key.replace('_', '-')}", *([value] if value else [])]
        return [str(argument) for argument in arguments]
