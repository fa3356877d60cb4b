"""The whole of ``config.yaml``: one section per step, checked before any job runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from types import MappingProxyType
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
from pydantic.fields import FieldInfo

from mispair import config_paths
from mispair.config_paths import Layers, is_section, model_in
from mispair.core.commands import step_module, step_names
from mispair.core.files import UserError, path_name
from mispair.core.run_record import GENERATED, RECORD
from mispair.core.settings import Located
from mispair.core.words import count, nearest
from mispair.evaluation.protocols import BUILT_IN
from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS
from mispair.pairs.sources.recognition import KINDS, names_shards
from mispair.pairs.sources.source import Named as NamedPairs
from mispair.report.studies import NAMES as STUDIES
from mispair.report.studies import Name as StudyName
from mispair.towers.arms import UNTOUCHED, WEIGHTED
from mispair.towers.checkpoints.model_spec import ModelSpec
from mispair.towers.dag import SHIPPED

MOST_OWNERS = 4
"""Most sections that are named for a key in the wrong place."""

_FORMS = {
    "float_parsing": "this is a number: write it with a point and without a unit, as 0.1 for 10 %",
    "int_parsing": "this is a whole number: write its digits alone, as 5000",
    "list_type": "this is a list: write its values in brackets, as [a, b]",
    "model_type": "this is a section: write its keys and values below it, each on a line, indented",
    "string_pattern_mismatch": "this is not of the form that is meant",
    "dict_type": "this has keys: write them below it, each on a line, indented",
}
"""What is meant by some of pydantic's types of faults."""

REMOVED = {
    "encode_features.compile": "Leave it out: towers run as they are (precision: bf16 is faster).",
    "export_metrics.online": "TensorBoard's event files are always written, without a network.",
    "export_metrics.trackers": "TensorBoard's event files are always in reports/tensorboard.",
    "export_pruned": "Leave it out: the neurons that are kept are columns of the embeddings.",
    "filter_captions.rules: second-round": "One round gives back what two do: write factor.",
    "finetune_projection.loss": "Leave it out: the loss is InfoNCE.",
    "finetune_projection.spectral_temperature": "Leave it out: the loss is InfoNCE.",
    "identify_basis": "Leave it out: the search for a basis is gone.",
    "measure_mixing.rotations": "Leave it out: random rotations are not measured any more.",
    "measure_purity.bins": "No claim, figure or table read the histogram of cosines.",
    "measure_purity.map_bins": "No claim, figure or table read the map of overlap.",
    "measure_semantics.shuffles": "The null is measure_semantics.rotations.",
    "measure_sufficiency.information_steps": "Leave it out: no report showed the information.",
    "measure_sufficiency.shifted_from": "Leave it out: there are no tests on shifted trees.",
    "measure_sufficiency.test_flips": "Leave it out: there are no tests on shifted trees.",
    "measure_transfer.shifted_from": "Leave it out: there are no tests on shifted trees.",
    "measure_transfer.test_flips": "Leave it out: there are no tests on shifted trees.",
    "pretrain_towers.grad_checkpointing": "Use open_clip's trainer (docs/how-to/own-data.md).",
    "pretrain_towers.nodes": "For several, use open_clip's trainer (docs/how-to/own-data.md).",
    "pretrain_towers.processes": "For several, use open_clip's trainer (docs/how-to/own-data.md).",
    "pretrain_towers.train_num_samples": "Use open_clip's trainer (docs/how-to/own-data.md).",
    "recaption_pairs.candidates": "Leave it out: each picture is captioned once.",
    "simulate.decoder_trains": "Leave it out: both layers of the decoder are trained.",
    "simulate.encoder: linear": "Write encoder: symmetric-relu and bias_schedule: zero.",
    "simulate.literal_probability": "Give a statement of the text as the setting that it is.",
    "simulate.longer_steps": "Leave it out: no claim read the gap to the run continued.",
    "simulate.scaling_longer_trials": "Leave it out: no claim read the gap to the run continued.",
    "simulate.literal_trials": "Give a statement of the text as the setting that it is.",
    "simulate.noise_unit: energy": "Divide it by d1 and write noise_unit: variance.",
    "simulate.retrain_weights: continued": "Write fresh or initial.",
    "simulate.threshold_high": "Leave it out: thresholds are 0.2, 0.25, ... to 1.",
    "simulate.threshold_low": "Leave it out: thresholds are 0.2, 0.25, ... to 1.",
    "simulate.threshold_step": "Leave it out: thresholds are 0.2, 0.25, ... to 1.",
    "train_head.cdm_guidance_weight": "Leave it out: there are no guided heads.",
    "train_head.guided_blocks": "Leave it out: there are no guided heads.",
    "train_head.guided_cdm_lr": "Leave it out: there are no guided heads.",
    "train_head.vlm_guidance_weight": "Leave it out: there are no guided heads.",
    "train_two_layer.sharpness_first": "Leave it out: the sharpness is not measured any more.",
    "train_two_layer.sharpness_points": "Leave it out: the sharpness is not measured any more.",
    "words": "Leave it out: the audit of features that pictures do not show is gone.",
}
"""What to use in place of settings, and of ``SETTING: VALUE``, of earlier versions."""

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
        "(index_shards.table_captions): a table of key and caption in Parquet, CSV or JSONL, as a "
        "path, a glob, a brace pattern, a folder, or a list of these; or a text file with one "
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
        "ones, for the study audit: a text file with a key a line, or a key and `ok`, or CSV, JSON "
        "or Parquet with a column key. With them the judging model may be weak, and captions "
        "swapped for similar ones are counted, too.",
    )
    reviewed: Annotated[str | None, Located()] = Field(
        None,
        description="Labels of pairs that a person checked, for the study audit: CSV with the "
        "columns key and label (right, wrong or unsure), as reports/review.html saves it. Those of "
        "the random sample measure the share of wrong captions, for every kind of error.",
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
        description="The frozen towers of the image-text study: `shipped` (small, pre-trained on "
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
            faults = error.errors(include_url=False)
            origins = [_origin(content, source, fault["loc"]) for fault in faults]
            source = " + ".join(dict.fromkeys(origins))
        raise UserError(explain(error, Config, source, given)) from error


def _is_off(key: str, value: Any) -> bool:
    """Return whether a removed section asks for nothing, as ``export_pruned: {ks: []}`` does."""
    return key in REMOVED and isinstance(value, dict) and bool(value) and not any(value.values())


def _origin(content: Mapping[str, Any], sources: Layers, location: Iterable[int | str]) -> str:
    """Return the name of the last source that gives the key at a location."""
    keys = list(location)
    depth = _depth(content, keys)
    names = [name for name, given in sources.items() if _depth(given, keys) == depth]
    return names[-1] if names else "config.yaml"


def _depth(content: Any, keys: list[int | str]) -> int:
    """Return how many of the keys lead into nested mappings, one after another."""
    for depth, key in enumerate(keys):
        if not isinstance(content, Mapping) or key not in content:
            return depth
        content = content[key]
    return len(keys)


def explain(
    error: ValidationError,
    model: type[BaseModel],
    source: str,
    content: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return the faults of a configuration in plain words, one line each.

    `content` is what the user gave: of sections that have a misplaced key, one in it is meant.
    """
    lines = [f"{source} has {count(error.error_count(), 'mistake')}:"]
    for fault in error.errors(include_url=False):
        key, owner, field = _place(model, fault["loc"])
        if fault["type"] == "extra_forbidden":
            name = str(fault["loc"][-1])
            whole = f"{key}.{name}" if key else name
            if whole in REMOVED:
                lines.append(f"  {whole}: this setting was removed. {REMOVED[whole]}")
                continue
            hint = _owners(name, model, owner, content)
            if not hint or owner is not model:
                hint += nearest(name, owner.model_fields)
            lines.append(f"  {whole}: there is no such key.{hint}")
            if not hint:
                lines.append(f"    {_allowed(owner)}")
            continue
        message = _FORMS.get(fault["type"], fault["msg"]).removeprefix("Value error, ")
        value = fault["input"]
        shown = "" if isinstance(value, dict | BaseModel) else f" (given: {value!r})"
        if fault["type"] == "string_type" and isinstance(value, bool | int | float | date | None):
            out = "take the key out, or " if value is None else ""
            shown += f". YAML reads {_yaml_type(value)}: {out}quote it ('...')"
        bare = key.rpartition("[")[0] if key.endswith("]") else key
        if (whole := f"{bare}: {value}") in REMOVED:
            lines.append(f"  {whole}: this value was removed. {REMOVED[whole]}")
            continue
        lines.append(f"  {key + ': ' if key else ''}{message}{shown}")
        if field is not None and field.description and not is_section(field.annotation):
            lines.append(f"    {bare} is: {field.description}")
        if isinstance(value, str) and fault["type"] == "literal_error":
            choices = fault["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
            lines[-1] += nearest(value, choices)
    return "\n".join(lines)


def _yaml_type(value: bool | int | float | date | None) -> str:
    if value is None:
        return "~, null and nothing as no value"
    if isinstance(value, bool):
        return "an unquoted yes, no, on, off, true or false as a truth value"
    return "an unquoted date" if isinstance(value, date) else "an unquoted number"


def _allowed(owner: type[BaseModel]) -> str:
    """Return the keys that are allowed in a model; of the whole configuration, the general ones."""
    sections = {name for name, field in owner.model_fields.items() if is_section(field.annotation)}
    keys = ", ".join(sorted(owner.model_fields.keys() - sections))
    others = ", and a section for each step (docs/reference/config.md)" if sections else ""
    return f"allowed here: {keys}{others}"


def _owners(
    name: str, model: type[BaseModel], owner: type[BaseModel], content: Mapping[str, Any]
) -> str:
    """Return the sections that have a key which another one lacks, as a sentence or nothing.

    Sections of the configuration come first, and those of studies that it does not list last.
    """
    if owner is not model and name in model.model_fields:
        return f" It is a general key: write {name!r} at the left, in no section."
    sections = [
        section
        for section, field in model.model_fields.items()
        if is_section(field.annotation) and name in field.annotation.model_fields  # type: ignore[union-attr]
    ]
    parts = [field.annotation for field in model.model_fields.values()]
    if not sections or not (owner is model or owner in parts):
        return ""
    given = [section for section in sections if section in content]
    sections = given or sorted(sections, key=lambda section: _is_of_another(section, content))
    keys = ", ".join(f"{section}.{name}" for section in sections[:MOST_OWNERS])
    others = " and others" * (len(sections) > MOST_OWNERS)
    lead = "It is" if len(sections) == 1 else "Sections have it:"
    return f" {lead} {keys}{others}; write it there, below the name of its section."


def _is_of_another(section: str, content: Mapping[str, Any]) -> bool:
    """Return whether a section is that of a step of a study that the configuration leaves out."""
    study = step_module(section).__name__.split(".")[1]
    listed = content.get("studies", Config.model_fields["studies"].default)
    return isinstance(listed, list) and study in STUDIES and study not in listed


def _place(
    model: type[BaseModel], location: Iterable[int | str]
) -> tuple[str, type[BaseModel], FieldInfo | None]:
    """Return the key that a fault is at, the model that owns it, and its field.

    Parts of a location that are not keys, such as tags of alternatives, are left out.
    """
    key, owner, field = "", model, None
    inner: type[BaseModel] | None = model
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        elif inner is not None and part in inner.model_fields:
            owner, field = inner, inner.model_fields[part]
            key += f".{part}" if key else part
            inner = model_in(field.annotation)
    # The owner of an unknown key is the innermost section.
    return key, inner or owner, field
