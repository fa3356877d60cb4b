"""Read zero-shot evaluation sets in CLIP_benchmark's webdataset layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mispair.files import UserError
from mispair.pairs.shards import Sample, TruncatedShardError, read_samples
from mispair.provenance import fingerprint

CLASSNAMES = "classnames.txt"
TEMPLATES = "zeroshot_classification_templates.txt"
NUMBER_OF_SHARDS = "test/nshards.txt"
PLACEHOLDER = "{c}"


@dataclass(frozen=True)
class EvaluationSet:
    """A set on disk: its shards, and its class names and templates as found."""

    name: str
    classnames: list[str]
    templates: list[str]
    shards: list[Path]

    @property
    def prompts(self) -> list[list[str]]:
        """The prompts, one list of templates for each class."""
        return [[t.replace(PLACEHOLDER, name) for t in self.templates] for name in self.classnames]

    @property
    def fingerprint(self) -> str:
        """Identifies the class list with its templates."""
        return fingerprint([*self.classnames, "", *self.templates])

    def samples(self) -> Iterator[tuple[bytes, int]]:
        """Yield encoded image and class number of every test sample.

        Raises
        ------
        UserError
            If a shard is damaged, or a sample lacks its image or a class number of the list.
        """
        for shard in self.shards:
            try:
                for sample in read_samples(shard):
                    yield _image(shard, sample), _label(shard, sample, len(self.classnames))
            except TruncatedShardError as error:
                raise UserError(
                    f"{shard}: is damaged ({error}). Fetch it again: an evaluation on a part of "
                    "a set would not be comparable."
                ) from error


def files_of(directory: Path) -> list[Path]:
    """Return every file that an evaluation set consists of.

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
            f"{CLASSNAMES}, {TEMPLATES}, {NUMBER_OF_SHARDS} and test/0.tar."
        )
    needed = [directory / CLASSNAMES, directory / TEMPLATES, directory / NUMBER_OF_SHARDS]
    counter = directory / NUMBER_OF_SHARDS
    if counter.is_file():
        text = counter.read_text(encoding="utf-8", errors="replace").strip()
        if not text.isdecimal() or int(text) < 1:
            raise UserError(f"{counter}: must hold the number of shards, found {text[:40]!r}.")
        needed += [directory / f"test/{number}.tar" for number in range(int(text))]
    missing = [str(path.relative_to(directory)) for path in needed if not path.is_file()]
    if missing:
        raise UserError(
            f"evaluation set {directory}: missing {', '.join(missing)}. CLIP_benchmark's "
            "webdataset layout has all of them; fetch or write them."
        )
    return needed


def open_set(directory: Path) -> EvaluationSet:
    """Open an evaluation set and check its class list and templates.

    Raises
    ------
    UserError
        If a piece is missing, or the class list or a template cannot be used.
    """
    paths = files_of(directory)
    classnames = _lines(paths[0])
    templates = _lines(paths[1])
    repeated = sorted({name for name in classnames if classnames.count(name) > 1})
    if len(classnames) < 2:
        raise UserError(f"{paths[0]}: holds {len(classnames)} class; at least 2 are needed.")
    if repeated:
        raise UserError(f"{paths[0]}: {', '.join(repeated)} stands there more than once.")
    if not templates:
        raise UserError(f"{paths[1]}: holds no template.")
    for template in templates:
        if PLACEHOLDER not in template:
            raise UserError(f"{paths[1]}: template {template!r} has no {PLACEHOLDER} in it.")
    return EvaluationSet(Path(directory).name, classnames, templates, paths[3:])


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text ({error}).") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _image(shard: Path, sample: Sample) -> bytes:
    if sample.image is None:
        raise UserError(f"{shard}: sample {sample.key} has no image.")
    return sample.image


def _label(shard: Path, sample: Sample, classes: int) -> int:
    text = sample.members.get("cls", b"").decode("utf-8", errors="replace").strip()
    if not text.isdecimal() or int(text) >= classes:
        raise UserError(
            f"{shard}: sample {sample.key} has class {text[:40]!r}, but the class list has "
            f"{classes} names, so 0 to {classes - 1} are allowed. Labels and list do not fit."
        )
    return int(text)
