"""Lists of the pairs that are kept, which other tools read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mispair.core import cards, files
from mispair.core.folders import replacing_folder
from mispair.pairs.index.uids import NAME

CARD = "README.md"

FILES = {
    "pairs.csv": "key, caption_id, probability of a wrong caption, weight (1 less that), kept, and "
    "the check of texts that the caption meets, if any",
    "kept.txt": "keys of pairs that are kept, one a line",
    "removed.txt": "keys of pairs that are left out",
    "captions.parquet": "key and caption of what is kept, for the setting `captions` of mispair",
}
"""What the folder holds, besides DataComp's subset file."""
WEBDATASET = """With webdataset:

```python
keep = set(open("kept.txt").read().splitlines())
dataset = webdataset.WebDataset(shards).select(lambda sample: sample["__key__"] in keep)
```

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
    judged = f"At most {wrong['high']:.2%} of the captions before belonged to an unrelated picture."
    if wrong["low"] is not None:
        judged = (
            f"Estimated share of captions of an unrelated picture before: {wrong['value']:.2%} "
            f"(95 % interval {wrong['low']:.2%} to {wrong['high']:.2%})."
        )
    counts = [("read", read), ("kept", kept), ("left out", read - kept)]
    settings = json.dumps(dict(origin), indent=1, sort_keys=True)
    return cards.card(
        front,
        "# Pairs by the audit of mispair",
        judged,
        cards.table(("pairs", "number"), [(name, f"{number:,}") for name, number in counts]),
        cards.table(("file", "content"), list(FILES.items())),
        *filter(None, [subset]),
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
        listed["text_check"] = table["text_check"]
        files.write_csv(folder / "pairs.csv", listed)
        captions = texts.loc[chosen["caption_id"]].to_numpy()
        cleaned = pd.DataFrame({"key": chosen["key"], "caption": captions})
        files.write_parquet(folder / "captions.parquet", cleaned)
        if uids is not None:
            np.save(folder / NAME, uids)
    return len(removed)
