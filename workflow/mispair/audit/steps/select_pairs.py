"""Write which pairs are kept, as lists that other tools read."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    cut: float = Field(
        0.5, ge=0, le=1,
        description="Pairs whose caption is wrong with this probability or a larger one are left "
        "out; without `trusted`, the probability for an assumed share of wrong captions.",
    )  # fmt: skip
    false_discovery_rate: float | None = Field(
        None, gt=0, lt=1,
        description="Replaces the cut: as many pairs as possible are left out such that at most "
        "this share of them is right, on average. It needs `trusted`. Of n pairs with t trusted "
        "ones, none is left out unless about 4 n / (t × rate) are suspicious enough.",
    )  # fmt: skip
    group_fields: list[str] = Field(
        ["language", "source"], min_length=1,
        description="Columns of the file `groups` by which the report has rates, as far as the "
        "file has them.",
    )  # fmt: skip
    licence: str = Field(
        "unknown", min_length=1, description="Licence of the captions, for the dataset card."
    )


def run(
    settings: Settings, *, audit: Path, rates: Path, captions: list[Path], groups: list[Path],
    lists: Path, selection: Path, index: list[Path] | None = None,
) -> None:  # fmt: skip
    """Write the folder of lists with its card, and how many pairs are in them.

    `index` are those of all groups, which have DataComp's uids. Trusted pairs are kept at any
    probability. Where the audit refused, a false discovery rate cannot be kept, or no pair would
    be left, the folder has a card without lists, and `selection` no numbers; both state why
    (``refused``). Where an interval of the share of wrong captions begins at 0, the cut leaves
    nothing out.
    """
    import pandas as pd

    from mispair.audit.selection import (
        dataset_card,
        group_rows,
        least_discoveries,
        likely_right,
        nothing_left_out,
        refusal,
        selection_rows,
        write_lists,
        write_refusal,
    )
    from mispair.audit.user_lists import read_groups
    from mispair.core import files, metrics
    from mispair.pairs.index.books import uids_of

    table, origin = files.read_parquet(audit)
    measured, _ = metrics.read_metrics(rates)
    wrong = next((row for row in measured if row["metric"] == "wrong_captions"), None)
    probability, trusted = table["probability"].to_numpy(float), table["trusted"].to_numpy(bool)
    if settings.false_discovery_rate is not None:
        kept = least_discoveries(probability, trusted, settings.false_discovery_rate)
    else:
        kept = trusted | likely_right(probability, settings.cut, wrong["low"] if wrong else None)
    card_fields = {**origin, **settings.model_dump()}
    if refused := refusal(origin, audit, settings.false_discovery_rate, bool(kept.any())):
        write_refusal(lists, refused)
        metrics.write_metrics(selection, [], {**card_fields, "refused": refused})
        log.warning("%s", refused)
        return
    assert wrong is not None
    texts = pd.concat([files.read_parquet(path)[0] for path in captions])
    uids, subset = uids_of(table["key"][kept], index or [])
    card = dataset_card(len(table), int(kept.sum()), wrong, card_fields, settings.licence, subset)
    by_id, identified = texts.set_index("caption_id")["caption"], origin["identified"]
    removed = write_lists(lists, table, kept, by_id, card, identified, uids)
    rows = selection_rows(probability, kept)
    pictures = {"metric": "pictures_removed", "value": removed, "n": table["key"].nunique()}
    rows.insert(2, pictures)
    fields = settings.group_fields
    by_field = read_groups(groups[0], fields, table["key"]) if groups else {}
    rows += group_rows(table.assign(**by_field), ~kept)
    metrics.write_metrics(selection, rows, card_fields)
    log.info("%d of %d pairs are kept", int(kept.sum()), len(table))
    if kept.all():
        log.warning("%s", nothing_left_out(settings.false_discovery_rate, int(trusted.sum())))
