"""Tests of the step `convert_checkpoint`: from a public file to a folder that open_clip loads."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from huggingface_hub import ModelCard

from mispair.cli import main
from mispair.core.files import UserError, read_json
from mispair.core.registry import step_module
from mispair.towers.checkpoints import laclip
from mispair.towers.checkpoints.architectures import PREPROCESS, Architecture
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
        "laclip-cc": [laclip.cc(SMALL)],
        "laclip-laion": [Architecture("small", NATIVE, PREPROCESS["openai"])],
    }
    monkeypatch.setattr(laclip, "architectures", lambda recipe, _=None: of[recipe])


def trainer_file(path: Path, weights: dict[str, torch.Tensor]) -> Path:
    """Write weights as LaCLIP's trainer saves them."""
    optimiser = {"state": {}, "param_groups": [{"lr": np.linspace(0, 1, 5)[2], "params": [0]}]}
    content = {
        "epoch": 35,
        "state_dict": {f"module.{name}": value for name, value in weights.items()},
        "optimizer": optimiser,
        "scaler": {"scale": 65536.0},
        "best_acc1": 21.5,
        "args": argparse.Namespace(model="CLIP_VITB16"),
    }
    torch.save(content, path)
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
        **dict.fromkeys(("folder", "model", "pretrained", "quick_gelu", "preprocess", "licence")),
        "architecture": "recipe laclip-cc",
        "recipe_hash": laclip.cc(SMALL).recipe_hash(),
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


@pytest.mark.usefixtures("small")
def test_what_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    slip = trainer_file(tmp_path / "slip.pt", random_weights(cc_shapes(qk_norm=False)))
    with pytest.raises(UserError, match=r"slip\.pt: does not fit recipe laclip-cc\. Missing 8: "):
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


def test_weights_of_a_tag_are_fetched_when_there_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[dict[str, Any]] = []
    cache = tmp_path / "cache.pt"
    weights = random_weights(native_shapes(NATIVE))
    torch.save(weights, cache)

    def download(cfg: dict[str, Any]) -> str:
        fetched.append(cfg)
        return str(cache)

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


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "a", "recipe": "laclip-cc"}, "--spec: .*model a: .* add checkpoint"),
        ({"name": "a", "folder": "/models/mine"}, "is a folder of open_clip already"),
    ],
)
def test_an_entry_that_is_no_file_of_weights(
    entry: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        convert(entry, [], tmp_path / "towers")


@pytest.mark.usefixtures("small")
def test_the_step_runs_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trainer_file(tmp_path / "cc.pt", random_weights(cc_shapes()))
    command = ["convert-checkpoint", "--checkpoint", str(path), "--towers", str(tmp_path / "out")]
    spec = json.dumps(CC | {"checkpoint": str(path)})
    assert main([*command, "--spec", spec]) == 0
    assert load_towers(tmp_path / "out").context_length == SMALL.context_length
    assert main([*command, "--spec", json.dumps(CC | {"quick_gelu": True})]) == 2
    assert "take out quick_gelu" in capsys.readouterr().err


@pytest.mark.slow
def test_a_file_of_the_public_size(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = {
        name: (0.02 * torch.randn(shape, generator=generator)).half()
        for name, shape in cc_shapes(laclip.PUBLIC).items()
    }
    path = trainer_file(tmp_path / "cc12m_laclip.pt", weights)
    towers = load_towers(convert(CC, [path], tmp_path / "towers"))
    images = torch.randn(1, 3, 224, 224, generator=generator)
    features = towers.image_features(images) @ towers.image_projection
    expected = cc_images(images.double().numpy(), weights, laclip.PUBLIC)
    assert features.shape == (1, 512)
    np.testing.assert_allclose(features.numpy(), expected, rtol=0, atol=1e-5)
    assert towers.context_length == 77
