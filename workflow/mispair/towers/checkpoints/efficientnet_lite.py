"""EfficientNet-lite: from the names of its published weights to timm's, exactly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core.files import UserError

if TYPE_CHECKING:
    import torch
    from torch import nn

ARCHITECTURE = "tf_efficientnet_lite0"
"""timm's name; the weights are from TensorFlow, whose padding depends on the image side."""

PREPROCESSING: dict[str, Any] = {
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "interpolation": "bicubic",
    "resize_mode": "shortest",
}
"""Preprocessing of the published weights, as in ``open_clip_config.json``."""

DEPTHS = (1, 2, 2, 3, 3, 4, 1)
"""Blocks of each stage of EfficientNet-lite0: timm numbers them within their stage."""

STEM = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}
CLASSIFIER = "_fc"
FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
"""Layers of a block that does not widen its input: those of the first stage."""
OTHERS = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def renamed(name: str) -> str | None:
    """Return timm's name of a published weight; None for one of the classifier.

    Raises
    ------
    ValueError
        If EfficientNet-lite0 has no such weight.

    Examples
    --------
    >>> renamed("_blocks.1._expand_conv.weight"), renamed("_bn0.bias"), renamed("_fc.bias")
    ('blocks.1.0.conv_pw.weight', 'bn1.bias', None)
    """
    layer, _, rest = name.partition(".")
    if layer == CLASSIFIER:
        return None
    if layer in STEM:
        return f"{STEM[layer]}.{rest}"
    match = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    block = int(match[1]) if match else sum(DEPTHS)
    layers = OTHERS if block else FIRST
    if match is None or block >= sum(DEPTHS) or match[2] not in layers:
        raise ValueError(f"EfficientNet-lite0 has no weight {name}")
    stage = 0
    while block >= DEPTHS[stage]:
        block, stage = block - DEPTHS[stage], stage + 1
    return f"blocks.{stage}.{block}.{layers[match[2]]}.{match[3]}"


def load_trunk(trunk: nn.Module, state: Mapping[str, torch.Tensor], path: Path) -> None:
    """Load published weights into timm's model without its classifier, strictly.

    Parameters
    ----------
    trunk : nn.Module
        timm's `ARCHITECTURE` with ``num_classes=0``; changed in place.
    state : mapping
        Weights by their published names.
    path : Path
        Their file, for the message.

    Raises
    ------
    UserError
        If a weight is missing, is surplus, or has another shape.
    """
    try:
        names = {name: renamed(name) for name in state}
        trunk.load_state_dict({new: state[old] for old, new in names.items() if new}, strict=True)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{path}: does not fit EfficientNet-lite0 ({reason}).") from error
