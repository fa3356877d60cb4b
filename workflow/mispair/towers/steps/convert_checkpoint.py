"""Convert a checkpoint, by its recipe or its name in open_clip, into a local open_clip folder."""

from __future__ import annotations

from pathlib import Path

from mispair.core import settings


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
    from mispair.core.files import UserError, write_text
    from mispair.core.folders import replacing_folder
    from mispair.core.provenance import file_digest
    from mispair.towers.checkpoints import model_recipes
    from mispair.towers.checkpoints.model_spec import ModelSpec
    from mispair.towers.checkpoints.state_dicts import read_state_dict
    from mispair.towers.loading import load_towers
    from mispair.towers.model_cards import converted_card

    try:
        model = ModelSpec.model_validate_json(spec)
    except ValidationError as error:
        reasons = "; ".join(str(one["msg"]) for one in error.errors())
        raise UserError(f"convert_checkpoint --spec: {reasons}") from error
    model_recipes.candidates(model)  # before a download: most mistakes show in the entry
    path = checkpoint[0] if checkpoint else model_recipes.download(model)
    state = read_state_dict(path)
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    architecture = model_recipes.choose(model, shapes, path)
    preprocess = architecture.preprocess_cfg
    record = {
        **model.model_dump(),
        # The folder of a file differs between machines.
        "checkpoint": path.name,
        "architecture": architecture.name,
        "recipe_hash": architecture.recipe_hash(),
        "sha256": file_digest(path),
        "activation": architecture.activations(),
        **preprocess,
    }
    with replacing_folder(towers) as folder:
        architecture.write(folder, state, record, towers)
        write_text(folder / "README.md", converted_card(record, model.licence or UNKNOWN))
        load_towers(folder).make_tokenizer()  # what cannot be loaded is not left behind
