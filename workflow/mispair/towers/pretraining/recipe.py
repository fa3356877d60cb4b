"""Provenance of trained towers, which is written next to them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core.settings import command_line
from mispair.towers.pretraining import pretraining
from mispair.towers.pretraining.training_origin import Origin

if TYPE_CHECKING:
    from mispair.towers.pretraining.pretraining_settings import Settings

PACKAGES = ("open_clip_torch", "timm", "torch", "torchvision", "webdataset")


def versions() -> dict[str, str]:
    """Return the versions of the libraries that a training depends on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def recipe(
    settings: Settings,
    device: str,
    origin: Origin,
    shards: Sequence[Path],
    samples: int,
    losses: list[dict[str, float]],
) -> dict[str, Any]:
    """Return commands, settings, corpus, versions and losses of a training.

    Commands name folders by what they hold, not by where they were on one machine. `samples` are
    the pairs of an epoch, `losses` those of `pretraining.read_losses`.
    """
    arguments = pretraining.trainer_arguments(
        settings,
        device,
        model="local-dir:MODEL",
        shards=[f"SHARDS/{shard.name}" for shard in shards],
        samples=samples,
        logs="LOGS",
    )
    start = "" if origin.folder is None else "--start START/* "
    return {
        "command": f"python -m mispair pretrain-towers {command_line(settings)} "
        f"--shards SHARDS/*.tar {start}--towers TOWERS",
        "trainer": ["python", "-m", "open_clip_train.main", *arguments],
        "settings": settings.model_dump(),
        "start": None if origin.folder is None else origin.fingerprint,
        "definition": origin.content,
        "corpus": {
            "fingerprint": pretraining.corpus_fingerprint(shards),
            "pairs": samples,
            "shards": [shard.name for shard in shards],
        },
        "versions": versions(),
        "losses": losses,
    }
