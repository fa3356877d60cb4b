"""LaCLIP's public checkpoints (Fan et al. 2023, arXiv 2305.20088): what their files do not state.

Files of CC3M, CC12M and RedCaps come from LaCLIP's own trainer: a timm ViT-B/16 in which every
block normalises queries and keys, and SLIP's text tower. Files of LAION-400M are open_clip's
models. LaCLIP's code prepares pictures as ImageNet does for the former, as CLIP for the latter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mispair.towers.checkpoints.architectures import PREPROCESS, Architecture
from mispair.towers.checkpoints.model_spec import LAION_MODELS


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


def architectures(recipe: str, model: str | None = None) -> list[Architecture]:
    """Return the architectures of a recipe's files, or that of one model among them."""
    if recipe == "laclip-cc":
        return [cc()]
    return [laion(one) for one in LAION_MODELS if model in (None, one)]
