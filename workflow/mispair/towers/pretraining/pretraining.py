"""Settings, input, output and record of open_clip's own trainer, and the form of towers on disk.

A model definition is an ``open_clip_config.json`` without weights. Its vocabulary is the first
part of CLIP's byte-pair merges: merges are ordered, so any first part is a vocabulary of its own.
A token embedding of 8,514 rows in place of 49,408 keeps the towers small.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from mispair.core import files
from mispair.core import settings as core_settings
from mispair.core.files import UserError
from mispair.core.provenance import file_digest, fingerprint
from mispair.core.settings import command_line
from mispair.towers import vocabularies
from mispair.towers.checkpoints.architectures import PREPROCESS
from mispair.towers.checkpoints.model_spec import open_clip_names
from mispair.towers.loading import (
    CONFIG_NAME,
    TRUNK_NAME,
    WEIGHTS_NAME,
    load_towers,
    refuse_what_open_clip_would_fetch,
    write_configuration,
)

if TYPE_CHECKING:
    import torch

PACKAGES = ("open_clip_torch", "timm", "torch", "torchvision", "webdataset")

DEFINITIONS = Path(__file__).parent / "definitions"


class Settings(core_settings.Settings):
    """Settings of pre-training; the towers that come with mispair were made with the defaults."""

    definition: Annotated[str, core_settings.Located(r"[^/]*(?<!\.json)")] = Field(
        "scenes-small",
        description="Model: a definition of mispair, an architecture of open_clip such as "
        "ViT-B-32, or a path to a .json. Not used with `start`.",
    )
    start: Annotated[str | None, core_settings.Located("[^/]+")] = core_settings.sweep(
        None,
        description="Towers whose weights are all trained further: `shipped`, the folder of a "
        "local open_clip model, or the name of a model under `models`; null trains from scratch.",
    )
    epochs: int = Field(
        12, ge=1, description="Passes over the corpus; a killed training resumes after its last."
    )
    batch_size: int = Field(128, ge=2, description="Pairs per step.")
    lr: float = Field(2e-3, ge=0, description="Peak learning rate of AdamW.")
    warmup: int = Field(100, ge=0, description="Steps of linear warm-up before the cosine decay.")
    wd: float = Field(0.1, ge=0, description="Weight decay.")
    crop_scale: float = Field(
        0.9, gt=0, le=1, description="Least share of the area that a random crop keeps."
    )
    precision: Literal["fp32", "amp", "amp_bf16"] = Field(
        "fp32", description="Number format of the products, by open_clip's names."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "cpu", description="Where towers are trained; auto takes a GPU when there is one."
    )
    seed: int = Field(0, ge=0, description="Seed of the weights, crops and order of samples.")
    threads: int = Field(2, ge=1, description="Threads of the training.")
    workers: int = Field(1, ge=0, description="Processes that read and decode pictures.")


# Checks that a corpus is large enough for its reading processes and for the schedule.


def refuse_too_few_shards(size: Settings, shards: int) -> None:
    """Raise a UserError if readers lack a shard of their own: open_clip would stop or hang."""
    if shards < _readers(size):
        raise UserError(
            f"pretrain_towers.workers: {size.workers} processes are to read "
            f"{_count(shards, 'shard')}, and each reads shards of its own. Lower workers, or write "
            "more and smaller shards."
        )


def refuse_too_few_pairs(size: Settings, pairs: Sequence[int]) -> None:
    """Raise a UserError if a reader cannot fill a batch, or the schedule ends within its warm-up.

    `pairs` is the number of pairs in each shard.
    """
    # Shards are dealt again in each epoch; this is the least that a reader can get.
    least = sum(sorted(pairs)[: len(pairs) // _readers(size)])
    if least < size.batch_size:
        raise UserError(
            f"pretrain_towers.batch_size: {size.batch_size}, but {_count(sum(pairs), 'pair')} "
            f"in {_count(len(pairs), 'shard')} leave one of {_readers(size)} readers {least}. "
            "Lower batch_size or workers."
        )
    # open_clip rounds the batches of an epoch up to equally many for each reader.
    batches = -(-sum(pairs) // size.batch_size)
    total = size.epochs * -(-batches // _readers(size)) * _readers(size)
    if size.warmup > total:
        raise UserError(
            f"pretrain_towers.warmup: {size.warmup} steps, but training has {total}. Lower warmup, "
            "or raise epochs."
        )


def _readers(size: Settings) -> int:
    return max(1, size.workers)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# A model and its training on disk.


def read_definition(name: str) -> dict[str, Any]:
    """Read a model definition: one of mispair or of open_clip by its name, or a path to JSON.

    Raises
    ------
    UserError
        If there is no such definition, or it lacks a part.
    """
    if name in open_clip_names():
        from mispair.towers.light_open_clip import open_clip

        content = {
            "model_cfg": open_clip.get_model_config(name),
            "preprocess_cfg": PREPROCESS["openai"],
        }
        refuse_what_open_clip_would_fetch(content)
        return content
    path = Path(name) if name.endswith(".json") else DEFINITIONS / f"{name}.json"
    if not path.is_file():
        names = ", ".join(sorted(file.stem for file in DEFINITIONS.glob("*.json")))
        raise UserError(
            f"pretrain_towers.definition: no {name!r}. Give a path to a .json, an architecture of "
            f"open_clip such as ViT-B-32, or one of {names}."
        )
    definition = files.read_json(path)
    if not isinstance(definition, dict) or not {"model_cfg", "preprocess_cfg"} <= definition.keys():
        raise UserError(f"{path}: has no model_cfg and preprocess_cfg, as open_clip's have.")
    return definition


def write_definition(folder: Path, definition: dict[str, Any]) -> None:
    """Write a model without weights: ``open_clip_config.json`` and the vocabulary.

    A definition that names a ``bpe_path`` gets CLIP's vocabulary, cut to its ``vocab_size``, in the
    form that open_clip looks for in the folder of the model.
    """
    content = json.loads(json.dumps(definition))
    text = content["model_cfg"]["text_cfg"]
    if text.get("tokenizer_kwargs", {}).pop("bpe_path", None):
        written = vocabularies.write(folder, text["vocab_size"])
        written["tokenizer_kwargs"] = text["tokenizer_kwargs"] | written["tokenizer_kwargs"]
        text |= written
    files.write_json(folder / CONFIG_NAME, content)


def corpus_fingerprint(shards: Sequence[Path]) -> str:
    """Return a SHA-256 over the names and the contents of the shards, in any order."""
    digests = sorted((shard.name, file_digest(shard)) for shard in shards)
    return hashlib.sha256("".join(f"{n} {d}\n" for n, d in digests).encode()).hexdigest()


def shard_stamps(shards: Sequence[Path]) -> list[str]:
    """Return name, size and time of change of each shard, which identify a corpus.

    The contents are not read: for a large corpus this would take longer than an epoch.
    """
    statuses = ((shard.name, shard.stat()) for shard in shards)
    return [f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in statuses]


def count_pairs(shards: Sequence[Path]) -> list[int]:
    """Return the number of captions (``.txt``) in each shard.

    Raises
    ------
    UserError
        If a shard is missing or is not a tar, or there is no pair.
    """
    pairs = []
    for shard in shards:
        try:
            with tarfile.open(shard) as tar:
                pairs.append(sum(name.endswith(".txt") for name in tar.getnames()))
        except (OSError, tarfile.TarError) as error:
            raise UserError(
                f"{shard}: cannot be read as a tar shard ({error}). Fetch it again."
            ) from error
    if not sum(pairs):
        raise UserError("pretrain_towers: the shards hold no captions (KEY.txt).")
    return pairs


def versions() -> dict[str, str]:
    """Return the versions of the libraries that a training depends on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def trainer_arguments(
    settings: Settings, device: str, *, model: str, shards: Sequence[str], samples: int, logs: str
) -> list[str]:
    """Return the command line of ``python -m open_clip_train.main``."""
    return [
        *("--model", model, "--name", "towers", "--logs", logs),
        *("--dataset-type", "webdataset", "--train-data", "::".join(shards)),
        *("--train-num-samples", str(samples), "--workers", str(settings.workers)),
        *("--device", device, "--precision", settings.precision, "--seed", str(settings.seed)),
        *("--epochs", str(settings.epochs), "--batch-size", str(settings.batch_size)),
        *("--lr", str(settings.lr), "--beta1", "0.9", "--beta2", "0.98", "--eps", "1e-6"),
        *("--wd", str(settings.wd), "--warmup", str(settings.warmup), "--grad-clip-norm", "1.0"),
        *("--aug-cfg", f"scale=({settings.crop_scale}, 1.0)"),
        *("--log-every-n-steps", "50", "--save-frequency", "0", "--save-most-recent"),
        *("--resume", "latest"),
    ]


def read_losses(log: str) -> list[dict[str, float]]:
    """Return the last running mean of the loss of each epoch in a log of open_clip's trainer."""
    epochs = re.findall(r"Train Epoch: (\d+) .*? Loss: [\d.]+ \(([\d.]+)\)", log)
    return [{"epoch": int(e) + 1, "loss": float(loss)} for e, loss in dict(epochs).items()]


def trained_weights(checkpoint: Path) -> dict[str, Any]:
    """Return the weights in a checkpoint of the trainer, without running any code in it.

    Raises
    ------
    UserError
        If a weight is not finite.
    """
    import torch

    weights: dict[str, Any] = torch.load(checkpoint, map_location="cpu", weights_only=True)[
        "state_dict"
    ]
    broken = [name for name, value in weights.items() if not value.isfinite().all()]
    if broken:
        raise UserError(
            f"pretrain_towers: {len(broken)} weights such as {broken[0]} are not finite; lower lr, "
            "raise warmup, or set precision to fp32."
        )
    return weights


def write_weights(path: Path, weights: dict[str, Any], dtype: Any = None) -> None:
    """Write weights as safetensors that plain open_clip reads.

    They are in half precision, which halves the file, unless another format is given. open_clip
    copies them into single precision.
    """
    import torch
    from safetensors.torch import save_file

    dtype = dtype or torch.float16
    written = {
        name: (value.to(dtype) if value.is_floating_point() else value).contiguous()
        for name, value in sorted(weights.items())
    }
    with files.replacing(path) as temporary:
        save_file(written, temporary)


# What a training begins with: a definition with random weights, or towers with theirs.
#
# Also the record of the training, which is written next to the trained towers.

RECORDS = {CONFIG_NAME, "training.json"}
WEIGHTS = {".safetensors", ".bin", ".pt", ".pth"}


@dataclass(frozen=True)
class Origin:
    """A model before its training.

    Attributes
    ----------
    content : dict
        As in ``open_clip_config.json``.
    fingerprint : str
        Changes with the definition, and with the weights where there are some.
    dtype : torch.dtype
        Number format in which trained weights are written.
    folder : Path or None
        Folder of the weights and the vocabulary.
    """

    content: dict[str, Any]
    fingerprint: str
    dtype: torch.dtype
    folder: Path | None = None

    def write(self, folder: Path, final: Path | None = None) -> None:
        """Write the model as a local open_clip folder.

        `final` is the folder after weights are added and it is renamed. None keeps the folder for
        open_clip's trainer, with the weights that training begins with, if any.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if self.folder is None:
            write_definition(folder, self.content)
            return
        for path in self.folder.iterdir():
            if path.is_file() and path.name not in RECORDS and path.suffix not in WEIGHTS:
                shutil.copyfile(path, folder / path.name)
        if (folder / TRUNK_NAME).is_file():
            trunk = files.read_json(folder / TRUNK_NAME)
            trunk.pop("mispair", None)  # the record of a converted checkpoint
            files.write_json(folder / TRUNK_NAME, trunk)
        if final is None:
            (folder / WEIGHTS_NAME).unlink(missing_ok=True)
            (folder / WEIGHTS_NAME).symlink_to((self.folder / WEIGHTS_NAME).resolve())
        write_configuration(folder, self.content, final or folder)


def origin(definition: str, start: Sequence[Path]) -> Origin:
    """Return what a training begins with: a definition (`pretraining.read_definition`), or a start.

    `start` are the files of towers, the configuration first, or none.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    import torch
    from safetensors import safe_open

    if not start:
        content = read_definition(definition)
        identity = fingerprint([json.dumps(content, sort_keys=True)])
        return Origin(content, identity, torch.float16)
    folder = start[0].parent
    identity = load_towers(folder).fingerprint
    with safe_open(folder / WEIGHTS_NAME, framework="pt") as opened:
        dtypes = [opened.get_tensor(name).dtype for name in opened.keys()]  # noqa: SIM118
    # The widest, so that training with a rate of 0 returns the weights unchanged.
    dtype = reduce(torch.promote_types, [one for one in dtypes if one.is_floating_point])
    return Origin(files.read_json(folder / CONFIG_NAME), identity, dtype, folder)


def recipe(
    settings: Settings,
    device: str,
    origin: Origin,
    shards: Sequence[Path],
    samples: int,
    losses: list[dict[str, float]],
) -> dict[str, Any]:
    """Return commands, settings, corpus, versions and losses of a training.

    Commands name folders by what they hold, not by where they were on one machine. `samples` are
    the pairs of an epoch, `losses` those of `pretraining.read_losses`.
    """
    arguments = trainer_arguments(
        settings,
        device,
        model="local-dir:MODEL",
        shards=[f"SHARDS/{shard.name}" for shard in shards],
        samples=samples,
        logs="LOGS",
    )
    start = "" if origin.folder is None else "--start START/* "
    return {
        "command": f"python -m mispair pretrain-towers {command_line(settings)} "
        f"--shards SHARDS/*.tar {start}--towers TOWERS",
        "trainer": ["python", "-m", "open_clip_train.main", *arguments],
        "settings": settings.model_dump(),
        "start": None if origin.folder is None else origin.fingerprint,
        "definition": origin.content,
        "corpus": {
            "fingerprint": corpus_fingerprint(shards),
            "pairs": samples,
            "shards": [shard.name for shard in shards],
        },
        "versions": versions(),
        "losses": losses,
    }
