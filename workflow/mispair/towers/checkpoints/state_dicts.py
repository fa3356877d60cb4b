"""Reader of all files of model weights, which runs no code of a file.

A PyTorch file is a pickle, and a pickle is a program. It is read with ``weights_only=True``, which
accepts tensors, plain containers and the types that LaCLIP's trainer saves (`HARMLESS`).
"""

from __future__ import annotations

import argparse
import pickle
import re
import shlex
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NoReturn

import torch

from mispair.core.files import UserError
from mispair.towers.checkpoints import weight_tables
from mispair.towers.checkpoints.weight_files import kind_of
from mispair.towers.checkpoints.weight_tables import State, Weights

SIZES = {"input_resolution", "context_length", "vocab_size"}
"""What OpenAI's files hold besides weights: sizes of the model, which the architecture has too."""


class Inert:
    """Placeholder of objects that are stored with the weights and not used."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, _: Any) -> None: ...


HARMLESS: list[Any] = [argparse.Namespace]
"""Types that a file may contain besides tensors and plain containers: a trainer's arguments."""

UNUSED = re.compile(
    r"(numpy\.(_?core\.\w+\.\w+|ndarray|dtype|dtypes\.\w+|random\.\w+(\.\w+)?)"
    r"|pathlib\.\w+|datetime\.\w+|uuid\.UUID|decimal\.Decimal|fractions\.Fraction"
    r"|collections\.\w+|types\.SimpleNamespace|typing\.\w+|omegaconf(\.\w+)+"
    r"|(copyreg|copy_reg)\._reconstructor|_codecs\.encode"
    r"|(builtins|__builtin__)\.(object|set|frozenset|bytes|bytearray|complex|range|slice)"
    r"|torch\.torch_version\.TorchVersion)"
)
"""Names of data types that trainers store with weights. Each is read as `Inert`: nothing runs."""

MOST_UNUSED = 100
"""Most names of `UNUSED` in one file."""

OWN_FILE = (
    "import sys, torch; c = torch.load(sys.argv[1], 'cpu', weights_only=False); "
    "c = c if isinstance(c, dict) else {'model': c}; "
    "c = {k: v.state_dict() if hasattr(v, 'state_dict') else v for k, v in c.items()}; "
    "is_table = lambda v: isinstance(v, dict) and all(map(torch.is_tensor, v.values())); "
    "torch.save({k: v for k, v in c.items() if torch.is_tensor(v) or is_table(v)}, sys.argv[2])"
)
"""Program that writes the weights alone, for the environment of a file's own author."""


def read_state_dict(path: Path) -> State:
    """Read the largest table of weights in a file, by name.

    Formats are both of PyTorch's, Hugging Face's ``.bin`` and safetensors. Prefixes of
    `weight_tables.PREFIXES` that all names have are removed.

    Raises
    ------
    UserError
        If the file is missing, empty, cut short, a web page, a TorchScript archive or of another
        kind; if it would run code; if it holds no weights, or some that are not finite.
    """
    state = weight_tables.largest(_content(path), path)
    _refuse_what_is_not_finite(state, path)
    return {name: state[name] for name in sorted(state) if name not in SIZES}


def read_weights(
    path: Path, architectures: Iterable[Collection[str]], part: str | None = None
) -> Weights:
    """Read the weights of a model; the parameters are those of `weight_tables.of_model`.

    Raises
    ------
    UserError
        As `read_state_dict`; if nothing is at `part`, or several parts of the file fit equally.
    """
    weights = weight_tables.of_model(_content(path), architectures, part, path)
    _refuse_what_is_not_finite(weights.state, path)
    return weights


def _content(path: Path) -> Any:
    return _read_safetensors(path) if kind_of(path) == "safetensors" else _read_pickle(path)


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
    types = list(HARMLESS)
    while True:
        try:
            with torch.serialization.safe_globals(types):
                # Mapped, so that an optimiser's state, twice the weights, stays on disk.
                return torch.load(
                    path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
                )
        except pickle.UnpicklingError as error:
            match = re.search(r"GLOBAL (\S+)", str(error))
            if match is None or not UNUSED.fullmatch(match[1]) or len(types) > MOST_UNUSED:
                _refuse_pickle(path, error, match[1] if match else None)
            types.append((Inert, match[1]))
        except Exception as error:  # of any kind: PyTorch checks little of what it reads
            reason = " ".join(str(error).split())[:200]
            raise UserError(
                f"{path}: is cut short or damaged ({reason}). Fetch it again."
            ) from error


def _refuse_pickle(path: Path, error: Exception, name: str | None) -> NoReturn:
    if name is None and not re.search("Can only|Trying to call", str(error)):
        raise UserError(f"{path}: is cut short or damaged. Fetch it again.") from error
    new = path.with_name(f"{path.stem}-weights.pt").name
    raise UserError(
        f"{path}: wants to run {name or 'the code of its own types'}, which is no part of weights; "
        "it was not run, as the file may be hostile. Only if it is your own, run where it was made "
        f'`python -c "{OWN_FILE}" {shlex.quote(path.name)} {shlex.quote(new)}` and give the new '
        "file. Do not load it with weights_only=False if it is another's: get the weights as "
        "safetensors."
    ) from error


def _refuse_what_is_not_finite(state: State, path: Path) -> None:
    if not state:
        raise UserError(f"{path}: holds no weights.")
    for name, value in state.items():
        if not torch.isfinite(value).all():
            raise UserError(
                f"{path}: {name} has a number that is not finite; every feature would be, too. The "
                "training failed, or the file is damaged."
            )
