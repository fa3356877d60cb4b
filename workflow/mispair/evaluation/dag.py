"""Evaluation sets and protocols of a configuration, and the files of each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.evaluation import datacomp, protocols, sets
from mispair.evaluation.set_contents.question_names import (
    refuse_questions,
    refuse_questions_in_json,
)
from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS, files_of_generated

GENERATED_SETS = "results/scenes/evaluation/{evaluation_set}"
FEATURES = "results/evaluation/{towers}/{evaluation_set}/{file}.safetensors"


def generated_files(name: str) -> list[str]:
    """Return the files of a generated set, with the set itself as a wildcard."""
    return [f"{GENERATED_SETS}/{file}" for file in files_of_generated(name)]


class Evaluation:
    """The evaluation sets of a run by name, and the protocols that they are evaluated under.

    Parameters
    ----------
    sources : sequence of str
        Names of generated sets, or folders.
    asked : sequence of str
        Protocols: names, or folders.

    Raises
    ------
    UserError
        If a set lacks pieces, before any step runs. The message names all missing pieces.
    """

    def __init__(self, sources: Sequence[str], asked: Sequence[str]) -> None:
        self.protocols = {protocols.protocol_name(source): source for source in asked}
        if len(self.protocols) < len(asked):
            raise UserError("protocols: two of them have the same name; rename a folder.")
        self.folders: dict[str, Path] = {}
        for source in sources:
            folder = _folder(source)
            if folder.name in self.folders:
                raise UserError(
                    f"evaluation_sets: two sets are called {folder.name!r}; rename a folder."
                )
            self.folders[folder.name] = folder
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
        if protocols.DATACOMP in self.protocols:
            lines += self._echo_datacomp()
        return lines

    def _echo_datacomp(self) -> list[str]:
        """Return the number of DataComp's sets, and the sets that enter none of its means."""
        tasks = {name: datacomp.task(name) for name in self.folders}
        others = [name for name, task in tasks.items() if task is None or not task.listed]
        share = f"{len(tasks) - len(others)} of DataComp's {len(datacomp.task_names())} sets"
        remaining = f"; in none of its means: {', '.join(others)}" if others else ""
        return [f"protocol {protocols.DATACOMP}: {share}{remaining}"]

    def _is_generated(self, name: str) -> bool:
        return self.folders[name] == Path(GENERATED_SETS.format(evaluation_set=name))

    def _refuse_missing_pieces(self) -> None:
        templates = not self.protocols.keys().isdisjoint(protocols.OF_FOLDER)
        missing = {
            str(folder): pieces
            for name, folder in self.folders.items()
            if not self._is_generated(name)
            and (pieces := sets.missing_pieces(folder, self._splits(name), templates=templates))
        }
        if missing:
            raise UserError(sets.explain_missing(missing))

    def _refuse_questions(self) -> None:
        """Refuse names of questions in classes and templates, also in the user's protocols."""
        own = [Path(source) for source in self.protocols.values()]
        for name, folder in self.folders.items():
            if self._is_generated(name) or sets.kind_of(folder) != "classification":
                continue
            texts = [folder / file for file in sets.TEXTS]
            texts += [each / f"{name}.{file}" for each in own for file in protocols.CUSTOM_FILES]
            for path in texts:
                if path.is_file():
                    self._refuse_questions_in(path)

    def _refuse_questions_in(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".json":
            refuse_questions_in_json(path, text)
        elif path.name.endswith("classnames.txt"):
            refuse_questions(path, text.splitlines())
        elif path.name.endswith("templates.txt"):
            refuse_questions(path, [], text.splitlines())

    def _splits(self, name: str) -> tuple[str, ...]:
        if self._is_generated(name):
            return EVALUATION_SETS[name].splits
        has_train = (self.folders[name] / "train" / "nshards.txt").is_file()
        return ("test", "train") if has_train else ("test",)

    def kind(self, name: str) -> sets.Kind:
        """Return whether a set is for classification or for retrieval."""
        if self._is_generated(name):
            return EVALUATION_SETS[name].kind
        return sets.kind_of(self.folders[name])

    def images_of(self, wildcards: Any) -> list[str]:
        """Return the files that the images and labels of a split are read from."""
        name, folder = wildcards.evaluation_set, self.folders[wildcards.evaluation_set]
        if self._is_generated(name):
            files = files_of_generated(name, [wildcards.split])
            return [str(folder / file) for file in files if file not in sets.TEXTS]
        return [str(path) for path in sets.files_of_images(folder, wildcards.split)]

    def texts_of(self, wildcards: Any) -> list[str]:
        """Return the files of a set that its prompts are made from."""
        name, folder = wildcards.evaluation_set, self.folders[wildcards.evaluation_set]
        if self._is_generated(name):
            return [str(folder / file) for file in files_of_generated(name, ["test"])]
        return [str(path) for path in sets.files_of_texts(folder)]

    def protocol_files(self, wildcards: Any) -> list[str]:
        """Return the files that a protocol reads for a set."""
        source = self.protocols.get(wildcards.protocol, wildcards.protocol)
        folder = self.folders[wildcards.evaluation_set]
        return [os.path.relpath(path) for path in protocols.protocol_files(source, folder)]

    def images(self, towers: str, split: str = "test") -> list[str]:
        """Return the image features of every set that has the split; train is for probes."""
        names = [name for name in self.folders if split in self._splits(name)]
        if split == "train":
            names = [name for name in names if self.kind(name) == "classification"]
        return [FEATURES.format(towers=towers, evaluation_set=name, file=split) for name in names]

    def prompts(self, towers: str) -> list[str]:
        """Return the prompt features of every set under every protocol that applies to it."""
        return [
            FEATURES.format(towers=towers, evaluation_set=name, file=f"prompts~{protocol}")
            for name, protocol in self.pairs
        ]


def _folder(source: str) -> Path:
    if source in EVALUATION_SETS:
        return Path(GENERATED_SETS.format(evaluation_set=source))
    if Path(source).is_dir():
        return Path(os.path.normpath(source))
    from mispair.core.words import nearest

    hint = nearest(Path(source).name, EVALUATION_SETS)
    raise UserError(
        f"evaluation_sets: {source!r} is neither a generated set "
        f"({', '.join(EVALUATION_SETS)}) nor a folder (looked for {Path(source).absolute()}).{hint}"
    )
