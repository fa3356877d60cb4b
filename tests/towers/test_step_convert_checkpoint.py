"""Tests of the step `convert_checkpoint`: from a public file to a folder that open_clip loads."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from huggingface_hub import ModelCard

from mispair.core.commands import step_module
from mispair.core.files import UserError, read_json
from mispair.towers.checkpoints import architectures, model_recipes
from mispair.towers.checkpoints.architectures import PREPROCESS, Architecture
from mispair.towers.checkpoints.model_spec import FORCED, ModelSpec
from mispair.towers.checkpoints.weights import read_weights
from mispair.towers.loading import load_towers
from tests.towers.test_model_recipes import (
    NATIVE,
    SMALL,
    cc_images,
    cc_shapes,
    native_shapes,
    quick_gelu,
    random_weights,
    texts,
)
from tests.towers.test_weights import trainer_file as content_of_trainer_file

CC = {"name": "cc3m-laclip", "recipe": "laclip-cc", "pretraining": "CC3M", "method": "LaCLIP"}


def convert(entry: dict[str, Any], checkpoint: list[Path], towers: Path) -> Path:
    step = step_module("convert_checkpoint")
    entry = {"checkpoint": str(checkpoint[0]), **entry} if checkpoint else entry
    step.run(step.Settings(), spec=json.dumps(entry), checkpoint=checkpoint, towers=towers)
    return towers


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every recipe be of small towers; names and layout of the weights stay."""
    of = {
        "laclip-cc": [architectures.cc(SMALL)],
        "laclip-laion": [Architecture("small", NATIVE, PREPROCESS["openai"])],
    }
    monkeypatch.setattr(architectures, "of_recipe", lambda recipe, _=None: of[recipe])


def trainer_file(path: Path, weights: dict[str, torch.Tensor]) -> Path:
    """Write weights as LaCLIP's trainer saves them."""
    torch.save(content_of_trainer_file(weights), path)
    return path


@pytest.mark.usefixtures("small")
def test_a_file_of_the_trainer_becomes_a_folder_that_plain_open_clip_loads(tmp_path: Path) -> None:
    weights = random_weights(cc_shapes())
    path = trainer_file(tmp_path / "cc3m_laclip.pt", weights)
    folder = convert(CC, [path], tmp_path / "towers")
    images = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with chdir(folder):
        model, _, preprocess = open_clip.create_model_and_transforms("local-dir:.")
        tokenizer = open_clip.get_tokenizer("local-dir:.")
    tokens = tokenizer(["a red circle", "two squares"])
    towers = load_towers(folder)
    with torch.no_grad():
        by_image, by_text = model.eval().encode_image(images), model.encode_text(tokens)
    np.testing.assert_allclose(
        by_image.numpy(), cc_images(images.double().numpy(), weights, SMALL), rtol=0, atol=2e-5
    )
    np.testing.assert_allclose(
        by_text.numpy(), texts(tokens.numpy(), weights, 2, quick_gelu), rtol=0, atol=2e-5
    )
    mine = towers.image_features(images) @ towers.image_projection
    torch.testing.assert_close(mine, by_image, rtol=0, atol=1e-5)
    assert str(preprocess) == str(towers.preprocess)
    assert torch.equal(towers.image_projection, weights["image_projection"])
    assert torch.equal(towers.text_projection, weights["text_projection"])


@pytest.mark.usefixtures("small")
def test_what_a_model_was_made_from_is_written_beside_it(tmp_path: Path) -> None:
    path = trainer_file(tmp_path / "cc3m_laclip.pt", random_weights(cc_shapes()))
    folder = convert(CC, [path], tmp_path / "towers")
    record = read_json(folder / "config.json")["mispair"]
    assert record == {
        "name": "cc3m-laclip",
        "recipe": "laclip-cc",
        "pretraining": "CC3M",
        "method": "LaCLIP",
        "checkpoint": "cc3m_laclip.pt",
        "part": "state_dict.module",
        "ignored": [],
        **dict.fromkeys(
            ("folder", "model", "pretrained", "quick_gelu", "preprocess", "licence", *FORCED)
        ),
        "architecture": "recipe laclip-cc",
        "recipe_hash": architectures.cc(SMALL).recipe_hash(),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "activation": {"image": "gelu", "text": "quick_gelu"},
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "interpolation": "bilinear",
        "resize_mode": "shortest",
    }
    card = ModelCard.load(folder / "README.md")  # as the hub reads it
    assert card.data.license == "unknown"
    assert card.data.library_name == "open_clip"
    assert record["sha256"] in card.text


@pytest.mark.usefixtures("small")
def test_the_same_file_gives_the_same_bytes_wherever_it_lies(tmp_path: Path) -> None:
    weights = random_weights(cc_shapes())
    (tmp_path / "moved").mkdir()
    one = convert(CC, [trainer_file(tmp_path / "a.pt", weights)], tmp_path / "one")
    moved = (tmp_path / "a.pt").rename(tmp_path / "moved" / "a.pt")
    two = convert(CC, [moved], tmp_path / "two")
    for name in os.listdir(one):
        content = (two / name).read_bytes().replace(bytes(two), bytes(one))
        assert (one / name).read_bytes() == content, name
    other = CC | {"name": "other", "method": "CLIP"}
    three = convert(other, [moved], tmp_path / "three")
    # A label decides nothing that is computed: features of towers with it are not made anew.
    assert load_towers(one).fingerprint == load_towers(three).fingerprint


TRAINED = random_weights(native_shapes(NATIVE))
OWN = {"name": "own", "model": "ViT-B-32", "quick_gelu": False, "preprocess": "openai"}


def prefixed(prefix: str, weights: dict[str, torch.Tensor] = TRAINED) -> dict[str, torch.Tensor]:
    return {prefix + name: value for name, value in weights.items()}


def with_inner(part: str) -> dict[str, torch.Tensor]:
    return {name.replace("visual.", f"visual.{part}."): value for name, value in TRAINED.items()}


def custom_text(config: dict[str, Any]) -> dict[str, Any]:
    shapes = Architecture("a", {**config, "custom_text": True}, PREPROCESS["openai"]).shapes
    return {name: TRAINED[name.removeprefix("text.")] for name in shapes}


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every model of open_clip be of small towers."""
    monkeypatch.setattr(open_clip, "get_model_config", lambda _: json.loads(json.dumps(NATIVE)))
    architectures.laion.cache_clear()
    yield
    architectures.laion.cache_clear()


AVERAGED = prefixed("", {name: value + 1 for name, value in TRAINED.items()})


KEYS = (
    *("model_state_dict", "state_dict", "model", "module", "net", "network", "weights", "params"),
    *("model_weights", "ema", "model_ema", "ema_state_dict", "any name"),
)
IDLE = {
    "logit_bias": torch.tensor(-10.0),
    "attn_mask": torch.full((2, 2), -torch.inf),
    "visual.bn.num_batches_tracked": torch.tensor(3),
    "text_model.position_ids": torch.arange(3),
    "loss.weight": torch.ones(2),
    "clip_loss.labels": torch.arange(2),
    "train_acc.total": torch.ones(()),
    "log_temperature": torch.ones(()),
    "queue_image": torch.ones(2, 2),
    "dino_center": torch.ones(2),
}
STATES = {
    "state_dict": TRAINED,
    "rng": np.random.default_rng(0).bit_generator.state,
    "numpy": np.random.get_state(),
    "args": {"data": Path("/data")},
    "best": np.float32(0.5),
    "epoch": np.int64(3),
}
FILES: list[tuple[dict[str, Any], str | None, list[str]]] = [
    *(({"epoch": 3, key: TRAINED, "optimizer": {"lr": 0.1}}, key, []) for key in KEYS),
    ({"checkpoint": {"model": {"params": TRAINED}}}, "checkpoint.model.params", []),
    ({"models": [TRAINED]}, "models.0", []),
    (prefixed("clip."), "clip", []),
    (prefixed("net.clip.model."), "net.clip.model", []),
    (prefixed("clip_model.module."), "clip_model.module", []),
    ({"state_dict": prefixed("_orig_mod.")}, "state_dict", []),
    ({"state_dict": prefixed("module._orig_mod.")}, "state_dict.module", []),
    ({"state_dict": prefixed("_orig_mod.module.")}, "state_dict.module", []),
    (with_inner("_orig_mod"), None, []),
    (with_inner("_fsdp_wrapped_module"), None, []),
    ({**TRAINED, **IDLE, "epoch": 3}, None, sorted(IDLE)),
    ({**prefixed("module."), "n_averaged": torch.tensor(3)}, "module", ["n_averaged"]),
    ({**prefixed("model."), "loss.weight": torch.ones(2)}, "model", ["loss.weight"]),
    ({"state_dict": TRAINED, "state_dict_ema": AVERAGED}, "state_dict", []),
    ({**prefixed("model."), **prefixed("model_ema.", AVERAGED)}, "model", []),
    ({**TRAINED, **prefixed("ema.", AVERAGED)}, None, []),
    ({"state_dict": TRAINED, "optimizer": {"exp_avg": AVERAGED}}, "state_dict", []),
    (custom_text(NATIVE), None, []),
    (STATES, "state_dict", []),
]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(("content", "part", "ignored"), FILES)
def test_weights_are_found_wherever_a_trainer_puts_them(content, part, ignored, tmp_path):
    path = tmp_path / "own.pt"
    torch.save(content, path)
    possible = model_recipes.candidates(ModelSpec(checkpoint="own.pt", **OWN))
    weights = read_weights(path, (one.shapes for one in possible))
    assert (weights.part, sorted(weights.ignored)) == (part or "", ignored)
    shapes = {name: tuple(value.shape) for name, value in weights.state.items()}
    assert any(not one.misfit(shapes).size for one in possible)
    assert all(torch.equal(weights.state[n], TRAINED[n.removeprefix("text.")]) for n in shapes)


@pytest.mark.usefixtures("own")
def test_of_several_sets_of_weights_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.pt"
    torch.save({"student": TRAINED, "teacher": prefixed("net.", AVERAGED)}, path)
    with pytest.raises(UserError, match=r"'student' and at 'teacher\.net'.*`part: "):
        convert(OWN, [path], tmp_path / "towers")
    for part, expected in (("student", TRAINED), ("teacher", AVERAGED), ("teacher.net", AVERAGED)):
        towers = load_towers(convert({**OWN, "part": part}, [path], tmp_path / part))
        assert torch.equal(towers.image_projection, expected["visual.proj"])
    with pytest.raises(UserError, match=r"part 'tutor'; see student, teacher\.net"):
        convert({**OWN, "part": "tutor"}, [path], tmp_path / "towers")


@pytest.mark.usefixtures("own")
def test_entries_that_may_enter_features_are_never_left_out_silently(tmp_path: Path) -> None:
    path = tmp_path / "own.pt"
    torch.save({**TRAINED, "adapter.weight": torch.ones(2)}, path)
    assert "adapter.weight" in read_weights(path, [TRAINED]).state  # which fits no architecture
    torch.save({**prefixed("clip."), "adapter.weight": torch.ones(2)}, path)
    with pytest.raises(UserError, match=r"adapter\.weight.*`part: clip`"):
        convert(OWN, [path], tmp_path / "towers")
    convert({**OWN, "part": "clip"}, [path], tmp_path / "towers")


@pytest.mark.usefixtures("own")
def test_a_scale_of_one_number_is_a_scalar(tmp_path: Path) -> None:
    torch.save({**TRAINED, "logit_scale": TRAINED["logit_scale"].reshape(1)}, tmp_path / "own.pt")
    convert(OWN, [tmp_path / "own.pt"], tmp_path / "towers")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(("content", "message"), [
    ({k: v for k, v in TRAINED.items() if k.startswith("visual.")}, "missing .*state_dict()"),
    ({**TRAINED, "head.weight": torch.ones(2)}, "save the file without them"),
    ({k: v for k, v in TRAINED.items() if k != "logit_scale"}, "missing 1: logit_scale"),
    ({k: (9 * v).to(torch.int8) for k, v in TRAINED.items()}, "holds integers"),
    ({**TRAINED, "token_embedding.weight": torch.ones(99, 16)}, "trained with another tokeniz"),
])  # fmt: skip
def test_weights_that_do_not_fit_have_a_remedy(content, message, tmp_path):
    torch.save(content, tmp_path / "own.pt")
    with pytest.raises(UserError, match=message):
        convert(OWN, [tmp_path / "own.pt"], tmp_path / "towers")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(("names", "shape", "settings"), [
    (("visual.positional_embedding",), (10, 32), {"force_image_size": 48}),
    (("positional_embedding",), (20, 16), {"force_context_length": 20}),
    (("text.positional_embedding",), (20, 16),
     {"force_context_length": 20, "force_custom_text": True}),
])  # fmt: skip
def test_other_sizes_are_settings_and_are_named_as_the_cause(names, shape, settings, tmp_path):
    weights = custom_text(NATIVE) if "text" in names[0] else TRAINED
    path = tmp_path / "own.pt"
    torch.save({**weights, **dict.fromkeys(names, torch.ones(shape))}, path)
    key, value = next(iter(settings.items()))
    with pytest.raises(UserError, match=f"add `{key}: {value}` to the model's entry"):
        convert(OWN, [path], tmp_path / "towers")
    model = load_towers(convert({**OWN, **settings}, [path], tmp_path / "towers")).model
    assert (model.visual.image_size[0], model.context_length) in ((48, 12), (32, 20))


@pytest.mark.parametrize("trunk", ["test_vit", "test_vit2"])  # with a token of the class, without
def test_another_size_of_a_timm_trunk_is_a_setting_too(trunk, tmp_path, monkeypatch):
    vision = {"image_size": 160, "timm_model_name": trunk, "timm_pool": "avg"}
    config = {**NATIVE, "vision_cfg": {**vision, "timm_proj": "linear"}}
    monkeypatch.setattr(open_clip, "get_model_config", lambda _: json.loads(json.dumps(config)))
    shapes = dict(Architecture("a", config, PREPROCESS["openai"]).shapes)
    _, tokens, width = shapes["visual.trunk.pos_embed"]
    shapes["visual.trunk.pos_embed"] = (1, tokens - 10**2 + 14**2, width)
    path = tmp_path / "own.pt"
    torch.save({name: torch.ones(shape) for name, shape in shapes.items()}, path)
    with pytest.raises(UserError, match="add `force_image_size: 224` to the model's entry"):
        convert(OWN, [path], tmp_path / "towers")
    folder = convert({**OWN, "force_image_size": 224}, [path], tmp_path / "towers")
    moved = folder.rename(tmp_path / "moved")
    features = load_towers(moved).image_features(torch.zeros(1, 3, 224, 224))
    assert features.shape == (1, width)


@pytest.mark.usefixtures("small")
def test_what_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    slip = trainer_file(tmp_path / "slip.pt", random_weights(cc_shapes(qk_norm=False)))
    with pytest.raises(UserError, match=r"slip\.pt: does not fit recipe laclip-cc \(missing 8: "):
        convert(CC, [slip], tmp_path / "towers")
    laion = trainer_file(tmp_path / "laion.pt", random_weights(native_shapes(NATIVE)))
    with pytest.raises(UserError, match="The nearest is small, which the file fits"):
        convert(CC, [laion], tmp_path / "towers")
    whole = laion.read_bytes()
    laion.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"laion\.pt: is cut short"):
        convert(CC, [laion], tmp_path / "towers")
    assert not (tmp_path / "towers").exists()
    assert sorted(os.listdir(tmp_path)) == ["laion.pt", "slip.pt"]


def test_weights_of_a_tag_are_fetched_when_there_is_no_file(tmp_path, monkeypatch):
    fetched: list[dict[str, Any]] = []
    cache = tmp_path / "cache.pt"
    weights = random_weights(native_shapes(NATIVE))
    torch.save(weights, cache)

    def download(cfg: dict[str, Any]) -> str:
        fetched.append(cfg)
        return str(cache)

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(open_clip, "download_pretrained", download)
    small_model = {**NATIVE, "quick_gelu": True}
    monkeypatch.setattr(
        open_clip, "get_model_config", lambda _: json.loads(json.dumps(small_model))
    )
    entry = {"name": "openai", "model": "ViT-B-32-quickgelu", "pretrained": "openai"}
    folder = convert(entry, [], tmp_path / "towers")
    assert [cfg["hf_hub"] for cfg in fetched] == ["timm/vit_base_patch32_clip_224.openai/"]
    record = read_json(folder / "config.json")["mispair"]
    assert record["sha256"] == hashlib.sha256(cache.read_bytes()).hexdigest()
    assert record["activation"] == {"image": "quick_gelu", "text": "quick_gelu"}
    towers = load_towers(folder)
    assert torch.equal(towers.image_projection, weights["visual.proj"])
    # With the wrong name nothing is fetched.
    monkeypatch.setattr(open_clip, "get_model_config", lambda _: json.loads(json.dumps(NATIVE)))
    with pytest.raises(UserError, match="Name ViT-B-32-quickgelu"):
        convert(entry | {"model": "ViT-B-32"}, [], tmp_path / "towers")
    assert len(fetched) == 1


@pytest.mark.parametrize(("entry", "message"), [
    ({"name": "a", "recipe": "laclip-cc"}, "--spec: .*model a: .* add checkpoint"),
    ({"name": "a", "folder": "/models/mine"}, "is a folder of open_clip already"),
])  # fmt: skip
def test_an_entry_that_is_no_file_of_weights(entry, message, tmp_path):
    with pytest.raises(UserError, match=message):
        convert(entry, [], tmp_path / "towers")
