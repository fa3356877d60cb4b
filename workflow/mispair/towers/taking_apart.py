"""Taking open_clip models apart before their final projections.

A tower can be taken apart if its last step is a product with a matrix and nothing else. For images
that is open_clip's own vision transformer (``visual.proj``) with any pooling, or a timm trunk with
a linear head (``visual.head.proj``). For texts it is open_clip's own text transformer
(``text_projection``), as a part of ``CLIP``, in ``CustomTextCLIP`` or in ``CoCa``.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mispair.core.files import UserError


@dataclass(frozen=True)
class ModelParts:
    """A model's towers without their final projections, and the projections.

    Attributes
    ----------
    image_tower, text_tower : nn.Module
        From pictures (n, 3, side, side) to features (n, d_image), and from token ids (n, context)
        to features (n, d_text). They share all weights with the model, which stays whole.
    image_projection, text_projection : torch.Tensor
        (d_image, e) and (d_text, e), single precision; columns are the neurons.
    context_length : int
        Tokens of a text.
    """

    image_tower: nn.Module
    text_tower: nn.Module
    image_projection: torch.Tensor
    text_projection: torch.Tensor
    context_length: int


def take_apart(model: nn.Module) -> ModelParts:
    """Take a model of open_clip apart.

    ``image_tower(x) @ image_projection`` is the model's embedding before normalisation, which
    ``CoCa.encode_image`` applies except with ``normalize=False``; likewise for texts.

    Raises
    ------
    UserError
        If a tower does not end in a product with a matrix; the message has its end.
    """
    visual: Any = model.visual
    # CLIP itself holds the parts of its text transformer; the others have it as one module.
    text: Any = getattr(model, "text", model)
    image_site, text_site = _image_projection(visual), _text_projection(text)
    bare_text = _without(text, text_site)
    return ModelParts(
        image_tower=_Pooled(_without(visual, image_site)),
        text_tower=_ClipText(bare_text) if text is model else _Pooled(bare_text),
        image_projection=_matrix("image", visual.get_submodule(image_site[0]), image_site[1]),
        text_projection=_matrix("text", text, text_site[1]),
        context_length=int(text.context_length),
    )


class _Pooled(nn.Module):
    """Leaves out the tokens that some towers return with the pooled features."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        output = self.tower(batch)
        pooled: torch.Tensor = output[0] if isinstance(output, tuple) else output
        # A pooler with one query gives (n, 1, d).
        return pooled.flatten(1)


class _ClipText(nn.Module):
    """The text tower of a ``CLIP``, which is a method and not a module."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.model.encode_text(tokens)
        return features


def _image_projection(visual: Any) -> tuple[str, str]:
    """Return the submodule ("" is the tower itself) and the name of the image projection."""
    if hasattr(visual, "trunk"):
        if not hasattr(visual.head, "proj"):
            raise refusal("image", _end_of_timm(visual))
        return "head", "proj"
    if hasattr(visual, "attnpool"):
        raise refusal("image", "attention pooling ends in a layer with a bias")
    if getattr(visual, "proj", None) is None:
        raise refusal("image", f"{type(visual).__name__} has no final projection")
    # Poolers of an `attentional_pool` given as a word have one query, and this type is "none".
    if visual.pool_type == "none" and getattr(visual, "attn_pool_contrastive", None) is None:
        raise refusal("image", 'it does not pool ("pool_type": "none")')
    return "", "proj"


def _end_of_timm(visual: Any) -> str:
    """Return, for a message, the end of a timm tower that has no linear head."""
    if hasattr(visual.head, "mlp"):
        return 'its head is a perceptron ("timm_proj": "mlp")'
    if hasattr(visual.head, "pool"):
        return "the attention pooling of its timm trunk ends in a layer with a bias"
    if visual.trunk.num_classes:
        return 'its projection is the classifier inside the timm trunk ("timm_proj": null)'
    return 'it has no final projection ("timm_proj": "none")'


def _text_projection(text: Any) -> tuple[str, str]:
    """Return the submodule ("", the tower itself) and the name of the text projection."""
    if getattr(text, "text_projection", None) is None:
        raise refusal("text", f"{type(text).__name__} has no text_projection")
    if "none" in (getattr(text, "pool_type", None), getattr(text, "text_pool_type", None)):
        raise refusal("text", 'it does not pool ("pool_type": "none")')
    return "", "text_projection"


def _matrix(tower: str, owner: nn.Module, name: str) -> torch.Tensor:
    """Return a copy of a projection, (d, e)."""
    projection = getattr(owner, name)
    if isinstance(projection, nn.Linear):
        bias: torch.Tensor | None = projection.bias
        if bias is not None:
            raise refusal(tower, "its final layer has a bias")
        projection = projection.weight.T
    if not isinstance(projection, torch.Tensor):
        raise refusal(tower, f"its final layer is a {type(projection).__name__}")
    return projection.detach().to(torch.float32, copy=True).contiguous()


def _without(module: nn.Module, site: tuple[str, str]) -> nn.Module:
    """Return a module that shares every weight with another and lacks its final projection."""
    inner, name = site
    twin = copy.copy(module)
    # Own tables, so that the module keeps the projection that is removed here.
    twin._modules = dict(module._modules)
    twin._parameters = dict(module._parameters)
    if inner:
        setattr(twin, inner, _without(module.get_submodule(inner), ("", name)))
    else:
        # open_clip skips a projection that is None; the head of a timm trunk is a sequence.
        setattr(twin, name, nn.Identity() if isinstance(module, nn.Sequential) else None)
    return twin


def refusal(tower: str, reason: str) -> UserError:
    """Return the error of a tower that cannot be taken apart."""
    return UserError(
        f"towers: the {tower} tower cannot be taken apart: {reason}. mispair needs a final "
        "projection that is a plain matrix: open_clip's own vision transformer, or a timm trunk "
        'with "timm_proj": "linear", and a text tower with text_projection.'
    )
