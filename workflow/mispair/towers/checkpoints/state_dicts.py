"""Reader of all files of model weights, which runs no code of a file.

A PyTorch file is a pickle, and a pickle is a program. It is read with ``weights_only=True``, which
accepts tensors, plain containers and the types that LaCLIP's trainer saves (`HARMLESS`).
"""

from __future__ import annotations

import argparse
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mispair.core.files import UserError

State = dict[str, torch.Tensor]
"""Weights by name."""

NESTED_UNDER = ("state_dict", "model")
"""Keys of a checkpoint under which trainers save the weights."""

PREFIXES = ("module.", "_orig_mod.", "model.")
"""What DistributedDataParallel, torch.compile and wrapping trainers put before every name."""

SIZES = {"input_resolution", "context_length", "vocab_size"}
"""What OpenAI's files hold besides weights: sizes of the model, which the architecture has too."""


class Inert:
    """Placeholder of numpy's numbers, which are stored with the weights and not used."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, _: Any) -> None: ...


HARMLESS: list[Any] = [
    argparse.Namespace,  # the trainer's arguments
    # Its learning rates, by either name that numpy has had.
    (Inert, "numpy.core.multiarray.scalar"),
    (Inert, "numpy._core.multiarray.scalar"),
    (Inert, "numpy.dtype"),
    (Inert, "numpy.dtypes.Float64DType"),
]
"""Types that a file may contain besides tensors and plain containers."""

TORCHSCRIPT_REMEDY = (
    "For weights that open_clip has, give `model` and the tag as `pretrained`. Otherwise, where "
    "you trust the file, run `torch.save(torch.jit.load(FILE).state_dict(), NEW)` and give NEW."
)


def read_state_dict(path: Path) -> State:
    """Read the weights in a file, by name.

    Formats are both of PyTorch's, Hugging Face's ``.bin`` and safetensors. Weights may be nested
    under a key of `NESTED_UNDER`, or have one of `PREFIXES` before every name.

    Raises
    ------
    UserError
        If the file is missing, empty, cut short, a web page, a TorchScript archive or of another
        kind; if it would run code; if it holds no weights, or some that are not finite.
    """
    path = Path(path)
    content = _read_safetensors(path) if _kind(path) == "safetensors" else _read_pickle(path)
    state = _without_prefixes(_weights_in(content, path))
    _refuse_what_is_no_weight(state, path)
    return {name: state[name] for name in sorted(state) if name not in SIZES}


def _kind(path: Path) -> str:
    """Return the kind of a file by its first bytes; refuse a file without weights."""
    try:
        size = path.stat().st_size
        with path.open("rb") as opened:
            start = opened.read(512)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from error
    if not start:
        raise UserError(f"{path}: is empty. Fetch it again.")
    if start.startswith(b"PK"):
        return _kind_of_zip(path)
    if start.startswith(b"\x80"):
        return "pickle"
    # Safetensors start with the length of a JSON header.
    if start[8:9] == b"{":
        if int.from_bytes(start[:8], "little") + 8 > size:
            raise UserError(f"{path}: is cut short. Fetch it again.")
        return "safetensors"
    if re.match(rb"\s*(<!doctype html|<html|<\?xml)", start, re.IGNORECASE):
        raise UserError(
            f"{path}: is a web page, not a file of weights. Fetch the file itself (a Dropbox link "
            "ends in dl=1 instead of dl=0)."
        )
    if start.startswith(b"version https://git-lfs"):
        raise UserError(f"{path}: is a pointer of Git LFS. Fetch the file with `git lfs pull`.")
    raise UserError(
        f"{path}: is no file of weights that can be read: neither PyTorch's nor safetensors."
    )


def _kind_of_zip(path: Path) -> str:
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path}: is cut short. Fetch it again.")
    with zipfile.ZipFile(path) as archive:
        names = {name.rpartition("/")[2] for name in archive.namelist()}
    if "constants.pkl" in names:
        raise UserError(
            f"{path}: is a TorchScript archive, a program that holds its weights, and is not run. "
            f"{TORCHSCRIPT_REMEDY}"
        )
    if "data.pkl" not in names:
        raise UserError(f"{path}: is a zip archive, but not one that PyTorch saved.")
    return "zip"


def _read_safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise UserError(f"{path}: is cut short or damaged ({error}). Fetch it again.") from error


def _read_pickle(path: Path) -> Any:
    if path.suffix == ".safetensors":  # torch chooses the reader by this suffix
        raise UserError(
            f"{path}: is PyTorch's, though it is called safetensors. Rename it to end in .pt."
        )
    try:
        with torch.serialization.safe_globals(HARMLESS):
            # Mapped, so that an optimiser's state, twice the weights, stays on disk.
            return torch.load(
                path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
            )
    except pickle.UnpicklingError as error:
        match = re.search(r"GLOBAL (\S+)", str(error))
        if match is None:
            raise UserError(f"{path}: is cut short or damaged. Fetch it again.") from error
        raise UserError(
            f"{path}: wants to run {match[1]}, which is no part of weights; it was not run. The "
            "file may be hostile or damaged. Do not load it with weights_only=False: get the "
            "weights as safetensors, or ask the file's author to save model.state_dict() alone."
        ) from error
    except Exception as error:  # of any kind: PyTorch checks little of what it reads
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: is cut short or damaged ({reason}). Fetch it again.") from error


def _weights_in(content: Any, path: Path) -> Mapping[Any, Any]:
    """Return the mapping of names to tensors in a file's content."""
    if isinstance(content, Mapping):
        for key in NESTED_UNDER:
            if isinstance(content.get(key), Mapping):
                return content[key]
        if content and all(isinstance(value, torch.Tensor) for value in content.values()):
            return content
        holds = ", ".join(str(key) for key in list(content)[:5]) or "nothing"
    else:
        holds = f"a {type(content).__name__}"
    raise UserError(
        f"{path}: holds no weights: neither tensors by name nor such a table under "
        f"{' or '.join(NESTED_UNDER)}; it holds {holds}."
    )


def _without_prefixes(state: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Remove the prefixes that all names share."""
    for prefix in PREFIXES:
        if state and all(isinstance(name, str) and name.startswith(prefix) for name in state):
            return _without_prefixes({name[len(prefix) :]: state[name] for name in state})
    return state


def _refuse_what_is_no_weight(state: Mapping[Any, Any], path: Path) -> None:
    if not state:
        raise UserError(f"{path}: holds no weights.")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise UserError(f"{path}: {name} is a {type(value).__name__} among the weights.")
        if not torch.isfinite(value).all():
            raise UserError(
                f"{path}: {name} has a number that is not finite; every feature would be, too. The "
                "training failed, or the file is damaged."
            )
