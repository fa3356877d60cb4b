"""How the command line names the model that judges captions, and the model without a name."""

import os
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.core.words import nearest
from mispair.towers.checkpoints.hub_weights import SAVED_AS, HubWeights, cached, offered
from mispair.towers.checkpoints.model_spec import ModelSpec, open_clip_names
from mispair.towers.dag import SHIPPED

MODEL, TAG = "ViT-B-32", "laion2b_s34b_b79k"
REPOSITORY = "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"
"""The model without a name, and its repository in the Hugging Face hub."""

MEGABYTES = 605
"""Size of its weights, for a message without a network."""

WAYS = f"""\
  --towers MODEL:TAG  by open_clip's names, fetched once: {MODEL}:{TAG} ({MEGABYTES} MB)
  --towers FOLDER     a local open_clip folder, with open_clip_config.json and weights
  --towers shipped    small towers of mispair, for a trial: they know drawn scenes, not photographs
A file of weights is named in mispair.yaml, which `mispair init FOLDER` writes."""


def towers_of(word: str) -> Any:
    """Return the key ``towers`` of the configuration for a word of the command line.

    Raises
    ------
    UserError
        If the word names no model, or a tag that open_clip does not have.
    """
    if word in SHIPPED:
        return word
    if Path(word).is_dir():
        return os.path.abspath(word)
    if Path(word).is_file():
        raise UserError(
            f"--towers {word}: a file of weights does not say how it was trained. Write "
            f"`towers: {{name: mine, model: {MODEL}, checkpoint: {os.path.abspath(word)}, "
            "quick_gelu: false, preprocess: openai}` into mispair.yaml, with what is true of it."
        )
    model, _, tag = word.partition(":")
    names = open_clip_names()
    if tag and model in names:
        towers = {"name": f"{model}-{tag}", "model": model, "pretrained": tag}
        if word != f"{MODEL}:{TAG}":  # the table of tags takes seconds to import
            from mispair.towers.checkpoints.model_recipes import pretrained_cfg

            pretrained_cfg(ModelSpec(**towers))
        return towers
    near = nearest(model, [*names, *SHIPPED])
    if model in names:
        near = f" Its tag is missing, as in {MODEL}:{TAG}."
    raise UserError(f"--towers {word}: this is no model, and no folder.{near} The ways:\n{WAYS}")


def default_towers() -> tuple[Any, str]:
    """Return the model that is taken without a name, and a line on where it comes from.

    Raises
    ------
    UserError
        If it is neither in the cache of the Hugging Face hub nor can be fetched.
    """
    towers, weights = towers_of(f"{MODEL}:{TAG}"), HubWeights(REPOSITORY, SAVED_AS)
    if path := cached(weights):
        size = f"{path.stat().st_size / 1e6:,.0f} MB"
        return towers, f"{MODEL} with {TAG}, which is in the cache ({size})"
    offer = offered(weights)
    if not offer.refusal:
        size = f"{offer.size / 1e6 or MEGABYTES:,.0f} MB"
        return towers, f"{MODEL} with {TAG}, which is fetched once ({size})"
    raise UserError(
        f"No model is named, and {MODEL} with {TAG} is neither in the cache nor can it be fetched "
        f"({offer.refusal}). Name a model that has not learned from these pairs:\n{WAYS}"
    )
