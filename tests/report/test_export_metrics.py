"""Exports: event files that TensorBoard's own messages read back, and no network."""

import json
import math
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event

from mispair.core import files
from mispair.report import studies
from mispair.report.curves import EVENTS, Curve, TrainingCurves, thinned, write_runs
from mispair.report.steps import export_metrics
from mispair.report.tables import tidy

ABOUT = {"start": "pretrained", "scheme": "random", "rate": 0.5}


def events(content: bytes) -> list[Event]:
    """Read an event file: the lengths, the check sums and the messages of its records."""
    found = []
    while content:
        head, content = content[:12], content[12:]
        (length,) = struct.unpack("<Q", head[:8])
        assert masked(head[:8]) == head[8:]
        record, content = content[:length], content[length:]
        assert masked(record) == content[:4]
        content = content[4:]
        found.append(Event.FromString(record))
    return found


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    first, *rest = events(path.read_bytes())
    assert first.file_version == "brain.Event:2"
    found: dict[str, list[tuple[int, float]]] = {}
    for event in rest:
        (value,) = event.summary.value
        found.setdefault(value.tag, []).append((event.step, value.simple_value))
    steps = [event.step for event in rest]
    assert steps == sorted(steps)  # as a whole: TensorBoard drops what came before a step back
    return found


def folder_of_tables(folder: Path) -> list[Path]:
    """Write small tables: an arm of two seeds, and the simulation of one trial."""
    zeroshot = [
        {**ABOUT, "towers": "t", "evaluation_set": "digits & <b>", "protocol": "clip_benchmark",
         "metric": "acc1", "seed": seed, "value": 0.25, "n": 100, "headline": "acc1"}
        for seed in (0, 1)
    ]  # fmt: skip
    simulated = {"condition": "as-run", "kind": "preset", "preset": "as-run", "trained_on": "raw",
                 "spurious_probability": 0.3, "trial": 0, "seed": 0}  # fmt: skip
    simulation = [
        {**simulated, "metric": "loss", "epoch": epoch, "value": 1 / epoch} for epoch in (3, 1, 2)
    ]
    simulation += [
        {**simulated, "metric": "alignment", "tower": tower, "epoch": step, "value": step}
        for step in (8, 0)
        for tower in ("image", "text")
    ]
    simulation.append({**simulated, "metric": "accuracy", "value": 0.5})
    given = {"zeroshot": zeroshot, "simulation": simulation}
    paths = []
    folder.mkdir(exist_ok=True)
    for name in studies.tables():
        paths.append(folder / f"{name}.csv")
        tidy(name, given.get(name, [])).to_csv(paths[-1], index=False)
    return paths


def projection(path: Path, loss: np.ndarray) -> Path:
    about = {**ABOUT, "rate": "0.5", "seeds": json.dumps(list(range(len(loss))))}
    files.write_tensors(path, {"loss": loss, "image_projection": np.zeros((1, 2, 2))}, about)
    return path


ARM = "results/arms/scenes/towers/pretrained_random~0.5"


def export(folder: Path) -> Path:
    training = folder / "results/towers/trained/training.json"
    files.write_json(training, {"losses": [{"epoch": 1, "loss": 2.5}, {"epoch": 2, "loss": 2.0}]})
    loss = np.arange(14, dtype=np.float32).reshape(2, 7)
    export_metrics.run(
        export_metrics.Settings(),
        tables=folder_of_tables(folder / "tables"),
        trained=[projection(folder / ARM / "projection.safetensors", loss), training],
        folder=folder / "reports",
    )
    return folder / "reports"


def test_event_files_hold_what_runs_recorded_at_steps_that_only_rise(tmp_path: Path) -> None:
    reports = export(tmp_path)
    tuned = reports / "tensorboard/fine-tuning/pretrained_random~0.5"
    assert sorted(path.name for path in tuned.iterdir()) == ["seed~0", "seed~1"]
    found = scalars(tuned / "seed~1" / EVENTS)
    assert found["loss"] == [(step, 7.0 + step) for step in range(7)]
    assert found["acc1/digits _ _b_/clip_benchmark"] == [(6, 0.25)]
    simulated = scalars(reports / "tensorboard/simulation/as-run/cs~0.3/raw/trial~0" / EVENTS)
    assert [step for step, _ in simulated["loss"]] == [1, 2, 3]
    assert simulated["alignment/image"] == [(0, 0.0), (8, 8.0)]
    assert simulated.keys() == {"loss", "alignment/image", "alignment/text"}
    pretrained = scalars(reports / "tensorboard/pretraining/trained" / EVENTS)
    assert pretrained == {"loss": [(1, 2.5), (2, 2.0)]}


def test_the_same_results_give_the_same_bytes_and_what_is_gone_goes(tmp_path: Path) -> None:
    reports = export(tmp_path)
    before = {path: path.read_bytes() for path in reports.rglob("*") if path.is_file()}
    stale = reports / "tensorboard/old" / EVENTS
    stale.parent.mkdir()
    stale.write_bytes(b"")
    export(tmp_path)
    assert {p: p.read_bytes() for p in reports.rglob("*") if p.is_file()} == before
    assert not stale.parent.exists()


def test_long_curves_are_means_of_neighbours_at_the_last_of_their_steps() -> None:
    curve = thinned("loss", np.arange(10.0), 5)
    assert curve == Curve("loss", (1, 3, 5, 7, 9), (0.5, 2.5, 4.5, 6.5, 8.5))
    values = np.random.default_rng(0).random(1007)
    thin = thinned("loss", values, 100)
    assert len(thin.steps) == 100
    assert thin.steps[-1] == 1006
    assert all(a < b for a, b in zip(thin.steps, thin.steps[1:], strict=False))
    sizes = np.diff([-1, *thin.steps])
    assert math.isclose(float(np.dot(sizes, thin.values)), values.sum())
    assert thinned("loss", np.arange(3.0), 5).steps == (0, 1, 2)


def test_event_files_take_any_value_and_long_tags(tmp_path: Path) -> None:
    assert crc32c(b"123456789") == 0xE3069283  # Castagnoli's polynomial, RFC 3720
    values = [("x" * 300, math.nan), ("z", math.inf), ("é/日本", -1e30)]
    steps = (0, 2**40, 2**40)
    curves = [
        Curve(tag, (step,), (value,)) for step, (tag, value) in zip(steps, values, strict=True)
    ]
    write_runs([TrainingCurves("run", ABOUT, tuple(curves))], tmp_path)
    _, *rest = events((tmp_path / "run" / EVENTS).read_bytes())
    assert [event.step for event in rest] == [0, 2**40, 2**40]
    read = [(one.summary.value[0].tag, one.summary.value[0].simple_value) for one in rest]
    assert [tag for tag, _ in read] == [tag for tag, _ in values]
    assert math.isnan(read[0][1])
    assert read[1][1] == math.inf
    assert read[2][1] == np.float32(-1e30)


def test_neither_the_network_nor_tensorboard_is_used(tmp_path, monkeypatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network is used")

    for name in ("connect", "connect_ex", "sendto", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # an import fails
    reports = export(tmp_path)
    made = sorted(path.name for path in reports.iterdir())
    assert made == ["tensorboard"]


def test_a_run_without_trainings_does_not_import_torch(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from mispair.report.curves import write_runs; "
        f"write_runs([], Path({str(tmp_path)!r})); print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "False\n", run.stderr
