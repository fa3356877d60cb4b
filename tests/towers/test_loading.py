"""Tests of taking towers apart before their final projections."""

import json
import random
import shutil
import string
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

import open_clip
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from mispair.core import files
from mispair.towers import loading
from mispair.towers.pretraining import pretraining
from mispair.towers.vocabularies import name_marks_as_laclip
from tests.towers.made_up import NATIVE, SHIPPED, TEXT, build


def check(towers: loading.Towers, side: int) -> None:
    """Assert that features times projection are the embeddings of the model."""
    images = torch.randn(5, 3, side, side, generator=torch.Generator().manual_seed(0))
    tokens = towers.tokenizer(["a red circle", "an orange ring on the left", "", "two", "7"])
    features = towers.image_features(images)
    assert features.shape == (5, towers.image_projection.shape[0])
    with torch.no_grad():
        expected = towers.model.encode_image(images)
    assert torch.allclose(features @ towers.image_projection, expected, atol=1e-5, rtol=1e-5)
    features = towers.text_features(tokens)
    assert features.shape == (5, towers.text_projection.shape[0])
    with torch.no_grad():
        expected = towers.model.encode_text(tokens)
    assert torch.allclose(features @ towers.text_projection, expected, atol=1e-5, rtol=1e-5)


def test_the_towers_that_come_with_mispair() -> None:
    towers = loading.load_towers(SHIPPED)
    check(towers, towers.model.visual.image_size[0])  # type: ignore[index, union-attr]
    assert towers.image_projection.shape[0] >= 128
    assert towers.image_projection.shape[1] == towers.text_projection.shape[1] >= 128
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 10e6
    assert not towers.model.training
    assert not any(parameter.requires_grad for parameter in towers.model.parameters())


def test_missing_and_broken_parts_are_named(tmp_path: Path) -> None:
    with pytest.raises(files.UserError, match=r"open_clip_config\.json: is missing"):
        loading.load_towers(tmp_path)
    weights = build(tmp_path / "vit", NATIVE) / loading.WEIGHTS_NAME
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(files.UserError, match=r"vit: open_clip cannot load it .*Safetensor"):
        loading.load_towers(tmp_path / "vit")
    weights.unlink()
    with pytest.raises(files.UserError, match=r"open_clip_model\.safetensors: is missing"):
        loading.load_towers(tmp_path / "vit")
    trunk = build_with_trunk(tmp_path / "trunk")
    (trunk / loading.TRUNK_NAME).unlink()
    with pytest.raises(files.UserError, match=r"trunk/config\.json: there is no such file"):
        loading.load_towers(trunk)


def test_the_fingerprint_follows_weights_and_configuration_only(tmp_path: Path) -> None:
    folder = build(tmp_path / "one", NATIVE)
    first = loading.fingerprint(folder)
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "training.json").write_text("{}")
    config = json.loads((other / loading.CONFIG_NAME).read_text())
    (other / loading.CONFIG_NAME).write_text(json.dumps(config))  # other spacing
    assert loading.fingerprint(other) == first == loading.load_towers(folder).fingerprint
    weights = load_file(other / loading.WEIGHTS_NAME)
    weights["logit_scale"] += 0.1
    save_file(weights, other / loading.WEIGHTS_NAME)
    second = loading.fingerprint(other)
    config["model_cfg"]["text_cfg"]["heads"] = 4
    (other / loading.CONFIG_NAME).write_text(json.dumps(config))
    assert len({first, second, loading.fingerprint(other)}) == 3


@pytest.mark.parametrize(("change", "message"), [
    ({"model_cfg": None}, "has no model_cfg"),
    ({"text_cfg": None}, "its model_cfg has no text_cfg"),
    ({"vision_cfg": {"no_such_key": 1}}, "cannot load it .*no_such_key"),
    ({"vision_cfg": {"timm_model_name": "no_such_model"}}, "cannot load it .*no_such_model"),
    ({"text_cfg": {"pool_type": "sum"}}, "cannot load it .*AssertionError"),
    ({"text_cfg": {"mlp_ratio": 2}}, "cannot load it .*size mismatch"),
    ({"text_cfg": {"tokenizer_kwargs": {"bpe_path": "words.gz"}}}, "words.gz: is missing"),
])  # fmt: skip
def test_a_configuration_that_cannot_be_loaded_says_why(change, message, tmp_path):
    folder = build(tmp_path / "vit", NATIVE)
    config = json.loads((folder / loading.CONFIG_NAME).read_text())
    for part, values in change.items():
        where = config if part == "model_cfg" else config["model_cfg"]
        where[part] = values and {**where[part], **values}
    (folder / loading.CONFIG_NAME).write_text(json.dumps(config))
    with pytest.raises(files.UserError, match=rf"{folder.name}.*{message}"):
        loading.load_towers(folder)


def test_a_tokenizer_that_cannot_be_read_says_so_when_it_is_needed(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SHIPPED, tmp_path / "towers"))
    (folder / "tokenizer.json").write_text("no tokenizer")
    towers = loading.load_towers(folder)
    with pytest.raises(files.UserError, match=r"towers: open_clip cannot load it"):
        towers.tokenizer(["a red circle"])


def test_the_fingerprint_follows_the_vocabulary(tmp_path: Path) -> None:
    folder = build(tmp_path / "vit", NATIVE)
    config = json.loads((folder / loading.CONFIG_NAME).read_text())
    config["model_cfg"]["text_cfg"]["hf_tokenizer_name"] = "bert-base-uncased"
    (folder / loading.CONFIG_NAME).write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    first = loading.fingerprint(folder)
    (folder / "README.md").write_text("a model")
    assert loading.fingerprint(folder) == first
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    assert loading.fingerprint(folder) != first


# An image tower that timm builds from the folder itself -------------------------------------------

TRUNK = {
    "architecture": "vit_base_patch16_224",
    "model_args": {
        "img_size": 32,
        "patch_size": 16,
        "embed_dim": 32,
        "depth": 1,
        "num_heads": 2,
        "qk_norm": True,
    },
    "pretrained_cfg": {},
    "mispair": {"method": "LaCLIP"},
}


def build_with_trunk(folder: Path) -> Path:
    """Write towers whose image tower has arguments that open_clip cannot pass to timm."""
    folder.mkdir()
    vision = {"image_size": 32, "timm_model_name": "local-dir:.", "timm_pool": ""}
    model = {"embed_dim": 24, "vision_cfg": {**vision, "timm_proj": "linear"}, "text_cfg": TEXT}
    config = {"model_cfg": model, "preprocess_cfg": {}}
    (folder / loading.CONFIG_NAME).write_text(json.dumps(config))
    (folder / loading.TRUNK_NAME).write_text(json.dumps(TRUNK))
    torch.manual_seed(0)
    with chdir(folder):
        model = open_clip.create_model("local-dir:.")
    pretraining.write_weights(folder / loading.WEIGHTS_NAME, model.state_dict())
    return folder


def test_a_trunk_in_the_folder_is_found_from_every_working_directory(tmp_path, monkeypatch):
    folder = build_with_trunk(tmp_path / "trunk")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    # Another model there, which a search below the working directory would find.
    (elsewhere / loading.TRUNK_NAME).write_text('{"architecture": "test_vit"}')
    monkeypatch.chdir(elsewhere)
    towers = loading.load_towers(Path("..") / "trunk")
    check(towers, 32)
    assert Path.cwd() == elsewhere.resolve()
    assert "visual.trunk.blocks.0.attn.q_norm.weight" in towers.model.state_dict()
    with chdir(folder):
        plain = open_clip.create_model("local-dir:.").eval()
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(plain.encode_image(images), towers.model.encode_image(images))


def test_the_fingerprint_follows_the_trunk_and_not_the_record_beside_it(tmp_path: Path) -> None:
    folder = build_with_trunk(tmp_path / "trunk")
    first = loading.fingerprint(folder)
    record = TRUNK | {"mispair": {"method": "CLIP"}}
    (folder / loading.TRUNK_NAME).write_text(json.dumps(record))
    assert loading.fingerprint(folder) == first
    bare = {**TRUNK["model_args"], "num_heads": 4}
    (folder / loading.TRUNK_NAME).write_text(json.dumps(TRUNK | {"model_args": bare}))
    assert loading.fingerprint(folder) != first


def test_no_weights_of_timm_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build_with_trunk(tmp_path / "trunk")
    config = json.loads((folder / loading.CONFIG_NAME).read_text())
    vision = config["model_cfg"]["vision_cfg"]
    vision["timm_model_pretrained"] = True
    (folder / loading.CONFIG_NAME).write_text(json.dumps(config))
    asked: list[bool] = []

    def create(*args: Any, pretrained: bool, **kwargs: Any) -> Any:
        asked.append(pretrained)
        return created(*args, **kwargs)

    created = timm.create_model
    monkeypatch.setattr(timm, "create_model", create)
    loading.load_towers(folder)
    assert asked == [False]
    vision["timm_model_name"] = "hf-hub:someone/model"
    (folder / loading.CONFIG_NAME).write_text(json.dumps(config))
    with pytest.raises(files.UserError, match=r"image tower .* trunk is hf-hub:someone/model"):
        loading.load_towers(folder)
    assert asked == [False]


LETTERS = "".join(random.Random(0).choices(string.ascii_lowercase, k=4_000))


@pytest.mark.parametrize(
    "text",
    [LETTERS, "blackandwhitephotography" * 200, "a red cup " * 900, "ein Bär\n\t" * 900,
     "a" + " " * 9_000 + "b", "狗和猫" * 1_000, "😂" * 3_000],
)  # fmt: skip
def test_the_tokens_of_a_long_text_are_those_of_its_beginning(text: str) -> None:
    tokenizer = open_clip.get_tokenizer("ViT-B-32")
    given = []

    def spy(texts: list[str], *rest: Any) -> torch.Tensor:
        given.extend(texts)
        return tokenizer(texts, *rest)

    spy.context_length = tokenizer.context_length  # type: ignore[attr-defined]
    tokens = loading.bounded(spy)
    assert torch.equal(tokens(["one", text]), tokenizer(["one", text]))
    assert torch.equal(tokens(text), tokenizer(text))
    assert torch.equal(tokens([text], 20), tokenizer([text], 20))
    assert given[0] == "one"
    assert max(map(len, given)) < 3_000


@pytest.mark.parametrize(("text", "tokens"), [
    ("a cat", [320, 2368]),
    ("<|startoftext|> a cat <|endoftext|>", [49406, 320, 2368, 49407]),
    ("<|STARTOFTEXT|>", [49406]),
    ("<start_of_text>", [283, 1572, 318, 539, 318, 4160, 285]),
])  # fmt: skip
def test_marks_in_a_text_are_those_of_laclip_s_tokenizer(text: str, tokens: list[int]) -> None:
    tokenizer = open_clip.SimpleTokenizer()
    name_marks_as_laclip(tokenizer)
    row = tokenizer([text])[0].tolist()
    assert row[: len(tokens) + 3] == [49406, *tokens, 49407, 0]


def test_the_tokenizer_of_towers_is_bounded() -> None:
    towers = loading.load_towers(SHIPPED)
    started = time.process_time()
    tokens = towers.tokenizer([LETTERS * 10])
    assert towers.truncated([LETTERS * 10], tokens).tolist() == [True]
    assert time.process_time() - started < 15  # 36 s and more if all letters are merged
