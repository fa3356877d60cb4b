"""The whole of ``config.yaml``: one section per step, checked before any job runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Len
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from mispair import config_paths
from mispair.config_mistakes import REMOVED, explain, origins
from mispair.config_paths import Layers
from mispair.core.commands import step_module, step_names
from mispair.core.files import UserError, path_name
from mispair.core.run_record import GENERATED, RECORD
from mispair.core.settings import Located
from mispair.evaluation.protocols import BUILT_IN
from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS
from mispair.pairs.sources.recognition import KINDS, names_shards
from mispair.pairs.sources.source import Named as NamedPairs
from mispair.report.studies import Name as StudyName
from mispair.towers.arms import UNTOUCHED, WEIGHTED
from mispair.towers.checkpoints.model_spec import ModelSpec
from mispair.towers.dag import SHIPPED

_STARTS = ("finetune_projection", "starts")
PARTS_OF_LISTS = (
    (("export_repaired", "rules"), ("filter_captions", "rules"), ["raw"]),
    (("fit_linear_probe", "starts"), _STARTS, [UNTOUCHED]),
    (("prune_neurons", "starts"), _STARTS, [UNTOUCHED]),
)
"""Lists of which each value is to be in another list, and what that one has without being told."""

SourceName = Annotated[str, StringConstraints(pattern=r"^[^/\s-]([^/\n]*[^/\s])?$")]
SetsByName = dict[Annotated[str, AfterValidator(path_name)], str]


def _form(towers: Any) -> str:
    """Distinguish a model from a name or folder, so that a mistake is explained for that form."""
    return "a model" if isinstance(towers, dict | BaseModel) else "a word"


def _form_of_sets(sets: Any) -> str:
    """Distinguish sets with names from a list."""
    return "names" if isinstance(sets, dict) else "a list"


def _form_of_sources(sources: Any) -> str:
    """Distinguish one source from a list, and from sources with names."""
    return _form_of_sets(sources) if isinstance(sources, dict | list) else "a word"


Paths = Annotated[
    Annotated[str, Tag("a word")] | Annotated[list[str], Tag("a list")],
    Discriminator(_form_of_sources),
]
Sources = Annotated[
    Annotated[str, Tag("a word")]
    | Annotated[list[str], Tag("a list")]
    | Annotated[dict[SourceName, Paths], Tag("names")],
    Discriminator(_form_of_sources),
]


class _General(BaseModel):
    """General keys of ``config.yaml``, which belong to no single step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    studies: list[StudyName] = Field(
        ["simulation", "image_text", "audit", "repair"],
        min_length=1,
        description="The studies that a plain `snakemake` runs and reports.",
    )
    corpus: Annotated[str, AfterValidator(path_name)] = Field(
        "scenes",
        pattern=r"^[^/]*\w[^/]*$",
        description="The name of the corpus in result paths and in the report, with a letter or "
        "digit and without a slash; blanks and signs become hyphens.",
    )
    pairs: Annotated[
        Annotated[str, Tag("a word")] | Annotated[NamedPairs, Tag("a model")],
        Discriminator(_form),
        Located(GENERATED),
    ] = Field(
        GENERATED,
        description="Where the image-text pairs come from: `generated` (make_scenes), or the path "
        f"of {'; '.join(kind.what for kind in KINDS)}. What it is follows from its content. "
        "`{path: ..., captions: ..., image_column: ..., caption_column: ..., key_column: ...}` "
        "names what is not found.",
    )
    shards: Annotated[Sources, Located(GENERATED)] = Field(
        GENERATED,
        description="Instead of `pairs`: several webdataset tar shards as a path, a glob, a brace "
        "pattern, a folder, or a list of these. "
        "Sources with names (`{a: ..., b: ...}`) may have equal file names and keys: the keys of "
        "`a` then begin with `a/`, in a caption table too.",
    )
    captions: Annotated[Paths | None, Located()] = Field(
        None,
        description="Captions that replace the shards' own, or are added to them "
        "(index_shards.table_captions): a table of key and caption in Parquet, CSV, JSONL or JSON, "
        "as a path, a glob, a brace pattern, a folder, or a list of these; or a text file with one "
        "caption a line; null for the shards' own.",
    )
    caption_keys: Annotated[str | None, Located()] = Field(
        None,
        description="The keys of captions in a text file, one a line. Without them a shift by one "
        "line would go unnoticed, so such a file is refused.",
    )
    trusted: Annotated[str | None, Located()] = Field(
        None,
        description="Pairs whose captions are known to be right, a random sample of all right "
        "ones: a text file with a key a line, or a key and `ok`, or CSV, JSON or Parquet with a "
        "column key. With them the model that judges captions may be weak, and the audit counts "
        "captions swapped for similar ones. The captioner of a repair learns from them.",
    )
    reviewed: Annotated[str | None, Located()] = Field(
        None,
        description="Labels of pairs that a person checked: CSV with the columns key and label "
        "(right, wrong or unsure), as reports/review.html saves it. Those of the random sample "
        "measure the share of wrong captions, for every kind of error. For a repair, pairs "
        "labelled right are trusted, and those labelled wrong are not.",
    )
    reviewed_repairs: Annotated[str | None, Located()] = Field(
        None,
        description="Labels of replaced captions that a person compared with the new ones, for the "
        "study repair: CSV with the columns key and label (old, new, both or neither: what fits). "
        "They measure what the repair improved and harmed.",
    )
    groups: Annotated[str | None, Located()] = Field(
        None,
        description="Groups of pairs, for the study audit: CSV or Parquet with a column key and "
        "those of select_pairs.group_fields, such as language. The report has rates by group.",
    )
    towers: Annotated[
        Annotated[str, Tag("a word")] | Annotated[ModelSpec, Tag("a model")],
        Discriminator(_form),
        Located("|".join((*SHIPPED, "train"))),
    ] = Field(
        "shipped",
        description="The frozen towers that encode the pairs: `shipped` (small, pre-trained on "
        "scenes), `shipped-1` (by the same recipe with another seed), `train` (trained by "
        "pretrain_towers), the folder of a local open_clip model, or a model as under `models`.",
    )
    models: list[ModelSpec] = Field(
        [],
        description="Models that the study laclip compares as they are, each a name with one of: "
        "`folder` (a local open_clip folder); `recipe` and `checkpoint`; `model` and `pretrained` "
        "(a tag of open_clip's); `model`, `checkpoint`, `quick_gelu` and `preprocess`. "
        "`pretraining` and `method` select the published figures that it is compared with.",
    )
    evaluation_sets: Annotated[
        Annotated[list[str], Tag("a list"), Len(1)] | Annotated[SetsByName, Tag("names"), Len(1)],
        Discriminator(_form_of_sets),
        Located("|".join(EVALUATION_SETS)),
    ] = Field(
        [
            "scenes-shape",
            "scenes-shape-heldout",
            "scenes-shape-textured",
            "scenes-colour",
            "scenes-digit",
            "scenes-digit-heldout",
            "handwritten-digits",
            "scenes-retrieval",
            "scenes-compositional",
        ],
        description="Zero-shot evaluation sets, for classification, retrieval or the choice of "
        "an image's true caption: names of generated sets, or folders in CLIP_benchmark's "
        "webdataset layout, or globs of them. In place of the list, folders may have names "
        "(`{cifar10: PATH}`), by which protocols find their prompts.",
    )
    protocols: Annotated[list[str], Located("|".join(BUILT_IN))] = Field(
        ["clip_benchmark"],
        min_length=1,
        description="How images are classified zero-shot: `clip_benchmark` (templates and class "
        "names of the set's folder), `laclip` (templates and metric of SLIP and LaCLIP, for their "
        "own sets), `single-prompt` (a photo of a CLASS), or a folder of your own with "
        "SET.templates.txt, SET.classnames.txt or SET.json (prompts by class).",
    )

    @model_validator(mode="before")
    @classmethod
    def _list_of_shards(cls, content: Any) -> Any:
        """Take a list under `pairs` for one of tar shards, if each of its items has some."""
        given = content.get("pairs") if isinstance(content, dict) else None
        if (
            not isinstance(given, list)
            or not given
            or content.get("shards", GENERATED) != GENERATED
        ):
            return content
        if not all(isinstance(path, str) and names_shards(path) for path in given):
            return content
        return {key: value for key, value in content.items() if key != "pairs"} | {"shards": given}

    @field_validator("pairs", mode="before")
    @classmethod
    def _no_list(cls, value: Any) -> Any:
        if isinstance(value, list):
            raise ValueError(
                "it names one source. Several tables of the same columns are a glob "
                "(lists/*.csv), several tar shards a list under the key `shards`, and several "
                "folders the folder that has them"
            )
        return value

    @field_validator("shards")
    @classmethod
    def _one_source(cls, value: Any, info: ValidationInfo) -> Any:
        if GENERATED not in (value, info.data.get("pairs")):
            raise ValueError("`pairs` names a source, too: leave one of them out")
        return value

    @field_validator("caption_keys")
    @classmethod
    def _belong_to_captions(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("captions") is None:
            raise ValueError("there are keys but no captions: set `captions`, too")
        return value

    @model_validator(mode="after")
    def _ask_for_what_there_is(self) -> _General:
        """Refuse values, other than defaults, that another list has to have and has not."""
        tuning = getattr(self, "finetune_projection", None)
        weighted = [WEIGHTED] * (getattr(tuning, "weights", "") == "audit")
        for (section, name), (owner, key), others in PARTS_OF_LISTS:
            asked, there = getattr(self, section, None), getattr(self, owner, None)
            if asked is None or getattr(asked, name) == type(asked).model_fields[name].default:
                continue
            known = {*getattr(there, key), *others, *weighted}
            if lacking := [value for value in getattr(asked, name) if value not in known]:
                raise ValueError(
                    f"{section}.{name}: {', '.join(lacking)} is not in {owner}.{key}, so there "
                    "would be no result. Add it there, or leave it out here"
                )
        return self

    @field_validator("studies", "evaluation_sets", "protocols")
    @classmethod
    def _no_repetition(cls, values: list[str] | SetsByName) -> list[str] | SetsByName:
        if isinstance(values, dict):
            return values
        repeated = sorted({value for value in values if values.count(value) > 1})
        if repeated:
            raise ValueError(f"{', '.join(repeated)} is listed twice")
        return values


def _config_model() -> type[_General]:
    sections: dict[str, Any] = {}
    for name in step_names():
        module = step_module(name)
        if module.Settings.model_fields:
            summary = (module.__doc__ or "").strip().splitlines()[0]
            sections[name] = (module.Settings, Field(module.Settings(), description=summary))
    return create_model("Config", __base__=_General, __doc__=_General.__doc__, **sections)


Config = _config_model()
"""The pydantic model of ``config.yaml``: general keys, and one section per step."""


def locate(
    content: dict[str, Any],
    files: Mapping[Path, Mapping[str, Any]],
    command_line: Mapping[str, Any],
) -> Layers:
    """Resolve the paths of all sources of a configuration (`mispair.config_paths.locate`)."""
    return config_paths.locate(Config, content, files, command_line)


def validate(content: dict[str, Any], source: str | Layers) -> Any:
    """Check a configuration and fill in the defaults.

    Parameters
    ----------
    content : dict
        ``config.yaml`` merged with the command line; or the record of a run, which has one more
        key.
    source : str or mapping
        Name of the file, or all sources of `content`, for the message.

    Returns
    -------
    Config
        With one attribute per key or section.

    Raises
    ------
    UserError
        Naming each wrong key, its value, what is allowed and the nearest valid name.
    """
    content = {
        key: {} if value is None and key in step_names() else value
        for key, value in content.items()
        if key != RECORD and not _is_off(key, value)
    }
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        given: Mapping[str, Any] = content
        if not isinstance(source, str):
            # Without the embedded configuration, which has all sections.
            given = {key: value for layer in source.values() for key, value in layer.items()}
            source = origins(error, content, source)
        raise UserError(explain(error, Config, source, given)) from error


def _is_off(key: str, value: Any) -> bool:
    """Return whether a removed section asks for nothing, as ``export_pruned: {ks: []}`` does."""
    return key in REMOVED and isinstance(value, dict) and bool(value) and not any(value.values())
