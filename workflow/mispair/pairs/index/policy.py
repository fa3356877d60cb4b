"""What is a pair: where its caption comes from, and configurable limits."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from mispair.pairs.index.faults import ImageLimits
from mispair.pairs.shards.shards import (
    MAX_MEMBER_BYTES,
    MAX_TEXT_BYTES,
    SIDECAR_EXTENSION,
)

MOST_UNDECIDED = 0.05
"""Largest share of pairs whose captions have several lines, if no setting decides on them."""


class PolicySettings(ImageLimits):
    """What is a pair: where captions come from, and configurable limits."""

    caption_from: str = Field(
        "txt",
        pattern=r"^(json:.+|[^:/\s]+)$",
        description="Member that holds the caption: its extension, or `json:FIELD` for a field of "
        "the sample's JSON, also of an object in it (`json:llava.caption`). A list of texts there "
        "is several captions. With `txt`, shards on this machine whose first samples have no such "
        "member are read from `caption`, or a field of the JSON with a usual name of captions.",
    )
    captions_per_line: bool | None = Field(
        None,
        description="Whether each line of a text is a caption of its own, so that a pair has "
        "several (as in Flickr30k or CLIP_benchmark's retrieval sets); false: a text of several "
        "lines is one caption. With null it is one caption too, but the run stops if more than "
        "5 % of the pairs have such a text.",
    )
    json_fields: list[str] = Field(
        [],
        description="Further texts of the sample's JSON that the index gets as columns, each as "
        "`json:FIELD`. What `recaption_pairs: join` names is among them by itself.",
    )
    empty_captions: Literal["quarantine", "keep"] = Field(
        "quarantine", description="What becomes of pairs whose caption is empty."
    )
    control_characters: Literal["quarantine", "keep"] = Field(
        "quarantine",
        description="What becomes of pairs with control characters (NUL included; tab and line "
        "ends are none) in the caption.",
    )
    min_words: int = Field(0, ge=0, description="Least number of words in a caption.")
    max_words: int | None = Field(None, ge=1, description="Greatest number of words in a caption.")
    max_characters: int | None = Field(
        None, ge=1, description="Greatest number of characters in a caption."
    )

    @field_validator("json_fields")
    @classmethod
    def _name_fields(cls, values: list[str]) -> list[str]:
        if wrong := [value for value in values if not re.fullmatch(r"json:.+", value)]:
            raise ValueError(f"write json:{wrong[0]}")
        return values

    @model_validator(mode="after")
    def _some_length_is_allowed(self) -> PolicySettings:
        if self.max_words is not None and self.max_words < self.min_words:
            raise ValueError(f"max_words: {self.max_words} is below min_words = {self.min_words}")
        return self


class Policy(PolicySettings):
    """What is a pair in a job: its settings, fixed limits (bytes), and the caption table.

    Attributes
    ----------
    table : "none", "replace" or "augment"
        Whether the user's table replaces the shard's captions, or follows them.
    join : str
        What joins that table to pairs: ``key``, or a field of a pair's JSON, as ``url``,
        ``sha256`` or ``json:FIELD``.
    """

    max_member_bytes: int = MAX_MEMBER_BYTES
    max_caption_bytes: int = MAX_TEXT_BYTES
    table: Literal["none", "replace", "augment"] = "none"
    join: str = "key"

    @property
    def caption_field(self) -> str | None:
        """The path of the caption in the JSON that holds it; "" for all of it, None for a text."""
        if self.caption_from.startswith("json:"):
            return self.caption_from[5:]
        return "" if self.caption_extension.split(".")[-1] == SIDECAR_EXTENSION else None

    @property
    def join_field(self) -> str | None:
        """The field of the JSON that joins the caption table to pairs; None if the key does."""
        return None if self.join == "key" else self.join.removeprefix("json:")

    @property
    def caption_extension(self) -> str:
        """Extension of the member that holds the caption."""
        name = self.caption_from.partition(":")[0]
        return name.lower().lstrip(".")
