"""Write which pairs are kept, as lists that other tools read."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)

README = """Lists of pairs by the audit of mispair.

pairs.csv         key, caption_id, probability that the caption is wrong, weight (1 less that), kept
kept.txt          keys of pairs that are kept, one a line
removed.txt       keys of pairs that are left out
captions.parquet  key and caption of what is kept: `captions:` of a configuration of mispair
kept.npy          where keys are DataComp uids: the subset file of DataComp's resharder

With webdataset:

    keep = set(open("kept.txt").read().splitlines())
    dataset = webdataset.WebDataset(shards).select(lambda sample: sample["__key__"] in keep)

Where a configuration gives its sources names, keys begin with the name and a slash.
"""


class Settings(settings.Settings):
    cut: float = Field(
        0.5, ge=0, le=1,
        description="Pairs whose caption is wrong with this probability or a larger one are left "
        "out.",
    )  # fmt: skip
    false_discovery_rate: float | None = Field(
        None, gt=0, lt=1,
        description="In place of the cut: as many pairs are left out as hold at most this share of "
        "right ones.",
    )  # fmt: skip


def run(
    settings: Settings, *, audit: Path, captions: list[Path], lists: Path, selection: Path
) -> None:
    """Write the lists, and how many pairs are in them.

    A picture with several captions is kept with those of them that are kept.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    audit : Path
        What audit_pairs wrote.
    captions : list of Path
        Texts of the captions.
    lists : Path
        Folder to write: ``pairs.csv``, ``kept.txt``, ``removed.txt``, ``captions.parquet``,
        ``README.txt`` and, for DataComp, ``kept.npy``.
    selection : Path
        Written: metrics.
    """
    import numpy as np
    import pandas as pd

    from mispair.audit.selection import kept_pairs, uid_array
    from mispair.core import files, metrics
    from mispair.core.folders import replacing_folder

    table, origin = files.read_parquet(audit)
    probability = table["probability"].to_numpy(float)
    kept = kept_pairs(probability, settings.cut, settings.false_discovery_rate)
    # What is known to be right is kept whatever the model says.
    kept |= table["trusted"].to_numpy(bool)
    texts = pd.concat([files.read_parquet(path)[0] for path in captions])
    text_of = texts.set_index("caption_id")["caption"]
    chosen = table[kept]
    keys = chosen["key"].unique()
    removed = table.loc[~table["key"].isin(keys), "key"].unique()
    with replacing_folder(lists) as folder:
        files.write_text(folder / "README.txt", README)
        files.write_text(folder / "kept.txt", "".join(f"{key}\n" for key in keys))
        files.write_text(folder / "removed.txt", "".join(f"{key}\n" for key in removed))
        columns = table[["key", "caption_id", "probability"]]
        listed = columns.assign(weight=1 - probability, kept=kept.astype(int))
        files.write_csv(folder / "pairs.csv", listed)
        cleaned = pd.DataFrame(
            {"key": chosen["key"], "caption": text_of.loc[chosen["caption_id"]].to_numpy()}
        )
        files.write_parquet(folder / "captions.parquet", cleaned)
        if (uids := uid_array(keys)) is not None:
            np.save(folder / "kept.npy", uids)
    judged = np.isfinite(probability)
    rows = [
        {"metric": "pairs_kept", "value": int(kept.sum()), "n": len(table)},
        {"metric": "pairs_removed", "value": int((~kept).sum()), "n": len(table)},
        {"metric": "pictures_removed", "value": len(removed), "n": table["key"].nunique()},
        {"metric": "expected_wrong_kept", "value": float(probability[kept & judged].sum())},
        {"metric": "expected_right_removed", "value": float((1 - probability[~kept]).sum())},
    ]
    metrics.write_metrics(selection, rows, {**origin, **settings.model_dump()})
    log.info("%d of %d pairs are kept", int(kept.sum()), len(table))
