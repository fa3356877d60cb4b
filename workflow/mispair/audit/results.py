"""Results of an audit beyond its rates: counts, a density, texts, and a row for each pair."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mispair.audit.captions import SCRIPT, bare_texts, scripts_of
from mispair.audit.pairs import Audited
from mispair.audit.score import Ranks
from mispair.audit.text_checks import check_rows, checked, shortened
from mispair.core.metrics import Row
from mispair.pairs.index.identities import hexadecimal

BARS = 40
"""Bars of the histogram of p-values in the report."""


def corpus_rows(
    ranked: Ranks, pictures: np.ndarray, texts: np.ndarray, trusted: np.ndarray
) -> list[Row]:
    """Return counts of n pairs, and the density of their p-values in `BARS` bars, as rows.

    Parameters
    ----------
    ranked : Ranks
        Of the pairs.
    pictures, texts : (n,) int arrays
        Pictures and texts of the pairs by number.
    trusted : (n,) bool array
        Pairs known to be right.
    """
    n = len(texts)
    counts = {
        "pairs": n,
        "pictures": len(np.unique(pictures)),
        "trusted_pairs": int(trusted.sum()),
        "excluded_comparisons": ranked.excluded,
        "repeated_captions": n - len(np.unique(texts)),
        "weight_of_level": ranked.score_weights[0],
        "weight_of_neighbours": ranked.score_weights[1],
    }
    density = ranked.histograms[0, :, 0].sum(axis=0).reshape(BARS, -1).sum(axis=1) * BARS / n
    return [
        *({"metric": name, "value": value} for name, value in counts.items()),
        *(
            {"metric": "p_value_density", "at": (bar + 0.5) / BARS, "value": value}
            for bar, value in enumerate(density)
        ),
    ]


def pair_table(
    keys: Any,
    audited: Audited,
    ranked: Ranks,
    near: np.ndarray | None,
    probability: np.ndarray,
    trusted: np.ndarray,
    described: Mapping[str, np.ndarray],
) -> pd.DataFrame:
    """Return a row for each pair: its key and caption, similarity, score, ranks, probability.

    Parameters
    ----------
    keys : pyarrow array of str
        Keys of the pictures of the corpus.
    audited, ranked : Audited, Ranks
        The n pairs.
    near : (n,) array or None
        Ranks among the most similar captions, if there are any.
    probability : (n,) array
        That the caption is wrong.
    trusted : (n,) bool array
        Pairs known to be right.
    described : mapping of str to (n,) arrays
        Further columns, on the text of each caption.
    """
    return pd.DataFrame(
        {
            "key": keys.take(pa.array(audited.image)).to_pandas(),
            "caption_id": hexadecimal(audited.caption_ids).to_pylist(),
            "similarity": ranked.similarity,
            "score": ranked.score,
            "p_value": ranked.p_value,
            "picture_p_value": ranked.picture_p_value,
            "neighbour_p_value": np.full(len(audited), np.nan) if near is None else near,
            "probability": probability,
            "trusted": trusted,
            **described,
        }
    )


# Texts and words that the most suspicious pairs share, and how common they are in the corpus.

LEAST_SUSPECTS = 12
"""Pairs that are looked at, at least: as many as the gallery shows."""

SHOWN = 5
"""Texts, and words, that are reported at most."""

LEAST_SHARE = 0.1
"""Share of the suspects that have a text or word which is reported, at least."""

SAMPLE = 100_000
"""Pairs of the corpus in which words are counted, at most."""

BLANKLESS = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
"""Letters of scripts without blanks between words, where two letters count as a word."""


def suspects(probability: np.ndarray, similarity: np.ndarray) -> np.ndarray:
    """Return the positions of the most suspicious of n pairs, (k,) int.

    They are as many as captions are expected to be wrong, and at least `LEAST_SUSPECTS`: the most
    likely wrong, or without probabilities the least similar ones.
    """
    judged = np.isfinite(probability)
    expected = round(float(probability[judged].sum()))
    order = np.lexsort((similarity, -np.where(judged, probability, -1)))
    return order[: max(LEAST_SUSPECTS, expected)]


def suspect_rows(texts: pa.Array, of_pair: np.ndarray, suspected: np.ndarray) -> list[Row]:
    """Return the most frequent texts and words of suspects, and their shares in the corpus.

    Parameters
    ----------
    texts : (t,) pyarrow array of str
        Distinct texts.
    of_pair : (n,) int array
        Which text each pair has.
    suspected : (k,) int array
        From `suspects`.
    """
    bare = bare_texts(texts)
    codes = bare.dictionary_encode().indices.to_numpy()[of_pair]
    k, n = len(suspected), len(of_pair)
    everywhere = np.bincount(codes)
    rows: list[Row] = [{"metric": "suspects", "at": k, "value": k, "n": n}]
    first = {int(codes[pair]): int(of_pair[pair]) for pair in suspected[::-1].tolist()}
    for code, number in Counter(codes[suspected].tolist()).most_common(SHOWN):
        if number > 1 and number >= LEAST_SHARE * k:
            name = shortened(texts[first[code]].as_py())
            rows += _pair_of_rows("text", name, number / k, k, float(everywhere[code]) / n, n)
    sample = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64))
    words = Counter[str]()
    for text in bare.take(pa.array(of_pair[suspected])).to_pylist():
        words.update(_words(text))
    frequent = [pair for pair in words.most_common(8 * SHOWN) if pair[1] >= LEAST_SHARE * k]
    shares = _shares([word for word, _ in frequent], bare.take(pa.array(of_pair[sample])))
    found = zip(frequent, shares, strict=True)
    more = [(word, number / k, share) for (word, number), share in found if number / k > 2 * share]
    for word, share, usual in sorted(more, key=lambda one: one[2] - one[1])[:SHOWN]:
        rows += _pair_of_rows("word", word, share, k, usual, len(sample))
    return rows


def _pair_of_rows(
    kind: str, text: str, share: float, k: int, usual: float, n: int
) -> Sequence[Row]:
    return (
        {"metric": f"suspect_{kind}", "at": k, "text": text, "value": share, "n": k},
        {"metric": f"corpus_{kind}", "at": k, "text": text, "value": usual, "n": n},
    )


def _words(text: str) -> set[str]:
    """Return the words of a bare text, or pairs of letters where no blanks are between words."""
    pairs = {a + b for a, b in pairwise(text) if _blankless(a + b)}
    return pairs | {word for word in text.split() if not re.search(BLANKLESS, word)}


def _blankless(letters: str) -> bool:
    return all(re.match(BLANKLESS, letter) for letter in letters)


def _shares(words: Sequence[str], bare: Any) -> list[float]:
    """Return the share of bare texts that have each word."""
    empty, blank = (pa.scalar(text, bare.type) for text in ("", " "))
    padded = pc.binary_join_element_wise(empty, bare, empty, blank)
    patterns = [word if _blankless(word) else f" {word} " for word in words]
    return [float(pc.mean(pc.match_substring(padded, pattern)).as_py()) for pattern in patterns]


def described(texts: pa.Array, of_pair: np.ndarray) -> dict[str, np.ndarray]:
    """Return columns on the text of each pair: the check that it meets (or ""), and its script.

    Parameters
    ----------
    texts : (t,) pyarrow array of str
        Distinct texts.
    of_pair : (n,) int array
        Which text each pair has.
    """
    checks = checked(texts, np.bincount(of_pair))
    return {"text_check": checks[of_pair], SCRIPT: scripts_of(texts)[of_pair]}


def text_rows(
    texts: pa.Array,
    of_pair: np.ndarray,
    checks: np.ndarray,
    probability: np.ndarray,
    similarity: np.ndarray,
) -> list[Row]:
    """Return how many pairs meet each check of texts, and what the most suspicious pairs share.

    `texts` and `of_pair` are as `described` takes them, which returned `checks` (n,).
    """
    names = np.empty(len(texts), object)
    names[of_pair] = checks
    rows = check_rows(texts, np.bincount(of_pair), names)
    suspected = suspects(probability, similarity)
    for number in sorted({len(suspected), LEAST_SUSPECTS}, reverse=True):
        rows += suspect_rows(texts, of_pair, suspected[:number])
    return rows
