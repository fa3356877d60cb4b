"""Write the page on which a person labels the drawn pairs."""

import logging
from pathlib import Path

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`write_review` has no settings: the sample is drawn by another step."""


def run(
    settings: Settings, *, sample: Path, strata: Path, replaced: list[Path], index: list[Path],
    shards: list[Path], sources: list[str], page: Path,
) -> None:  # fmt: skip
    """Write the page; only the images of drawn pairs are read from shards.

    `sample` and `strata` are the draw. `replaced` are the old and new captions of drawn pairs of a
    repair, if there was one.
    """
    from mispair.core import files
    from mispair.pairs.report.contact_sheet import images_of
    from mispair.review.report import page as pages

    about = files.read_json(strata)
    drawn, _ = files.read_parquet(sample)
    parts = [pages.of_captions(drawn, about["strata"], about["digest"])]
    for path in replaced:
        table, metadata = files.read_parquet(path)
        parts.append(pages.of_repairs(table, int(metadata["replaced"])))
    parts = [part for part in parts if part.pairs] or parts[:1]
    keys = list({pair.key for part in parts for pair in part.pairs})
    images = images_of(keys, index, shards, sources)
    text = pages.page(parts, images)
    files.write_text(page, text)
    log.info(
        "%s: %d pictures, %.1f MB",
        ", ".join(f"{len(part.pairs)} {part.question.name}" for part in parts),
        len(images), len(text) / 1e6,
    )  # fmt: skip
