"""What a training begins with: a definition with random weights, or towers with theirs.

Also the record of the training, which is written next to the trained towers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core import files
from mispair.core.provenance import fingerprint
from mispair.core.settings import command_line
from mispair.towers.loading import (
    CONFIG_NAME,
    TRUNK_NAME,
    WEIGHTS_NAME,
    load_towers,
    write_configuration,
)
from mispair.towers.pretraining import pretraining

if TYPE_CHECKING:
    import torch

    from mispair.towers.pretraining.pretraining_settings import Settings

RECORDS = {CONFIG_NAME, "training.json"}
WEIGHTS = {".safetensors", ".bin", ".pt", ".pth"}


@dataclass(frozen=True)
class Origin:
    """A model before its training.

    Attributes
    ----------
    content : dict
        As in ``open_clip_config.json``.
    fingerprint : str
        Changes with the definition, and with the weights where there are some.
    dtype : torch.dtype
        Number format in which trained weights are written.
    folder : Path or None
        Folder of the weights and the vocabulary.
    """

    content: dict[str, Any]
    fingerprint: str
    dtype: torch.dtype
    folder: Path | None = None

    def write(self, folder: Path, final: Path | None = None) -> None:
        """Write the model as a local open_clip folder.

        `final` is the folder after weights are added and it is renamed. None keeps the folder for
        open_clip's trainer, with the weights that training begins with, if any.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if self.folder is None:
            pretraining.write_definition(folder, self.content)
            return
        for path in self.folder.iterdir():
            if path.is_file() and path.name not in RECORDS and path.suffix not in WEIGHTS:
                shutil.copyfile(path, folder / path.name)
        if (folder / TRUNK_NAME).is_file():
            trunk = files.read_json(folder / TRUNK_NAME)
            trunk.pop("mispair", None)  # the record of a converted checkpoint
            files.write_json(folder / TRUNK_NAME, trunk)
        if final is None:
            (folder / WEIGHTS_NAME).unlink(missing_ok=True)
            (folder / WEIGHTS_NAME).symlink_to((self.folder / WEIGHTS_NAME).resolve())
        write_configuration(folder, self.content, final or folder)


def origin(definition: str, start: Sequence[Path]) -> Origin:
    """Return what a training begins with: a definition (`pretraining.read_definition`), or a start.

    `start` are the files of towers, the configuration first, or none.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    import torch
    from safetensors import safe_open

    if not start:
        content = pretraining.read_definition(definition)
        identity = fingerprint([json.dumps(content, sort_keys=True)])
        return Origin(content, identity, torch.float16)
    folder = start[0].parent
    identity = load_towers(folder).fingerprint
    with safe_open(folder / WEIGHTS_NAME, framework="pt") as opened:
        dtypes = [opened.get_tensor(name).dtype for name in opened.keys()]  # noqa: SIM118
    # The widest, so that training with a rate of 0 returns the weights unchanged.
    dtype = reduce(torch.promote_types, [one for one in dtypes if one.is_floating_point])
    return Origin(files.read_json(folder / CONFIG_NAME), identity, dtype, folder)


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
        "versions": pretraining.versions(),
        "losses": losses,
    }
