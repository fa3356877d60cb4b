"""How a folder of joined towers is recognised, without importing torch."""

from __future__ import annotations

from typing import Any

MARK = "bag_of_words"
TOKENIZER_NAME = "tokenizer.json"


def is_joined(config: dict[str, Any]) -> bool:
    """Return whether the configuration of a folder is one of joined towers."""
    return bool(config["model_cfg"]["text_cfg"].get(MARK))
