"""Training of small towers with open_clip's own trainer, and their form on disk.

A model definition is an ``open_clip_config.json`` without weights. Its vocabulary is the first
part of CLIP's byte-pair merges: merges are ordered, so any first part is a vocabulary of its own,
and a token embedding of 8,514 rows in place of 49,408 is what keeps the towers small.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import random
import re
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mispair import files

BYTES_AND_SPECIAL_TOKENS = 512 + 2
"""Tokens of a byte-pair vocabulary besides its merges: bytes twice, start and end of text."""

CONFIG_NAME = "open_clip_config.json"
WEIGHTS_NAME = "open_clip_model.safetensors"
DEFINITIONS = Path(__file__).parent / "definitions"


def read_definition(name: str) -> dict[str, Any]:
    """Read a model definition: the name of one that comes with mispair, or a path to JSON.

    Raises
    ------
    UserError
        If there is no such definition, or it lacks a part.
    """
    path = Path(name) if name.endswith(".json") else DEFINITIONS / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in DEFINITIONS.glob("*.json")))
        raise files.UserError(
            f"definition: no {name!r}. Give a path to a .json, or one of {known}."
        )
    definition = files.read_json(path)
    if not isinstance(definition, dict) or not {"model_cfg", "preprocess_cfg"} <= definition.keys():
        raise files.UserError(f"{path}: has no model_cfg and preprocess_cfg, as open_clip's have.")
    return definition


def write_vocabulary(path: Path, merges: int) -> None:
    """Write the first `merges` byte-pair merges of CLIP's vocabulary, the same bytes every time."""
    from open_clip.tokenizer import default_bpe

    with gzip.open(default_bpe(), "rt", encoding="utf-8") as opened:
        lines = opened.read().split("\n")[: merges + 1]
    # No newline at the end: open_clip would read an empty merge from it.
    path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))


def write_definition(folder: Path, definition: dict[str, Any], *, absolute: bool) -> None:
    """Write a model without weights: ``open_clip_config.json`` and the vocabulary beside it.

    Parameters
    ----------
    folder : Path
        Where to; it exists.
    definition : dict
        From `read_definition`.
    absolute : bool
        Name the vocabulary by its absolute path, as open_clip's trainer needs: it looks for a
        relative one in the working directory.
    """
    content = json.loads(json.dumps(definition))
    text = content["model_cfg"]["text_cfg"]
    tokenizer = text.get("tokenizer_kwargs", {})
    if "bpe_path" in tokenizer:
        vocabulary = folder / Path(tokenizer["bpe_path"]).name
        write_vocabulary(vocabulary, text["vocab_size"] - BYTES_AND_SPECIAL_TOKENS)
        tokenizer["bpe_path"] = str(vocabulary.resolve()) if absolute else vocabulary.name
    (folder / CONFIG_NAME).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def corpus_fingerprint(shards: Sequence[Path]) -> str:
    """Return a SHA-256 over the names and the contents of the shards, whatever their order."""
    lines = []
    for shard in sorted(shards, key=lambda path: path.name):
        with shard.open("rb") as opened:
            lines.append(f"{shard.name} {hashlib.file_digest(opened, 'sha256').hexdigest()}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def count_pairs(shards: Sequence[Path]) -> int:
    """Return the number of captions (``.txt``) in the shards.

    Raises
    ------
    UserError
        If a shard is missing or is not a tar, or there is no pair.
    """
    pairs = 0
    for shard in shards:
        try:
            with tarfile.open(shard) as tar:
                pairs += sum(name.endswith(".txt") for name in tar.getnames())
        except (OSError, tarfile.TarError) as error:
            raise files.UserError(f"{shard}: cannot be read as a tar shard ({error}).") from error
    if not pairs:
        raise files.UserError("pretrain_towers: the shards hold no captions (KEY.txt).")
    return pairs


def trainer_arguments(
    *,
    model: str,
    shards: Sequence[str],
    samples: int,
    logs: str,
    epochs: int,
    batch_size: int,
    lr: float,
    warmup: int,
    wd: float,
    crop_scale: float,
    seed: int,
    workers: int,
) -> list[str]:
    """Return the command line of ``python -m open_clip_train.main``."""
    return [
        *("--model", model, "--name", "towers", "--logs", logs),
        *("--dataset-type", "webdataset", "--train-data", "::".join(shards)),
        *("--train-num-samples", str(samples), "--workers", str(workers)),
        *("--device", "cpu", "--precision", "fp32", "--seed", str(seed)),
        *("--epochs", str(epochs), "--batch-size", str(batch_size)),
        *("--lr", str(lr), "--beta1", "0.9", "--beta2", "0.98", "--eps", "1e-6"),
        *("--wd", str(wd), "--warmup", str(warmup), "--grad-clip-norm", "1.0"),
        *("--aug-cfg", f"scale=({crop_scale}, 1.0)"),
        *("--log-every-n-steps", "50", "--save-frequency", "0", "--save-most-recent"),
    ]


def train(arguments: list[str], logs: Path, *, seed: int) -> list[dict[str, float]]:
    """Run open_clip's trainer in this process.

    Parameters
    ----------
    arguments : list of str
        From `trainer_arguments`.
    logs : Path
        The folder given as ``--logs``.
    seed : int
        Seed of the order of samples.

    Returns
    -------
    list of dict
        ``epoch`` and mean ``loss`` of each epoch, as far as the trainer logged it.
    """
    with _seeded_shuffle(seed), _channels_last(), _untouched_logging():
        from open_clip_train.main import main

        main(arguments)
    return read_losses((logs / "towers" / "out.log").read_text(encoding="utf-8"))


def read_losses(log: str) -> list[dict[str, float]]:
    """Return the last running mean of the loss of each epoch in a log of open_clip's trainer."""
    found = re.findall(r"Train Epoch: (\d+) .*? Loss: [\d.]+ \(([\d.]+)\)", log)
    return [{"epoch": int(e) + 1, "loss": float(loss)} for e, loss in dict(found).items()]


def trained_weights(logs: Path) -> dict[str, Any]:
    """Return the weights of the trainer's last checkpoint, without running any code in it."""
    import torch

    (checkpoint,) = (logs / "towers" / "checkpoints").glob("epoch_[0-9]*.pt")
    return torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]


def write_weights(path: Path, weights: dict[str, Any]) -> None:
    """Write weights as safetensors that plain open_clip reads.

    In half precision, which halves the file; open_clip copies them into single precision.
    """
    from safetensors.torch import save_file

    halved = {
        name: (value.half() if value.is_floating_point() else value).contiguous()
        for name, value in sorted(weights.items())
    }
    with files.replacing(path) as temporary:
        save_file(halved, temporary)


@contextmanager
def _seeded_shuffle(seed: int) -> Iterator[None]:
    """Give webdataset's sample shuffle a seed; by default it takes the clock and process number."""
    import webdataset

    shuffle = webdataset.shuffle
    webdataset.shuffle = partial(shuffle, rng=random.Random(seed))
    try:
        yield
    finally:
        webdataset.shuffle = shuffle


@contextmanager
def _channels_last() -> Iterator[None]:
    """Let the trainer hold convolutions in the memory order in which CPUs are twice as fast."""
    import torch
    from open_clip_train import main as trainer

    create = trainer.create_model_and_transforms

    def create_in_channels_last(*args: Any, **kwargs: Any) -> Any:
        model, *transforms = create(*args, **kwargs)
        return model.to(memory_format=torch.channels_last), *transforms

    trainer.create_model_and_transforms = create_in_channels_last
    try:
        yield
    finally:
        trainer.create_model_and_transforms = create


@contextmanager
def _untouched_logging() -> Iterator[None]:
    """Take back what the trainer does to logging: handlers of the root logger, every level."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    loggers = [root, *(logging.getLogger(name) for name in root.manager.loggerDict)]
    levels = [logger.level for logger in loggers]
    try:
        yield
    finally:
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
            handler.close()
        for handler in [handler for handler in handlers if handler not in root.handlers]:
            root.addHandler(handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
