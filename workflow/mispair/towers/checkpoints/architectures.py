"""Architectures: what determines a model's outputs besides its weights, and a check of weights."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core import files
from mispair.core.provenance import fingerprint
from mispair.towers.loading import TRUNK_NAME, WEIGHTS_NAME, with_trunk_in, write_configuration

if TYPE_CHECKING:
    import torch
    from torch import nn

    from mispair.towers.checkpoints.weight_tables import State

PREPROCESS: dict[str, dict[str, Any]] = {
    "openai": {
        "mean": [0.48145466, 0.4578275, 0.40821073],
        "std": [0.26862954, 0.26130258, 0.27577711],
        "interpolation": "bicubic",
        "resize_mode": "shortest",
    },
    "imagenet": {
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "interpolation": "bilinear",
        "resize_mode": "shortest",
    },
}
"""How pictures are prepared: shortest side resized, centre cut out, then normalised."""


def name_before_custom_text(name: str) -> str:
    """Return a weight's name in files from before open_clip had custom text towers."""
    return name.removeprefix("text.")


def name_of_custom_text(name: str) -> str:
    """Return a weight's name in files of open_clip's custom text towers (force_custom_text)."""
    parts = ("transformer.", "token_embedding.", "positional_embedding", "ln_final.", "text_proj")
    return f"text.{name}" if name.startswith(parts) else name


@dataclass(frozen=True)
class Misfit:
    """Where weights differ from an architecture, in the file's own names."""

    missing: list[str]
    unexpected: list[str]
    shapes: list[str]

    @property
    def size(self) -> int:
        """Return the number of differences."""
        return len(self.missing) + len(self.unexpected) + len(self.shapes)

    def __str__(self) -> str:
        parts = [
            f"{label} {len(value)}: {', '.join(value[:5])}{', ...' if len(value) > 5 else ''}."
            for label, value in (
                ("Missing", self.missing),
                ("Unexpected", self.unexpected),
                ("Of another shape", self.shapes),
            )
            if value
        ]
        return " ".join(parts)


@dataclass(frozen=True)
class Architecture:
    """What determines a model's outputs besides its weights.

    Attributes
    ----------
    name : str
        Name in messages.
    model_cfg, preprocess_cfg : dict
        As in ``open_clip_config.json``.
    trunk : dict or None
        For an image tower that timm builds with arguments open_clip cannot pass: timm's name of
        the ``architecture`` and its ``model_args``, which timm reads from the same folder.
    name_in_file : callable
        Maps open_clip's name of a weight to the file's.
    transposed : frozenset of str
        Names in the file of matrices that open_clip holds transposed.
    """

    name: str
    model_cfg: Mapping[str, Any]
    preprocess_cfg: Mapping[str, Any]
    trunk: Mapping[str, Any] | None = None
    name_in_file: Callable[[str], str] = str  # the same name
    transposed: frozenset[str] = frozenset()

    @cached_property
    def skeleton(self) -> nn.Module:
        """Return the model without memory for its weights."""
        import torch

        from mispair.towers.light_open_clip import open_clip

        with tempfile.TemporaryDirectory() as scratch, torch.device("meta"):
            self._write_configuration(Path(scratch), {}, Path(scratch))
            content = json.loads(json.dumps(self.model_cfg))
            content["vision_cfg"] = with_trunk_in(Path(scratch), content["vision_cfg"])
            custom = content.pop("custom_text", False)
            if custom and "multimodal_cfg" in content:
                return open_clip.CoCa(**content)
            return (open_clip.CustomTextCLIP if custom else open_clip.CLIP)(**content)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every weight, by its name in the file."""
        shape_of = {}
        for name, value in self.skeleton.state_dict().items():
            source, shape = self.name_in_file(name), tuple(value.shape)
            shape_of[source] = shape[::-1] if source in self.transposed else shape
        return shape_of

    def misfit(self, weights: Mapping[str, tuple[int, ...]]) -> Misfit:
        """Compare with the shapes of weights in a file."""
        expected = self.shapes
        return Misfit(
            missing=sorted(expected.keys() - weights.keys()),
            unexpected=sorted(weights.keys() - expected.keys()),
            shapes=[
                f"{name} {weights[name]} instead of {expected[name]}"
                for name in sorted(weights.keys() & expected.keys())
                if weights[name] != expected[name]
            ],
        )

    def activations(self) -> dict[str, str]:
        """Return the activation of each tower: ``gelu``, ``quick_gelu``, or timm's name of it."""
        model: Any = self.skeleton
        text = model.text if hasattr(model, "text") else model.transformer
        return {"image": _activation(model.visual), "text": _activation(text)}

    def recipe(self) -> dict[str, Any]:
        """Return all that determines the outputs, as JSON values."""
        return {
            "model_cfg": {"quick_gelu": False, **self.model_cfg},
            "preprocess_cfg": dict(self.preprocess_cfg),
            "trunk": None if self.trunk is None else dict(self.trunk),
            "activation": self.activations(),
            "tokenizer": "open_clip.SimpleTokenizer",
        }

    def recipe_hash(self) -> str:
        """Return 16 digits that change with any value of `recipe`."""
        return fingerprint([json.dumps(self.recipe(), sort_keys=True)])

    def write(
        self, folder: Path, state: State, record: Mapping[str, Any], final: Path | None = None
    ) -> None:
        """Write a folder that plain open_clip loads as ``local-dir:`` from any working directory.

        The weights of `state`, by their names in the file, are kept bit for bit. `record` is the
        origin of the model, for ``config.json``. `final` is the folder after it is renamed, where
        timm looks for the trunk; None if it is not renamed.
        """
        from safetensors.torch import save_file

        self._write_configuration(folder, record, final or folder)
        weights = {name: self._weight(name, state) for name in self.skeleton.state_dict()}
        with files.replacing(folder / WEIGHTS_NAME) as temporary:
            save_file(dict(sorted(weights.items())), temporary)

    def _weight(self, name: str, state: State) -> torch.Tensor:
        import torch

        source = self.name_in_file(name)
        value = state[source].T if source in self.transposed else state[source]
        # A copy: safetensors refuses weights that share memory, as those of some trainers do.
        return value.detach().clone(memory_format=torch.contiguous_format)

    def _write_configuration(self, folder: Path, record: Mapping[str, Any], final: Path) -> None:
        # Without ``pretrained_cfg``, timm would read every key as one of pretrained weights.
        trunk = {} if self.trunk is None else {**self.trunk, "pretrained_cfg": {}}
        files.write_json(folder / TRUNK_NAME, {**trunk, "mispair": dict(record)})
        config = {"model_cfg": self.model_cfg, "preprocess_cfg": self.preprocess_cfg}
        write_configuration(folder, config, final)


def _activation(tower: nn.Module) -> str:
    """Return the activation among a tower's modules; every tower of open_clip has one."""
    names = {
        type(module).__name__.replace("Quick", "quick_").lower()
        for module in tower.modules()
        if re.search("gelu|silu|relu|swish|mish", type(module).__name__, re.IGNORECASE)
    }
    return " and ".join(sorted(names)) or "none"
