"""Tests of recipes: what towers compute and how pictures are prepared, written another way."""

import dataclasses
import json
import os
import re
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from scipy.special import erf, expit, softmax

from mispair.core.files import UserError
from mispair.towers.checkpoints import architectures, model_recipes
from mispair.towers.checkpoints.architectures import (
    PREPROCESS,
    Architecture,
    name_before_custom_text,
)
from mispair.towers.checkpoints.model_spec import ModelSpec
from mispair.towers.loading import load_towers

Weights = dict[str, torch.Tensor]

SMALL = architectures.RecipeSizes(
    image_size=32,
    patch_size=16,
    width=32,
    layers=2,
    heads=2,
    embed_dim=24,
    text_width=16,
    text_layers=2,
    text_heads=2,
    context_length=12,
)
NATIVE = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 12, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}
CAPTIONS = ["a red circle", "two blue squares on the left !", "", "7"]


# The files, by the names and shapes that LaCLIP's and open_clip's code give ----------------------


def random_weights(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> Weights:
    """Return weights of the size of trained ones, such that no part of a tower is idle."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) * 0.15
        + (1.0 if name.endswith(("norm.weight", "norm1.weight", "norm2.weight")) else 0.0)
        + (1.0 if ".ln_" in name and name.endswith("weight") else 0.0)
        for name, shape in shapes.items()
    }


def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def layer(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def native_shapes(config: dict) -> dict[str, tuple[int, ...]]:
    """Return names and shapes in a file of open_clip's own vision transformer."""
    with torch.device("meta"):
        model = open_clip.CLIP(**config)
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def cc_shapes(
    s: architectures.RecipeSizes = SMALL, *, qk_norm: bool = True
) -> dict[str, tuple[int, ...]]:
    """Return names and shapes in LaCLIP's CC files; without q/k norm, SLIP's."""
    d, head = s.width, s.width // s.heads
    block: dict[str, tuple[int, ...]] = {
        **norm("norm1", d),
        **layer("attn.qkv", 3 * d, d),
        **layer("attn.proj", d, d),
        **norm("norm2", d),
        **layer("mlp.fc1", 4 * d, d),
        **layer("mlp.fc2", d, 4 * d),
    }
    if qk_norm:
        block |= norm("attn.q_norm", head) | norm("attn.k_norm", head)
    shapes: dict[str, tuple[int, ...]] = {
        "image_projection": (d, s.embed_dim),
        "visual.cls_token": (1, 1, d),
        "visual.pos_embed": (1, (s.image_size // s.patch_size) ** 2 + 1, d),
        "visual.patch_embed.proj.weight": (d, 3, s.patch_size, s.patch_size),
        "visual.patch_embed.proj.bias": (d,),
        **norm("visual.norm", d),
    }
    shapes |= {f"visual.blocks.{n}.{k}": v for n in range(s.layers) for k, v in block.items()}
    text = {"width": s.text_width, "heads": s.text_heads, "layers": s.text_layers}
    text |= {"context_length": s.context_length, "vocab_size": 49408}
    native = native_shapes({**NATIVE, "embed_dim": s.embed_dim, "text_cfg": text})
    return shapes | {k: v for k, v in native.items() if not k.startswith("visual.")}


# A reference forward, in double precision ---------------------------------------------------------


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps) * weight + bias


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + erf(x / np.sqrt(2))) / 2


def quick_gelu(x: np.ndarray) -> np.ndarray:
    return x * expit(1.702 * x)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, causal: bool = False) -> np.ndarray:
    """Return softmax(q k' / sqrt(d)) v for (n, heads, tokens, d)."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        tokens = scores.shape[-1]
        scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    return softmax(scores, -1) @ v


def split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    n, tokens, width = x.shape
    return x.reshape(n, tokens, heads, width // heads).transpose(0, 2, 1, 3)


def join_heads(x: np.ndarray) -> np.ndarray:
    n, heads, tokens, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(n, tokens, heads * d)


def patches(images: np.ndarray, patch: int) -> np.ndarray:
    """Return (n, tokens, 3 patch patch) from (n, 3, side, side), row by row."""
    n, _, side, _ = images.shape
    k = side // patch
    cut = images.reshape(n, 3, k, patch, k, patch).transpose(0, 2, 4, 1, 3, 5)
    return cut.reshape(n, k * k, -1)


def cc_images(images: np.ndarray, weights: Weights, s: architectures.RecipeSizes) -> np.ndarray:
    """Return the embeddings of images (n, 3, side, side) by a CC file's image tower."""
    w = {k: v.double().numpy() for k, v in weights.items() if k.startswith(("visual.", "image_"))}
    x = patches(images, s.patch_size) @ w["visual.patch_embed.proj.weight"].reshape(s.width, -1).T
    x = x + w["visual.patch_embed.proj.bias"]
    first = np.broadcast_to(w["visual.cls_token"], (len(x), 1, s.width))
    x = np.concatenate([first, x], 1) + w["visual.pos_embed"]
    for layer in range(s.layers):
        b = {k.split(".", 3)[3]: v for k, v in w.items() if k.startswith(f"visual.blocks.{layer}.")}
        y = layer_norm(x, b["norm1.weight"], b["norm1.bias"], 1e-6)
        y = y @ b["attn.qkv.weight"].T + b["attn.qkv.bias"]
        q, k, v = (split_heads(part, s.heads) for part in np.split(y, 3, -1))
        q = layer_norm(q, b["attn.q_norm.weight"], b["attn.q_norm.bias"], 1e-6)
        k = layer_norm(k, b["attn.k_norm.weight"], b["attn.k_norm.bias"], 1e-6)
        x = x + join_heads(attention(q, k, v)) @ b["attn.proj.weight"].T + b["attn.proj.bias"]
        y = layer_norm(x, b["norm2.weight"], b["norm2.bias"], 1e-6)
        y = gelu(y @ b["mlp.fc1.weight"].T + b["mlp.fc1.bias"])
        x = x + y @ b["mlp.fc2.weight"].T + b["mlp.fc2.bias"]
    x = layer_norm(x, w["visual.norm.weight"], w["visual.norm.bias"], 1e-6)
    return x[:, 0] @ w["image_projection"]


def resblocks(x: np.ndarray, w: dict[str, np.ndarray], heads: int, activation) -> np.ndarray:
    layers = {int(name.split("resblocks.")[1].split(".")[0]) for name in w if "resblocks" in name}
    for layer in sorted(layers):
        at = f"transformer.resblocks.{layer}."
        b = {name.removeprefix(at): value for name, value in w.items() if name.startswith(at)}
        y = layer_norm(x, b["ln_1.weight"], b["ln_1.bias"], 1e-5)
        y = y @ b["attn.in_proj_weight"].T + b["attn.in_proj_bias"]
        q, k, v = (split_heads(part, heads) for part in np.split(y, 3, -1))
        y = join_heads(attention(q, k, v, causal=True))
        x = x + y @ b["attn.out_proj.weight"].T + b["attn.out_proj.bias"]
        y = layer_norm(x, b["ln_2.weight"], b["ln_2.bias"], 1e-5)
        y = activation(y @ b["mlp.c_fc.weight"].T + b["mlp.c_fc.bias"])
        x = x + y @ b["mlp.c_proj.weight"].T + b["mlp.c_proj.bias"]
    return x


def texts(tokens: np.ndarray, weights: Weights, heads: int, activation) -> np.ndarray:
    """Return the embeddings of token ids by the text tower that all recipes share."""
    w = {k: v.double().numpy() for k, v in weights.items() if not k.startswith("visual.")}
    x = w["token_embedding.weight"][tokens] + w["positional_embedding"]
    x = resblocks(x, w, heads, activation)
    x = layer_norm(x, w["ln_final.weight"], w["ln_final.bias"], 1e-5)
    # The last token of a text has the largest number.
    return x[np.arange(len(x)), tokens.argmax(-1)] @ w["text_projection"]


def written(folder: Path, architecture: Architecture, weights: Weights) -> Path:
    folder.mkdir()
    architecture.write(folder, weights, {})
    return folder


@pytest.mark.parametrize(("quick", "activation"), [(False, gelu), (True, quick_gelu)])
def test_towers_of_the_laion_recipe_agree_with_a_forward_written_anew(quick, activation, tmp_path):
    """Those of the CC recipe do in `test_step_convert_checkpoint`."""
    weights = random_weights(native_shapes(NATIVE))
    small = Architecture("small", NATIVE | {"quick_gelu": quick}, PREPROCESS["openai"])
    towers = load_towers(written(tmp_path / "laion", small, weights))
    tokens = towers.tokenizer(CAPTIONS)
    given = (towers.text_features(tokens) @ towers.text_projection).numpy()
    expected = texts(tokens.numpy(), weights, 2, activation)
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))
    assert small.activations() == dict.fromkeys(("image", "text"), activation.__name__)


def test_the_public_sizes_of_the_cc_files() -> None:
    public = architectures.cc()
    assert public.shapes == cc_shapes(architectures.PUBLIC)
    assert public.shapes["image_projection"] == (768, 512)
    assert public.shapes["visual.pos_embed"] == (1, 197, 768)
    assert public.shapes["visual.blocks.11.attn.q_norm.weight"] == (64,)
    assert public.shapes["text_projection"] == (512, 512)
    assert public.activations() == {"image": "gelu", "text": "quick_gelu"}
    slip = architectures.cc(qk_norm=False)
    assert slip.shapes == cc_shapes(architectures.PUBLIC, qk_norm=False)
    assert "no recipe" in slip.name


@pytest.mark.parametrize(("model", "width", "layers", "patch", "activation"), [
    ("ViT-B-32", 768, 12, 32, "gelu"),
    ("ViT-B-16", 768, 12, 16, "gelu"),
    ("ViT-L-14-quickgelu", 1024, 24, 14, "quick_gelu"),
])  # fmt: skip
def test_the_public_sizes_of_the_laion_files(model, width, layers, patch, activation):
    (found,) = architectures.of_recipe("laclip-laion", model)
    config = json.loads(json.dumps(found.model_cfg))
    assert found.shapes == native_shapes(config)
    assert found.shapes["visual.conv1.weight"] == (width, 3, patch, patch)
    assert f"visual.transformer.resblocks.{layers - 1}.ln_1.bias" in found.shapes
    assert found.activations() == {"image": activation, "text": activation}


# Preprocessing ------------------------------------------------------------------------------------


def picture() -> Image.Image:
    """Return a picture of 300 by 260 pixels with fine and coarse structure in every channel."""
    y, x = np.mgrid[:260, :300]
    channels = [(x * 7 + y * 3) % 256, (x * y) % 256, 128 + 127 * np.sin(x / 9) * np.cos(y / 13)]
    return Image.fromarray(np.stack(channels, -1).astype(np.uint8))


@pytest.mark.parametrize(("recipe", "how", "mean", "std"), [
    ("cc", Image.Resampling.BILINEAR, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ("laion", Image.Resampling.BICUBIC, (0.48145466, 0.4578275, 0.40821073),
     (0.26862954, 0.26130258, 0.27577711)),
])  # fmt: skip
def test_pictures_are_prepared_as_the_recipe_says(recipe, how, mean, std, tmp_path):
    if recipe == "cc":
        architecture = architectures.cc(dataclasses.replace(SMALL, image_size=224))
        shapes = cc_shapes(dataclasses.replace(SMALL, image_size=224))
    else:
        native = {**NATIVE, "vision_cfg": {**NATIVE["vision_cfg"], "image_size": 224}}
        architecture = Architecture("small", native, architectures.laion("ViT-B-32").preprocess_cfg)
        shapes = native_shapes(native)
    towers = load_towers(written(tmp_path / "towers", architecture, random_weights(shapes)))
    prepared = towers.preprocess(picture()).numpy()
    assert prepared.shape == (3, 224, 224)
    # Shortest side to 224 with Pillow's own filter, the middle, then normalised.
    whole = np.asarray(picture().resize((258, 224), how), dtype=float)[:, 17:241] / 255
    expected = ((whole - mean) / std).transpose(2, 0, 1)
    np.testing.assert_allclose(prepared, expected, atol=1e-5)


# Choosing, and what does not fit ------------------------------------------------------------------


def choose(weights_or_shapes: dict, **entry) -> Architecture:
    spec = ModelSpec(name="mine", **entry)
    return model_recipes.choose(spec, weights_or_shapes, Path("weights.pt"))


B16 = {"model": "ViT-B-16", "checkpoint": "a", "quick_gelu": False, "preprocess": "openai"}


def test_the_laion_recipe_finds_its_model_from_the_shapes() -> None:
    for model in ("ViT-B-32", "ViT-B-16", "ViT-L-14-quickgelu"):
        shapes = native_shapes(open_clip.get_model_config(model))
        found = choose(shapes, recipe="laclip-laion", checkpoint="a")
        named = choose(shapes, recipe="laclip-laion", checkpoint="a", model=model)
        assert found.name == named.name == f"recipe laclip-laion with model {model}"
        assert found.recipe_hash() == named.recipe_hash()
        other = "ViT-B-16" if model != "ViT-B-16" else "ViT-B-32"
        with pytest.raises(UserError, match=rf"with model {other} .* nearest is .*{model}"):
            choose(shapes, recipe="laclip-laion", checkpoint="a", model=other)


PUBLIC_CC = cc_shapes(architectures.PUBLIC)
OF_CC, OF_LAION = ({"recipe": f"laclip-{one}", "checkpoint": "a"} for one in ("cc", "laion"))


def of_open_clip(model: str) -> dict[str, tuple[int, ...]]:
    return native_shapes(open_clip.get_model_config(model))


@pytest.mark.parametrize(("shapes", "entry", "parts"), [
    (PUBLIC_CC, B16, [  # LaCLIP's file into open_clip's own tower
        r"weights\.pt: does not fit open_clip's ViT-B-16 ",
        r"missing 152: visual\.class_embedding, visual\.conv1\.weight, .*, \.\.\.",
        r"unexpected 199: image_projection, visual\.blocks\.0\.attn\.k_norm\.bias,",
        r"The nearest is recipe laclip-cc, which the file fits\.",
    ]),
    (of_open_clip("ViT-B-16"), OF_CC, [  # and the other way
        r"does not fit recipe laclip-cc .*missing 199: .*unexpected 152: visual\.class_embedding",
        r"nearest is recipe laclip-laion with model ViT-B-16, which the file fits",
    ]),
    # SLIP's file lacks the normalisation of queries and keys.
    (cc_shapes(architectures.PUBLIC, qk_norm=False), OF_CC, [
        r"missing 48: visual\.blocks\.0\.attn\.k_norm\.bias, ",
        r"nearest is SLIP's CLIP_VITB16, for which there is no recipe, which the file fits",
    ]),
    (PUBLIC_CC, OF_LAION, [r"fit recipe laclip-laion.*nearest is recipe laclip-cc, which the f"]),
    # One weight too many: nothing is dropped silently.
    (PUBLIC_CC | {"image_mlp.layer1.bias": (4096,)}, OF_CC,
     [r"unexpected 1: image_mlp\.layer1\.bias\)\. .*without them"]),
    (of_open_clip("ViT-B-32"), B16, [
        r"another shape 2: visual\.conv1\.weight \(768, 3, 32, 32\) instead of \(768, 3, 16, 16\)",
        r"nearest is recipe laclip-laion with model ViT-B-32",
    ]),
    (of_open_clip("ViT-L-16"), B16, [r"The nearest is open_clip's ViT-L-16, which the file fits"]),
    ({"text_model.embeddings.token_embedding.weight": (49408, 512)}, B16,
     [r"names are those of Hugging Face's CLIPModel"]),
    ({"base_model.model.visual.blocks.0.attn.lora_A.default.weight": (4, 8)}, B16,
     [r"LoRA: merge"]),
    (of_open_clip("ViT-B-16") | {"x.lora_B.weight": (8, 4)}, B16, [r"unexpected 1.*LoRA: merge"]),
    ({"conv1.weight": (64, 3, 7, 7)}, B16, [r"unexpected 1: conv1\.weight"]),
])  # fmt: skip
def test_a_wrong_recipe_is_an_error_that_names_the_nearest(shapes, entry, parts):
    with pytest.raises(UserError) as caught:
        choose(shapes, **entry)
    for part in parts:
        assert re.search(part, str(caught.value))


def test_files_from_before_custom_text_towers_are_read() -> None:
    custom = {**NATIVE, "custom_text": True}
    new = Architecture("new", custom, PREPROCESS["openai"])
    old = Architecture("old", custom, PREPROCESS["openai"], name_in_file=name_before_custom_text)
    assert "text.ln_final.bias" in new.shapes
    assert old.misfit(native_shapes(NATIVE)).size == 0


# Names and tags of open_clip ----------------------------------------------------------------------


def test_a_tag_brings_its_preprocessing_and_activation() -> None:
    spec = ModelSpec(name="a", model="ViT-B-32-quickgelu", pretrained="openai")
    found, _ = model_recipes.candidates(spec)
    assert found.preprocess_cfg == PREPROCESS["openai"]
    assert found.activations() == {"image": "quick_gelu", "text": "quick_gelu"}
    # Some tags were trained with another mean, deviation and interpolation.
    spec = ModelSpec(name="b", model="ViT-H-14-CLIPA", pretrained="datacomp1b")
    assert model_recipes._preprocess(model_recipes.pretrained_cfg(spec)) == {
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "interpolation": "bilinear",
        "resize_mode": "squash",
    }


@pytest.mark.parametrize(("model", "tag", "message"), [
    ("ViT-B-32", "openai", r"openai was trained with QuickGELU, which .* Name ViT-B-32-quick"),
    ("ViT-L-14-quickgelu", "laion400m_e32",
     r"ViT-L-14-quickgelu has no tag 'laion400m_e32'\. ViT-L-14 has it"),
    ("ViT-B-32-quickgelu", "opena", r"no tag 'opena'\. It has openai"),
    ("ViT-M-32", "openai", r"ViT-M-32 has no tag 'openai'\. It has none"),
    ("RN50-quickgelu", "openai", r"image tower .* attention pooling ends in a layer with a b"),
    ("ViT-L-14-CLIPA", "datacomp1b", r"splits texts with bert-base-uncased.* give that as fol"),
    ("roberta-ViT-B-32", "laion2b_s12b_b32k", r"roberta-base is a Hugging Face text tower"),
])  # fmt: skip
def test_what_a_tag_contradicts_is_refused(model: str, tag: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        model_recipes.candidates(ModelSpec(name="a", model=model, pretrained=tag))


def test_a_name_with_an_activation_that_the_tag_lacks_is_refused(monkeypatch):
    monkeypatch.setattr(open_clip, "get_pretrained_cfg", lambda *_: {"quick_gelu": False})
    spec = ModelSpec(name="a", model="ViT-B-32-quickgelu", pretrained="mine")
    with pytest.raises(UserError, match=r"without QuickGELU, which .* has\. Name ViT-B-32\."):
        model_recipes.candidates(spec)
    tags = {"ViT-B-32": {"quick_gelu": True}}
    monkeypatch.setattr(open_clip, "get_pretrained_cfg", lambda model, _: tags.get(model, {}))
    spec = ModelSpec(name="a", model="ViT-B-32", pretrained="mine")
    with pytest.raises(UserError, match=r"does not have\. Give its file .* quick_gelu: true\."):
        model_recipes.candidates(spec)


def test_a_stated_activation_and_preprocessing_are_used() -> None:
    entry = {**B16, "quick_gelu": True, "preprocess": "imagenet"}
    found, _ = model_recipes.candidates(ModelSpec(name="a", **entry))
    assert found.activations() == {"image": "quick_gelu", "text": "quick_gelu"}
    assert found.preprocess_cfg == PREPROCESS["imagenet"]


def test_weights_that_cannot_be_fetched_say_what_else_to_do(tmp_path, monkeypatch):
    def offline(*_: object, **__: object) -> str:
        raise OSError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(open_clip, "download_pretrained", offline)
    spec = ModelSpec(name="a", model="ViT-B-32-quickgelu", pretrained="openai")
    with pytest.raises(UserError, match=r"service not known\).*hf download timm/"):
        model_recipes.download(spec)


# What the hash of a recipe follows ----------------------------------------------------------------


def test_the_hash_follows_all_that_decides_the_numbers_and_nothing_else() -> None:
    base = Architecture("a", NATIVE, PREPROCESS["openai"])
    text, vision = NATIVE["text_cfg"], NATIVE["vision_cfg"]
    changed = [
        {"preprocess_cfg": PREPROCESS["imagenet"]},
        {"preprocess_cfg": {**PREPROCESS["openai"], "mean": [0.5, 0.5, 0.5]}},
        {"preprocess_cfg": {**PREPROCESS["openai"], "interpolation": "bilinear"}},
        {"preprocess_cfg": {**PREPROCESS["openai"], "resize_mode": "squash"}},
        {"model_cfg": {**NATIVE, "quick_gelu": True}},
        {"model_cfg": {**NATIVE, "text_cfg": {**text, "context_length": 13}}},
        {"model_cfg": {**NATIVE, "vision_cfg": {**vision, "head_width": 8}}},
    ]
    hashes = [dataclasses.replace(base, **change).recipe_hash() for change in changed]
    hashes += [
        architectures.cc(SMALL).recipe_hash(),
        architectures.cc(SMALL, qk_norm=False).recipe_hash(),
    ]
    assert len({base.recipe_hash(), *hashes}) == len(hashes) + 1
    same = Architecture("b", {**NATIVE, "quick_gelu": False}, PREPROCESS["openai"])
    assert same.recipe_hash() == base.recipe_hash()


def test_weights_are_kept_bit_for_bit(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    weights = {k: v.half() if "ln" in k else v for k, v in random_weights(cc_shapes()).items()}
    weights["logit_scale"] = torch.tensor(4.6052)
    folder = written(tmp_path / "one", architectures.cc(SMALL), dict(reversed(weights.items())))
    names = {"config.json", "open_clip_config.json", "open_clip_model.safetensors"}
    assert {*os.listdir(folder)} == names
    kept = load_file(folder / "open_clip_model.safetensors")
    assert len(kept) == len(weights)
    for name, value in weights.items():
        target = "visual.head.proj.weight" if name == "image_projection" else name
        if name.startswith("visual."):
            target = f"visual.trunk.{name.removeprefix('visual.')}"
        found = kept[target].T if name == "image_projection" else kept[target]
        assert found.dtype == value.dtype
        assert torch.equal(found, value)
