"""The vocabulary of trained towers, read without transformers, against open_clip's own reader."""

import json
from pathlib import Path

import open_clip
import pytest
import torch

from mispair.towers import loading, vocabularies

SHIPPED = Path(loading.__file__).parent / "shipped"
TEXTS = [
    "", " ", "a red circle", "A  Red\nCIRCLE!", "it's don't I'LL", "naïve café ½ № ﬁ Ⅷ",
    "日本語 한국어 العربية", "🙂👍🏽 ok", "&lt;b&gt; &amp;amp;", "<pad> cut", "1234567 3.14",
    "<start_of_text> a <end_of_text> <PAD>", "a" * 400, "word " * 60, "\0\ufeff\u200b x", "ſtraße",
]  # fmt: skip


@pytest.mark.parametrize("name", ["scenes-small", "scenes-small-1"])
@pytest.mark.parametrize("length", [None, 3, 40])
def test_tokens_are_those_of_open_clip(name: str, length: int | None) -> None:
    config = json.loads((SHIPPED / name / loading.CONFIG_NAME).read_text())
    text = config["model_cfg"]["text_cfg"]
    assert vocabularies.is_own(SHIPPED / name, text)
    own = vocabularies.KeptTokenizer(SHIPPED / name, text["context_length"])
    theirs = open_clip.get_tokenizer(f"local-dir:{SHIPPED / name}")
    assert torch.equal(own(TEXTS, length), theirs(TEXTS, length))
    assert torch.equal(own("a red circle", length), theirs("a red circle", length))
    assert own([]).shape == (0, text["context_length"])
    assert own.tokenizer.get_vocab() == theirs.tokenizer.get_vocab()


def test_what_is_written_is_what_is_shipped(tmp_path: Path) -> None:
    folder = SHIPPED / "scenes-small"
    text = json.loads((folder / loading.CONFIG_NAME).read_text())["model_cfg"]["text_cfg"]
    assert vocabularies.write(tmp_path, text["vocab_size"]).items() <= text.items()
    written = (tmp_path / vocabularies.TOKENS).read_bytes()
    assert written == (folder / vocabularies.TOKENS).read_bytes()
    assert vocabularies.is_own(tmp_path, text)


def test_other_settings_and_another_form_of_the_files_are_left_to_open_clip(tmp_path: Path) -> None:
    kwargs = {"clean": "whitespace"}
    for other in ({"hf_tokenizer_name": "bert-base-uncased"}, {"tokenizer_kwargs": kwargs}):
        text = {**vocabularies.TEXT_SETTINGS, **other}
        assert not vocabularies.is_own(SHIPPED / "scenes-small", text)
    vocabularies.write(tmp_path, 600)
    settings = tmp_path / vocabularies.SETTINGS
    settings.write_text(json.dumps({**vocabularies.FORM, "padding_side": "left"}))
    assert not vocabularies.is_own(tmp_path, vocabularies.TEXT_SETTINGS)
    settings.unlink()
    assert not vocabularies.is_own(tmp_path, vocabularies.TEXT_SETTINGS)
