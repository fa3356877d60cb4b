"""Tiny towers of open_clip with random weights."""

import json
from pathlib import Path
from typing import Any

import open_clip
import torch

from mispair.towers import loading
from mispair.towers.pretraining import pretraining

Family = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""model_cfg beside the towers, image tower, text tower."""

SHIPPED = Path(loading.__file__).parent / "shipped" / "scenes-small"

VISION = {"image_size": 16, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}
TEXT = {"context_length": 12, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
NATIVE: Family = ({}, VISION, TEXT)


def build(folder: Path, family: Family) -> Path:
    """Write a folder of towers of a family, with random weights that open_clip made."""
    rest, vision, text = family
    folder.mkdir()
    content = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text, **rest}
    config = {"model_cfg": content, "preprocess_cfg": {}}
    (folder / loading.CONFIG_NAME).write_text(json.dumps(config))
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{folder}")
    with torch.no_grad():
        for parameter in model.parameters():
            # Away from fresh weights, in which biases are 0; the decoder's are never set at all.
            parameter.nan_to_num_(0, 0, 0).clamp_(-3, 3).add_(0.1 * torch.randn(parameter.shape))
    pretraining.write_weights(folder / loading.WEIGHTS_NAME, model.state_dict())
    return folder
