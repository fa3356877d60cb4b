"""The score of a pair next to those of other methods, where the wrong captions are known.

On scenes that the shipped towers have not seen, encoded by them, and on embeddings that are made up
like those of towers that were joined on few photographs (`tests.audit.made_up.photographs`). Wrong
captions are exchanged among pairs, or are degenerate: names of files, addresses, placeholders and
texts that are cut off after two words. The checks of texts are those of the audit; made-up
embeddings have no texts, so there the degenerate ones count as found.
"""

import io
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from mispair.audit.probability import probabilities_of
from mispair.audit.rate import untrusted_rates
from mispair.audit.score import deal, rank
from mispair.audit.text_checks import checked, is_empty
from mispair.audit.trials import neighbour_disagreement, two_gaussians
from tests.audit.made_up import degenerate, photographs, swapped

Row = tuple[str, str, str, str]
Replaced = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

PAIRS = 2000
SHARES = (0.03, 0.12, 0.3, 0.5)
SEED = 1
"""Seed of the scenes: the shipped towers learned from those of seed 0."""


def measure() -> Iterator[Row]:
    """Yield the rows."""
    yield from rows("scenes", *scenes(PAIRS))
    different = np.arange(PAIRS)
    for name, apart, noise in (("", 1.2, 2.2), (", further apart", 2.5, 1.4)):
        images, texts = photographs(PAIRS, 0, apart, noise)

        def empty(chosen: np.ndarray, texts: np.ndarray = texts) -> tuple[np.ndarray, np.ndarray]:
            return degenerate(texts, chosen), chosen

        yield from rows(f"photographs{name}", images, texts, different, empty)


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
