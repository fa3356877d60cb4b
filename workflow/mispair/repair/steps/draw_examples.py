"""Lay out old and new captions of some pairs of a repair, each pair with its picture."""

import logging
from pathlib import Path

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`draw_examples` has no settings: filter_captions chooses the pairs."""


def run(
    settings: Settings, *, ledgers: list[Path], index: list[Path], shards: list[Path],
    sources: list[str], examples: Path,
) -> None:  # fmt: skip
    """Write a piece of HTML; only the images of the shown pairs are read from shards."""
    from mispair.core import files, metrics
    from mispair.pairs.report.contact_sheet import alone, images_of
    from mispair.repair.report.gallery import chosen, fragment

    shown = chosen([metrics.read_metrics(path)[1] for path in ledgers])
    keys = list({one["key"] for one in shown.examples} if shown else [])
    html = fragment(shown, images_of(keys, index, shards, sources))
    files.write_text(examples, alone(html, "Old and new captions"))
    log.info("%d pairs", len(keys))
