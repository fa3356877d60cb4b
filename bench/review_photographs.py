"""Intervals of a person's labels on photographs, with kinds of wrong captions that are made here.

``python -m bench.review_photographs PACKAGES SHARD SHARD`` prints a table. The shards are two of
img2dataset's, whose JSON members have several captions of each photograph (``captions_all``), as of
Flickr8k; each caption is a pair. ``mispair fetch-emoji --towers-only`` writes PACKAGES. Towers of
`join-towers` learn from the photographs of a shard, and the audit judges those of the other one.
"""

import json
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mispair.audit.pairs import project
from mispair.audit.probability import judged
from mispair.audit.score import deal, rank
from mispair.core.distributions import wilson
from mispair.review.draw import sizes, strata
from mispair.review.measure import interval

SHARES, LABELS, CORRUPTIONS, DRAWS = (0.05, 0.2, 0.5), (50, 100, 200), 2, 2000

OBJECTS = (
    "dog", "cat", "man", "woman", "boy", "girl", "child", "horse", "bike", "car", "ball", "beach",
    "street", "snow", "water", "grass",
)  # fmt: skip
NUMBERS = {"a": "five", "an": "seven", "one": "six", "two": "four", "three": "nine", "four": "two"}
GLOSSARY = """
a=ein an=ein the=der dog=Hund dogs=Hunde man=Mann woman=Frau boy=Junge girl=Mädchen child=Kind
people=Leute men=Männer water=Wasser white=weiß black=schwarz brown=braun red=rot blue=blau
green=grün yellow=gelb two=zwei three=drei in=in on=auf is=ist are=sind and=und with=mit of=von
to=zu at=bei while=während through=durch over=über running=rennend runs=rennt jumping=springend
playing=spielend standing=stehend sitting=sitzend wearing=tragend holding=haltend ball=Ball
grass=Gras snow=Schnee beach=Strand street=Straße young=jung little=klein large=groß
"""
GERMAN = dict(each.split("=") for each in GLOSSARY.split())


class Half(NamedTuple):
    """Photographs (p, e) of one half, their features (p, d), and the captions of each."""

    images: np.ndarray
    features: np.ndarray
    captions: list[list[str]]
    embed: Callable[[list[str]], np.ndarray]


def halves(packages: Path, shards: list[Path]) -> list[Half]:
    """Return both halves, each as towers see it that learned from the other."""
    from mispair.emoji.joining import EncodedPairs, features_of_pairs, join
    from mispair.emoji.joining_settings import Joining
    from mispair.towers.encoding import encode_texts
    from mispair.towers.loading import Towers, load_towers

    pairs, captions = [], []
    for shard in shards:
        with tarfile.open(shard) as opened:
            members = {one.name: opened.extractfile(one) for one in opened}
            content = {name: part.read() for name, part in members.items() if part is not None}
        listed = [json.loads(of) for name, of in sorted(content.items()) if name.endswith(".json")]
        captions.append([[text.strip() for text in of["captions_all"]] for of in listed])
        pictures = [content[f"{of['key']}.jpg"] for of in listed]
        pairs.append(EncodedPairs(pictures, [of[0] for of in captions[-1]], [shard]))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seen, judged_ in ((0, 1), (1, 0)):
            join(packages, pairs[seen], Path(folder) / str(seen), Joining())
            towers = load_towers(Path(folder) / str(seen))
            features = features_of_pairs(towers, pairs[judged_]).image_features
            image, text = towers.image_projection.numpy(), towers.text_projection.numpy()

            def embed(
                texts: list[str], towers: Towers = towers, text: np.ndarray = text
            ) -> np.ndarray:
                return project(encode_texts(towers, texts, 64), text)

            found.append(Half(project(features, image), features, captions[judged_], embed))
    return found


def wrong_captions(half: Half, kind: str, generator: np.random.Generator) -> list[list[str]]:
    """Return a wrong caption for each caption of each photograph; "" where the kind cannot be."""
    of = half.features / np.linalg.norm(half.features, axis=1, keepdims=True)
    cosines = of @ of.T - 2 * np.eye(len(of))
    nearest = np.argsort(-cosines, axis=1)[:, :3]

    def made(picture: int, text: str) -> str:
        match kind:
            case "exchanged":
                other = int(generator.integers(1, len(of)) + picture) % len(of)
                return str(generator.choice(half.captions[other]))
            case "same scene":
                return str(generator.choice(half.captions[generator.choice(nearest[picture])]))
            case "object":
                words = [word for word in text.split() if word.lower() in OBJECTS]
                if not words:
                    return ""
                old = str(generator.choice(words))
                new = generator.choice([word for word in OBJECTS if word != old.lower()])
                return re.sub(rf"\b{old}\b", str(new), text)
            case "negation":
                found = re.sub(r"\b(is|are)\b", r"\1 not", text, count=1)
                return found if found != text else f"no {text[:1].lower()}{text[1:]}"
            case "number":
                words = text.split()
                at = [n for n, word in enumerate(words) if word.lower() in NUMBERS]
                return " ".join(
                    NUMBERS[word.lower()] if at and n == at[0] else word
                    for n, word in enumerate(words)
                ) if at else ""  # fmt: skip
            case "cut off":
                return " ".join(text.split()[:2])
            case _:  # another language
                return " ".join(GERMAN.get(word.lower(), word) for word in text.split())

    return [[made(picture, text) for text in texts] for picture, texts in enumerate(half.captions)]


KINDS = ("exchanged", "same scene", "object", "negation", "number", "cut off", "other language")


def corrupted(
    half: Half, kind: str, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the photograph of each pair, which captions are wrong, and the captions."""
    generator = np.random.default_rng([seed, KINDS.index(kind) if kind in KINDS else 99])
    picture = np.repeat(np.arange(len(half.captions)), [len(of) for of in half.captions])
    texts = [text for of in half.captions for text in of]
    made = {one: [text for of in wrong_captions(half, one, generator) for text in of]
            for one in (KINDS if kind == "all kinds" else (kind,))}  # fmt: skip
    which = generator.choice([*made], len(texts))
    new = [made[one][n] for n, one in enumerate(which)]
    can = np.flatnonzero([bool(text) and text != old for text, old in zip(new, texts, strict=True)])
    wrong = np.zeros(len(texts), bool)
    wrong[generator.permutation(can)[: round(share * len(texts))]] = True
    return picture, wrong, [new[n] if wrong[n] else text for n, text in enumerate(texts)]


def audited(
    half: Half, picture: np.ndarray, texts: list[str], seed: int
) -> tuple[np.ndarray, float]:
    """Return the audit's probabilities, NaN if it refuses, and its upper limit."""
    distinct, words = np.unique([text.lower() for text in texts], return_inverse=True)
    captions, images = half.embed([str(text) for text in distinct])[words], half.images[picture]
    blocks = ((b, images[b], captions[b]) for b in deal(len(words), seed))
    rows, refused, chance = judged(rank(blocks, (picture, words), seed, scored=True), seed)
    limits = [row["high"] for row in rows if row["metric"] == "wrong_captions"]
    return chance, np.nan if refused else limits[0]


class Cell(NamedTuple):
    """Coverage of the labels' interval, its width over Wilson's, and the audit on the same pairs.

    `area` is NaN where the audit refuses, and `held` whether its upper limit holds.
    """

    covered: float
    width: float
    area: float
    held: float


def cells(both: list[Half], kind: str, share: float, seed: int) -> dict[int, Cell]:
    """Return a cell for each number of labels."""
    from sklearn.metrics import roc_auc_score

    parts = []
    for half in both:
        picture, wrong, texts = corrupted(half, kind, share, seed)
        parts.append((wrong, *audited(half, picture, texts, seed)))
    wrong, chance = (np.concatenate([part[n] for part in parts]) for n in (0, 1))
    is_known = bool(np.isfinite(chance).all())
    area = float(roc_auc_score(wrong, chance)) if is_known else np.nan
    held = float(np.mean([of[0].mean() <= of[2] for of in parts])) if is_known else np.nan
    of, generator, found = strata(chance), np.random.default_rng([seed, 1]), {}
    for size in LABELS:
        every, drawn = sizes(of, chance, size)
        hits = np.bincount(of, wrong).astype(int)
        shape = DRAWS, len(every)
        limits = interval(every, drawn, generator.hypergeometric(hits, every - hits, drawn, shape))
        holds = (limits.low <= wrong.mean() + 1e-9) & (limits.high >= wrong.mean() - 1e-9)
        low, high = wilson(generator.binomial(size, wrong.mean(), 4000), size)
        width = (limits.high - limits.low).mean() / (high - low).mean()
        found[size] = Cell(float(holds.mean()), float(width), area, held)
    return found


def main(packages: str, *shards: str) -> None:
    """Print coverage and width by kind, share and number of labels, and the audit's own numbers."""
    both = halves(Path(packages), [Path(shard) for shard in shards])
    covered: list[float] = []
    print(f"| kind | share | AUROC | audit's limit holds | covered, {LABELS} labels | width |")
    print("| --- " * 6 + "|")
    for kind, share in product((*KINDS, "all kinds"), SHARES):
        found = [cells(both, kind, share, seed) for seed in range(CORRUPTIONS)]
        covered += [cell.covered for of in found for cell in of.values()]
        means = np.array([[of[size] for size in LABELS] for of in found])
        known = np.isfinite(means[:, 0, 2])
        area, held = means[known, 0, 2:].mean(axis=0) if known.any() else (np.nan, np.nan)
        by_size = means.mean(axis=0)
        print(f"| {kind} | {share:g} | {area:.2f} ({known.sum()} of {CORRUPTIONS}) | {held:.2f} | "
              f"{', '.join(f'{of:.3f}' for of in by_size[:, 0])} | "
              f"{', '.join(f'{of:.2f}' for of in by_size[:, 1])} |", flush=True)  # fmt: skip
    below = sum(of < 0.93 for of in covered)
    print(f"{len(covered)} cells, {below} below 0.93, least {min(covered):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
