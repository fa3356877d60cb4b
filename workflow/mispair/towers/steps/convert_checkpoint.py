"""Convert a checkpoint, by its recipe or its name in open_clip, into a local open_clip folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core import settings

if TYPE_CHECKING:
    from mispair.towers.checkpoints.weights import Weights

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`convert_checkpoint` has no settings: a model's entry in `config.yaml` has everything."""


def run(settings: Settings, *, spec: str, checkpoint: list[Path], towers: Path) -> None:
    """Write a folder that open_clip and every other step load like any local one.

    Parameters
    ----------
    settings, spec
        None; the model's entry in ``config.yaml``, as JSON.
    checkpoint : list of Path
        The file of weights; none where open_clip fetches those of a tag.
    towers : Path
        Folder to write: ``open_clip_config.json``, ``open_clip_model.safetensors``,
        ``config.json`` with the origin of the model, and its card, ``README.md``.
    """
    from pydantic import ValidationError

    from mispair.core.cards import UNKNOWN
    from mispair.core.files import UserError, replacing_folder, write_text
    from mispair.core.provenance import file_digest
    from mispair.towers.checkpoints import model_recipes
    from mispair.towers.checkpoints.architectures import converted_card
    from mispair.towers.checkpoints.model_spec import ModelSpec
    from mispair.towers.checkpoints.weights import read_weights
    from mispair.towers.loading import load_towers

    try:
        model = ModelSpec.model_validate_json(spec)
    except ValidationError as error:
        reasons = "; ".join(str(one["msg"]) for one in error.errors())
        raise UserError(f"convert_checkpoint --spec: {reasons}") from error
    possible = model_recipes.candidates(model)  # before a download: most mistakes show there
    path = checkpoint[0] if checkpoint else model_recipes.download(model)
    weights = read_weights(path, (one.shapes for one in possible), model.part)
    _log(weights, path)
    shapes = {name: tuple(value.shape) for name, value in weights.state.items()}
    architecture = model_recipes.choose(model, shapes, path)
    preprocess = architecture.preprocess_cfg
    record = {
        **model.model_dump(),
        # The folder of a file differs between machines.
        "checkpoint": path.name,
        "part": weights.part or None,
        "ignored": [*weights.ignored],
        "architecture": architecture.name,
        "recipe_hash": architecture.recipe_hash(),
        "sha256": file_digest(path),
        "activation": architecture.activations(),
        **preprocess,
    }
    with replacing_folder(towers) as folder:
        architecture.write(folder, weights.state, record, towers)
        write_text(folder / "README.md", converted_card(record, model.licence or UNKNOWN))
        load_towers(folder).make_tokenizer()  # what cannot be loaded is not left behind


def _log(weights: Weights, path: Path) -> None:
    """Log what of a file was read."""
    if weights.part:
        log.info("%s: its weights are at %r", path, weights.part)
    if weights.others:
        log.warning(
            "%s: has weights of this model at %s, too; `part` in the model's entry takes them",
            path,
            ", ".join(map(repr, weights.others)),
        )
    if weights.ignored:
        log.warning(
            "%s: ignores %s, which enter no features", path, ", ".join(map(repr, weights.ignored))
        )
