"""Read evaluation sets in CLIP_benchmark's webdataset layout.

A classification set has ``classnames.txt``, one class per line, and numbered shards in each split.
Their samples are an image and ``KEY.cls``, the number of its class. A retrieval set has its kind in
``dataset_type.txt``; its samples are an image and ``KEY.txt``, one caption per line. In a set for
image_caption_selection the first of these lines is true and all others are false; ``KEY.json`` may
name the ``category`` of the question, and the ``pair`` of two samples that have the same two
captions in opposite order, as in Winoground. ``SPLIT/nshards.txt`` has the number of shards of a
split. Templates of prompts may be in the folder of the set; the protocol decides whether they are
needed.
"""

import ast
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from mispair.core.files import UserError, text_of_user
from mispair.core.words import composed
from mispair.evaluation.questions import refuse_questions
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS

log = logging.getLogger(__name__)

Kind = Literal["classification", "retrieval", "image_caption_selection"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CAPTIONED: tuple[Kind, ...] = ("retrieval", "image_caption_selection")
"""Kinds of sets whose images have captions instead of a class."""

CLASSNAMES = "classnames.txt"
TEMPLATES = "zeroshot_classification_templates.txt"
DATASET_TYPE = "dataset_type.txt"
COUNTER = "nshards.txt"
TEXTS = (CLASSNAMES, TEMPLATES)
"""Files that prompts are made from."""
PLACEHOLDER = "{c}"
MOST_MISSING = 100
"""Most missing shards of a split that are named."""


def canonical(name: str) -> str:
    """Return the name of a set without its collection's prefixes, split, case and punctuation.

    Prefixes are those of CLIP_benchmark and DataComp. Letters of all scripts stay.

    Examples
    --------
    >>> canonical("wds_vtab-caltech101"), canonical("vtab/pets_test"), canonical("宠物 (FGVC)")
    ('caltech101', 'pets', '宠物fgvc')
    """
    of_collection = r"^(wds[_/-])?((vtab|wilds|fairness|retrieval|misc)[_/-])?"
    bare = re.sub(rf"{of_collection}|[_-](test|train|val)$", "", composed(name.lower()))
    return re.sub(r"[\W_]", "", bare)


def kind_of(directory: Path) -> Kind:
    """Return the kind of a set: classification, unless ``dataset_type.txt`` gives another one.

    Raises
    ------
    UserError
        If the kind is not supported.
    """
    path = Path(directory) / DATASET_TYPE
    if not path.is_file():
        return "classification"
    content = text_of_user(path, "replace").strip().lower()
    if not content:
        return "classification"
    for kind in KINDS:
        if content == kind:
            return kind
    raise UserError(f"{path}: holds {content[:40]!r}. {not_supported(content)}")


def not_supported(kind: str) -> str:
    """Return why sets of a kind cannot be evaluated."""
    if kind == "multilabel":
        return (
            "Sets with several classes an image (KEY.npy) are not supported: accuracy is not "
            "defined for them."
        )
    return (
        "Sets are for classification (then the file may be missing), "
        f"{' or '.join(f'for {kind}' for kind in CAPTIONED)}."
    )


def missing_pieces(
    directory: Path, splits: Sequence[str] = ("test",), *, templates: bool = False
) -> list[str]:
    """Return the names of all files that a set lacks, within its folder.

    Parameters
    ----------
    directory : Path
        The set.
    splits : sequence of str
        The splits that are needed.
    templates : bool
        Whether a protocol needs the templates in the folder. Captioned images need none.

    Raises
    ------
    UserError
        If the content of an existing file cannot be used.
    """
    directory = Path(directory)
    needed = _descriptions(directory, templates=templates)
    needed += [path for split in splits for path in _of_split(directory, split)]
    return [str(path.relative_to(directory)) for path in needed if not path.is_file()]


def files_of(directory: Path, split: str = "test", *, templates: bool = False) -> list[Path]:
    """Return every file that a split of an evaluation set consists of, one in its folder first.

    Raises
    ------
    UserError
        Naming all missing pieces at once.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise UserError(
            f"evaluation_sets: {directory} is neither a generated set nor a folder. Generated "
            "sets are named in the reference page of config.yaml; a folder holds "
            f"{CLASSNAMES}, {TEMPLATES}, {split}/nshards.txt and {split}/0.tar, or, for "
            f"captioned images, {DATASET_TYPE} and the shards."
        )
    if missing := missing_pieces(directory, [split], templates=templates):
        raise UserError(explain_missing({str(directory): missing}))
    return [*_descriptions(directory, templates=templates), *_of_split(directory, split)]


def explain_missing(missing: dict[str, list[str]]) -> str:
    """Return one message on the pieces that each of some sets lacks, and on the remedy.

    Parameters
    ----------
    missing : dict
        From each folder to its `missing_pieces`, at least one.
    """
    lines = [f"evaluation set {name}: missing {', '.join(m)}." for name, m in missing.items()]
    remedy = "CLIP_benchmark's webdataset layout has all of them; fetch or write them."
    folders = [*map(Path, missing)]
    if one := next((path for folder in folders for path in _other_data(folder)), None):
        remedy += f" It has {one}: write pictures and labels as members of tar files, unpacked."
    elif any(TEMPLATES in pieces for pieces in missing.values()):
        remedy += (
            " Templates are needed by clip_benchmark only: other protocols can evaluate a set "
            "without them."
        )
    for folder in folders:
        if any(folder.glob(f"*/*/{COUNTER}")):
            remedy += f" Sets in subfolders are named by a glob: {folder}/*."
        elif (splits := sorted(path.parent for path in folder.glob(f"*/{COUNTER}"))) and (
            folder / "test" not in splits
        ):
            remedy += f" It has {splits[0].name}: the split that is evaluated is called test."
        elif (shards := sorted(folder.glob("test/*.tar"))) and shards[0].name != "0.tar":
            remedy += f" Shards are called 0.tar, 1.tar and so on, and not {shards[0].name}."
        elif (folder / COUNTER).is_file():
            remedy += f" {folder} is a split of a set: name the folder that it is in."
    return "\n".join([*lines, remedy]) if len(lines) > 1 else f"{lines[0]} {remedy}"


def _other_data(folder: Path) -> Iterator[Path]:
    """Yield packed shards, Parquet and pictures in a folder and those in it, where no shard is."""
    files = [path for depth in ("*", "*/*", "*/*/*") for path in islice(folder.glob(depth), 100)]
    if not any(path.suffix == ".tar" for path in files):
        endings = {"gz", "tgz", "zst", "parquet", *IMAGE_EXTENSIONS}
        yield from (path for path in sorted(files) if path.suffix[1:].lower() in endings)


def files_of_texts(directory: Path) -> list[Path]:
    """Return the files of a set that its prompts are made from, without those of a protocol.

    It is the class list; all files for captioned images, because captions are next to the images.

    Raises
    ------
    UserError
        Naming all missing pieces at once.
    """
    if kind_of(directory) in CAPTIONED:
        return files_of(directory)
    return [path for path in files_of(directory) if path.parent == Path(directory)]


def files_of_images(directory: Path, split: str) -> list[Path]:
    """Return the files of a split that its images and labels are read from.

    Raises
    ------
    UserError
        Naming all missing pieces of the set at once.
    """
    return [path for path in files_of(directory, split) if path.name not in TEXTS]


def read_classnames(path: Path) -> list[str]:
    """Return class names, one per line; the number of a class is that of its line, from zero.

    Names may repeat, as two of ImageNet's do: prompts cannot distinguish such classes, so a
    warning is logged, as it is of names with underscores, which the towers read as they are.

    Raises
    ------
    UserError
        If there are fewer than two, there is an empty line between them, or they have the name of
        a question before a colon, their number, an identifier of WordNet or quotation marks.
    """
    names = _items(path)
    if "" in names:
        raise UserError(
            f"{path}: line {names.index('') + 1} is empty. Classes are numbered by their lines, "
            "so every class after it would be taken for another one: write its name, or remove "
            "the line."
        )
    if len(names) < 2:
        raise UserError(f"{path}: holds {len(names)} class; at least 2 are needed.")
    refuse_questions(path, names)
    _refuse_more_than_names(path, names)
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        log.warning(
            "%s: %s is there more than once; prompts of their names cannot distinguish these "
            "classes, and the first of them gets all images",
            path,
            ", ".join(repeated),
        )
    if joined := [name for name in names if re.search(r"[^\W_]_[^\W_]", name)]:
        log.warning(
            "%s: %d of %d names have underscores, such as %s, and prompts will have them too; "
            "write blanks if these are words",
            path,
            len(joined),
            len(names),
            joined[0],
        )
    return names


def _refuse_more_than_names(path: Path, names: list[str]) -> None:
    """Refuse names of which each has more that would stand in its prompts, and a heading."""
    if names[0].lower() in HEADINGS:
        raise UserError(
            f"{path}: line 1 is {names[0]!r}, which reads as the heading of a column, and every "
            "class would be taken for the one before it. Remove the line, or write a class of "
            "this name with an article."
        )
    extra = ""
    for first in (0, 1):
        parts = [re.match(r"0*(\d+)\s*[\s:;,.)|-]\s*(\S.*)", name) for name in names]
        rests = {part[2] for part in parts if part}
        if len(rests) == len(names) and all(
            part and int(part[1]) == number for number, part in enumerate(parts, first)
        ):
            extra = "its number"
    if all(re.match(r"n\d{8}\b", name) for name in names):
        extra = "an identifier of WordNet"
    elif 2 * sum(bool(re.fullmatch(r"""(['"]).*\1,?""", name)) for name in names) > len(names):
        extra = "quotation marks"
    elif all("\t" in name for name in names):
        extra = "a tab"
    if extra:
        raise UserError(
            f"{path}: each name has {extra}, such as {names[0]!r}, which would stand in the "
            "prompts. Write the names alone, one a line, in the same order."
        )


HEADINGS = ("class", "classes", "classname", "classnames", "class_name", "label", "labels", "name")
"""First lines that name a column, in lower case."""

_OF_CODE = re.compile(r"""(?:lambda \w+:\s*)?f?(['"])(.+)\1\s*,?""")
"""A template as an item of a list in Python, as OpenAI and open_clip publish theirs."""


def read_templates(path: Path) -> list[str]:
    """Return templates of prompts, one per line, each with ``{c}`` for the class name.

    Lines of a list in Python, such as ``lambda c: f'a photo of a {c}.',``, have them in quotes.

    Raises
    ------
    UserError
        If there is none, or one has no ``{c}`` or the name of a question before a colon.
    """
    if not path.is_file():
        raise UserError(f"{path}: is missing; it holds templates, one a line, with {PLACEHOLDER}.")
    templates = [line for line in _items(path) if line]
    if not templates:
        raise UserError(f"{path}: holds no template. Write one a line, with {PLACEHOLDER}.")
    of_code = [match[2] for line in templates if (match := _OF_CODE.fullmatch(line))]
    templates = of_code if len(of_code) == len(templates) else templates
    for template in templates:
        if PLACEHOLDER not in template:
            raise UserError(
                f"{path}: template {template!r} has no {PLACEHOLDER} in it. Write it where the "
                "name of the class stands."
            )
    refuse_questions(path, [], templates)
    return templates


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; a repeated key is refused, not overwritten.

    Raises
    ------
    UserError
        If the file is missing, is not JSON, or has a key twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key, value in pairs:
            if key in entries:
                raise UserError(
                    f"{path}: lists {key!r} twice. One of them would be lost silently: remove one, "
                    "or give it a key of its own."
                )
            entries[key] = value
        return entries

    def no_number(name: str) -> None:
        raise ValueError(f"{name} is no number of JSON")

    try:
        text = path.read_text(encoding="utf-8-sig")
        return json.loads(text, object_pairs_hook=unique, parse_constant=no_number)
    except FileNotFoundError as error:
        raise UserError(f"{path}: is missing.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error}). Correct it there.") from error


def _descriptions(directory: Path, *, templates: bool) -> list[Path]:
    """Return the files in the folder itself that a set needs."""
    kind_file = directory / DATASET_TYPE
    if kind_of(directory) in CAPTIONED:
        return [kind_file]
    needed = [CLASSNAMES, *([TEMPLATES] if templates else [])]
    return [*(directory / name for name in needed), *([kind_file] if kind_file.is_file() else [])]


def _of_split(directory: Path, split: str) -> list[Path]:
    """Return the files of a split: the number of its shards, and its shards if that is known.

    After `MOST_MISSING` missing shards, the others are left out.

    Raises
    ------
    UserError
        If it is not a positive number, or there are more shards.
    """
    counter = directory / split / COUNTER
    if not counter.is_file():
        return [counter]
    text = text_of_user(counter, "replace").strip()
    shards = whole_number(text)
    if not shards:
        raise UserError(f"{counter}: must hold the number of shards, found {text[:40]!r}.")
    numbers = (whole_number(path.stem) for path in counter.parent.glob("*.tar"))
    if extra := [number for number in numbers if number is not None and number >= shards]:
        raise UserError(
            f"{counter}: has {shards}, but {max(extra)}.tar is in its folder. Write the number of "
            "shards there, or move the others away."
        )
    paths, missing = [counter], 0
    for number in range(shards):
        paths.append(directory / split / f"{number}.tar")
        missing += not paths[-1].is_file()
        if missing == MOST_MISSING:
            break
    return paths


def whole_number(text: str) -> int | None:
    """Return a number of at most nine decimal digits, or None."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _items(path: Path) -> list[str]:
    """Return the lines of a file, or the texts of a list as JSON and Python write one."""
    text = text_of_user(path).rstrip()
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        items = ast.literal_eval(text)
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return [item.strip() for item in items]
    return [line.strip() for line in text.splitlines()]
