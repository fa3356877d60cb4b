"""From the name of a model in ``config.yaml`` to its architecture and the file of its weights."""

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from mispair.core.files import UserError
from mispair.towers.checkpoints import architectures
from mispair.towers.checkpoints.architectures import (
    PREPROCESS,
    Architecture,
    name_before_custom_text,
    name_of_custom_text,
)
from mispair.towers.checkpoints.hub_weights import cached, weights_of
from mispair.towers.checkpoints.model_spec import ModelSpec, Recipe
from mispair.towers.loading import refuse_what_open_clip_would_fetch
from mispair.towers.taking_apart import take_apart

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of weights by their names in a file."""

TRUNK_POSITIONS = "visual.trunk.pos_embed"
PATCHES = {
    "visual.positional_embedding": "visual.conv1.weight",
    TRUNK_POSITIONS: "visual.trunk.patch_embed.proj.weight",
}
"""Positions of an image tower, and the weights whose last size is that of a patch."""


def candidates(spec: ModelSpec) -> list[Architecture]:
    """Return the architectures that a model's entry allows: mostly one.

    Raises
    ------
    UserError
        If open_clip has no such tag, the tag was trained with another activation than the name
        implies, or the towers cannot be taken apart. No file is read before.
    """
    if spec.kind == "folder":
        raise UserError(
            f"model {spec.name}: is a folder of open_clip already and needs no conversion."
        )
    if spec.recipe is not None:
        return architectures.of_recipe(spec.recipe, spec.model)
    assert spec.model is not None
    config = _config(spec.model)
    if spec.kind == "tag":
        tag = pretrained_cfg(spec)
        _refuse_another_activation(spec, tag, config)
        preprocess, source = _preprocess(tag), f" of {spec.pretrained}"
    else:
        assert spec.preprocess is not None
        preprocess, source = PREPROCESS[spec.preprocess], ""
        config["quick_gelu"] = spec.quick_gelu
        _force(config, spec)
    size = spec.force_image_size
    return list(_by_open_clip(spec.model, config, preprocess, source, size))


def _force(config: dict[str, Any], spec: ModelSpec) -> None:
    """Change a definition of open_clip's as its options of these names do."""
    if spec.force_image_size:
        config["vision_cfg"]["image_size"] = spec.force_image_size
    if spec.force_context_length:
        config["text_cfg"]["context_length"] = spec.force_context_length
    if spec.force_custom_text:
        config["custom_text"] = True


def choose(spec: ModelSpec, weights: Shapes, path: Path) -> Architecture:
    """Return the architecture that weights of these shapes fit, exactly.

    Raises
    ------
    UserError
        If they do not fit. The message has the nearest recipe or architecture, and the first keys
        that are missing or unexpected.
    """
    best = sorted(candidates(spec), key=lambda one: one.misfit(weights).size)
    misfit = best[0].misfit(weights)
    if not misfit.size:
        return best[0]
    if cause := _cause(spec, weights, best[0]):
        raise UserError(f"{path}: does not fit {best[0].name}{cause}")
    raise UserError(f"{path}: does not fit {best[0].name} ({misfit}). {_remedy(weights, best[0])}")


def pretrained_cfg(spec: ModelSpec) -> dict[str, Any]:
    """Return open_clip's entry of a tag: address, mean, deviation, interpolation, activation.

    Raises a UserError if the name has no such tag.
    """
    from mispair.towers.light_open_clip import open_clip

    assert spec.model is not None and spec.pretrained is not None  # noqa: PT018
    settings: dict[str, Any] = open_clip.get_pretrained_cfg(spec.model, spec.pretrained)
    if settings:
        return settings
    if open_clip.get_pretrained_cfg(_twin(spec.model), spec.pretrained):
        hint = f"{_twin(spec.model)} has it."
    else:
        tags = open_clip.list_pretrained_tags_by_model(spec.model)
        near = difflib.get_close_matches(spec.pretrained, tags, n=3, cutoff=0.3) or tags
        hint = f"It has {', '.join(near)}." if near else "It has none: give a file as checkpoint."
    raise UserError(
        f"model {spec.name}: open_clip's {spec.model} has no tag {spec.pretrained!r}. {hint}"
    )


def _twin(model: str) -> str:
    """Return open_clip's name of the same architecture with the other activation."""
    end = "-quickgelu"
    return model.removesuffix(end) if model.endswith(end) else model + end


def download(spec: ModelSpec) -> Path:
    """Return the weights of a tag, fetched where no cache has them; a UserError if they cannot be.

    Those of an address are compared with their checksum, by open_clip.
    """
    from mispair.towers.light_open_clip import open_clip

    tag = pretrained_cfg(spec)
    weights = weights_of(tag)
    if weights.repository and (path := cached(weights)):
        return path
    try:
        return Path(open_clip.download_pretrained(tag))
    except Exception as error:  # of any kind: from the network, the hub or the disk
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"model {spec.name}: the weights {spec.pretrained} of {spec.model} cannot be fetched "
            f"({reason}). {weights.remedy}, and run again."
        ) from error


def _config(model: str) -> dict[str, Any]:
    from mispair.towers.light_open_clip import open_clip

    config: dict[str, Any] = open_clip.get_model_config(model)
    refuse_what_open_clip_would_fetch({"model_cfg": config})
    tokenizer = config["text_cfg"].get("hf_tokenizer_name")
    if tokenizer:
        raise UserError(
            f"towers: {model} splits texts with {tokenizer}, a tokenizer of Hugging Face. Save "
            "model and tokenizer as a local open_clip folder, and give that as folder."
        )
    return config


def _by_open_clip(
    model: str, config: dict[str, Any], preprocess: Mapping[str, Any], source: str = "",
    size: int | None = None,
) -> Iterator[Architecture]:  # fmt: skip
    """Yield an architecture of open_clip, once for each naming of its weights."""
    name = f"open_clip's {model}{source}"
    named = Architecture(name, config, preprocess)
    if size and TRUNK_POSITIONS in named.shapes:
        named = _with_trunk_of(named, size)
    take_apart(named.skeleton)
    yield named
    other = name_before_custom_text if config.get("custom_text") else name_of_custom_text
    twin = replace(named, name_in_file=other)
    vars(twin)["skeleton"] = named.skeleton  # it takes time, and only the names differ
    yield twin


def _with_trunk_of(named: Architecture, size: int) -> Architecture:
    """Return the architecture with a timm trunk for pictures of this size.

    open_clip builds a trunk for the size of its name alone.
    """
    vision = named.model_cfg["vision_cfg"]
    trunk = {"architecture": vision["timm_model_name"], "model_args": {"img_size": size}}
    resized = {**vision, "timm_model_name": "local-dir:."}
    return replace(named, model_cfg={**named.model_cfg, "vision_cfg": resized}, trunk=trunk)


def _preprocess(tag: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tag's preprocessing, with open_clip's own defaults where the tag has no value."""
    stated = {key: tag[key] for key in PREPROCESS["openai"] if tag.get(key) is not None}
    merged = PREPROCESS["openai"] | stated
    return {k: list(v) if isinstance(v, tuple) else v for k, v in merged.items()}


def _refuse_another_activation(
    spec: ModelSpec, tag: Mapping[str, Any], config: Mapping[str, Any]
) -> None:
    from mispair.towers.light_open_clip import open_clip

    trained, named = bool(tag.get("quick_gelu")), bool(config.get("quick_gelu"))
    if trained == named:
        return
    twin = _twin(spec.model or "")
    remedy = (
        f"Name {twin}"
        if open_clip.get_pretrained_cfg(twin, spec.pretrained)
        else f"Give its file as checkpoint with quick_gelu: {str(trained).lower()}"
    )
    lacks = "does not have" if trained else "has"
    raise UserError(
        f"model {spec.name}: {spec.pretrained} was trained with{'' if trained else 'out'} "
        f"QuickGELU, which {spec.model} {lacks}. {remedy}."
    )


def _side(name: str, weights: Shapes, fitting: Architecture) -> int | None:
    """Return the side of the pictures of these positions; None if the name is of no positions.

    Tokens that are no patches, such as that of the class, are as many as in the nearest
    architecture.
    """
    size = fitting.model_cfg["vision_cfg"].get("image_size")
    if PATCHES.get(name) not in weights or not isinstance(size, int):
        return None
    patch = weights[PATCHES[name]][-1]
    others = fitting.shapes[name][-2] - (size // patch) ** 2
    return math.isqrt(max(weights[name][-2] - others, 0)) * patch


def _cause(spec: ModelSpec, weights: Shapes, fitting: Architecture) -> str:
    """Return why weights of the right names have other shapes, and the remedy; empty if unknown."""
    misfit = fitting.misfit(weights)
    if misfit.missing or misfit.unexpected:
        return ""
    names = [entry.partition(" ")[0] for entry in misfit.shapes]
    remedies = {}
    for name in names:
        if side := _side(name, weights, fitting):
            remedies["force_image_size"] = side
        elif name.removeprefix("text.") == "positional_embedding":
            remedies["force_context_length"] = weights[name][0]
    if remedies and spec.kind == "file":
        changed = spec.model_copy(update=remedies)
        if any(not one.misfit(weights).size for one in candidates(changed)):
            settings = " and ".join(f"`{key}: {value}`" for key, value in remedies.items())
            return (
                ". It was trained on pictures or texts of another size than open_clip's definition "
                f"has: add {settings} to the model's entry."
            )
    if all("pos" in name for name in names):
        return f" ({misfit}). It was trained on pictures or texts of another size."
    if any(name.endswith("token_embedding.weight") for name in names):
        return (
            f" ({misfit}). It was trained with another tokenizer: save model and tokenizer as a "
            "local open_clip folder, and give that as folder."
        )
    return ""


def _remedy(weights: Shapes, asked: Architecture) -> str:
    """Return a sentence with the recipes or architectures that are nearest to weights, or a way."""
    if any("text_model." in name for name in weights):
        return (
            "The names are those of Hugging Face's CLIPModel: take open_clip's own file of the "
            "same weights."
        )
    if any(".lora_" in name for name in weights):
        return (
            "It holds adapters of LoRA: merge them into the model (`merge_and_unload` of peft), "
            "and save that with torch.save(model.state_dict(), FILE)."
        )
    candidates = [architectures.cc(qk_norm=False)]
    candidates += [one for recipe in get_args(Recipe) for one in architectures.of_recipe(recipe)]
    sizes = {one.name: one.misfit(weights).size for one in candidates}
    if min(sizes.values()):  # the search through open_clip's models takes a second
        for one in _plausible(weights):
            size = one.misfit(weights).size
            sizes[one.name] = min(size, sizes.get(one.name, size))
    least = min(sizes.values())
    misfit = asked.misfit(weights)
    if least >= misfit.size:
        if misfit.size == len(misfit.unexpected):
            return "If features do not depend on these entries, save the file without them."
        return (
            "No recipe and no model of open_clip is nearer, judged by shapes: save all weights of "
            "the model, with torch.save(model.state_dict(), FILE)."
        )
    names = " or ".join([name for name, size in sizes.items() if size == least][:4])
    how = "which the file fits" if not least else f"{least} names or shapes apart"
    return f"The nearest is {names}, {how}."


def _plausible(weights: Shapes) -> Iterator[Architecture]:
    """Yield open_clip's architectures that have the widths of a file's weights."""
    from mispair.towers.light_open_clip import open_clip

    tokens = weights.get("token_embedding.weight") or weights.get("text.token_embedding.weight")
    ends = weights.get("text_projection") or weights.get("text.text_projection")
    patches = weights.get("visual.conv1.weight")
    by_timm = any(name.startswith("visual.trunk.") for name in weights)
    if not (tokens and ends and (patches or by_timm)):
        return
    for model in open_clip.list_models():
        config = open_clip.get_model_config(model)
        vision, text = config["vision_cfg"], config["text_cfg"]
        same = (text.get("width"), config["embed_dim"]) == (tokens[-1], ends[-1])
        same &= (
            "timm_model_name" in vision if patches is None else vision.get("width") == patches[0]
        )
        # Twins with QuickGELU have the same shapes.
        if same and not model.endswith("-quickgelu"):
            try:
                yield from _by_open_clip(model, _config(model), PREPROCESS["openai"])
            except UserError:
                continue  # a kind of tower that could not be used anyway
