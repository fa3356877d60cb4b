"""Measure all heads of one training on common samples, next to belief propagation."""

import logging
from pathlib import Path
from typing import Any

from pydantic import Field

from mispair.sufficiency.settings import OF_ENCODERS, TASKS, Measuring

log = logging.getLogger(__name__)


class Settings(Measuring):
    samples: int = Field(3_000, ge=100, description="Pairs over which each risk is averaged.")


def run(
    settings: Settings, *, trees: Path, flip: float, seed: int, encoders: list[Path],
    heads: list[Path], transfer: Path,
) -> None:  # fmt: skip
    """Write risks of every head, and their differences from the least, sample by sample.

    `encoders` are the standard ones, if a head reads them; `heads` are of one or both tasks.
    """
    from mispair.sufficiency import measures
    from mispair.sufficiency.encoders import read_towers
    from mispair.sufficiency.heads import read_head

    setting, metadata = measures.read_setting(
        "measure_transfer", settings, trees, flip, seed, settings.samples
    )
    read = [read_head(path, setting.skeletons, setting.device) for path in heads]
    frozen, untrained = (
        read_towers(encoders[0], setting.device, trained)[0] if encoders else None
        for trained in (True, False)
    )
    towers_of: dict[str, Any] = {**dict.fromkeys(OF_ENCODERS, frozen), "untrained": untrained}
    rows = []
    for task in TASKS:
        models: dict[Any, Any] = {
            which["arm"]: (head, towers_of.get(which["arm"]))
            for head, which in read
            if which["task"] == task
        }
        if models:
            noise = float(read[0][1]["noise"])
            rows += measures.transfer(setting, task, models, settings.samples, noise)
    measures.write_measures(transfer, rows, setting, settings, metadata)
    log.info("p = %g, seed %d: %d rows of %d heads", flip, seed, len(rows), len(heads))
