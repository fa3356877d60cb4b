"""Evaluation sets and protocols of a configuration, and the files of each."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mispair.core.commands import one_after_the_other
from mispair.core.files import UserError, folder_name, if_of_hub, matches, snapshot, text_of_user
from mispair.core.paths import every, fill, from_here
from mispair.core.provenance import CHECKOUT
from mispair.evaluation import protocols, sets
from mispair.evaluation.paths import PROMPTS, SET_FEATURES
from mispair.evaluation.questions import refuse_questions, refuse_questions_in_json
from mispair.pairs.paths import GENERATED_SET
from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS, files_of_generated
from mispair.pairs.shards.sources import globs_of


def generated_files(name: str) -> list[str]:
    """Return the files of a generated set; the first is in its folder."""
    folder = fill(GENERATED_SET, evaluation_set=name)
    return [f"{folder}/{file}" for file in files_of_generated(name)]


def is_name(source: str) -> bool:
    """Return whether an evaluation set of a configuration is the name of a generated set."""
    return source in EVALUATION_SETS


def making(flags: str) -> Callable[[Any, Sequence[str]], str]:
    """Return a function that returns the commands that make the generated sets of a job."""

    def commands(wildcards: Any, output: Sequence[str]) -> str:
        folders = dict.fromkeys(Path(path).parent for path in output)
        return one_after_the_other(
            {"make-evaluation-set --name": [folder.name], "--evaluation-set": [folder], flags: []}
            for folder in folders
            if folder.name in EVALUATION_SETS
        )

    return commands


class Evaluation:
    """The evaluation sets of a run by name, and the protocols that they are evaluated under.

    Parameters
    ----------
    sources : sequence of str, or dict
        Names of generated sets, folders, or globs of these; a dict gives each its name.
    asked : sequence of str
        Protocols: names, or folders.

    Raises
    ------
    UserError
        If a set lacks pieces, before any step runs. The message names all missing pieces.
    """

    def __init__(self, sources: Sequence[str] | Mapping[str, str], asked: Sequence[str]) -> None:
        self.protocols = {protocols.protocol_name(source): source for source in asked}
        if len(self.protocols) < len(asked):
            raise UserError("protocols: two of them have the same name; rename a folder.")
        self.folders: dict[str, Path] = {}
        for name, folder in _named_folders(sources):
            if self.folders.get(name) == folder:
                raise UserError(f"evaluation_sets: {folder} is named twice. Name it once.")
            if name in self.folders:
                raise UserError(
                    f"evaluation_sets: two sets are called {name!r} ({self.folders[name]}, "
                    f"{folder}). Give them names: `evaluation_sets: {{NAME: FOLDER, ...}}`."
                )
            self.folders[name] = folder
        self._refuse_missing_pieces()
        self._refuse_questions()
        for source in self.protocols.values():
            if source not in protocols.BUILT_IN:
                protocols.refuse_stray_files(source, list(self.folders))
        self.pairs = [
            (name, protocol)
            for name in self.folders
            for protocol, source in (
                self.protocols | {protocols.CAPTIONS: protocols.CAPTIONS}
            ).items()
            if protocols.applies(source, name, self.kind(name))
        ]
        without = sorted(self.folders.keys() - {name for name, _ in self.pairs})
        if without:
            raise UserError(
                f"protocols: none of {', '.join(self.protocols)} has prompts for "
                f"{', '.join(without)}. Add clip_benchmark or single-prompt, which take every set."
            )

    def echo(self) -> list[str]:
        """Return what some protocols leave out, one line each."""
        lines = []
        for protocol, source in self.protocols.items():
            without = [
                name
                for name in self.folders
                if self.kind(name) == "classification"
                and not protocols.applies(source, name, "classification")
            ]
            if without:
                lines.append(f"protocol {protocol}: has no prompts for {', '.join(without)}")
        return lines

    def is_generated(self, name: str) -> bool:
        """Return whether mispair writes a set itself."""
        return self.folders[name].parent == Path(GENERATED_SET).parent

    def _refuse_missing_pieces(self) -> None:
        templates = protocols.CLIP_BENCHMARK in self.protocols
        missing = {
            str(folder): pieces
            for name, folder in self.folders.items()
            if not self.is_generated(name)
            and (pieces := sets.missing_pieces(folder, self.splits(name), templates=templates))
        }
        if missing:
            raise UserError(sets.explain_missing(missing))

    def _refuse_questions(self) -> None:
        """Refuse names of questions in classes and templates, also in the user's protocols."""
        own = [Path(source) for source in self.protocols.values()]
        for name, folder in self.folders.items():
            if self.is_generated(name) or sets.kind_of(folder) != "classification":
                continue
            texts = [folder / file for file in sets.TEXTS]
            texts += [each / f"{name}.{file}" for each in own for file in protocols.CUSTOM_FILES]
            for path in texts:
                if path.is_file():
                    self._refuse_questions_in(path)

    def _refuse_questions_in(self, path: Path) -> None:
        text = text_of_user(path, "replace")
        if path.suffix == ".json":
            refuse_questions_in_json(path, text)
        elif path.name.endswith("classnames.txt"):
            refuse_questions(path, text.splitlines())
        elif path.name.endswith("templates.txt"):
            refuse_questions(path, [], text.splitlines())

    def splits(self, name: str) -> tuple[str, ...]:
        """Return the splits that a set has."""
        if self.is_generated(name):
            return EVALUATION_SETS[self.folders[name].name].splits
        has_train = (self.folders[name] / "train" / "nshards.txt").is_file()
        return ("test", "train") if has_train else ("test",)

    def kind(self, name: str) -> sets.Kind:
        """Return whether a set is for classification or for retrieval."""
        if self.is_generated(name):
            return EVALUATION_SETS[self.folders[name].name].kind
        return sets.kind_of(self.folders[name])

    @property
    def of_user(self) -> str:
        """A pattern of the names of all other sets; it matches nothing if there are none."""
        names = [re.escape(name) for name in self.folders if not self.is_generated(name)]
        return "|".join(names) or "(?!)"

    def generated_names(self) -> list[str]:
        """Return the names of mispair for the sets that it writes itself."""
        return [self.folders[name].name for name in self.folders if self.is_generated(name)]

    def encoded(self, split: str) -> list[str]:
        """Return the image features of a split of the generated sets, with towers as a wildcard."""
        return self._of_generated(self.images("{towers}", split))

    def encoded_prompts(self) -> list[str]:
        """Return the prompt features of the generated sets, with towers as a wildcard."""
        return self._of_generated(self.prompts("{towers}"))

    def _of_generated(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if self.is_generated(Path(path).parent.name)]

    def images_of(self, wildcards: Any) -> list[str]:
        """Return the files that the images and labels of a job are read from."""
        parts = self._image_parts(wildcards)
        return list(dict.fromkeys(file for part in parts for file in self._images_of(part)))

    def texts_of(self, wildcards: Any) -> list[str]:
        """Return the files of sets that the prompts of a job are made from."""
        parts = self._prompt_parts(wildcards)
        return list(dict.fromkeys(file for part in parts for file in self._texts_of(part)))

    def protocol_files(self, wildcards: Any) -> list[str]:
        """Return the files that the protocols of a job read for its sets."""
        parts = self._prompt_parts(wildcards)
        return list(dict.fromkeys(file for part in parts for file in self._protocol_files(part)))

    def _image_parts(self, wildcards: Any) -> list[Any]:
        """Return the set and split of a job; all generated sets are encoded in one job."""
        if hasattr(wildcards, "evaluation_set"):
            return [wildcards]
        paths = [Path(path) for path in (*self.encoded("test"), *self.encoded("train"))]
        return [SimpleNamespace(evaluation_set=p.parent.name, split=p.stem) for p in paths]

    def _prompt_parts(self, wildcards: Any) -> list[Any]:
        """Return the set and protocol of a job; all generated sets are encoded in one job."""
        if hasattr(wildcards, "evaluation_set"):
            return [wildcards]
        return [
            SimpleNamespace(evaluation_set=name, protocol=protocol)
            for name, protocol in self.pairs
            if self.is_generated(name)
        ]

    def encoding_images(self, flags: str) -> Callable[..., str]:
        """Return a function that returns the commands that encode the images of a job."""

        def commands(wildcards: Any, input: Any, output: Sequence[str], threads: int) -> str:
            path_of = dict(zip(self.images_of(wildcards), input.evaluation_set, strict=True))
            return one_after_the_other(
                {
                    "encode-evaluation --evaluation-set": map(path_of.get, self._images_of(part)),
                    "--name": [part.evaluation_set],
                    "--split": [part.split],
                    "--towers": input.towers,
                    f"--workers {threads - 1} {flags} --evaluation-features": [features],
                }
                for part, features in zip(self._image_parts(wildcards), output, strict=True)
            )

        return commands

    def encoding_prompts(self, flags: str) -> Callable[..., str]:
        """Return a function that returns the commands that encode the prompts of a job."""

        def commands(wildcards: Any, input: Any, output: Sequence[str]) -> str:
            path_of = dict(zip(self.texts_of(wildcards), input.evaluation_set, strict=True))
            path_of |= dict(zip(self.protocol_files(wildcards), input.protocol, strict=True))
            return one_after_the_other(
                {
                    "encode-prompts --evaluation-set": map(path_of.get, self._texts_of(part)),
                    "--name": [part.evaluation_set],
                    "--protocol": [part.protocol],
                    "--protocol-files": map(path_of.get, self._protocol_files(part)),
                    "--towers": input.towers,
                    f"{flags} --prompts": [prompts],
                }
                for part, prompts in zip(self._prompt_parts(wildcards), output, strict=True)
            )

        return commands

    def _images_of(self, wildcards: Any) -> list[str]:
        """Return the files that the images and labels of a split are read from."""
        name, folder = wildcards.evaluation_set, self.folders[wildcards.evaluation_set]
        if self.is_generated(name):
            files = files_of_generated(folder.name, [wildcards.split])
            return [str(folder / file) for file in files if file not in sets.TEXTS]
        return [str(path) for path in sets.files_of_images(folder, wildcards.split)]

    def _texts_of(self, wildcards: Any) -> list[str]:
        """Return the files of a set that its prompts are made from."""
        name, folder = wildcards.evaluation_set, self.folders[wildcards.evaluation_set]
        if self.is_generated(name):
            return [str(folder / file) for file in files_of_generated(folder.name, ["test"])]
        return [str(path) for path in sets.files_of_texts(folder)]

    def _protocol_files(self, wildcards: Any) -> list[str]:
        """Return the files that a protocol reads for a set."""
        source = self.protocols.get(wildcards.protocol, wildcards.protocol)
        name, folder = wildcards.evaluation_set, self.folders[wildcards.evaluation_set]
        files = protocols.protocol_files(source, folder, name)
        return [from_here(path, CHECKOUT) for path in files]

    def images(self, towers: str, split: str = "test") -> list[str]:
        """Return the image features of every set that has the split; train is for probes."""
        names = [name for name in self.folders if split in self.splits(name)]
        if split == "train":
            names = [name for name in names if self.kind(name) == "classification"]
        return every(SET_FEATURES, {"towers": [towers], "evaluation_set": names, "split": [split]})

    def prompts(self, towers: str) -> list[str]:
        """Return the prompt features of every set under every protocol that applies to it."""
        return every(PROMPTS, {"towers": [towers], "evaluation_set protocol": self.pairs})


def set_sources(sets: Sequence[str] | Mapping[str, str]) -> list[str]:
    """Return the sources of sets as configured: a list, or a mapping of names."""
    return list(sets.values()) if isinstance(sets, Mapping) else list(sets)


def _named_folders(sets: Sequence[str] | Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the name and the folder of each set."""
    if isinstance(sets, Mapping):
        for name, source in sets.items():
            first, *others = _folders(source)
            if others:
                raise UserError(
                    f"evaluation_sets: {name}: {source} matches {len(others) + 1} folders. A name "
                    "is for one set: name a folder, or give the pattern in a list."
                )
            yield name, first
        return
    for source in sets:
        for folder in _folders(source):
            yield folder_name(folder), folder


def _folders(source: str) -> list[Path]:
    """Return the folder of a set, or the folders that a glob or a brace pattern matches."""
    if source in EVALUATION_SETS:
        return [Path(fill(GENERATED_SET, evaluation_set=source))]
    if Path(source).is_dir():
        return [snapshot(Path(os.path.normpath(source)))]
    folders = {pattern: [snapshot(path) for path in matches(pattern) if path.is_dir()]
               for pattern in globs_of("evaluation_sets", source)}  # fmt: skip
    empty = [pattern for pattern, matched in folders.items() if not matched]
    if not empty:
        return [folder for matched in folders.values() for folder in matched]
    looked = f"(looked for {Path(empty[0]).absolute()})"
    if not {*"*?[{"}.isdisjoint(source):
        raise UserError(f"evaluation_sets: {source!r} matches no folder {looked}.")
    from mispair.core.words import nearest

    hint = if_of_hub(source, "dataset") or nearest(Path(source).name, EVALUATION_SETS)
    raise UserError(
        f"evaluation_sets: {source!r} is neither a generated set "
        f"({', '.join(EVALUATION_SETS)}) nor a folder or a pattern of folders {looked}.{hint}"
    )
