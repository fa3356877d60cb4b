"""Loading of towers with linear final projections, from a local open_clip folder.

The study changes the final projections only, so what a tower gives before its projection is
computed once and every projection is tried on that. This holds for towers whose last step is a
product with a matrix and nothing else: a native vision transformer (``visual.proj``) or a timm
trunk with a linear head without bias (``visual.head.proj``), and a text tower with
``text_projection``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair import files

if TYPE_CHECKING:
    import torch
    from torch import nn

CONFIG_NAME = "open_clip_config.json"
WEIGHTS_NAME = "open_clip_model.safetensors"


@dataclass(frozen=True)
class Towers:
    """A frozen image tower and text tower, taken apart before their final projections.

    Attributes
    ----------
    model : nn.Module
        The whole model, in evaluation mode, without gradients.
    preprocess : callable
        From a PIL picture to a tensor (3, side, side).
    tokenizer : callable
        From a list of n texts to token ids (n, context).
    image_projection, text_projection : torch.Tensor
        The final projections, (d_image, e) and (d_text, e); columns are the neurons.
    logit_scale : float
        Logarithm of the factor of the similarities.
    fingerprint : str
        SHA-256 of configuration, vocabulary and weights.
    """

    model: nn.Module
    preprocess: Callable[[Any], torch.Tensor]
    tokenizer: Callable[[list[str]], torch.Tensor]
    image_projection: torch.Tensor
    text_projection: torch.Tensor
    logit_scale: float
    fingerprint: str

    def image_features(self, images: torch.Tensor) -> torch.Tensor:
        """Return pre-projection features (n, d_image) of pictures (n, 3, side, side).

        ``image_features(x) @ image_projection`` equals ``model.encode_image(x)``.
        """
        import torch

        with torch.inference_mode():
            return self._without_projection("image", images)

    def text_features(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return pre-projection features (n, d_text) of token ids (n, context).

        ``text_features(t) @ text_projection`` equals ``model.encode_text(t)``.
        """
        import torch

        with torch.inference_mode():
            return self._without_projection("text", tokens)

    def _without_projection(self, tower: str, batch: torch.Tensor) -> torch.Tensor:
        """Run a tower with the projection taken out."""
        module, name = _projection_site(self.model, tower)
        projection = getattr(module, name)
        from torch import nn

        setattr(module, name, nn.Identity() if isinstance(projection, nn.Module) else None)
        try:
            model: Any = self.model
            return model.encode_image(batch) if tower == "image" else model.encode_text(batch)
        finally:
            setattr(module, name, projection)


def load_towers(directory: Path, device: str = "cpu") -> Towers:
    """Load towers from a folder with an ``open_clip_config.json`` and weights.

    Parameters
    ----------
    directory : Path
        The folder. Weights are ``open_clip_model.safetensors``; a vocabulary named in the
        configuration (``tokenizer_kwargs.bpe_path``) lies in the same folder.
    device : str
        torch device.

    Raises
    ------
    UserError
        If something is missing or cannot be read, or a final projection is not a plain matrix.
    """
    import open_clip
    import torch
    from torch import nn

    directory = Path(directory).resolve()
    config = _read_config(directory)
    weights = directory / WEIGHTS_NAME
    if not weights.is_file():
        raise files.UserError(f"{weights}: is missing. Towers need their weights as safetensors.")
    try:
        model, _, preprocess = open_clip.create_model_and_transforms(
            f"local-dir:{directory}", device=device, precision="fp32"
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise files.UserError(f"{directory}: open_clip cannot load it ({error}).") from error
    model.eval().requires_grad_(False)
    matrices: dict[str, torch.Tensor] = {}
    for tower in ("image", "text"):
        module, name = _projection_site(model, tower)
        projection = getattr(module, name)
        if isinstance(projection, nn.Linear):
            bias: torch.Tensor | None = projection.bias
            if bias is not None:
                raise _refusal(tower, "its final layer has a bias")
            projection = projection.weight.T
        matrices[tower] = projection.detach().clone().contiguous().to(torch.float32)
    return Towers(
        model=model,
        preprocess=preprocess,
        tokenizer=_tokenizer(directory, config),
        image_projection=matrices["image"],
        text_projection=matrices["text"],
        logit_scale=float(model.logit_scale),
        fingerprint=fingerprint(directory),
    )


def fingerprint(directory: Path) -> str:
    """Return the SHA-256 over configuration, vocabulary and weights in a folder of towers.

    The spelling of the JSON does not count, nor does what else lies in the folder.
    """
    config = _read_config(directory)
    total = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    vocabulary = config["model_cfg"].get("text_cfg", {}).get("tokenizer_kwargs", {}).get("bpe_path")
    for path in [directory / vocabulary] if vocabulary else []:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    with (directory / WEIGHTS_NAME).open("rb") as opened:
        total.update(hashlib.file_digest(opened, "sha256").digest())
    return total.hexdigest()


def _read_config(directory: Path) -> dict[str, Any]:
    path = directory / CONFIG_NAME
    if not path.is_file():
        raise files.UserError(
            f"{path}: is missing. Towers are a folder with {CONFIG_NAME} and {WEIGHTS_NAME}, as "
            "pretrain_towers and open_clip's push to a hub write them."
        )
    config = files.read_json(path)
    if not isinstance(config, dict) or "model_cfg" not in config:
        raise files.UserError(f"{path}: has no model_cfg.")
    return config


def _tokenizer(directory: Path, config: dict[str, Any]) -> Callable[[list[str]], torch.Tensor]:
    """Return the tokenizer, with its vocabulary looked for in the folder of the towers."""
    import open_clip

    given = config["model_cfg"].get("text_cfg", {}).get("tokenizer_kwargs", {})
    extra = {"bpe_path": str(directory / given["bpe_path"])} if "bpe_path" in given else {}
    return open_clip.get_tokenizer(f"local-dir:{directory}", **extra)


def _projection_site(model: nn.Module, tower: str) -> tuple[Any, str]:
    """Return the module that holds a tower's final projection, and the attribute's name."""
    from torch import nn

    if tower == "text":
        # Custom text towers (and CoCa's) hold it one level deeper.
        owner = getattr(model, "text", model)
        if not isinstance(getattr(owner, "text_projection", None), nn.Parameter | nn.Linear):
            raise _refusal("text", "it has no text_projection, or one that is not a matrix")
        return owner, "text_projection"
    visual: Any = model.visual
    if isinstance(getattr(visual, "proj", None), nn.Parameter):
        return visual, "proj"
    head = getattr(visual, "head", None)
    if isinstance(getattr(head, "proj", None), nn.Linear):
        return head, "proj"
    if hasattr(visual, "attnpool"):
        raise _refusal("image", "attention pooling ends in a layer with a bias")
    raise _refusal("image", f"{type(visual).__name__} has neither visual.proj nor visual.head.proj")


def _refusal(tower: str, reason: str) -> files.UserError:
    return files.UserError(
        f"towers: the {tower} tower cannot be taken apart: {reason}. mispair needs a final "
        "projection that is a plain matrix: a native vision transformer, or a timm trunk with "
        '"timm_proj": "linear", and a text tower with text_projection.'
    )
