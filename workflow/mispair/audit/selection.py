"""Which pairs are kept and shown, by the probability that their caption is wrong; their lists."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mispair.audit.captions import FIELDS
from mispair.core import cards, files
from mispair.core.files import replacing_folder
from mispair.core.metrics import Row
from mispair.core.words import percent
from mispair.pairs.index.books import NAME

LEAST_BEYOND = 2
"""Trusted pairs that are at least as suspicious as what is left out, at least."""

SLACK = 0.5
"""Standard errors by which the count of these trusted pairs is raised.

By simulation (1,500 to 20,000 pairs, 300 to 2,000 trusted, up to 45 % wrong): without it and
`LEAST_BEYOND` the rate is kept on average over all corpora, of which many leave nothing out. With
them it is also kept among those that leave something out.
"""


RATE_NEEDS_TRUSTED = (
    "select_pairs.false_discovery_rate can only be kept with pairs known to be right, because "
    "right captions may rank like random ones. Give a file of their keys (trusted), or set a cut "
    "(select_pairs.cut) instead."
)


def likely_right(probability: np.ndarray, cut: float, low: float | None) -> np.ndarray:
    """Return which pairs a cut keeps, (n,) bool; all without probabilities.

    Parameters
    ----------
    probability : (n,) array
        That the caption is wrong; NaN where there is none.
    cut : float
        Pairs of this probability and above are left out.
    low : float or None
        Lower limit of the share of wrong captions, if one is known. If it is 0, there may be no
        wrong caption, and all pairs are kept.
    """
    if low is not None and low <= 0:
        return np.ones(len(probability), bool)
    return ~(probability >= cut)


def least_discoveries(probability: np.ndarray, trusted: np.ndarray, rate: float) -> np.ndarray:
    """Return which pairs are kept, (n,) bool, so that few of those left out are right.

    The conformal p-value of a pair is the share of trusted pairs that are as suspicious, with one
    more: trusted pairs are a random part of the right ones, so it is uniform for a right pair,
    whatever wrong ones are. As many pairs as possible are left out by the rule of Benjamini and
    Hochberg, with Storey's estimate of how many are right.

    Parameters
    ----------
    probability : (n,) array
        That the caption is wrong. Its order alone is used; NaN is kept.
    trusted : (n,) bool array
        A random part of the right pairs; they are kept.
    rate : float
        Largest expected share of right pairs among those that are left out.

    Notes
    -----
    Bates et al., "Testing for outliers with conformal p-values", Annals of Statistics 2023.
    `LEAST_BEYOND` and `SLACK` are stricter than this rule.
    """
    kept = np.ones(len(probability), bool)
    others = np.flatnonzero(~trusted & np.isfinite(probability))
    null = np.sort(probability[trusted & np.isfinite(probability)])
    if not len(null) or not len(others):
        return kept
    order = others[np.argsort(-probability[others], kind="stable")]
    beyond = len(null) - np.searchsorted(null, probability[order], "left")
    right = min(len(order), 2 * (1 + int((beyond > len(null) / 2).sum())))
    share = (beyond + 1 + SLACK * np.sqrt(beyond + 1)) / (len(null) + 1)
    expected = right * share / np.arange(1, len(order) + 1)
    possible = np.flatnonzero((expected <= rate) & (beyond >= LEAST_BEYOND))
    if len(possible):
        kept[order[: possible[-1] + 1]] = False
    return kept


def selection_rows(probability: np.ndarray, kept: np.ndarray) -> list[Row]:
    """Return how many of n pairs are kept, and the expected number of mistakes."""
    n, judged = len(kept), np.isfinite(probability)
    return [
        {"metric": "pairs_kept", "value": int(kept.sum()), "n": n},
        {"metric": "pairs_removed", "value": int((~kept).sum()), "n": n},
        {"metric": "expected_wrong_kept", "value": float(probability[kept & judged].sum())},
        {"metric": "expected_right_removed", "value": float((1 - probability[~kept]).sum())},
    ]


def shown_kinds(
    probability: np.ndarray, similarity: np.ndarray, number: int, known: bool = True
) -> dict[str, np.ndarray]:
    """Return the positions of suspicious pairs by kind, the most suspicious first; (k,) int each.

    Those whose caption is most likely wrong, or without probabilities the least similar ones; and
    those of probabilities from 0.1 to 0.9, nearest to 0.5 first. A kind has at most `number`.
    Where the share of wrong captions has no lower limit, probabilities are not `known`.
    """
    judged = bool(np.isfinite(probability).any())
    score = probability if judged else -similarity
    between = (probability >= 0.1) & (probability <= 0.9)
    return {
        ("most likely wrong" if known else "most suspicious")
        if judged
        else "least similar": _largest(score, number),
        "could be either": _largest(np.where(between, -np.abs(probability - 0.5), np.nan), number),
    }


def _largest(score: np.ndarray, number: int) -> np.ndarray:
    """Return the positions of the largest finite scores, the largest first; (k,) int."""
    judged = np.flatnonzero(np.isfinite(score))
    return judged[np.argsort(-score[judged], kind="stable")[:number]]


def refusal(
    origin: Mapping[str, str], audit: Path, false_discovery_rate: float | None, any_kept: bool
) -> str:
    """Return why there are no lists, or "", from the metadata of an audit."""
    if origin["refused"]:
        return f"{audit}: the audit refuses, so there are no lists of pairs. {origin['refused']}"
    if false_discovery_rate is not None and float(origin["trusted_excess"]) > 0:
        return (
            f"{audit}: the scores contradict that trusted pairs are a random part of the right "
            "ones, so select_pairs.false_discovery_rate cannot be kept. Give a random part of the "
            "right pairs (trusted), or set a cut (select_pairs.cut) instead."
        )
    if false_discovery_rate is not None and origin["identified"] != "interval":
        return f"{audit}: {RATE_NEEDS_TRUSTED}"
    if any_kept:
        return ""
    return f"{audit}: select_pairs.cut leaves no pair, so there are no lists. Give a larger cut."


def nothing_left_out(false_discovery_rate: float | None, trusted: int) -> str:
    """Return why no pair is left out."""
    if false_discovery_rate is None:
        return (
            "select_pairs.cut leaves out no pair: none is as likely to be wrong, or the interval "
            "of the share of wrong captions begins at 0."
        )
    return (
        f"select_pairs.false_discovery_rate {false_discovery_rate:g} leaves out no pair: "
        f"{trusted} trusted pairs cannot show that a list keeps it. Give more (trusted), or a "
        "larger rate."
    )


# Lists of the pairs that are kept, which other tools read.

CARD = "README.md"

FILES = {
    "pairs.csv": "key, caption_id, probability of a wrong caption, weight (1 less that), kept, the "
    "check of texts that the caption meets, if any, and what is identified: with a limit, "
    "probability and weight are for an assumed share of wrong captions",
    "kept.txt": "keys of pairs that are kept, one a line",
    "removed.txt": "keys of pairs that are left out",
    "captions.parquet": "key and caption of what is kept, for the setting `captions` of mispair",
}
"""What the folder holds, besides DataComp's subset file."""
WEBDATASET = """With webdataset:

```python
from pathlib import Path
from urllib.parse import unquote

keep = set(Path("kept.txt").read_text(encoding="utf-8").splitlines())
dataset = webdataset.WebDataset(shards).select(
    lambda sample: {sample["__key__"], unquote(sample["__key__"])} & keep
)
```

Shards that mispair packed have `%2E` for the dots in a file name, where webdataset ends a key. Of
other shards a name with more dots than that of its ending matches nothing: take `captions.parquet`.
Where a configuration gives its sources names, keys begin with the name and a slash."""


def dataset_card(
    read: int,
    kept: int,
    wrong: Mapping[str, float],
    origin: Mapping[str, Any],
    licence: str,
    subset: str = "",
) -> str:
    """Return the card of a corpus that the audit judged, as Markdown.

    Parameters
    ----------
    read, kept : int
        Numbers of pairs.
    wrong : mapping
        Share of wrong captions among those that were read: its upper limit ``high`` and, with
        trusted pairs, ``value`` and ``low``.
    origin : mapping
        Fingerprints of towers and pairs, and the settings of the selection.
    licence : str
        Of the captions, as the hub names it.
    subset : str
        A sentence on DataComp's subset file.
    """
    front = {
        "license": licence,
        "task_categories": ["zero-shot-image-classification"],
        "size_categories": [cards.size_category(kept)],
        "tags": ["image-text", "audited", "mispair"],
    }
    value, low, high = (
        None if wrong[name] is None else percent(wrong[name], 2)
        for name in ("value", "low", "high")
    )
    caution = assumed = ""
    if low is None:
        judged = f"At most {high} of the captions before belonged to an unrelated picture."
        caution = "What is left out may be right."
        assumed = cards.assumed(str(value), float(origin.get("trusted_excess", 0)) > 0)
    else:
        judged = (
            f"Estimated share of captions of an unrelated picture before: {value} (95 % interval "
            f"{low} to {high})."
        )
    counts = [("read", read), ("kept", kept), ("left out", read - kept)]
    settings = json.dumps(dict(origin), indent=1, sort_keys=True)
    return cards.card(
        front,
        "# Pairs by the audit of mispair",
        judged,
        cards.table(("pairs", "number"), [(name, f"{number:,}") for name, number in counts]),
        cards.table(("file", "content"), list(FILES.items())),
        *filter(None, [assumed, caution if kept < read else "", subset]),
        WEBDATASET,
        f"## Settings\n\n```json\n{settings}\n```",
    )


def write_refusal(target: Path, refused: str) -> None:
    """Write a folder with a card alone, which states why there are no lists.

    Without lists, no tool can take "not judged" for "all are right" or "all are wrong".
    """
    with replacing_folder(target) as folder:
        files.write_text(folder / CARD, f"# No lists of pairs\n\n{refused}\n")


def write_lists(
    target: Path,
    table: pd.DataFrame,
    kept: np.ndarray,
    texts: pd.Series,
    card: str,
    identified: str,
    uids: np.ndarray | None = None,
) -> int:
    """Write a folder with the files of `FILES`; return how many pictures are left out.

    A picture with several captions is kept with those of them that are kept.

    Parameters
    ----------
    target : Path
        Folder to write.
    table : DataFrame
        A row for each of n pairs: ``key``, ``caption_id``, ``probability`` and ``text_check``.
    kept : (n,) bool array
        Which pairs are kept.
    texts : Series of str
        Captions by ``caption_id``.
    card : str
        From `dataset_card`.
    identified : str
        What is known of the share of wrong captions, from the metadata of an audit.
    uids : (m,) array of two uint64, optional
        DataComp's uids of the pairs that are kept.
    """
    chosen, probability = table[kept], table["probability"].to_numpy(float)
    keys = chosen["key"].unique()
    removed = table.loc[~table["key"].isin(keys), "key"].unique()
    with replacing_folder(target) as folder:
        files.write_text(folder / CARD, card)
        files.write_text(folder / "kept.txt", "".join(f"{key}\n" for key in keys))
        files.write_text(folder / "removed.txt", "".join(f"{key}\n" for key in removed))
        columns = table[["key", "caption_id", "probability"]]
        listed = columns.assign(weight=1 - probability, kept=kept.astype(int))
        listed = listed.assign(text_check=table["text_check"], identified=identified)
        files.write_csv(folder / "pairs.csv", listed)
        captions = texts.loc[chosen["caption_id"]].to_numpy()
        cleaned = pd.DataFrame({"key": chosen["key"], "caption": captions})
        files.write_parquet(folder / "captions.parquet", cleaned)
        if uids is not None:
            np.save(folder / NAME, uids)
    return len(removed)


# What is left out of each group of pairs, by script, source or the user's own fields.

SOURCE = f"{FIELDS}source"

LEAST_PAIRS, MOST_GROUPS = 20, 12
"""Pairs of a group of its own, at least; groups of a field, at most. Others are one group."""

OTHERS = "all others"


def sources_of(keys: pd.Series) -> pd.Series:
    """Return the source of each key: what is before its first slash; "" without any source.

    Examples
    --------
    >>> sources_of(pd.Series(["web/0001", "book/0002", "book/0003"])).tolist()
    ['web', 'book', 'book']
    >>> sources_of(pd.Series(["web/0001", "0002"])).tolist()
    ['', '']
    """
    parts = keys.str.partition("/")
    return parts[0] if parts[1].ne("").all() else pd.Series("", keys.index)


def group_rows(table: pd.DataFrame, left_out: np.ndarray) -> list[Row]:
    """Return rates of each group of n pairs, where a field has several groups.

    ``group_pairs`` is the number of pairs, ``group_wrong`` the expected share of wrong captions,
    ``group_removed`` the share that is left out, ``group_wins`` how often captions beat random
    ones, and ``group_right_lost`` the expected share of right captions that is left out.

    Parameters
    ----------
    table : DataFrame
        Pairs: ``key``, ``probability``, ``p_value``, and a column of each field, whose name
        begins with `FIELDS`.
    left_out : (n,) bool array
        Pairs that a selection leaves out.
    """
    chance = table["probability"].to_numpy(float)
    wins = 1 - table["p_value"].to_numpy(float)
    rows: list[Row] = []
    table = table.assign(**{SOURCE: sources_of(table["key"])})
    for field in table.columns[table.columns.str.startswith(FIELDS)]:
        groups = _merged(table[field].to_numpy(object))
        names = [name for name, _ in Counter(groups.tolist()).most_common()]
        if len(names) < 2:
            continue
        for group in names:
            of = groups == group
            right = float((1 - chance[of]).sum())
            values = {
                "group_pairs": int(of.sum()),
                "group_wrong": float(chance[of].mean()),
                "group_wins": float(wins[of].mean()),
                "group_removed": float(left_out[of].mean()),
                "group_right_lost": float((1 - chance[of & left_out]).sum()) / max(right, 1e-9),
            }
            about = {"word": field.removeprefix(FIELDS), "text": group, "n": int(of.sum())}
            rows += [
                {"metric": metric, **about, "value": value} for metric, value in values.items()
            ]
    return rows


def _merged(groups: np.ndarray) -> np.ndarray:
    """Return groups with small ones, and those beyond the largest, as one."""
    sizes = Counter(groups.tolist()).most_common()
    kept = {name for name, size in sizes[:MOST_GROUPS] if size >= LEAST_PAIRS}
    return np.array([name if name in kept else OTHERS for name in groups.tolist()], object)
