"""Tests of reading weights: every kind of file, and none whose code runs."""

import argparse
import contextlib
import os
import pickle
import re
import shlex
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from mispair.core import files
from mispair.towers.checkpoints.weights import State, read_weights

STATE = {
    "visual.model.weight": torch.arange(6.0).reshape(2, 3),
    "text.module.bias": torch.tensor([0.5, -2.0], dtype=torch.float16),
    "logit_scale": torch.tensor(4.6),
    "count": torch.tensor(7),
}


def trainer_file(weights: State = STATE) -> dict:
    """Return what LaCLIP's trainer saves: a schedule of numpy's, optimiser, scaler, arguments."""
    model = nn.Linear(3, 2)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    model(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    for group in optimiser.param_groups:
        group["lr"] = np.linspace(1e-6, 3e-3, 5)[3]  # its scheduler gives numpy's numbers
    return {
        "epoch": 35,
        "state_dict": {f"module.{name}": value for name, value in weights.items()},
        "optimizer": optimiser.state_dict(),
        "scaler": torch.amp.GradScaler("cpu").state_dict(),
        "best_acc1": 21.5,
        "args": argparse.Namespace(model="CLIP_VITB16", betas=[0.9, 0.98], gpu=0, resume=""),
    }


def save_as(kind: str, path: Path) -> None:
    """Write `STATE` as a file of a kind."""
    if kind == "safetensors":
        save_file(STATE, path)
        return
    content = {
        "bare": STATE,
        "trainer": trainer_file(),
        "parameters": {name: nn.Parameter(v, v.is_floating_point()) for name, v in STATE.items()},
        "openai": STATE | {"input_resolution": torch.tensor(224), "vocab_size": torch.tensor(9)},
        "old-format": trainer_file(),
    }[kind]
    torch.save(content, path, _use_new_zipfile_serialization=kind != "old-format")


def weights_in(path: Path) -> State:
    """Return the weights of the model that has those of `STATE`."""
    return read_weights(path, [STATE]).state


@pytest.mark.parametrize(("kind", "name"), [
    ("bare", "open_clip_pytorch_model.bin"),
    ("trainer", "cc3m_laclip.pt"),
    ("parameters", "weights.pt"),
    ("openai", "weights.pt"),
    ("old-format", "weights.pt"),
    ("safetensors", "weights.safetensors"),
    ("safetensors", "weights.pt"),  # the content decides, not the name
])  # fmt: skip
def test_every_kind_of_file_gives_the_same_weights(kind: str, name: str, tmp_path: Path) -> None:
    save_as(kind, tmp_path / name)
    state = weights_in(tmp_path / name)
    assert list(state) == sorted(STATE)
    for key, value in STATE.items():
        assert state[key].dtype == value.dtype
        assert torch.equal(state[key], value)


def test_prefixes_go_only_from_all(tmp_path: Path) -> None:
    mixed = {"module.a": torch.ones(2), "b": torch.ones(2), "model.c": torch.ones(2)}
    torch.save(mixed, tmp_path / "mixed.pt")
    assert sorted(weights_in(tmp_path / "mixed.pt")) == ["b", "model.c", "module.a"]


class Evil:
    """Runs a command of the system where it is unpickled without care."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple:
        return os.system, (self.command,)


@pytest.mark.parametrize("form", ["zip", "old-format", "plain-pickle", "beside-weights"])
def test_code_in_a_file_is_never_run(form: str, tmp_path: Path) -> None:
    trace, path = tmp_path / "trace", tmp_path / "weights.pt"
    evil = Evil(f"touch {trace}")
    if form == "plain-pickle":
        path.write_bytes(pickle.dumps({"state_dict": evil}, protocol=2))
    else:
        content = {"state_dict": STATE, "args": evil} if form == "beside-weights" else evil
        torch.save(content, path, _use_new_zipfile_serialization=form != "old-format")
    with pytest.raises(files.UserError, match=r"weights\.pt: .*posix\.system") as caught:
        weights_in(path)
    assert "not run" in str(caught.value)
    assert "Do not load it with weights_only=False" in str(caught.value)
    assert not trace.exists()
    # The file is what it seems: without care the command runs.
    with contextlib.suppress(RuntimeError):  # after it ran, for a pickle that is not torch's own
        torch.load(path, weights_only=False)
    assert trace.exists()


def test_a_pickled_model_is_refused_and_names_what_it_wants(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(files.UserError, match=r"torch\.nn\.modules\.linear\.Linear.*state_dict"):
        weights_in(tmp_path / "model.pt")


class Own:
    """A type of the trainer's own."""


def test_the_command_for_an_own_file_writes_its_weights(tmp_path: Path) -> None:
    """Those of a table, and those of a whole model, and nothing else."""
    model = nn.Linear(2, 2)
    path = tmp_path / "my model.pt"
    content = {"state_dict": model.state_dict(), "net": model, "settings": {"a": Own()}, "epoch": 3}
    torch.save(content, path)
    with pytest.raises(files.UserError, match="run where it was made") as caught:
        weights_in(path)
    command = re.search("`python (.*)`", str(caught.value))
    assert command is not None
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = f"{shlex.quote(sys.executable)} {command[1]}"
    subprocess.run(line, shell=True, check=True, cwd=tmp_path, env=environment)
    written = torch.load(tmp_path / "my model-weights.pt", weights_only=True)
    assert sorted(written) == ["net", "state_dict"]
    assert all(sorted(table) == ["bias", "weight"] for table in written.values())
    assert sorted(weights_in(tmp_path / "my model-weights.pt")) == ["bias", "weight"]


def test_torchscript_is_refused_with_the_remedy_that_works(tmp_path: Path) -> None:
    path = tmp_path / "ViT-B-32.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has deprecated the format
        torch.jit.script(nn.Linear(3, 2)).save(str(path))
    with pytest.raises(files.UserError, match="TorchScript archive.*pretrained") as caught:
        weights_in(path)
    remedy = re.search("`(torch.save.*)`", str(caught.value))
    assert remedy is not None
    new = tmp_path / "new.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(remedy[1], {"torch": torch, "FILE": str(path), "NEW": str(new)})
    assert sorted(weights_in(new)) == ["bias", "weight"]


@pytest.mark.parametrize("kind", ["bare", "trainer", "safetensors", "old-format"])
@pytest.mark.parametrize("share", [0.2, 0.4, 0.7, 0.99])
def test_a_file_that_is_cut_short_says_so(kind: str, share: float, tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    save_as(kind, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(files.UserError, match=r"weights\.pt: is cut short.*Fetch it again"):
        weights_in(path)


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is empty"),
    (b"\n<!DOCTYPE html><html><head>Dropbox", "is a web page.*dl=1"),
    (b"<html>", "is a web page"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "pointer of Git LFS"),
    (b"\x93NUMPY and so on", "neither PyTorch's nor safetensors"),
    (b"weights: 1\n", "neither PyTorch's nor safetensors"),
])  # fmt: skip
def test_what_is_no_file_of_weights_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(content)
    with pytest.raises(files.UserError, match=f"weights.pt: .*{message}"):
        weights_in(tmp_path / "weights.pt")


def test_a_pytorch_file_called_safetensors_is_to_be_renamed(tmp_path: Path) -> None:
    save_as("bare", tmp_path / "weights.safetensors")
    with pytest.raises(files.UserError, match="is PyTorch's, though it is called safetensors"):
        weights_in(tmp_path / "weights.safetensors")


def test_missing_files_folders_and_other_archives(tmp_path: Path) -> None:
    with pytest.raises(files.UserError, match=r"gone\.pt: cannot be read \(No such file"):
        weights_in(tmp_path / "gone.pt")
    with pytest.raises(files.UserError, match="cannot be read .*directory.*file of weights in it"):
        weights_in(tmp_path)
    (tmp_path / "__0_0.distcp").touch()
    with pytest.raises(files.UserError, match="cannot be read .*directory.*dcp_to_torch"):
        weights_in(tmp_path)
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("a.jpg", b"")
    with pytest.raises(files.UserError, match="zip archive, but not one that PyTorch saved"):
        weights_in(tmp_path / "photos.zip")


@pytest.mark.parametrize(("content", "message"), [
    ({}, "holds nothing"),
    ({"state_dict": {}}, "holds no weights"),
    ([torch.ones(2)], "holds a list"),
    (torch.ones(2), "holds a Tensor"),
    ({"epoch": 3, "optimizer": {"a": torch.ones(2)}}, "it holds epoch, optimizer"),
    ({"state_dict": {3: torch.ones(2)}}, "no tensors by name, at any depth"),
    ({"a": torch.ones(2), "b": torch.tensor([1, float("nan")])}, "b has a number .* not fini"),
    ({"a": torch.eye(2).to_sparse()}, "a is a tensor of the torch.sparse_coo.*to_dense"),
    ({"a": torch.empty(2, device="meta")}, "a is a tensor .*meta"),
    ({"state_dict": {"c": torch.tensor(float("-inf")).half()}}, "c has a number .* not finite"),
])  # fmt: skip
def test_contents_that_are_no_weights_are_named(content, message, tmp_path):
    torch.save(content, tmp_path / "weights.pt")
    warnings.filterwarnings("ignore", "Validating sparse")
    with pytest.raises(files.UserError, match=rf"weights\.pt: .*{message}"):
        weights_in(tmp_path / "weights.pt")
