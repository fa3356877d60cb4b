"""Architectures: what determines a model's outputs besides its weights, and a check of weights."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core import cards, files
from mispair.core.provenance import fingerprint
from mispair.towers.checkpoints.model_spec import LAION_MODELS
from mispair.towers.loading import TRUNK_NAME, WEIGHTS_NAME, with_trunk_in, write_configuration

if TYPE_CHECKING:
    import torch
    from torch import nn

    from mispair.towers.checkpoints.weights import State


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
            f"{label} {len(value)}: {', '.join(value[:5])}{', ...' if len(value) > 5 else ''}"
            for label, value in (
                ("missing", self.missing),
                ("unexpected", self.unexpected),
                ("of another shape", self.shapes),
            )
            if value
        ]
        return "; ".join(parts)


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


# LaCLIP's public checkpoints (Fan et al. 2023, arXiv 2305.20088): what their files do not state.
#
# Files of CC3M, CC12M and RedCaps come from LaCLIP's own trainer: a timm ViT-B/16 in which every
# block normalises queries and keys, and SLIP's text tower. Files of LAION-400M are open_clip's
# models. LaCLIP's code prepares pictures as ImageNet does for the former, as CLIP for the latter.


@dataclass(frozen=True)
class RecipeSizes:
    """Sizes of a model of the CC recipe; the defaults are those of all public files."""

    image_size: int = 224
    patch_size: int = 16
    width: int = 768
    layers: int = 12
    heads: int = 12
    embed_dim: int = 512
    text_width: int = 512
    text_layers: int = 12
    text_heads: int = 8
    context_length: int = 77
    vocab_size: int = 49408


PUBLIC = RecipeSizes()


@cache
def cc(sizes: RecipeSizes = PUBLIC, *, qk_norm: bool = True) -> Architecture:
    """Return the architecture of the CC3M, CC12M and RedCaps files; other sizes are for tests.

    Without `qk_norm` it is SLIP's own CLIP, which differs in this alone and has no recipe. Loading
    that is not strict would accept its weights without an error.
    """
    return Architecture(
        name="recipe laclip-cc" if qk_norm else "SLIP's CLIP_VITB16, for which there is no recipe",
        model_cfg={
            "embed_dim": sizes.embed_dim,
            "quick_gelu": True,  # of the text tower; timm's trunk keeps the exact GELU
            "vision_cfg": {
                "image_size": sizes.image_size,
                "timm_model_name": "local-dir:.",
                "timm_pool": "",  # the trunk's own, which is the class token
                "timm_proj": "linear",
            },
            "text_cfg": {
                "context_length": sizes.context_length,
                "vocab_size": sizes.vocab_size,
                "width": sizes.text_width,
                "heads": sizes.text_heads,
                "layers": sizes.text_layers,
            },
        },
        preprocess_cfg=PREPROCESS["imagenet"],
        trunk={
            "architecture": "vit_base_patch16_224",
            "model_args": {
                "img_size": sizes.image_size,
                "patch_size": sizes.patch_size,
                "embed_dim": sizes.width,
                "depth": sizes.layers,
                "num_heads": sizes.heads,
                "qk_norm": qk_norm,
            },
        },
        name_in_file=_name_in_cc_file,
        transposed=frozenset({"image_projection"}),
    )


def _name_in_cc_file(name: str) -> str:
    if name == "visual.head.proj.weight":
        return "image_projection"
    return name.replace("visual.trunk.", "visual.", 1)


@cache
def laion(model: str) -> Architecture:
    """Return the architecture of a LAION-400M file, by its name in `LAION_MODELS`."""
    from mispair.towers.light_open_clip import open_clip

    return Architecture(
        name=f"recipe laclip-laion with model {model}",
        model_cfg=open_clip.get_model_config(model),
        preprocess_cfg=PREPROCESS["openai"],
    )


def of_recipe(recipe: str, model: str | None = None) -> list[Architecture]:
    """Return the architectures of a recipe's files, or that of one model among them."""
    if recipe == "laclip-cc":
        return [cc()]
    return [laion(one) for one in LAION_MODELS if model in (None, one)]


# The card of a model that mispair writes as a folder of open_clip.

LOAD = """```python
import open_clip

model, _, preprocess = open_clip.create_model_and_transforms("local-dir:THIS_FOLDER")
```"""


def converted_card(record: Mapping[str, Any], licence: str) -> str:
    """Return the card of a converted checkpoint.

    It has no scores: the conversion comes before every evaluation.

    Parameters
    ----------
    record : mapping
        Content of the folder's ``config.json``.
    licence : str
        Of the weights, as the hub names it.
    """
    facts = {
        "architecture": record["architecture"], "weights": record["checkpoint"],
        "SHA-256": record["sha256"], "trained on": record["pretraining"],
        "method": record["method"], "recipe": record["recipe"],
        "activations": json.dumps(record["activation"]),
    }  # fmt: skip
    rows = [(key, f"{value}") for key, value in facts.items() if value is not None]
    return cards.card(
        {
            "license": licence, "library_name": "open_clip",
            "pipeline_tag": "zero-shot-image-classification",
            "tags": ["clip", "converted", "mispair"],
        },
        f"# {record['name']}",
        "A published checkpoint as a folder of open_clip; the weights are unchanged.",
        cards.table(("", "value"), rows),
        "Scores are in the report of the run that converted it, with their protocols.",
        LOAD,
    )  # fmt: skip
