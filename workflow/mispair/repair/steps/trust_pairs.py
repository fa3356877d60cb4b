"""Choose the pairs whose captions count as right."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    share: float = Field(
        0.1, gt=0, le=1,
        description="Share of pairs that are trusted where the key `trusted` names no file. They "
        "are drawn at random, and their captions are never corrupted: they are right as far as the "
        "corpus is.",
    )  # fmt: skip
    seed: int = Field(0, ge=0, description="Seed of the draw.")


def run(
    settings: Settings,
    *,
    pairing: Path,
    captions: list[Path],
    trusted_keys: list[Path],
    trusted: Path,
    reviewed: list[Path] | None = None,
    left_out: list[Path] | None = None,
) -> None:
    """Write key, caption_id and caption of each trusted pair, sorted by key.

    `pairing` is one without corruption. `captions` are tables of the texts. `trusted_keys` is the
    user's file of trusted keys; without one a share is drawn. `reviewed` is the user's file of
    labels: pairs that a person found right are trusted, too, and those found wrong are not.
    `left_out` are tables of rejected and excluded samples.
    """
    import numpy as np
    import pyarrow as pa

    from mispair.audit.user_lists import read_trusted
    from mispair.core import files, seeds
    from mispair.pairs.captions.corpus_keys import as_in_corpus
    from mispair.repair.pairings import texts_of
    from mispair.review.labels import RIGHT, WRONG, read_labels

    table, _ = files.read_parquet(pairing)
    if trusted_keys:
        chosen = read_trusted(trusted_keys, pa.array(table["key"], pa.large_string()), left_out)
        source = str(trusted_keys[0])
    else:
        number = max(1, round(settings.share * len(table)))
        drawn = seeds.generator(settings.seed, "trust-pairs").permutation(len(table))[:number]
        chosen, source = np.zeros(len(table), bool), f"a share of {settings.share:g}, drawn"
        chosen[drawn] = True
    if reviewed:
        labels = read_labels(reviewed[0])
        meant = as_in_corpus(labels, table["key"])
        found = {
            label: table["key"].isin(
                [meant.get(key, key) for key, (of, _) in labels.items() if of == label]
            )
            for label in (RIGHT, WRONG)
        }
        chosen = (chosen | found[RIGHT].to_numpy(bool)) & ~found[WRONG].to_numpy(bool)
        source = f"{source}, with labels of {reviewed[0]}"
    kept = table.loc[chosen, ["key", "caption_id"]].reset_index(drop=True)
    kept["caption"] = texts_of(captions, kept["caption_id"])
    files.write_parquet(trusted, kept, {"source": source, "pairs": str(len(table))})
    log.info("%d of %d pairs are trusted (%s)", len(kept), len(table), source)
