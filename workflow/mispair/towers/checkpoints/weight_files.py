"""Kinds of files of weights by their first bytes; nothing here imports torch."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from mispair.core.files import UserError

TORCHSCRIPT_REMEDY = (
    "For weights that open_clip has, give `model` and the tag as `pretrained`. Otherwise, where "
    "you trust the file, run `torch.save(torch.jit.load(FILE).state_dict(), NEW)` and give NEW."
)


def kind_of(path: Path) -> str:
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
    if path.name.endswith(".index.json"):
        raise UserError(
            f"{path}: is the list of the files that the weights were split into. Save them as one "
            "file, for example with `max_shard_size` of save_pretrained."
        )
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
