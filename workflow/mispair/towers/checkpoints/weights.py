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
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch

from mispair.core.files import UserError
from mispair.towers.checkpoints.model_spec import kind_of


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


def read_weights(
    path: Path, architectures: Iterable[Collection[str]], part: str | None = None
) -> Weights:
    """Read the weights of a model; the parameters are those of `of_model`.

    Formats are both of PyTorch's, Hugging Face's ``.bin`` and safetensors.

    Raises
    ------
    UserError
        If the file is missing, empty, cut short, a web page, a TorchScript archive or of another
        kind; if it would run code; if it holds no weights, or some that are not finite; if nothing
        is at `part`, or several parts fit equally.
    """
    weights = of_model(_content(path), architectures, part, path)
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
        raise UserError(f"{path}: holds no weights. Name the file of the trained model.")
    for name, value in state.items():
        if value.layout != torch.strided or value.is_quantized or value.is_meta:
            kind = "quantised" if value.is_quantized else f"of the {value.layout} on {value.device}"
            raise UserError(
                f"{path}: {name} is a tensor {kind}, which is no plain array of numbers. Save the "
                "weights as dense tensors (.to_dense()), from before they were quantised."
            )
        if value.ndim > 1 and not (value.is_floating_point() or value.dtype == torch.bool):
            raise UserError(
                f"{path}: {name} holds integers ({value.dtype}), as of quantised weights. Give the "
                "weights from before they were quantised."
            )
        if not torch.isfinite(value).all():
            raise UserError(
                f"{path}: {name} has a number that is not finite; every feature would be, too. The "
                "training failed, or the file is damaged."
            )


# Tables of weights in the content of a file, and the one that is a model's.
#
# Trainers save weights under many keys, with prefixes of what wraps the model, and next to entries
# that do not enter its features. A table is any mapping of names to tensors, at any depth. A
# model's own table is the one that has all names of its architecture after some prefix.

State = dict[str, torch.Tensor]
"""Weights by name."""

DEEPEST = 6
"""Most keys that lead to a table."""
MOST_NAMED = 5
"""Most names in a message."""

PREFIXES = ("module.", "_orig_mod.", "model.")
"""What DistributedDataParallel, torch.compile and wrapping trainers put before every name."""

_WRAPPERS = re.compile(r"\b(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
"""What torch.compile, FSDP and activation checkpointing put into names, at any place."""
_NO_WEIGHTS = re.compile(
    r"(^|_)opt(im(i[sz]ers?)?)?(_|$)|sched|scaler|\brng|random|\bargs\b|config|gradient",
    re.IGNORECASE,
)
"""Keys of a trainer's other state, in which no table is looked for."""
_AVERAGES = re.compile(r"ema|averag|swa|shadow", re.IGNORECASE)
"""Keys and prefixes of averaged weights, which are read only if a file has no others."""
SCALE = "logit_scale"
_COUNTERS = "num_batches_tracked"
"""Ending of the counters of batch normalisation: they enter no features after the training."""
_IDLE = re.compile(
    r"(^(\w*loss(_\w+)?|criterion\w*|(\w+_)?(metrics?|acc|accuracy))\.)|((^|\.)("
    r"logit_bias|num_batches_tracked|(input_|)position_ids|(causal_|attn_|attention_)?mask"
    r"|\w*queue(_\w+)?|n_averaged|num_updates|decay|initted|(global_)?steps?|epoch"
    r"|(\w+_)?temp(erature)?|(\w+_)?centers?|(clip_)?labels|_metadata|_extra_state"
    r"|input_resolution|context_length|vocab_size)$)"
)
"""Names of entries that enter no features, unless an architecture has them."""


class Weights(NamedTuple):
    """A model's weights, and how they were found.

    Attributes
    ----------
    state : dict
        Weights by the names of the architecture.
    part : str
        Keys and prefix before the names in the file, such as ``state_dict.module``.
    ignored : list of str
        Entries that enter no features.
    others : list of str
        Parts of the file that hold weights of the same model.
    """

    state: State
    part: str = ""
    ignored: Collection[str] = ()
    others: Collection[str] = ()


class _Part(NamedTuple):
    """The entries of a table that start with a prefix."""

    table: str
    prefix: str
    state: State
    names: Collection[str]
    missing: int

    @property
    def label(self) -> str:
        return ".".join(filter(None, (self.table, self.prefix.removesuffix("."))))


def tables(content: Any) -> dict[str, State]:
    """Return every table of weights, by the keys that lead to it, joined by dots."""
    return dict(_walk(content, (), set()))


def _walk(content: Any, keys: tuple[str, ...], seen: set[int]) -> Iterator[tuple[str, State]]:
    if isinstance(content, list | tuple):
        content = {i: each for i, each in enumerate(content) if isinstance(each, Mapping)}
    elif id(content) in seen:  # a pickle may hold a mapping that contains itself
        return
    if not isinstance(content, Mapping) or len(keys) > DEEPEST:
        return
    seen.add(id(content))
    entries = {
        _WRAPPERS.sub("", name): value
        for name, value in content.items()
        if isinstance(name, str) and isinstance(value, torch.Tensor)
    }
    if entries:
        yield ".".join(keys), entries
    for name, value in content.items():
        if not _NO_WEIGHTS.search(str(name)):
            yield from _walk(value, (*keys, str(name)), seen)


def largest(content: Any, path: Path) -> State:
    """Return the largest table of a file, without `PREFIXES` that all names share.

    Raises
    ------
    UserError
        If there is none.
    """
    found = tables(content)
    if not found:
        _refuse_without_tables(content, path)
    plain = {label: state for label, state in found.items() if not _AVERAGES.search(label)}
    return _without_prefixes(max((plain or found).values(), key=len))


def _refuse_without_tables(content: Any, path: Path) -> None:
    if isinstance(content, Mapping):
        holds = ", ".join(str(key)[:40] for key in [*content][:MOST_NAMED]) or "nothing"
    else:
        holds = f"a {type(content).__name__}"
    raise UserError(
        f"{path}: holds no weights: no tensors by name, at any depth; it holds {holds}. "
        "Save them with torch.save(model.state_dict(), FILE)."
    )


def _without_prefixes(state: State) -> State:
    for prefix in PREFIXES:
        if state and all(name.startswith(prefix) for name in state):
            return _without_prefixes({name[len(prefix) :]: state[name] for name in state})
    return state


def of_model(
    content: Any, architectures: Iterable[Collection[str]], part: str | None, path: Path
) -> Weights:
    """Return the weights that fit an architecture, whatever key or prefix is before their names.

    Parameters
    ----------
    content : object
        Content of the file.
    architectures : iterable of collection of str
        Names in the file of the weights of each architecture that is possible; later ones are
        read only if none before fits. Shapes are not compared.
    part : str or None
        Keys and prefix before the names, where the file has several such parts.
    path : Path
        The file, for messages.

    Raises
    ------
    UserError
        If the file has no table, nothing is at `part`, or several parts fit equally.
    """
    found = tables(content)
    if not found:
        _refuse_without_tables(content, path)
    parts: list[_Part] = []
    for names in architectures:
        expected = {name for name in names if not name.endswith(_COUNTERS)}
        parts += [each for label in found for each in _parts(label, found[label], expected, names)]
        if any(not each.missing for each in parts):
            break
    if part is not None:
        wanted = [each for each in parts if f"{each.label}.".startswith(f"{part}.")]
        if not wanted:
            near = {each.label for each in parts if 2 * each.missing <= len(each.names)}
            labels = _some(sorted(near or set(found)))
            raise UserError(f"{path}: has no weights of this model at part {part!r}; see {labels}.")
        parts = wanted
    least = min((each.missing for each in parts), default=0)
    parts = sorted((each for each in parts if each.missing == least), key=_rank)
    if not parts or 2 * least > len(parts[0].names):
        return Weights(largest(content, path))
    if not least:
        _refuse_a_choice(parts, path)
    return _weights(parts, found, path, strict=part is None and not least)


def _rank(part: _Part) -> bool:
    return bool(_AVERAGES.search(part.label))


def _parts(
    label: str, table: State, expected: Collection[str], names: Collection[str]
) -> Iterator[_Part]:
    """Yield the parts of a table that have some of the expected names after a prefix."""
    ordered = sorted(expected)
    anchors = ordered[:: max(1, len(ordered) // 8)]
    prefixes = {
        name.removesuffix(anchor)
        for name in table
        for anchor in anchors
        if name == anchor or name.endswith(f".{anchor}")
    }
    for prefix in sorted(prefixes):
        missing = sum(f"{prefix}{name}" not in table for name in ordered)
        yield _Part(label, prefix, table, names, missing)


def _refuse_a_choice(parts: list[_Part], path: Path) -> None:
    """Refuse parts that fit equally, unless they hold the same numbers."""
    first, *others = [each for each in parts if _rank(each) == _rank(parts[0])]
    for each in others:
        names = (name for name in first.names if first.prefix + name in first.state)
        if not all(
            torch.equal(first.state[first.prefix + name], each.state[each.prefix + name])
            for name in names
            if each.prefix + name in each.state
        ):
            raise UserError(
                f"{path}: holds weights of this model at {first.label or 'its top'!r} and at "
                f"{each.label!r}. Name one as `part` in the model's entry, for example `part: "
                f"{each.label}`."
            )


def _weights(
    parts: list[_Part], found: Mapping[str, State], path: Path, *, strict: bool
) -> Weights:
    """Return the first part; if `strict`, refuse entries outside of it that may enter features."""
    first, *others = parts
    others = [each for each in others if each.label != first.label]
    copies = [each.prefix for each in others if each.table == first.table]
    inside: State = {}
    outside: list[str] = []
    for name, value in found[first.table].items():
        if _in_a_copy(name, first, copies):
            continue
        if name.startswith(first.prefix):
            inside[name.removeprefix(first.prefix)] = value
        elif strict:
            outside.append(name)
    if surplus := [name for name in outside if not _IDLE.search(name)]:
        raise UserError(
            f"{path}: next to the model's weights at {first.label!r} it holds {_some(surplus)}, "
            "which may belong to its features. If they do not, add "
            f"`part: {first.label}` to the model's entry."
        )
    ignored = {name for name in inside.keys() - {*first.names} if _IDLE.search(name)}
    state = {name: inside[name] for name in sorted(inside.keys() - ignored)}
    if SCALE in state and state[SCALE].numel() == 1:  # FSDP takes no scalars
        state[SCALE] = state[SCALE].reshape(())
    for name in first.names:
        if name.endswith(_COUNTERS) and name not in state:
            state[name] = torch.zeros((), dtype=torch.long)
    return Weights(
        state, first.label, sorted([*ignored, *outside]), [each.label for each in others]
    )


def _in_a_copy(name: str, first: _Part, copies: list[str]) -> bool:
    """Return whether an entry belongs to another part of the same table."""
    return any(
        name.startswith(prefix) and not first.prefix.startswith(prefix)
        if prefix
        else name in first.names
        for prefix in copies
    )


def _some(names: list[str]) -> str:
    named = ", ".join(name[:80] for name in names[:MOST_NAMED])
    return f"{named}, ..." if len(names) > MOST_NAMED else named
