"""Faults of a configuration in plain words: what is meant, and where a key belongs."""

from collections.abc import Iterable, Mapping
from datetime import date
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mispair.config_paths import Layers, is_section, model_in
from mispair.core.commands import step_module
from mispair.core.settings import Located
from mispair.core.words import count, nearest
from mispair.report.studies import NAMES as STUDIES

MOST_OWNERS = 4
"""Most sections that are named for a key in the wrong place."""

_FORMS = {
    "float_parsing": "this is a number: write it with a point and without a unit, as 0.1 for 10 %",
    "int_parsing": "this is a whole number: write its digits alone, as 5000",
    "invalid_key": "a key is text: write decimals with a point, as 0.5, and quote other keys",
    "list_type": "this is a list: write its values in brackets, as [a, b]",
    "model_type": "this is a section: write its keys and values below it, each on a line, indented",
    "string_pattern_mismatch": "this is not of the form that is meant",
    "string_type": "this is a text",
    "union_tag_invalid": "this is a text or a list: write it without keys below it",
    "dict_type": "this has keys: write them below it, each on a line, indented",
}
"""What is meant by some of pydantic's types of faults."""
_FORMS_OF = {list: "no list: write it without brackets", dict: "has no keys below it"}
"""What a value is that is no text."""

REMOVED = {
    "draw_figures.font_size": "On pages labels have 12 pixels; write paper_font_size.",
    "draw_figures.max_points": "Leave it out: a figure has at most 10,000 rows.",
    "draw_neurons.thumbnail": "Leave it out: images have up to 64 pixels.",
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
    "simulate.bias_growth": "Leave it out: thresholds grow by the step size for a batch's mean.",
    "simulate.decoder: plain-relu": "Write decoder: relu, which learns its biases.",
    "simulate.decoder_start: random": "The arm random-decoder (arms_trials) does.",
    "simulate.decoder_trains": "Leave it out: both layers of the decoder are trained.",
    "simulate.device": "Leave it out: the simulation runs on CPU cores.",
    "simulate.encoder: linear": "Write encoder: symmetric-relu and bias_schedule: zero.",
    "simulate.literal_probability": "Give a statement of the text as the setting that it is.",
    "simulate.longer_steps": "Leave it out: no claim read the gap to the run continued.",
    "simulate.scaling_longer_trials": "Leave it out: no claim read the gap to the run continued.",
    "simulate.literal_trials": "Give a statement of the text as the setting that it is.",
    "simulate.noise_draws": "Leave it out: fresh noise is drawn in projected form.",
    "simulate.noise_unit: energy": "Divide it by d1 and write noise_unit: variance.",
    "simulate.probabilities_per_job": "Leave it out: a job has one C_s.",
    "simulate.retrain_weights: continued": "Write fresh or initial.",
    "simulate.threshold_high": "Leave it out: thresholds are 0.2, 0.25, ... to 1.",
    "simulate.threshold_low": "Leave it out: thresholds are 0.2, 0.25, ... to 1.",
    "simulate.threshold_step": "Leave it out: thresholds are 0.2, 0.25, ... to 1.",
    "train_head.cdm_guidance_weight": "Leave it out: there are no guided heads.",
    "train_head.guided_blocks": "Leave it out: there are no guided heads.",
    "train_head.guided_cdm_lr": "Leave it out: there are no guided heads.",
    "train_head.vlm_guidance_weight": "Leave it out: there are no guided heads.",
    "train_two_layer.risk_levels": "Leave it out: levels are 0.1, 0.05, 0.01, 0.002 and 0.001.",
    "train_two_layer.sharpness_first": "Leave it out: the sharpness is not measured any more.",
    "train_two_layer.sharpness_points": "Leave it out: the sharpness is not measured any more.",
    "words": "Leave it out: the audit of features that pictures do not show is gone.",
}
"""What to use in place of settings, and of ``SETTING: VALUE``, of earlier versions."""


def origins(error: ValidationError, content: Mapping[str, Any], sources: Layers) -> str:
    """Return the names of the sources that give the wrong keys, each the last that gives one."""
    faults = error.errors(include_url=False)
    return " + ".join(dict.fromkeys(_origin(content, sources, fault["loc"]) for fault in faults))


def _origin(content: Mapping[str, Any], sources: Layers, location: Iterable[int | str]) -> str:
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
        given = value.isoformat() if isinstance(value, date) else repr(value)
        shown = "" if isinstance(value, dict | BaseModel) else f" (given: {given})"
        if fault["type"] == "string_type" and isinstance(value, list | dict):
            marks = field.metadata if field is not None else []
            is_file = any(isinstance(mark, Located) for mark in marks)
            message = f"this is one {'path' if is_file else 'text'}, and {_FORMS_OF[type(value)]}"
            message += "; join several files into one" * (is_file and isinstance(value, list))
        elif fault["type"] == "string_type":
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
    sections = given or sorted(sections, key=lambda name: _is_of_another(name, model, content))
    keys = ", ".join(f"{section}.{name}" for section in sections[:MOST_OWNERS])
    others = " and others" * (len(sections) > MOST_OWNERS)
    lead = "It is" if len(sections) == 1 else "Sections have it:"
    return f" {lead} {keys}{others}; write it there, below the name of its section."


def _is_of_another(section: str, model: type[BaseModel], content: Mapping[str, Any]) -> bool:
    """Return whether a section is that of a step of a study that the configuration leaves out."""
    study = step_module(section).__name__.split(".")[1]
    listed = content.get("studies", model.model_fields["studies"].default)
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
