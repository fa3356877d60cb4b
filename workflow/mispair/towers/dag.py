"""The models that a configuration names, the files of their towers, and the trainings of towers."""

import json
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mispair.core.files import UserError, folder_name, if_of_hub, read_json, snapshot
from mispair.core.paths import fill, from_here
from mispair.core.provenance import CHECKOUT, PACKAGE
from mispair.core.settings import command_line
from mispair.pairs.shards.shards import CAPTION_EXTENSION
from mispair.towers.checkpoints.model_spec import ModelSpec, open_clip_definition, open_clip_names
from mispair.towers.paths import (
    CONVERTED_RECORD,
    CONVERTED_TOWERS,
    TOWER_CONFIG,
    TOWER_WEIGHTS,
    TOWERS_OF_SEED,
    TRAINED_TOWERS,
)
from mispair.towers.pretraining.pretraining import (
    DEFINITIONS,
    refuse_too_few_pairs,
    refuse_too_few_shards,
)

SHIPPED = {
    "shipped": PACKAGE / "towers" / "shipped" / "scenes-small",
    "shipped-1": PACKAGE / "towers" / "shipped" / "scenes-small-1",
}
"""Towers that are part of mispair, by name; those of one recipe differ in their seed."""
OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".safetensors", ".msgpack", ".h5", ".index")
"""Endings of files that hold weights in other forms, or under another name."""
LABELS = {"pretraining", "method"}
"""Keys of a model that name it in the report and change nothing that is computed."""


class Models:
    """The models of a run by name: the one that is fine-tuned, and those that are compared.

    `main` is the key ``towers`` (a name of `SHIPPED`, ``train``, a folder, or a model), `compared`
    the key ``models``, `start` what ``pretrain_towers.start`` names, `scorer` other towers that
    ``filter_captions.scorer`` names (of `SHIPPED`, or a folder), and `replicates` the key
    ``compare_towers.towers`` (such names and folders, and seeds of towers that are trained).

    Raises
    ------
    UserError
        If a file or folder is missing, or two models have one name.
    """

    def __init__(
        self,
        main: str | ModelSpec | None,
        compared: list[ModelSpec],
        start: str | ModelSpec | None = None,
        scorer: str | None = None,
        replicates: Sequence[int | str] = (),
    ) -> None:
        self.main = ""
        self.specs: dict[str, ModelSpec] = {}
        self._keys: dict[str, str] = {}
        self._files: dict[str, list[str]] = {}
        if isinstance(main, ModelSpec):
            self._add(main, "towers")
            self.main = main.name
        elif main is not None:
            self.main = "trained" if main == "train" else _name_of(main)
            self._files[self.main] = TRAINED_TOWERS if main == "train" else _of_folder(main)
        for number, spec in enumerate(compared):
            self._add(spec, f"models[{number}]")
        self.compared = [spec.name for spec in compared]
        self.start = self._start(start)
        """Files of the towers that pretrain_towers starts from; the configuration comes first."""
        self.scorer = "" if scorer is None else _name_of(scorer)
        if scorer is not None:
            if self.scorer in self._files:
                raise UserError(
                    f"filter_captions.scorer: {scorer!r} has the name of the towers that are "
                    "fine-tuned or of a model. For the same towers write untouched."
                )
            self._files[self.scorer] = _of_folder(scorer, "filter_captions.scorer")
        self.replicates = [self._replicate(towers) for towers in replicates]
        """Names of the pairs of towers that are compared as replicates."""

    def _replicate(self, towers: int | str) -> str:
        key = "compare_towers.towers"
        if isinstance(towers, int):
            files = [fill(path, seed=towers) for path in TOWERS_OF_SEED]
        else:
            files = _of_folder(towers, key)
        name = folder_name(Path(files[0]).parent)
        if self._files.setdefault(name, files) != files:
            raise UserError(f"{key}: two models are called {name!r}; rename a folder.")
        return name

    def _start(self, start: str | ModelSpec | None) -> list[str]:
        key = "pretrain_towers.start"
        self._start_spec = start if isinstance(start, ModelSpec) else None
        if isinstance(start, ModelSpec):
            if start.name not in self._files:
                self._add(start, key)
            return self._files[start.name]
        return [] if start is None else _of_folder(start, key)

    def _add(self, spec: ModelSpec, key: str) -> None:
        if spec.name in self._files:
            raise UserError(f"{key}: two models are called {spec.name!r}; rename one.")
        self.specs[spec.name], self._keys[spec.name] = spec, key
        if spec.folder is not None:
            self._files[spec.name] = _of_folder(spec.folder, f"{key}.folder")
            return
        if spec.checkpoint is not None and not Path(spec.checkpoint).is_file():
            raise UserError(
                f"{key}.checkpoint: there is no file {Path(spec.checkpoint).absolute()}."
                f"{if_of_hub(spec.checkpoint)}"
            )
        self._files[spec.name] = [fill(path, model=spec.name) for path in CONVERTED_TOWERS]

    def files(self, name: str) -> list[str]:
        """Return the files of a model's towers; the configuration comes first."""
        return self._files[name]

    def checkpoint(self, wildcards: Any) -> list[str]:
        """Return the file that a model is converted from; a tag of open_clip has none."""
        checkpoint = self.specs[wildcards.model].checkpoint
        return [] if checkpoint is None else [checkpoint]

    def given_weights(self) -> list[Path]:
        """Return the files of weights that exist before any job."""
        checkpoints = [spec.checkpoint for spec in self.specs.values() if spec.checkpoint]
        weights = [file for files in self._files.values() for file in files]
        named = [*checkpoints, *(file for file in weights if Path(file).name == TOWER_WEIGHTS)]
        return [path for path in map(Path, dict.fromkeys(named)) if path.is_file()]

    def unconverted(self) -> list[tuple[str, ModelSpec]]:
        """Return the models by open_clip's names that have no folder yet, each with its key."""
        named = {name: spec for name, spec in self.specs.items() if spec.kind in ("tag", "file")}
        missing = [name for name in named if not all(map(os.path.exists, self._files[name]))]
        return [(self._keys[name], named[name]) for name in missing if open_clip_names()]

    def spec(self, wildcards: Any) -> str:
        """Return the entry of a model, as JSON."""
        spec = self.specs[wildcards.model]
        return spec.model_dump_json(exclude=LABELS, exclude_none=True)

    def described(self) -> str:
        """Return the compared models by name, as JSON."""
        specs = {name: self.specs[name].model_dump(exclude_none=True) for name in self.compared}
        for spec in specs.values():
            # The folder of a file differs between machines.
            spec |= {key: Path(spec[key]).name for key in ("checkpoint", "folder") if key in spec}
        return json.dumps(specs, sort_keys=True)

    def origins(self) -> list[str]:
        """Return the ``config.json`` of each compared model that convert_checkpoint converts."""
        converted = [name for name in self.compared if self.specs[name].folder is None]
        return [fill(CONVERTED_RECORD, model=name) for name in converted]

    def neurons(self, definition: str) -> int | None:
        """Return the width of the main model's embedding; None if only its weights decide.

        `definition` is that of `pretrain_towers`, for towers that do not exist yet.

        Raises
        ------
        UserError
            If the file that defines the model states no width.
        """
        files, spec = self._files[self.main], self.specs.get(self.main)
        if files is TRAINED_TOWERS:
            spec, files = self._start_spec, self.start or [definition]
        path = Path(files[0])
        if spec is not None and spec.folder is None:
            path = open_clip_definition(spec.architecture or "")
        elif definition in open_clip_names() and not path.is_file():
            path = open_clip_definition(definition)
        if not path.is_file():
            return None
        try:
            content = read_json(path)
            return int(content.get("model_cfg", content)["embed_dim"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{path}: names no model_cfg.embed_dim; is it an open_clip model's configuration?"
            ) from error


def _name_of(source: str) -> str:
    return folder_name(snapshot(Path(SHIPPED.get(source, source))))


def _refuse_other_weights(folder: Path, key: str) -> None:
    """Refuse a folder without weights as safetensors, with a way to them from what it has."""
    if (folder / TOWER_WEIGHTS).is_file():
        return
    named = sorted(path.name for path in folder.iterdir() if path.suffix in OTHER_WEIGHTS)
    shown = shlex.quote(str(folder.absolute()))
    remedy = "Fetch it, too." if not named else (
        f"It has {', '.join(named[:5])}. Write the weights as safetensors: cd {shown} && python -c "
        f"\"import torch, safetensors.torch as s; t = torch.load({named[0]!r}, 'cpu', "
        "weights_only=True); s.save_file({k: v.clone() for k, v in t.items()}, "
        f"'{TOWER_WEIGHTS}')\""
    )  # fmt: skip
    if any(name.endswith(".safetensors") for name in named):
        remedy = (
            f"It has {', '.join(named[:5])}. Save the weights of an open_clip model as this one."
        )
    raise UserError(f"{key}: {folder.absolute()} has no {TOWER_WEIGHTS}. {remedy}")


def _if_elsewhere(source: str) -> str:
    """Return how to use a model of open_clip's table, a file, transformers or a hub, or nothing."""
    if Path(source).is_file():
        return (
            f" A file of weights is {{name: NAME, model: MODEL, checkpoint: {source}, quick_gelu: "
            "false, preprocess: openai}, with open_clip's name of the model."
        )
    if (Path(source) / "config.json").is_file():
        return (
            " It has a model of transformers: take the same weights from open_clip, as {name: "
            "NAME, model: MODEL, pretrained: TAG} or a folder that has this file."
        )
    written = re.sub("[/:]", "-", source)  # ViT-B/32, ViT-B-32:openai
    if fitting := [name for name in open_clip_names() if f"{written}-".startswith(f"{name}-")]:
        model = max(fitting, key=len)
        tag = written[len(model) + 1 :] or "TAG"
        return f" For open_clip's weights write {{name: NAME, model: {model}, pretrained: {tag}}}."
    return if_of_hub(source)


def _of_folder(source: str, key: str = "towers") -> list[str]:
    folder = snapshot(SHIPPED.get(source, Path(source)))
    if not (folder / TOWER_CONFIG).is_file():
        alternatives = {
            "pretrain_towers.start": "the name of one of `models`",
            "filter_captions.scorer": "`raw` nor `untouched`",
            "compare_towers.towers": "a seed",
        }
        alternative = alternatives.get(key, "`train`")
        raise UserError(
            f"{key}: {source!r} is neither one of {', '.join(f'`{name}`' for name in SHIPPED)} nor "
            f"{alternative} nor a folder with an "
            f"{TOWER_CONFIG} (a local open_clip model) in it (looked for {folder.absolute()})."
            f"{_if_elsewhere(source)}"
        )
    _refuse_other_weights(folder, key)
    remaining = sorted(p for p in folder.iterdir() if p.is_file() and p.name != TOWER_CONFIG)
    return [from_here(path, CHECKOUT) for path in [folder / TOWER_CONFIG, *remaining]]


class TowerTrainings:
    """The trainings of towers: on the corpus, or as replicates on other scenes."""

    def __init__(self, dag: Any) -> None:
        self._dag, self._config = dag, dag.config
        self._settings = dag.config.pretrain_towers

    @property
    def of_corpus(self) -> bool:
        """Whether the corpus trains the towers that encode it."""
        return bool(self._config.towers == "train")

    @property
    def seeds(self) -> list[int]:
        """Seeds of the towers that are trained to be compared."""
        towers = self._config.compare_towers.towers if self._dag.runs("image_text") else []
        return [seed for seed in towers if isinstance(seed, int)]

    def start(self) -> Any:
        """Return what the trainings start from, if there are any.

        It is the model under `models` that pretrain_towers.start names, or the name itself.
        """
        if not (self._dag.encodes and (self.of_corpus or self.seeds)):
            return None
        named = self._settings.start
        return next((spec for spec in self._config.models if spec.name == named), named)

    def refuse(self) -> None:
        """Raise an error if the training cannot begin, or would compare towers with themselves.

        Raises
        ------
        UserError
            If there are too few pairs, or no captions of the kind that the training reads.
        """
        if self._dag.encodes and self.of_corpus:
            self._refuse_captions()
            refuse_too_few_shards(self._settings, len(self._dag.pairs.shards()))
        if self.seeds:
            self._refuse_towers_of_this_corpus()

    def _refuse_captions(self) -> None:
        if self._config.captions is not None:
            raise UserError(
                "towers: `train` learns from the shards' own captions, not from `captions`. Write "
                "these into shards, or give towers that are trained already."
            )
        by_line = self._config.index_shards.captions_per_line
        if self._dag.pairs.captions_in != CAPTION_EXTENSION or by_line:
            raise UserError(
                "towers: `train` learns from KEY.txt as one caption, not by `index_shards: "
                "caption_from` or `captions_per_line`. Write the captions into KEY.txt of other "
                "shards, or give towers that are trained already."
            )

    def _refuse_towers_of_this_corpus(self) -> None:
        scenes = self._config.make_scenes
        is_generated = self._dag.pairs.is_generated
        if is_generated and scenes.seed == self._config.compare_towers.corpus_seed:
            raise UserError(
                f"compare_towers.corpus_seed: {scenes.seed} is make_scenes.seed, too, so the "
                "towers would be trained on the corpus that is fine-tuned. Give another seed."
            )
        refuse_too_few_shards(self._settings, scenes.shards)
        refuse_too_few_pairs(self._settings, [scenes.pairs_per_shard] * scenes.shards)

    def scenes(self) -> str:
        """Return the flags of make_scenes for the scenes on which towers of seeds are trained."""
        seed = self._config.compare_towers.corpus_seed
        return command_line(self._config.make_scenes.model_copy(update={"seed": seed}))

    def of_seed(self, wildcards: Any) -> str:
        """Return the flags of pretrain_towers for a seed of its own."""
        update = {"seed": int(wildcards.seed), "device": self._dag.device("pretrain_towers")}
        return command_line(self._settings.model_copy(update=update))

    @property
    def shards(self) -> list[str]:
        """The shards that pretrain_towers learns from: those of the corpus."""
        return self._dag.pairs.shards() or self._dag.pairs.generated_shards

    @property
    def definition(self) -> list[str]:
        """The file of the model definition that pretrain_towers reads, if it reads one."""
        named = [] if self._dag.models.start else [self.definition_file]
        return [path for path in named if path not in open_clip_names()]

    @property
    def definition_file(self) -> str:
        """The file of the model definition, or its name among open_clip's."""
        named: str = self._settings.definition
        shipped = DEFINITIONS / f"{named}.json"
        return from_here(shipped, CHECKOUT) if shipped.is_file() else named

    @property
    def cores(self) -> int:
        """Cores of pretrain_towers and its readers.

        With a GPU the readers need most cores; on a CPU with few cores they hardly count.
        """
        return max(self._settings.threads, 1 + self._settings.workers)
