"""The captioners as declarations, and the settings of `recaption_pairs`.

A new captioner that reads pictures is one entry of `KINDS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from mispair.core import settings
from mispair.core.devices import Precision
from mispair.core.files import UserError, if_of_hub, snapshot
from mispair.pairs.captions.decoding import SIDECAR_FIELDS
from mispair.pairs.captions.table_files import JOIN, KEY, refuse_keys, table_files
from mispair.repair.captioners.faults import FEWEST_ALIKE, LEAST_TO_TEST
from mispair.towers.encoding_record import EncodingSettings


@dataclass(frozen=True)
class CaptionerKind:
    """What is known of a captioner without loading it.

    Attributes
    ----------
    effect : str
        What writes the captions, for the reference of the settings.
    load : str
        ``module.function`` of this package, for a captioner of pictures: given the settings and
        ``cpu`` or ``cuda``, it returns a `mispair.repair.captioners.pictures.Captioner`. The two
        that read no pictures have a function of their own in `mispair.repair.captioners.runs`.
    model : str
        What the setting ``model`` names: nothing, ``a model``, or ``tables``.
    """

    effect: str
    load: str = ""
    model: Literal["", "a model", "tables"] = ""


TRAINED, GIVEN = "trained", "given"

KINDS: dict[str, CaptionerKind] = {
    TRAINED: CaptionerKind(
        "a small decoder that learns from trusted pairs and reads cached features"
    ),
    "transformers": CaptionerKind(
        "BLIP, BLIP-2, GIT, Florence-2", "hugging_face.load_hugging_face", "a model"
    ),
    GIVEN: CaptionerKind("a table of captions", model="tables"),
}

FUNCTION = CaptionerKind(
    "a function of yours, package.module:function, which takes a list of PIL images and a list of "
    "seeds and returns a list of lists of texts",
    "functions.load_named_function",
)

OF_TRANSFORMERS = (
    ("config.json",),
    ("*.safetensors", "*.bin"),
    ("preprocessor_config.json", "processor_config.json"),
)
"""Files of a folder of transformers, each with alternatives: the model, its weights and its
processor."""

PATTERN = rf"^({'|'.join(KINDS)}|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$"
"""Of the setting ``captioner``."""


def kind_of(captioner: str) -> CaptionerKind:
    """Return the declaration of a captioner by the setting ``captioner``."""
    return KINDS.get(captioner, FUNCTION)


class Settings(EncodingSettings):
    """Settings of `recaption_pairs`."""

    captioner: str = Field(
        TRAINED,
        pattern=PATTERN,
        description="What writes captions: "
        f"{', '.join(f'{name} ({kind.effect})' for name, kind in KINDS.items())} or "
        f"{FUNCTION.effect}.",
    )
    model: Annotated[str | list[str] | None, settings.Located()] = Field(
        None,
        description="For transformers: a folder of a model and its processor. For given: the table "
        "of captions in Parquet, CSV, TSV, JSONL or JSON, as a path, a glob, a brace pattern, a "
        "folder, or a list of these. For others: null.",
    )
    prompt: str = Field(
        "",
        description="For transformers: what captions begin with (BLIP: a photography of), or the "
        "task of a model with tasks (Florence-2: <CAPTION>); empty for none.",
    )
    join: str = Field(
        "key",
        pattern=JOIN,
        description="For given: what joins rows of the table to pairs: the key, or a text in the "
        "JSON of the pair: its url, its sha256, or `json:FIELD`.",
    )
    key_column: str = Field(
        "key",
        min_length=1,
        description="For given: column of the table that holds the keys, or the values that `join` "
        "names.",
    )
    caption_column: str = Field(
        "caption", min_length=1, description="For given: column of the table that holds captions."
    )
    decoding: Literal["greedy", "nucleus"] = Field(
        "nucleus",
        description="How the next token is chosen: greedy takes the likeliest, nucleus draws one "
        "of the likeliest. Drawn captions differ more, and are wrong more often.",
    )
    top_p: float = Field(
        0.9, gt=0, le=1, description="For nucleus: total probability of the tokens to draw from."
    )
    temperature: float = Field(
        1.0,
        gt=0,
        description="For nucleus: divides the logits; below 1 likely tokens are favoured.",
    )
    max_words: int = Field(40, ge=1, description="Largest number of words of a caption.")
    min_words: int = Field(
        2,
        ge=1,
        description="Smallest number of words of a caption. Words that describe no picture, "
        "such as A, has and in the, are not enough alone. Each letter of a script without spaces "
        "counts. 1 allows single words, as captions that are names of classes.",
    )
    max_same_share: float = Field(
        0.05,
        gt=0,
        le=1,
        description="Share of the pictures of a job that may get the same caption; "
        f"{FEWEST_ALIKE} always may.",
    )
    seed: int = Field(0, ge=0, description="Seed of the drawn tokens and of the training.")
    width: int = Field(128, ge=1, description="For trained: width of the recurrent layers.")
    blocks: int = Field(1, ge=1, description="For trained: number of recurrent layers.")
    steps: int = Field(700, ge=1, description="For trained: steps of the training.")
    train_batch_size: int = Field(
        128, ge=1, description="For trained: captions of a step of the training."
    )
    lr: float = Field(0.003, gt=0, description="For trained: largest step size of the training.")
    weight_decay: float = Field(0.3, ge=0, description="For trained: weight decay of AdamW.")
    use_if_not_better: bool = Field(
        False,
        description="For trained: use its captions even if, on trusted pairs that are held out, "
        "they are no closer to the right captions than the most typical trusted caption is. By "
        f"default none is used then. With fewer than {LEAST_TO_TEST} trusted pairs there is no "
        "such test.",
    )
    batch_size: int = Field(
        64, ge=1, description="For transformers and functions: pictures that are captioned at once."
    )
    precision: Precision = Field(
        "fp32",
        description="For transformers: number format of the model; bf16 and fp16 are faster on "
        "GPUs.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where captions are written; auto takes a GPU when there is one."
    )
    stall_seconds: float = Field(
        600, gt=0, description="Time in seconds after which a batch of pictures has failed."
    )
    max_failed_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Share of the pictures of a job for which the captioner may fail; above it the "
        "job stops.",
    )

    @field_validator("model", mode="before")
    @classmethod
    def _one_name(cls, value: Any) -> Any:
        return value[0] if isinstance(value, list) and len(value) == 1 else value

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        takes = self.kind.model
        if takes and self.model is None:
            raise ValueError(f"captioner {self.captioner} needs a model: name it in model")
        if not takes and self.model is not None:
            raise ValueError(f"captioner {self.captioner} takes no model: set model to null")
        if isinstance(self.model, list) and takes != "tables":
            raise ValueError(f"captioner {self.captioner} takes one model, not a list")
        if self.join != KEY and takes != "tables":
            raise ValueError(f"captioner {self.captioner} joins no table: leave join out")
        if self.min_words > self.max_words:
            raise ValueError(f"max_words: {self.max_words} is below min_words = {self.min_words}")
        return self

    @property
    def kind(self) -> CaptionerKind:
        """The declaration of the captioner."""
        return kind_of(self.captioner)

    @property
    def join_column(self) -> str:
        """Column of an index by which a given table is joined; ``json:FIELD`` if not usual."""
        name = self.join.removeprefix("json:")
        return name if name in (KEY, *SIDECAR_FIELDS) else f"json:{name}"

    def captioner_files(self) -> list[str]:
        """Return the files of the model or table that a job reads.

        Raises
        ------
        UserError
            If there is no such file or folder.
        """
        if self.model is None:
            return []
        if self.kind.model == "tables":
            tables = table_files("recaption_pairs.model", self.model)
            refuse_keys(tables[0], None)
            return [str(path) for path in tables]
        path = snapshot(Path(str(self.model)))
        if path.is_dir():
            missing = [
                " or ".join(names)
                for names in OF_TRANSFORMERS
                if not any(any(path.glob(name)) for name in names)
            ]
            if missing:
                raise UserError(
                    f"recaption_pairs: model: {path.absolute()} has no {', no '.join(missing)}. "
                    "Save the model and its processor there with save_pretrained, or fetch both."
                )
            return sorted(str(file) for file in path.rglob("*") if file.is_file())
        hint = if_of_hub(str(self.model))
        raise UserError(f"recaption_pairs: model: there is no {path.absolute()}.{hint}")
