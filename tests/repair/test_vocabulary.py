"""Tokens of captions and the way back to text, for several kinds of tokenizers."""

from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch

from mispair.core.files import UserError
from mispair.core.provenance import PACKAGE
from mispair.repair.captioners.recaption_settings import Settings
from mispair.repair.captioners.trained import fit
from mispair.repair.captioners.vocabulary import tidy, tokenized, vocabulary_of
from mispair.towers import joined
from mispair.towers.loading import bounded

SHIPPED = PACKAGE / "towers/shipped/scenes-small"
TEXTS = [
    "a pixelated number three",
    "a pair: a heart that is red, and an orange hoop (large)",
    "it's a café",
    "wow!",
    "",
]


def word_pieces(folder: Path) -> Any:
    """Return a BERT tokenizer, as open_clip reads one."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "star", "##s", "large",
             "and", ",", "!", "pair", ":"]  # fmt: skip
    (folder / "vocab.txt").write_text("\n".join(words))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (folder / "config.json").write_text('{"model_type": "bert"}')
    return open_clip.tokenizer.HFTokenizer(str(folder), 20)


@pytest.fixture(params=["clip", "shipped"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    if request.param == "clip":
        return bounded(open_clip.tokenizer.SimpleTokenizer())
    return bounded(open_clip.get_tokenizer(f"local-dir:{SHIPPED}"))


def test_captions_come_back_from_their_tokens(tokenizer: Any) -> None:
    tokens = tokenized(tokenizer, TEXTS, 30)
    vocabulary, counted = vocabulary_of(tokenizer, tokens)
    inside = np.arange(counted.shape[1]) < tokens.lengths[:, None]
    assert (counted[~inside] == vocabulary.end).all()
    assert (vocabulary.ids[counted[inside]] == tokens.ids[inside]).all()
    assert vocabulary.size == len(np.unique(tokens.ids[inside])) + 2
    texts = vocabulary.texts(np.where(inside, counted, 0), tokens.lengths)
    assert texts == TEXTS


def test_tokens_are_those_of_the_tokenizer_without_its_marks(tokenizer: Any) -> None:
    tokens = tokenized(tokenizer, TEXTS, 30)
    whole = tokenizer(TEXTS, 40)
    start, end = whole[-1, :2].tolist()
    for row, text in enumerate(TEXTS):
        length = int(tokens.lengths[row])
        expected = [start, *tokens.ids[row, :length].tolist(), end]
        assert whole[row, : length + 2].tolist() == expected, text


def test_a_text_without_room_is_cut(tokenizer: Any) -> None:
    tokens = tokenized(tokenizer, TEXTS, 4)
    assert tokens.is_cut.tolist() == [True, True, True, False, False]
    assert tokens.lengths.tolist()[:2] == [4, 4]
    whole = tokenized(tokenizer, TEXTS, 30)
    assert (tokens.ids[:2] == whole.ids[:2, :4]).all()


def test_word_pieces(tmp_path: Path) -> None:
    tokenizer = bounded(word_pieces(tmp_path))
    texts = ["a large red star", "red stars, a pair"]
    tokens = tokenized(tokenizer, texts, 10)
    vocabulary, counted = vocabulary_of(tokenizer, tokens)
    inside = np.arange(counted.shape[1]) < tokens.lengths[:, None]
    assert vocabulary.texts(np.where(inside, counted, 0), tokens.lengths) == texts


def spaces_seen() -> Any:
    """Return a tokenizer of joined towers, whose tokens hold the spaces before words."""
    import tokenizers
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer

    reader = tokenizers.Tokenizer(BPE(unk_token="?"))
    reader.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    reader.decoder = tokenizers.decoders.Metaspace()
    known = [*SPACED, "A dog runs on the beach. It's a cat's (large) $5 #1", ",.;:!?%)]([$#'"]
    reader.train_from_iterator(known, BpeTrainer(vocab_size=300, special_tokens=["?"]))
    return bounded(joined.JoinedTokenizer(reader, 30))


SPACED = [
    "A dog runs on the beach .", "a dog , a cat", "a ( large ) dog", "it 's a cat 's dog !",
    "a dog  on the  beach", " a dog", "a dog ", "a dog\non the beach", "a\tdog",
    "# 1 dog ; $ 5 : 5 %",
]  # fmt: skip


@pytest.mark.parametrize("text", SPACED)
def test_captions_with_odd_spaces_are_learned_from(text: str) -> None:
    """A tokenizer that sees spaces restored 11 % of Flickr's captions ("the ocean .")."""
    tokenizer = spaces_seen()
    settings = Settings(steps=1, width=8, train_batch_size=8)
    features = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    captioner, _ = fit(features, np.arange(20), [text] * 20, tokenizer, settings)
    assert captioner.vocabulary.size > 2
    assert tidy(tidy(text)) == tidy(text)


def test_long_captions_that_end_within_a_word_are_learned_from() -> None:
    tokenizer = bounded(open_clip.tokenizer.SimpleTokenizer())
    tokens = tokenized(tokenizer, ["antidisestablishmentarianism " * 9, "a dog"] * 10, 7)
    assert vocabulary_of(tokenizer, tokens)[0].size > 2


def test_many_texts_are_tokenized_in_blocks(tokenizer: Any, monkeypatch: pytest.MonkeyPatch):
    at_once = tokenized(tokenizer, TEXTS, 30)
    monkeypatch.setattr("mispair.repair.captioners.vocabulary.TEXTS_AT_ONCE", 2)
    blocks = tokenized(tokenizer, TEXTS, 30)
    assert (blocks.ids == at_once.ids).all()
    assert (blocks.lengths == at_once.lengths).all()


def test_a_tokenizer_with_other_marks_is_refused() -> None:
    def three(texts: list[str], places: int) -> torch.Tensor:
        return torch.tensor([[1, 2, 3] + [0] * (places - 3)] * len(texts))

    with pytest.raises(UserError, match="puts 3"):
        tokenized(three, ["a"], 5)


def test_a_tokenizer_that_loses_letters_is_refused() -> None:
    class Lossy:
        """Every word is a token, of which only the first letter comes back."""

        def __init__(self) -> None:
            self.words = {"<s>": 1, "</s>": 2}

        @property
        def decoder(self) -> dict[int, str]:
            return {number: f"{word[0]}</w>" for word, number in self.words.items()}

        def __call__(self, texts: list[str], places: int) -> torch.Tensor:
            rows = torch.zeros(len(texts), places, dtype=torch.int64)
            for row, text in zip(rows, texts, strict=True):
                words = [self.words.setdefault(w, len(self.words) + 1) for w in text.split()]
                row[: len(words) + 2] = torch.tensor([1, *words, 2])
            return rows

    tokenizer = Lossy()
    tokens = tokenized(tokenizer, ["red star", "red ring"], 5)
    with pytest.raises(UserError, match="restores none of"):
        vocabulary_of(tokenizer, tokens)
