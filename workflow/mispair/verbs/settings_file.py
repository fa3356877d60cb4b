"""``mispair.yaml``, which `mispair audit PATH` and its relatives write, and names of its model."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

from mispair import config
from mispair.core.files import UserError, path_name
from mispair.core.provenance import SNAKEMAKE
from mispair.core.run_record import GENERATED
from mispair.core.words import nearest
from mispair.pairs.shards.stores import is_remote
from mispair.pairs.sources.source import is_ending
from mispair.towers.checkpoints.hub_weights import SAVED_AS, HubWeights, cached, offered
from mispair.towers.checkpoints.model_spec import ModelSpec, open_clip_names
from mispair.towers.dag import SHIPPED
from mispair.verbs.running import SETTINGS

STUDIES = {"audit": ("audit",), "repair": ("audit", "repair"), "study": ("image_text",)}
"""The studies of each verb."""

BEGINNING = """\
# The settings of this run, written by mispair. Edit them as you like: `mispair run` in this folder
# goes on from here, and keeps the results that an edit does not change. Every other setting has a
# default; `mispair reference` prints all of them. Relative paths start at this folder.

# What runs: audit (how many captions are wrong, and which), repair (new captions, and what they
# give back), image_text (what wrong captions do to CLIP).
studies: {studies}

# The pairs, which are never modified: a folder of pictures and captions, a table of both, or tar
# shards (several as a list under the key shards). `generated` are scenes. Parts can be named:
# {{path: photos, captions: table.csv, image_column: file, caption_column: text}}.
{pairs}
# A name for the results and the report.
corpus: {corpus}
{captions}
# The model that judges the captions: an open_clip name and tag, a local open_clip folder, or
# `shipped` (small, and suited to drawn scenes only). It must not have learned from these pairs.
towers: {towers}

# A file with the keys of some hundred pairs whose captions you checked and found right, drawn at
# random. Without it the share of wrong captions has an upper limit, and no lower one.
{trusted}
# Labels of pairs that you checked by eye, as reports/review.html saves them. They measure the share
# of wrong captions, for every kind of error.
{reviewed}
"""

REPLACED = """
# A table that replaces the captions of the shards, with the columns key and caption.
captions: {}
"""

SETS = """
# Tests without training examples: folders in CLIP_benchmark's layout, or names of generated sets.
evaluation_sets: {sets}
"""

AS_THEY_ARE = """
# The captions as they are, without shuffled ones.
corrupt_captions: {rates: [0.0]}
"""

RULES = """
# The rules of the repair: as the captions are, replaced where the new one fits clearly better, and
# left out instead.
filter_captions: {rules: [raw, factor, drop], rates: [0.0]}
"""


@dataclass(frozen=True)
class FirstSettings:
    """The settings that the file begins with, by the keys of the configuration.

    Paths are absolute. `pairs` is a path or a mapping, or a tuple of several tar shards. `captions`
    replace those of tar shards; those of other pairs belong to the mapping. `sets` are the
    evaluation sets.
    """

    studies: tuple[str, ...]
    pairs: Any = GENERATED
    captions: str | None = None
    towers: Any = "shipped"
    trusted: str | None = None
    reviewed: str | None = None
    sets: tuple[str, ...] = ("handwritten-digits",)

    @classmethod
    def read(cls, content: Mapping[str, Any], folder: Path) -> FirstSettings:
        """Return the settings of a file in a folder; other keys than these are left out."""
        towers = content.get("towers", "shipped")
        return cls(
            studies=tuple(content.get("studies", ())),
            pairs=_pairs(content.get("pairs", content.get("shards", GENERATED)), folder),
            captions=_absolute(content.get("captions"), folder),
            towers=_absolute(towers, folder),
            trusted=_absolute(content.get("trusted"), folder),
            reviewed=_absolute(content.get("reviewed"), folder),
            sets=_absolute(tuple(content.get("evaluation_sets", cls.sets)), folder),
        )

    @property
    def text(self) -> str:
        """The file."""
        parts = [
            BEGINNING.format(
                studies=_yaml(list(self.studies)),
                pairs=f"{_key(self.pairs)}: {_yaml(self.pairs)}",
                corpus=_yaml("scenes" if self.pairs == GENERATED else name_of(self.pairs)),
                captions="" if self.captions is None else REPLACED.format(_yaml(self.captions)),
                towers=_yaml(self.towers),
                trusted=_optional("trusted", self.trusted, "checked.txt"),
                reviewed=_optional("reviewed", self.reviewed, "review.csv"),
            )
        ]
        evaluated, shuffled = "repair" in self.studies, "image_text" in self.studies
        if evaluated or shuffled:
            parts.append(SETS.format(sets=_yaml(list(self.sets))))
        if evaluated and not shuffled:
            parts.append(AS_THEY_ARE)
        if evaluated:
            parts.append(RULES)
        return "".join(parts)


def name_of(pairs: str | Sequence[str] | Mapping[str, str]) -> str:
    """Return a name for the results of pairs, from the folder or file that has them.

    Examples
    --------
    >>> name_of("/data/my photos"), name_of("/data/cc3m/{00000..00331}.tar"), name_of("a/mine.csv")
    ('my-photos', 'cc3m', 'mine')
    """
    if isinstance(pairs, Mapping):
        pairs = pairs.get("path") or next(iter(pairs.values()))  # or shards with names
    first = Path(pairs if isinstance(pairs, str) else pairs[0])
    patterns = [path for path in (first, *first.parents) if set("*?[{") & set(path.name)]
    if patterns and not os.path.exists(first):
        first = patterns[-1].parent
    several = not isinstance(pairs, str) and len(pairs) > 1
    return path_name(first.parent.name if several else first.stem)


def written(folder: Path, verb: str, given: Mapping[str, Any]) -> str:
    """Write the file of a folder, or continue with the one that is there.

    Parameters
    ----------
    folder : Path
        The folder of the results.
    verb : str
        A key of `STUDIES`.
    given : mapping
        Fields of `FirstSettings` that the command line gives, apart from the studies.

    Returns
    -------
    str
        A line on what was done with the file.

    Raises
    ------
    UserError
        If the file has other settings than the command line, and was edited or has results; if it
        has mistakes; or if it cannot be read or written.
    """
    path = folder / SETTINGS
    if not os.path.exists(path):
        start = _encoded(path, FirstSettings(STUDIES[verb], **given))
        with _named(path):
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(start)
        return f"{path}: written; it has the settings of this run"
    with _named(path):
        stored = path.read_bytes()
    try:
        text = stored.decode()
        content = yaml.safe_load(text)
    except (UnicodeDecodeError, yaml.YAMLError):
        content = None
    if not isinstance(content, dict):
        return f"{path}: the settings of this run"  # Snakemake's start explains the mistake
    config.validate(content, str(path))
    old = FirstSettings.read(content, folder)
    if isinstance(old.pairs, Mapping) and given.get("pairs") == old.pairs.get("path"):
        given = {key: value for key, value in given.items() if key != "pairs"}
    both = tuple(dict.fromkeys([*old.studies, *STUDIES[verb]]))
    new = replace(old, studies=both, **given)
    changed = [
        f.name for f in fields(FirstSettings) if getattr(new, f.name) != getattr(old, f.name)
    ]
    if not changed:
        return f"{path}: the settings of this run, as they are there"
    is_ours = old.text == text
    # These settings add results, and change none of those that are there.
    adds = {*changed} <= {"studies", "reviewed"}
    if is_ours and (adds or not (folder / "results").exists()):
        start = _encoded(path, new)
        with _named(path):
            path.write_bytes(start)
        return f"{path}: written again, with other {', '.join(changed)}"
    keys = {"pairs": _key(old.pairs), "sets": "evaluation_sets"}
    lines = [
        f"  {keys.get(name, name)}: {_yaml(getattr(old, name))} there, and "
        f"{_yaml(getattr(new, name))} by this command"
        for name in changed
    ]
    raise UserError(
        "\n".join([f"{path} has other settings than this command:", *lines])
        + "\nEdit the file and leave them out here, or name another folder with --out."
    )


def _encoded(path: Path, start: FirstSettings) -> bytes:
    """Return the content of the file at a path, both in UTF-8, which YAML and Snakemake need."""
    try:
        os.path.abspath(path).encode()
        return start.text.encode()
    except UnicodeEncodeError as error:
        line = error.object[: error.end].rpartition("\n")[2]
        raise UserError(
            f"{SETTINGS}: a path is not text in UTF-8 ({line!a}). Rename the folder or file whose "
            "name has another encoding."
        ) from error


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read or written ({error.strerror}). Name another folder, or give "
            "access to this one."
        ) from error


def remove_refused(folder: Path, before: Collection[str], new_folders: Iterable[Path]) -> bool:
    """Remove settings that were just written, if the run was refused before its first job.

    Parameters
    ----------
    folder : Path
        The folder of the results.
    before : collection of str
        Names in the folder before.
    new_folders : iterable of Path
        The folder and those above it that did not exist before, the innermost first.

    Returns
    -------
    bool
        Whether they were removed, with what Snakemake wrote.
    """
    added = {*os.listdir(folder)} - {*before}
    if not added <= {SETTINGS, SNAKEMAKE.name}:
        return False
    (folder / SETTINGS).unlink()
    if SNAKEMAKE.name in added:
        shutil.rmtree(folder / SNAKEMAKE)
    for one in new_folders:
        one.rmdir()
    return True


def _key(pairs: Any) -> str:
    """Return the key of the configuration that has pairs of this form."""
    return "shards" if isinstance(pairs, tuple) else "pairs"


def _pairs(value: Any, folder: Path) -> Any:
    """Return pairs with paths from the root; the ending of captions next to pictures stays."""
    if not isinstance(value, Mapping):
        return _absolute(value, folder)
    return {
        key: _absolute(item, folder)
        if key in ("path", "captions") and not is_ending(item)
        else item
        for key, item in value.items()
    }


def _absolute(value: Any, folder: Path) -> Any:
    """Return a path, or each of several, from the root; names that are no paths stay."""
    if isinstance(value, list | tuple):
        several = tuple(_absolute(item, folder) for item in value)
        return several[0] if isinstance(value, list) and len(several) == 1 else several
    if not isinstance(value, str) or value in (*SHIPPED, "train", GENERATED):
        return value
    if _is_name(value, folder) or is_remote(value):
        return value
    return os.path.abspath(folder / value)


def _is_name(value: str, folder: Path) -> bool:
    """Return whether a word names a generated set, and no file."""
    from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS

    return value in EVALUATION_SETS and not (folder / value).exists()


def _optional(key: str, value: str | None, example: str) -> str:
    return f"# {key}: {example}" if value is None else f"{key}: {_yaml(value)}"


def _yaml(value: Any) -> str:
    """Return a value as YAML on one line; texts are quoted where they have to be."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    plain = isinstance(value, str) and value.replace("_", "").replace("-", "").isalnum()
    is_text = plain and yaml.safe_load(value) == value
    return str(value) if is_text else json.dumps(value, ensure_ascii=False)


# How the command line names the model that judges captions, and the model without a name.

MODEL, TAG = "ViT-B-32", "laion2b_s34b_b79k"
REPOSITORY = "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"
"""The model without a name, and its repository in the Hugging Face hub."""

MEGABYTES = 605
"""Size of its weights, for a message without a network."""

WAYS = f"""\
  --towers MODEL:TAG  by open_clip's names, fetched once: {MODEL}:{TAG} ({MEGABYTES} MB)
  --towers FOLDER     a local open_clip folder, with open_clip_config.json and weights
  --towers shipped    small towers of mispair, for a trial: they know drawn scenes, not photographs
A file of weights is named in mispair.yaml, which `mispair init FOLDER` writes."""


def towers_of(word: str) -> Any:
    """Return the key ``towers`` of the configuration for a word of the command line.

    Raises
    ------
    UserError
        If the word names no model, or a tag that open_clip does not have.
    """
    if word in SHIPPED:
        return word
    if Path(word).is_dir():
        return os.path.abspath(word)
    if Path(word).is_file():
        raise UserError(
            f"--towers {word}: a file of weights does not say how it was trained. Write "
            f"`towers: {{name: mine, model: {MODEL}, checkpoint: {os.path.abspath(word)}, "
            "quick_gelu: false, preprocess: openai}` into mispair.yaml, with what is true of it."
        )
    model, _, tag = word.partition(":")
    names = open_clip_names()
    if tag and model in names:
        towers = {"name": f"{model}-{tag}", "model": model, "pretrained": tag}
        if word != f"{MODEL}:{TAG}":  # the table of tags takes seconds to import
            from mispair.towers.checkpoints.model_recipes import pretrained_cfg

            pretrained_cfg(ModelSpec(**towers))
        return towers
    near = nearest(model, [*names, *SHIPPED])
    if model in names:
        near = f" Its tag is missing, as in {MODEL}:{TAG}."
    raise UserError(f"--towers {word}: this is no model, and no folder.{near} The ways:\n{WAYS}")


def default_towers() -> tuple[Any, str]:
    """Return the model that is taken without a name, and a line on where it comes from.

    Raises
    ------
    UserError
        If it is neither in the cache of the Hugging Face hub nor can be fetched.
    """
    towers, weights = towers_of(f"{MODEL}:{TAG}"), HubWeights(REPOSITORY, SAVED_AS)
    if path := cached(weights):
        size = f"{path.stat().st_size / 1e6:,.0f} MB"
        return towers, f"{MODEL} with {TAG}, which is in the cache ({size})"
    offer = offered(weights)
    if not offer.refusal:
        size = f"{offer.size / 1e6 or MEGABYTES:,.0f} MB"
        return towers, f"{MODEL} with {TAG}, which is fetched once ({size})"
    raise UserError(
        f"No model is named, and {MODEL} with {TAG} is neither in the cache nor can it be fetched "
        f"({offer.refusal}). Name a model that has not learned from these pairs:\n{WAYS}"
    )
