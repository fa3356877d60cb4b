"""One of each architecture family of open_clip, tiny: taken apart, or refused with its reason."""

import copy
import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from mispair.core import files
from mispair.towers import loading
from mispair.towers.taking_apart import take_apart
from tests.towers.made_up import NATIVE, TEXT, VISION, Family, build

POOLER = {"attn_pooler_heads": 2, "attn_pooler_queries": 3}
# open_clip runs two poolers only where they are as wide as the trunk.
ONE_WIDTH = VISION | POOLER | {"width": 24, "head_width": 12}
TIMM = {"image_size": 160, "timm_model_name": "test_vit", "timm_proj": "linear"}
CUSTOM = {"custom_text": True}
ALL_NORMS = {"qk_norm": True, "scale_attn": True, "scale_attn_inner": True, "scale_fc": True}
COCA = {"custom_text": True, "multimodal_cfg": {**TEXT, "attn_pooler_heads": 2}}

# Name: model_cfg beside the towers, image tower, text tower.
FAMILIES: dict[str, Family] = {
    "vit-class-token": NATIVE,
    "vit-average": ({}, VISION | {"pool_type": "avg"}, TEXT | {"pool_type": "last"}),
    "vit-norm-after-pool": (
        {"quick_gelu": True},
        VISION | {"pool_type": "avg", "final_ln_after_pool": True, "no_ln_pre": True},
        TEXT | {"no_causal_mask": True, "context_length": 7},
    ),
    "vit-not-square": (
        {},
        VISION | {"image_size": [16, 32], "ls_init_value": 0.1, "patch_dropout": 0.5},
        TEXT | {"ls_init_value": 0.1, "context_length": 77},
    ),
    "vit-fixed-positions": (
        {},
        VISION | {"pos_embed_type": "sin_cos_2d", "norm_kwargs": {"eps": 1e-6}},
        TEXT | {"pool_type": "first", "no_causal_mask": True},
    ),
    "vit-query-key-norm": (CUSTOM, VISION | ALL_NORMS, TEXT | ALL_NORMS),
    "vit-attentional-pool": (CUSTOM, VISION | POOLER | {"attentional_pool": True}, TEXT),
    "vit-parallel-pool": (CUSTOM, ONE_WIDTH | {"attentional_pool": "parallel"}, TEXT),
    "vit-cascade-pool": (CUSTOM, ONE_WIDTH | {"attentional_pool": "cascade"}, TEXT),
    "sigmoid-loss": (
        {"init_logit_bias": -10, "init_logit_scale": 2.3, "nonscalar_logit_scale": True, **CUSTOM},
        VISION,
        TEXT | {"pool_type": "eos", "eos_id": 49407},
    ),
    "timm-vit": (CUSTOM, TIMM | {"timm_pool": "token"}, TEXT),
    "timm-default-pool": ({}, TIMM | {"timm_pool": ""}, TEXT),
    "timm-convolutions": ({}, TIMM | {"timm_model_name": "test_convnext", "timm_drop": 0.5}, TEXT),
    "timm-attention-pool": (
        CUSTOM,
        TIMM | {"timm_model_name": "test_convnext", "timm_pool": "abs_attn"},
        TEXT,
    ),
    "coca": (
        COCA,
        VISION | POOLER | {"attentional_pool": True, "output_tokens": True},
        TEXT | {"embed_cls": True, "output_tokens": True},
    ),
    "coca-class-token": (COCA, VISION | {"output_tokens": True}, TEXT | {"output_tokens": True}),
}
CAPTIONS = ["a red circle", "an orange ring on the left", "", "two !", "7", "long " * 100]


def with_identity(model: nn.Module, name: str, width: int) -> nn.Module:
    """Return a copy of a model in which a projection is the identity: its features themselves."""
    model = copy.deepcopy(model)
    if name.endswith(".weight"):
        owner = model.get_submodule(name.removesuffix(".weight"))
        owner.weight = nn.Parameter(torch.eye(width))
    else:
        owner = model.get_submodule(name.rpartition(".")[0])
        setattr(owner, name.rpartition(".")[2], nn.Parameter(torch.eye(width)))
    return model


@pytest.mark.parametrize("name", FAMILIES)
def test_features_times_projection_are_the_embeddings(name: str, tmp_path: Path) -> None:
    rest, vision, text = FAMILIES[name]
    folder = build(tmp_path / "towers", FAMILIES[name])
    towers = loading.load_towers(folder)
    weights = load_file(folder / loading.WEIGHTS_NAME)
    size = towers.model.visual.image_size  # type: ignore[union-attr]
    images = torch.randn(3, 3, *size, generator=torch.Generator().manual_seed(0))  # type: ignore[misc]
    tokens = towers.tokenizer(CAPTIONS)
    assert tokens.shape == (len(CAPTIONS), text["context_length"])
    assert towers.context_length == text["context_length"]
    image_name = "visual.head.proj.weight" if "timm_model_name" in vision else "visual.proj"
    text_name = "text.text_projection" if "custom_text" in rest else "text_projection"
    # CoCa normalises unless told not to; what is tested is what it normalises.
    for batch, run, encode, projection, site in (
        (images, towers.image_features, "encode_image", towers.image_projection, image_name),
        (tokens, towers.text_features, "encode_text", towers.text_projection, text_name),
    ):
        with torch.no_grad():
            expected = getattr(towers.model, encode)(batch, normalize=False).reshape(len(batch), -1)
            features = run(batch)
            again = getattr(towers.model, encode)(batch, normalize=False).reshape(len(batch), -1)
            itself = with_identity(towers.model, site, len(projection))
            plain = getattr(itself, encode)(batch, normalize=False).reshape(len(batch), -1)
        stored = weights[site].float()
        assert torch.equal(projection, stored.T if site.endswith("weight") else stored)
        assert features.shape == (len(batch), len(projection))
        assert features.dtype == projection.dtype == torch.float32
        torch.testing.assert_close(features @ projection, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(features, plain, atol=1e-5, rtol=0)
        assert expected.std() > 0.01
        # Rows differ: a tower that gave the same for everything would pass what stands above.
        assert (features[0] - features[1]).abs().max() > 1e-3
        assert torch.equal(again, expected)  # the model itself is still whole
    assert towers.model.state_dict().keys() == weights.keys()
    assert towers.logit_scale == pytest.approx(float(weights["logit_scale"].float()), abs=1e-6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_towers", None)  # the file alone is read
        of_image, of_text, scale = loading.projections(folder)
    assert np.array_equal(of_image, towers.image_projection.numpy())
    assert np.array_equal(of_text, towers.text_projection.numpy())
    assert scale == towers.logit_scale


@pytest.mark.parametrize(("family", "message"), [
    (({}, VISION | {"layers": [1, 1, 1, 1], "width": 8, "image_size": 32}, TEXT),
     "image tower .*: attention pooling ends in a layer with a bias"),
    ((CUSTOM, TIMM | {"timm_proj": "mlp"}, TEXT), "image tower .*: its head is a perceptron"),
    ((CUSTOM, TIMM | {"timm_proj_bias": True}, TEXT), "image tower .*: its final layer has a bias"),
    ((CUSTOM, TIMM | {"timm_proj": None}, TEXT),
     "image tower .*: its projection is the classifier inside the timm trunk"),
    ((CUSTOM, TIMM | {"timm_proj": "none"}, TEXT),
     "image tower .*: it has no final projection .*none"),
    (
        (
            CUSTOM,
            TIMM
            | {"timm_model_name": "test_convnext", "timm_pool": "rot_attn", "timm_proj": None},
            TEXT,
        ),
        "image tower .*: the attention pooling of its timm trunk ends in a layer with a bias",
    ),
    (({}, VISION | {"pool_type": "none"}, TEXT), "image tower .*: it does not pool"),
    (({}, VISION, TEXT | {"proj_bias": True}), "text tower .*: its final layer has a bias"),
    ((CUSTOM, VISION, TEXT | {"proj_bias": True}), "text tower .*: its final layer has a bias"),
    ((CUSTOM, VISION, TEXT | {"proj_type": "none"}),
     "text tower .*: TextTransformer has no text_projection"),
    (({}, VISION, TEXT | {"proj_type": "none"}), "text tower .*: CLIP has no text_projection"),
    (({}, VISION, TEXT | {"pool_type": "none"}), "text tower .*: it does not pool"),
    ((CUSTOM, VISION, TEXT | {"pool_type": "none"}), "text tower .*: it does not pool"),
    (({}, VISION, TEXT | {"tokenizer_kwargs": {"reduction_mask": "simple"}}),
     "drops words of long texts by chance"),
])  # fmt: skip
def test_others_are_refused_each_with_its_reason(family, message, tmp_path):
    folder = build(tmp_path / "towers", family)
    with pytest.raises(files.UserError, match=message):
        loading.load_towers(folder)


def test_a_hugging_face_text_tower_is_refused_before_it_is_downloaded(tmp_path: Path) -> None:
    folder = build(tmp_path / "towers", FAMILIES["vit-class-token"])
    config = json.loads((folder / loading.CONFIG_NAME).read_text())
    config["model_cfg"]["text_cfg"] = {"hf_model_name": "roberta-base", "hf_proj_type": "linear"}
    (folder / loading.CONFIG_NAME).write_text(json.dumps(config))
    with pytest.raises(files.UserError, match="roberta-base is a Hugging Face text tower"):
        loading.load_towers(folder)


def test_a_linear_layer_without_bias_is_a_matrix(tmp_path: Path) -> None:
    model = loading.load_towers(build(tmp_path / "towers", FAMILIES["vit-class-token"])).model
    whole = take_apart(model)
    tokens = open_clip.get_tokenizer("ViT-B-32", context_length=12)(CAPTIONS)
    with torch.inference_mode():
        expected = model.encode_text(tokens)  # type: ignore[operator]
    layer = nn.Linear(16, 24, bias=False)
    layer.weight = nn.Parameter(whole.text_projection.T.clone())
    del model.text_projection
    model.text_projection = layer
    parts = take_apart(model)
    assert torch.equal(parts.text_projection, whole.text_projection)
    with torch.inference_mode():
        features = parts.text_tower(tokens)
    assert torch.equal(features, whole.text_tower(tokens))
    torch.testing.assert_close(features @ parts.text_projection, expected, atol=1e-5, rtol=0)
    model.text_projection = nn.Sequential(layer)  # neither a matrix nor a layer
    with pytest.raises(files.UserError, match="text tower .*: its final layer is a Sequential"):
        take_apart(model)


@pytest.mark.parametrize("name", ["vit-class-token", "timm-convolutions", "coca"])
def test_towers_share_their_weights_with_the_model(name: str, tmp_path: Path) -> None:
    towers = loading.load_towers(build(tmp_path / "towers", FAMILIES[name]))
    held = {id(parameter) for parameter in towers.model.parameters()}
    for tower in (towers.image_tower, towers.text_tower):
        assert {id(parameter) for parameter in tower.parameters()} < held


# What the tokenizer cuts ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vit-class-token", "vit-not-square", "coca"])
def test_texts_that_the_tokenizer_cut_are_counted(name: str, tmp_path: Path) -> None:
    towers = loading.load_towers(build(tmp_path / "towers", FAMILIES[name]))
    context = towers.context_length
    end = towers.tokenizer.eot_token_id  # type: ignore[attr-defined]
    texts = [("dog " * words).strip() for words in (100, *range(context - 4, context + 2))]
    # Token 0 fills up rows, and is also the first piece of some words.
    texts += ["", "dog " * (context - 3) + "!`", "dog " * (context - 4) + "!`"]
    tokens = towers.tokenizer(texts)
    assert tokens[0, -1] == end  # of 100 tokens, the last is still the one that is read out
    assert (tokens[0, 1:-1] != end).all()
    encode = towers.tokenizer.__wrapped__.encode  # type: ignore[attr-defined]
    lengths = np.array([len(encode(text)) + 2 for text in texts])
    assert lengths[0] == 102
    assert {context - 1, context, context + 1} <= set(lengths.tolist())
    np.testing.assert_array_equal(towers.truncated(texts, tokens), lengths > context)
    assert towers.truncated([], tokens[:0]).shape == (0,)


def test_only_texts_that_fill_their_row_are_tokenised_again(tmp_path: Path) -> None:
    towers = loading.load_towers(build(tmp_path / "towers", FAMILIES["vit-class-token"]))
    seen: list[str] = []

    def spy(texts: list[str], *rest: int) -> torch.Tensor:
        seen.extend(texts)
        return towers.tokenizer(texts, *rest)

    watched = dataclasses.replace(towers, make_tokenizer=lambda: spy)
    texts = ["short"] * 50 + ["long " * 30]
    assert watched.truncated(texts, towers.tokenizer(texts)).sum() == 1
    assert seen == ["", "long " * 30]


def test_cuts_of_tokenizers_that_end_rows_otherwise(tmp_path: Path) -> None:
    towers = loading.load_towers(build(tmp_path / "towers", FAMILIES["vit-class-token"]))

    def letters(end: int, pad: int):
        def tokenise(texts: list[str], context: int = 12) -> torch.Tensor:
            rows = [[5, *map(ord, text[: context - 2]), end] for text in texts]
            return torch.tensor([row + [pad] * (context - len(row)) for row in rows])

        return tokenise

    texts = ["a" * length for length in range(20)]
    for end, pad in ((6, 0), (1, 1), (0, 0)):  # BERT's, T5's, and BERT's with its end blanked
        other = dataclasses.replace(towers, make_tokenizer=functools.partial(letters, end, pad))
        cut = other.truncated(texts, other.tokenizer(texts))
        np.testing.assert_array_equal(cut, np.arange(20) > 10)
