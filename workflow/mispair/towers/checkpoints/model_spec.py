"""How ``config.yaml`` names a model, with every setting stated.

A file of weights does not record the activation, mean, deviation and interpolation of its training.
A wrong one costs points of accuracy without a message. So each comes from a recipe, open_clip's
table of pretrained tags, or the model's own entry; there is no default.
"""

from __future__ import annotations

import difflib
import importlib.util
import zipfile
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, field_validator, model_validator

from mispair.core import settings
from mispair.core.files import UserError, if_of_hub, path_name, refuse_unfetched

Kind = Literal["folder", "recipe", "tag", "file"]
Recipe = Literal["laclip-cc", "laclip-laion"]


LAION_MODELS = ("ViT-B-32", "ViT-B-16", "ViT-L-14-quickgelu")
"""open_clip's names of LaCLIP's LAION-400M files: only the largest was trained with QuickGELU."""


FORCED = ("force_image_size", "force_context_length", "force_custom_text")
"""Settings of a file's training that change open_clip's architecture, by open_clip's names."""


class _Form(NamedTuple):
    words: str
    needs: frozenset[str]
    may_have: frozenset[str]
    reason: str


FORMS: dict[Kind, _Form] = {
    "folder": _Form(
        "a local open_clip folder",
        frozenset({"folder"}),
        frozenset(),
        "its open_clip_config.json has the rest",
    ),
    "recipe": _Form(
        "a recipe",
        frozenset({"recipe", "checkpoint"}),
        frozenset({"model", "part"}),
        "the recipe has activations and preprocessing",
    ),
    "tag": _Form(
        "an open_clip name with a tag",
        frozenset({"model", "pretrained"}),
        frozenset(),
        "open_clip's table of tags has activation and preprocessing",
    ),
    "file": _Form(
        "an open_clip name with a file",
        frozenset({"model", "checkpoint", "quick_gelu", "preprocess"}),
        frozenset({"part", *FORCED}),
        "the file does not say with which activation and preprocessing it was trained",
    ),
}


class ModelSpec(settings.Settings):
    """A model: a folder, a recipe with a file, or an open_clip name with a tag or a file."""

    name: Annotated[str, AfterValidator(path_name)] = Field(
        pattern=r"^[^/]*\w[^/]*$",
        description="Name of the model in result paths and in the report, with a letter or digit "
        "and without a slash; blanks and signs become hyphens.",
    )
    folder: Annotated[str | None, settings.Located()] = Field(
        None, description="A local open_clip folder, taken as it is."
    )
    model: str | None = Field(
        None, description="open_clip's name of the architecture, such as ViT-B-32-quickgelu."
    )
    pretrained: str | None = Field(
        None, description="open_clip's tag of weights for `model`; downloaded when it is needed."
    )
    checkpoint: Annotated[str | None, settings.Located()] = Field(
        None, description="A local file of weights."
    )
    recipe: Recipe | None = Field(
        None,
        description="How `checkpoint` was made: `laclip-cc` (LaCLIP's files of CC3M, CC12M and "
        "RedCaps) or `laclip-laion` (its files of LAION-400M).",
    )
    quick_gelu: bool | None = Field(
        None, description="For `model` with `checkpoint`: whether it was trained with QuickGELU."
    )
    preprocess: Literal["openai", "imagenet"] | None = Field(
        None,
        description="For `model` with `checkpoint`: mean, deviation and interpolation of images; "
        "`openai` (CLIP's, bicubic) or `imagenet` (ImageNet's, bilinear).",
    )
    part: str | None = Field(
        None,
        description="Where `checkpoint` has the weights, such as `state_dict_ema` or "
        "`state_dict.student`: keys and prefix, joined by dots. Needed only if it has several.",
    )
    force_image_size: int | None = Field(
        None,
        ge=1,
        description="For `model` with `checkpoint`: side of the pictures in pixels, if it was "
        "trained with another one than open_clip's definition has.",
    )
    force_context_length: int | None = Field(
        None,
        ge=1,
        description="For `model` with `checkpoint`: tokens of a text, if it was trained with "
        "another number than open_clip's definition has.",
    )
    force_custom_text: bool | None = Field(
        None,
        description="For `model` with `checkpoint`: whether it was trained with open_clip's "
        "custom text tower. Both are recognised by their names, so it can be left out.",
    )
    pretraining: str | None = Field(
        None, description="What it was trained on, for the report, such as CC12M."
    )
    method: str | None = Field(
        None, description="How it was trained, for the report, such as LaCLIP."
    )
    licence: str | None = Field(
        None, min_length=1, description="Licence of the weights, for the converted model's card."
    )

    @property
    def kind(self) -> Kind:
        """Return which of the four forms this is."""
        if self.folder is not None:
            return "folder"
        if self.recipe is not None:
            return "recipe"
        return "tag" if self.pretrained is not None else "file"

    @property
    def architecture(self) -> str | None:
        """Return open_clip's name of the architecture; None where only the file decides.

        The files of ``laclip-cc`` are as wide as a ViT-B-16, with other layers inside.
        """
        return "ViT-B-16" if self.recipe == "laclip-cc" else self.model

    @field_validator("model", "pretrained")
    @classmethod
    def _is_no_address(cls, value: str | None) -> str | None:
        name = (value or "").replace("/", "-")  # ViT-B/32 is a misspelt name
        if name == value or difflib.get_close_matches(name, open_clip_names(), n=1, cutoff=0.8):
            return value
        if value is not None and (hint := if_of_hub(value)):
            raise ValueError(f"{value!r} is no name of open_clip's.{hint} Then name it as folder")
        return value

    @model_validator(mode="after")
    def _leaves_nothing_to_be_guessed(self) -> ModelSpec:
        form = FORMS[self.kind]
        decisive = {
            key for any_form in FORMS.values() for key in any_form.needs | any_form.may_have
        }
        given = {key for key in decisive if getattr(self, key) is not None}
        if not given:
            ways = "; ".join(f"{way.words} ({_keys(way.needs)})" for way in FORMS.values())
            raise ValueError(f"model {self.name}: does not say what it is. Give one of: {ways}.")
        missing, surplus = form.needs - given, given - form.needs - form.may_have
        if missing or surplus:
            steps = [f"add {_keys(missing)}"] if missing else []
            steps += [f"take out {_keys(surplus)}"] if surplus else []
            raise ValueError(
                f"model {self.name}: {form.words} is {_keys(form.needs)}, and {form.reason}; "
                f"{' and '.join(steps)}."
            )
        if self.model is not None:
            self._refuse_a_wrong_name(self.model)
        return self

    def _refuse_a_wrong_name(self, model: str) -> None:
        if self.recipe == "laclip-cc":
            raise ValueError(
                f"model {self.name}: recipe laclip-cc has one architecture; take out model."
            )
        names = LAION_MODELS if self.recipe else open_clip_names()
        if model not in names:
            stem = model.removesuffix("-quickgelu")
            near = [name for name in names if name.removesuffix("-quickgelu") == stem]
            near = near or difflib.get_close_matches(model, names, n=3, cutoff=0.3) or list(names)
            of = "recipe laclip-laion" if self.recipe else "open_clip"
            raise ValueError(
                f"model {self.name}: {of} has no model {model!r}. Did you mean {', '.join(near)}?"
            )
        if self.quick_gelu is False and model.endswith("-quickgelu"):
            raise ValueError(
                f"model {self.name}: {model} has QuickGELU, but quick_gelu is false. Set it to "
                f"true, or name {model.removesuffix('-quickgelu')}."
            )


@cache
def open_clip_names() -> tuple[str, ...]:
    """Return the names of open_clip's architectures, without importing it (which takes seconds).

    Empty if it is not installed: the workflow can then be read and drawn, but not run.
    """
    if importlib.util.find_spec("open_clip") is None:
        return ()
    return tuple(sorted(path.stem for path in open_clip_definition("").parent.glob("*.json")))


def open_clip_definition(name: str) -> Path:
    """Return open_clip's file that defines an architecture."""
    package = importlib.util.find_spec("open_clip")
    assert package is not None and package.origin is not None  # noqa: PT018
    return Path(package.origin).parent / "model_configs" / f"{name}.json"


def _keys(keys: frozenset[str] | set[str]) -> str:
    order = list(ModelSpec.model_fields)
    return ", ".join(sorted(keys, key=order.index))


# Whether a file holds weights, by its first bytes.

TORCHSCRIPT_REMEDY = (
    "For weights that open_clip has, give `model` and the tag as `pretrained`. Otherwise, where "
    "you trust the file, run `torch.save(torch.jit.load(FILE).state_dict(), NEW)` and give NEW."
)


def kind_of(path: Path) -> str:
    """Return the kind of a file by its first bytes; refuse a file without weights."""
    try:
        size = path.stat().st_size
        with path.open("rb") as opened:
            start = opened.read(512)
    except OSError as error:
        remedy = "Give read access to it, or name another."
        if path.is_dir():
            remedy = "Name the file of weights in it."
        if [*path.glob("*.distcp")]:
            module = "torch.distributed.checkpoint.format_utils"
            remedy = f"Write its parts as one file: python -m {module} dcp_to_torch FOLDER FILE."
        raise UserError(f"{path}: cannot be read ({error.strerror}). {remedy}") from error
    if not start:
        raise UserError(f"{path}: is empty. Fetch it again.")
    if start.startswith(b"PK"):
        return _kind_of_zip(path)
    if start.startswith(b"\x80"):
        return "pickle"
    # Safetensors start with the length of a JSON header.
    if start[8:9] == b"{":
        if int.from_bytes(start[:8], "little") + 8 > size:
            raise UserError(f"{path}: is cut short. Fetch it again.")
        return "safetensors"
    refuse_unfetched(path)
    if path.name.endswith(".index.json"):
        raise UserError(
            f"{path}: is the list of the files that the weights were split into. Save them as one "
            "file, for example with `max_shard_size` of save_pretrained."
        )
    raise UserError(
        f"{path}: is no file of weights that can be read: neither PyTorch's nor safetensors. Save "
        "the weights with torch.save(model.state_dict(), FILE)."
    )


def _kind_of_zip(path: Path) -> str:
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path}: is cut short. Fetch it again.")
    with zipfile.ZipFile(path) as archive:
        names = {name.rpartition("/")[2] for name in archive.namelist()}
    if "constants.pkl" in names:
        raise UserError(
            f"{path}: is a TorchScript archive, a program that holds its weights, and is not run. "
            f"{TORCHSCRIPT_REMEDY}"
        )
    if "data.pkl" not in names:
        raise UserError(
            f"{path}: is a zip archive, but not one that PyTorch saved. Name the "
            "file of weights in it, or save them with torch.save(model.state_dict(), FILE)."
        )
    return "zip"
