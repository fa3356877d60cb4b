"""Vocabularies of towers for which those of open_clip do not serve, read without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core import files

if TYPE_CHECKING:
    import tokenizers
    import torch


# How a folder of joined towers is recognised.

MARK = "bag_of_words"
TOKENIZER_NAME = "tokenizer.json"


def is_joined(config: dict[str, Any]) -> bool:
    """Return whether the configuration of a folder is one of joined towers."""
    return bool(config["model_cfg"]["text_cfg"].get(MARK))


# The vocabulary of towers that mispair trains: the first part of CLIP's byte-pair merges.
#
# Its form on disk is that of transformers, because open_clip looks for files of its own tokenizer
# in the working directory and for those of transformers in the folder of the model. It is read
# without transformers, whose import takes half a second of processor time of each job.

BYTES = 512
"""Tokens of a byte-pair vocabulary before its merges: every byte, within a word and at its end."""

START, END = "<start_of_text>", "<end_of_text>"
"""Tokens around a text, as open_clip names them."""
PADDING = "<PAD>"
"""Fills up rows, where open_clip then writes 0. No text has it, because texts are lower case."""

TOKENS, SETTINGS = "tokenizer.json", "tokenizer_config.json"
MARKS = {"bos_token": START, "eos_token": END, "pad_token": PADDING, "sep_token": PADDING}
FORM = {"tokenizer_class": "PreTrainedTokenizerFast", **MARKS}
"""Content of the settings."""

TEXT_SETTINGS: dict[str, Any] = {
    "hf_tokenizer_name": ".",
    # Lower case, as open_clip's tokenizer; rows filled up with 0, which is no padding token.
    "tokenizer_kwargs": {"clean": "lower", "strip_sep_token": True},
}
"""What ``text_cfg`` of such towers has."""


def write(folder: Path, size: int) -> dict[str, Any]:
    """Write the first `size` tokens of CLIP's vocabulary, the same bytes every time.

    Returns what ``text_cfg`` needs. The tokens are those of open_clip's tokenizer with these
    merges, except for characters that the Unicode versions of the two regular expressions class
    differently.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors

    from mispair.towers.light_open_clip import open_clip

    whole = open_clip.SimpleTokenizer()
    vocabulary = [*[*whole.encoder][: size - 2], START, END]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: number for number, token in enumerate(vocabulary)},
            merges=[*whole.bpe_ranks][: size - 2 - BYTES],
            end_of_word_suffix="</w>",
        )
    )
    letters = r"(?i)'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(letters), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}", special_tokens=[(START, size - 2), (END, size - 1)]
    )
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False) for token in (START, END, PADDING)]
    )
    (folder / TOKENS).write_text(tokenizer.to_str(), encoding="utf-8")
    files.write_json(folder / SETTINGS, FORM)
    return dict(TEXT_SETTINGS)


def is_own(folder: Path, text: dict[str, Any]) -> bool:
    """Return whether towers with this ``text_cfg`` have a vocabulary in the form of `write`."""
    settings = {key: text.get(key) for key in TEXT_SETTINGS}
    paths = folder / TOKENS, folder / SETTINGS
    whole = settings == TEXT_SETTINGS and all(path.is_file() for path in paths)
    return whole and files.read_json(folder / SETTINGS) == FORM


class KeptTokenizer:
    """From texts to token ids (n, length), as open_clip's tokenizer of this form gives them.

    Attributes
    ----------
    tokenizer : tokenizers.Tokenizer
        The tokens and their names.
    context_length : int
        Tokens of a text, with those around it, unless a call names another number.
    """

    def __init__(self, folder: Path, context_length: int) -> None:
        import tokenizers

        from mispair.towers.light_open_clip import open_clip

        self.tokenizer: tokenizers.Tokenizer = tokenizers.Tokenizer.from_file(str(folder / TOKENS))
        self.context_length = context_length
        self._clean = open_clip.tokenizer.get_clean_fn(TEXT_SETTINGS["tokenizer_kwargs"]["clean"])

    def __call__(self, texts: str | Sequence[str], length: int | None = None) -> torch.Tensor:
        """Return the tokens of n texts, then zeros; a longer text is cut before its end token."""
        import torch

        length = length or self.context_length
        self.tokenizer.enable_truncation(length)
        texts = [texts] if isinstance(texts, str) else texts
        ids = torch.zeros((len(texts), length), dtype=torch.long)
        rows = self.tokenizer.encode_batch([self._clean(text) for text in texts])
        for row, encoding in zip(ids, rows, strict=True):
            row[: len(encoding.ids)] = torch.tensor(encoding.ids)
        return ids


# How LaCLIP's own tokenizer differs from open_clip's: the names of the first and last token.

MARKS_OF_LACLIP = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}
"""Names of the two tokens by their names in open_clip."""


def name_marks_as_laclip(tokenizer: Any) -> None:
    """Let open_clip's tokenizer call its first and last token as LaCLIP's own does.

    Such a name in a text is that token, and open_clip's ``<start_of_text>`` is text as any other.
    """
    from mispair.towers.light_open_clip import open_clip

    pattern = tokenizer.pat.pattern
    for name, of_laclip in MARKS_OF_LACLIP.items():
        number = tokenizer.encoder.pop(name)
        tokenizer.encoder[of_laclip], tokenizer.decoder[number] = number, of_laclip
        tokenizer.cache = {of_laclip: of_laclip} | tokenizer.cache
        del tokenizer.cache[name]
        pattern = pattern.replace(name, of_laclip.replace("|", r"\|"))
    tokenizer.pat = open_clip.tokenizer.re.compile(pattern, tokenizer.pat.flags)
