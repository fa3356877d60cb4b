"""CoCa, against the full forward pass of open_clip for each token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from mispair.core.files import UserError
from mispair.pairs.corruption.draws import uniforms
from mispair.repair.captioners.coca import CocaCaptioner, load_coca, room_of
from mispair.repair.captioners.decoding import from_nucleus
from mispair.repair.captioners.recaption_settings import Settings

START, END = 49406, 49407
CONFIG = {
    "embed_dim": 32,
    "vision_cfg": {
        "image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16,
        "attentional_pool": "parallel", "attn_pooler_queries": 6, "attn_pooler_heads": 2,
        "output_tokens": True,
    },
    "text_cfg": {
        "context_length": 14, "vocab_size": 49408, "layers": 2, "heads": 2, "width": 32,
        "embed_cls": True, "output_tokens": True, "ls_init_value": 0.7,
    },
    "multimodal_cfg": {
        "context_length": 14, "vocab_size": 49408, "layers": 2, "heads": 2, "width": 32,
        "attn_pooler_heads": 2,
    },
    "custom_text": True,
}  # fmt: skip


def build(folder: Path, **changes: Any) -> Path:
    """Write a randomly initialised CoCa."""
    config = json.loads(json.dumps(CONFIG))
    for section, change in changes.items():
        config[section] |= change
    folder.mkdir()
    content = {"model_cfg": config, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.3] * 3}}
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{folder}")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3)  # far from the small first weights
        model.text_decoder.text_projection[:, 300:START] -= 4  # few tokens are likely
        model.text_decoder.ln_final.bias.fill_(0.3)
        model.text_decoder.text_projection[:, END] += 0.3  # captions of several lengths
    state = {name: values.clone() for name, values in model.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("coca") / "tiny")


@pytest.fixture(scope="module")
def images() -> list[Image.Image]:
    # Of one colour each: the tokens of such pictures differ most.
    draws = np.random.default_rng(0)
    return [
        Image.new("RGB", (30 + row, 40), tuple(draws.integers(0, 256, 3).tolist()))
        for row in range(12)
    ]


def load(model: Path | str, **more: Any) -> CocaCaptioner:
    settings = {"decoding": "greedy", "max_words": 6, "batch_size": 8, **more}
    return load_coca(Settings(captioner="coca", model=str(model), **settings), "cpu")


@torch.no_grad()
def plain(captioner: CocaCaptioner, image: Image.Image, seed: int) -> tuple[list[int], bool]:
    """Write one caption, with the full forward pass of open_clip for each token."""
    model, how = captioner.model, captioner.settings
    pixels, written = captioner.preprocess(image)[None], [START]
    for position in range(captioner.room):
        output = model(pixels, torch.tensor([written]), output_labels=False)
        logits = output["logits"][:, -1].clone()
        logits[:, START] = -torch.inf
        if how.decoding == "greedy":
            token = int(logits.argmax())
        else:
            drawn = torch.from_numpy(uniforms(np.array([seed], np.uint64), position))
            token = int(from_nucleus(logits / how.temperature, how.top_p, drawn))
        if token in (END, model.pad_id):
            return written[1:], False
        written.append(token)
    return written[1:], True


@pytest.mark.parametrize("how", [{}, {"decoding": "nucleus", "top_p": 0.95}])
def test_captions_are_those_of_the_full_forward_pass(
    how: dict[str, Any], folder: Path, images: list[Image.Image]
) -> None:
    captioner = load(folder, **how)
    seeds = [100 + row for row in range(len(images))]
    drafts = captioner.caption(images, seeds)
    tokenizer = open_clip.tokenizer.SimpleTokenizer()
    lengths = set()
    for image, seed, (draft,) in zip(images, seeds, drafts, strict=True):
        tokens, is_cut = plain(captioner, image, seed)
        expected = tokenizer.decode(tokens)
        assert "".join(draft.text.split()) == "".join(expected.split())
        assert draft.is_cut == is_cut
        lengths.add(len(tokens))
    assert len(lengths) > 2
    assert len({draft.text for (draft,) in drafts}) > 3


def test_no_caption_is_longer_than_the_text_tower(folder: Path) -> None:
    assert load(folder, max_words=3).room == 6
    assert load(folder, max_words=40).room == 14


def test_half_of_the_pictures_where_memory_runs_out(
    folder: Path, images: list[Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load(folder).caption(images, [0] * 12)
    captioner, sizes = load(folder), []
    encode = captioner.model._encode_image

    def small(pixels: torch.Tensor) -> Any:
        sizes.append(len(pixels))
        if len(pixels) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return encode(pixels)

    monkeypatch.setattr(captioner.model, "_encode_image", small)
    assert captioner.caption(images, [0] * 12) == expected
    assert sizes == [8, 4, 2, 2, 2, 2, 2, 2]


def test_precision(folder: Path, images: list[Image.Image]) -> None:
    half = load(folder, precision="bf16")
    assert len(half.caption(images, [0] * 12)) == 12


def test_what_is_no_coca_is_refused(tmp_path: Path) -> None:
    from mispair.core.provenance import PACKAGE

    with pytest.raises(UserError, match="not CoCa"):
        load(PACKAGE / "towers/shipped/scenes-small")
    with pytest.raises(UserError, match="no folder"):
        load(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="cannot load"):
        load(tmp_path / "empty")
    with pytest.raises(UserError, match="cannot load no-such-model@tag"):
        load("no-such-model@tag")


def test_other_blocks_are_refused(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = CONFIG | {"text_cfg": CONFIG["text_cfg"] | {"qk_norm": True, "ls_init_value": None}}
    config.pop("custom_text")
    model = open_clip.coca_model.CoCa(**config)
    with pytest.raises(UserError, match="text blocks"):
        room_of(model, "tiny")
