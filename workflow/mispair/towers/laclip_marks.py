"""How LaCLIP's own tokenizer differs from open_clip's: the names of the first and last token."""

from __future__ import annotations

from typing import Any

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
