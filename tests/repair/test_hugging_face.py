"""Captioners of transformers, as tiny models with random weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from mispair.core.files import UserError
from mispair.repair.captioners.hugging_face import HuggingFaceCaptioner, load_hugging_face
from mispair.repair.captioners.recaption_settings import Settings

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "picture", "of", "the", "red", "green",
         "blue", "star", "ring", "box"]  # fmt: skip
VISION = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
          "num_attention_heads": 2, "image_size": 32, "patch_size": 16}  # fmt: skip
TEXT = {"vocab_size": len(WORDS), "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2}  # fmt: skip


def tokenizer(folder: Path) -> Any:
    path = folder / "vocab.txt"
    path.write_text("\n".join(WORDS))
    return transformers.BertTokenizer(str(path))


def blip(folder: Path) -> tuple[Any, Any]:
    text = TEXT | {"encoder_hidden_size": 16, "max_position_embeddings": 32, "bos_token_id": 2,
                   "pad_token_id": 0, "eos_token_id": 3, "sep_token_id": 3}  # fmt: skip
    config = transformers.BlipConfig(text_config=text, vision_config=VISION, projection_dim=16)
    images = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    processor = transformers.BlipProcessor(images, tokenizer(folder))
    return transformers.BlipForConditionalGeneration(config), processor


def git(folder: Path) -> tuple[Any, Any]:
    config = transformers.GitConfig(vision_config=VISION, **TEXT, max_position_embeddings=64,
                                    bos_token_id=2, eos_token_id=3, pad_token_id=0)  # fmt: skip
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    processor = transformers.GitProcessor(images, tokenizer(folder))
    return transformers.GitForCausalLM(config), processor


@pytest.fixture(scope="module", params=[blip, git])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param.__name__)
    torch.manual_seed(0)
    model, processor = request.param(path)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    model.save_pretrained(path / "model")
    processor.save_pretrained(path / "model")
    return path / "model"


@pytest.fixture(scope="module")
def images() -> list[Image.Image]:
    draws = np.random.default_rng(0)
    return [Image.fromarray(draws.integers(0, 256, (40, 40, 3), dtype=np.uint8)) for _ in range(10)]


def load(folder: Path, **more: Any) -> HuggingFaceCaptioner:
    values = {"decoding": "greedy", "max_words": 5, "batch_size": 4, **more}
    settings = Settings(captioner="transformers", model=str(folder), **values)
    return load_hugging_face(settings, "cpu")


def test_greedy_captions_are_those_of_single_pictures(folder: Path, images: list[Image.Image]):
    captioner = load(folder)
    drafts = captioner.caption(images, [0] * 10)
    for image, (draft,) in zip(images, drafts, strict=True):
        inputs = captioner.processor(images=image, return_tensors="pt")
        tokens = captioner.model.generate(**inputs, max_new_tokens=10, do_sample=False)[0]
        assert draft.text == captioner.processor.decode(tokens, skip_special_tokens=True).strip()
        assert draft.is_cut == (3 not in tokens[1:].tolist())
        assert set(draft.text.split()) <= {*WORDS[1:]}


def test_draws_depend_on_the_seeds(folder: Path, images: list[Image.Image]) -> None:
    captioner = load(folder, decoding="nucleus", top_p=1.0)
    first, again, other = (
        captioner.caption(images, [seed + row for row in range(10)]) for seed in (0, 0, 50)
    )
    assert first == again != other
    state = torch.get_rng_state()
    captioner.caption(images, [0] * 10)
    assert (torch.get_rng_state() == state).all()


def test_a_prompt_is_no_part_of_the_caption(folder: Path, images: list[Image.Image]) -> None:
    captioner = load(folder, prompt="a picture of")
    for (draft,) in captioner.caption(images[:5], [0] * 5):
        assert not draft.text.startswith("a picture of")


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder"):
        load(tmp_path / "nothing")
    with pytest.raises(UserError, match="cannot load"):
        load(tmp_path)
