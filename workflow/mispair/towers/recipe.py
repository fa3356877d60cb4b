"""What trained towers were made from, recorded beside them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mispair.settings import Settings, command_line
from mispair.towers import pretraining

PACKAGES = ("open_clip_torch", "timm", "torch", "torchvision", "webdataset")


def recipe(
    settings: Settings, shards: Sequence[Path], samples: int, losses: list[dict[str, float]]
) -> dict[str, Any]:
    """Return commands, settings, corpus, versions and losses of a training.

    Commands name folders by what they hold, not by where they lay on one machine.
    """
    values = settings.model_dump()
    definition, _threads = values.pop("definition"), values.pop("threads")
    arguments = pretraining.trainer_arguments(
        model="local-dir:MODEL",
        shards=[f"SHARDS/{shard.name}" for shard in shards],
        samples=samples,
        logs="LOGS",
        **values,
    )
    return {
        "command": f"python -m mispair pretrain-towers {command_line(settings)} "
        "--shards SHARDS/*.tar --towers TOWERS",
        "trainer": ["python", "-m", "open_clip_train.main", *arguments],
        "settings": settings.model_dump(),
        "definition": pretraining.read_definition(definition),
        "corpus": {
            "fingerprint": pretraining.corpus_fingerprint(shards),
            "pairs": samples,
            "shards": [shard.name for shard in shards],
        },
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "losses": losses,
    }
