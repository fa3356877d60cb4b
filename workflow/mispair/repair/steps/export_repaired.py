"""Write a repaired corpus as lists that other tools read; no shard is rewritten."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from mispair.core import cards, settings
from mispair.core.words import percent
from mispair.repair.rules import RULES
from mispair.repair.steps.filter_captions import RuleName

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    rules: list[RuleName] = settings.sweep(
        ["factor"],
        description="Rules whose result is written, of those that filter_captions lists; [] for "
        "none.",
    )
    licence: str = Field(
        "unknown", min_length=1, description="Licence of the captions, for the dataset card."
    )


def run(
    settings: Settings,
    *,
    repaired: Path,
    ledger: Path,
    captions: list[Path],
    export: Path,
    index: list[Path] | None = None,
) -> None:
    """Write the captions of draw 0, keys that stay and go, and a dataset card with the ledger.

    `ledger` is that of the pairing `repaired`; `captions` are texts of old and new captions. The
    folder `export` gets ``captions.parquet`` (for the key ``captions`` of a configuration),
    ``kept.txt``, ``removed.txt``, ``README.md`` and for DataComp uids, which `index` has for all
    groups, ``kept.npy``.
    """
    import numpy as np
    import pandas as pd

    from mispair.core import files, metrics
    from mispair.core.files import replacing_folder
    from mispair.pairs.index.books import NAME, uids_of
    from mispair.repair.pairings import texts_of

    table, origin = files.read_parquet(repaired)
    rows, provenance = metrics.read_metrics(ledger)
    kept = table[table["kept"].to_numpy(bool)]
    removed = table.loc[~table["kept"].to_numpy(bool), "key"]
    texts = texts_of(captions, kept["caption_id"])
    uids, subset = uids_of(kept["key"], index or [])
    of_draw = [row for row in rows if row["seed"] == 0]
    card = dataset_card(of_draw, provenance, settings.licence, subset)
    with replacing_folder(export) as folder:
        files.write_text(folder / "README.md", card)
        files.write_text(folder / "kept.txt", "".join(f"{key}\n" for key in kept["key"]))
        files.write_text(folder / "removed.txt", "".join(f"{key}\n" for key in removed))
        listed = pd.DataFrame({"key": kept["key"].to_numpy(), "caption": texts})
        about = {"identified": provenance["identified"]} if _by_audit(provenance) else {}
        files.write_parquet(folder / "captions.parquet", listed, {**origin, **about})
        if uids is not None:
            np.save(folder / NAME, uids)
    log.info("%d of %d pairs are in %s", len(kept), len(table), export)


def dataset_card(
    ledger: Sequence[Mapping[str, Any]],
    provenance: Mapping[str, Any],
    licence: str,
    subset: str = "",
) -> str:
    """Return the card as Markdown.

    Parameters
    ----------
    ledger : sequence of mappings
        Rows of the ledger of one draw.
    provenance : mapping
        Rule, scheme, rate and settings of the repair.
    licence : str
        Of the captions, as the hub names it.
    subset : str
        A sentence on DataComp's subset file.
    """
    counts = {row["metric"]: row["value"] for row in ledger if len(row) == 3}
    cells = [row for row in ledger if row["metric"] == "pairs"]
    reasons = [row for row in ledger if row["metric"] == "failed_reason"]
    front = {
        "license": licence,
        "task_categories": ["image-to-text", "zero-shot-image-classification"],
        "size_categories": [cards.size_category(counts["read"] - counts["dropped"])],
        "tags": ["image-text", "recaptioned", "mispair"],
    }
    books = [(name, counts[name]) for name in ("read", "kept", "replaced", "dropped", "failed")]
    books += [(f"failed: {row['reason']}", row["value"]) for row in reasons]
    parts = [
        "# Repaired captions",
        f"Captions by the rule `{provenance['repair']}` of mispair. Images are not part of it: "
        "`captions.parquet` has a caption for each key of the shards.",
        cards.table(("pairs", "number"), [(name, f"{value:,.0f}") for name, value in books]),
        "read = kept + replaced + dropped + failed. A failed pair keeps its old caption.",
    ]
    parts += [*filter(None, [subset]), *_warnings(provenance)]
    if cells:
        rows = [(row["before"], row["after"], f"{row['value']:,.0f}") for row in cells]
        parts.append(cards.table(("before", "after", "pairs"), rows))
        if cells[0]["before"] in ("own", "swapped"):
            parts.append("Own captions are those of the shards; whether they are right is unknown.")
    expected = [row for row in ledger if row["metric"] == "expected_pairs"]
    if expected:
        rows = [(row["before"], row["after"], f"{row['value']:,.0f}") for row in expected]
        parts.append("Expected numbers, by the audit's probability that the old caption is wrong:")
        parts.append(cards.table(("caption before", "pair", "expected pairs"), rows))
    if (expected or _by_audit(provenance)) and provenance.get("identified") == "limit":
        share = percent(provenance["share"][0], 2)
        parts.append(cards.assumed(share, provenance["trusted_excess"] > 0))
    shown = {name: value for name, value in provenance.items() if name != "examples"}
    settings = json.dumps(shown, indent=1, sort_keys=True)
    return cards.card(front, *parts, "## Settings", f"```json\n{settings}\n```")


def _by_audit(provenance: Mapping[str, Any]) -> bool:
    """Return whether the rule of a repair decides by the audit."""
    return "audit" in RULES[provenance["repair"]].reads


def _warnings(provenance: Mapping[str, Any]) -> list[str]:
    """Return a paragraph for each model that is no better than chance."""
    compared = {
        "scorer": "the scorer takes the captions of trusted pairs for better than those of other "
        "trusted pairs",
        "captioner": "new captions fit their own picture better than another picture's new caption",
    }
    return [
        f"**Warning: the {name} is no better than chance here.** In "
        f"{percent(provenance[f'{name}_wins'], 0)} of comparisons {text} (chance: 50 %). Do not "
        "use these captions: take another model."
        for name, text in compared.items()
        if name in provenance.get("no_better_than_chance", [])
    ]
