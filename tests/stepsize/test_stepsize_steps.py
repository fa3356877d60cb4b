"""The steps of the stepsize study: settings, jobs, states, rules and rows of tables."""

import json
import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mispair import config
from mispair.core.files import UserError
from mispair.core.metrics import read_metrics
from mispair.core.resume import Checkpoints
from mispair.dag import Dag
from mispair.stepsize import multilayer
from mispair.stepsize.data_sets import MADE, DataSet
from mispair.stepsize.report.rows import rows as of_stepsize
from mispair.stepsize.settings import Part
from mispair.stepsize.steps import train_multilayer, train_two_layer
from tests.stepsize.stepsize_run import trained
from tests.stepsize.test_stepsize_descent import Killed, Memory

SWEEP = {"part": "sweep", "data_set": "xor4", "stepsizes": [16, 64], "steps": 100}


def job(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return {
        "part": "sweep", "data_set": "xor4", "activation": "leaky_softplus", "widths": [20],
        "stepsizes": [16.0, 64.0], "seeds": 2, "steps": 300, "cifar": [],
        "checkpoint": tmp_path / "states", "measurements": tmp_path / "runs.json", **changes,
    }  # fmt: skip


def test_a_job_writes_the_same_bytes_again_and_nothing_else(tmp_path, caplog) -> None:
    train_two_layer.run(train_two_layer.Settings(), **job(tmp_path))
    first = (tmp_path / "runs.json").read_bytes()
    train_two_layer.run(train_two_layer.Settings(), **job(tmp_path))
    assert (tmp_path / "runs.json").read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == ["runs.json"]
    rows, provenance = read_metrics(tmp_path / "runs.json")
    assert provenance["plan"]["stepsizes"] == [16, 64]
    assert len([row for row in rows if row["kind"] == "run"]) == 4
    assert not caplog.records
    tables = of_stepsize({"stepsize": [tmp_path / "runs.json"]}, {})
    assert len(tables["stepsize_runs"]) == 4
    assert {row["t"] for row in tables["stepsize_curves"]} >= {0, 1, 300}
    assert {row["condition"] for row in tables["provenance"]} == {"sweep/xor4/leaky_softplus"}


def test_what_fails_is_logged_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    train_two_layer.run(train_two_layer.Settings(),
                        **job(tmp_path, stepsizes=[200.0, 1e9], seeds=1, steps=50))  # fmt: skip
    assert "η 1e+09, seed 0: diverged at step" in caplog.text
    assert "η 200, seed 0: its risk still rose at step" in caplog.text
    assert "no stepsize is monotone" in caplog.text
    rows, _ = read_metrics(tmp_path / "runs.json")
    assert [row["settled"] for row in rows if row["kind"] == "run"] == [0, 0]


def test_a_killed_job_goes_on_from_its_state(tmp_path: Path) -> None:
    """Every stack keeps arrays that the one store of states can hold, empty ones among them."""
    part = ("sweep", "xor_noise", "softplus", [5], [8, 32], 2, 200)
    whole = trained(*part)
    states = Checkpoints(tmp_path, "this")

    def killed_at_the_third_question(name: str) -> Any:
        keeper = states.array_keeper(name)
        memory = Memory(patience=3)

        def save(state: Any) -> None:
            keeper.save(state)
            raise Killed

        return SimpleNamespace(load=keeper.load, due=memory.due, save=save)

    with pytest.raises(Killed):
        trained(*part, keeper=killed_at_the_third_question)
    assert list(tmp_path.glob("5-0-0.safetensors"))
    found = trained(*part, keeper=states.array_keeper)
    assert repr(found) == repr(whole)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"stepsizes": []}, "at least 1 item"), ({"stepsizes": [0]}, "greater than 0"),
     ({"stepsizes": [8, 8]}, "stepsizes: 8 is listed twice"),
     ({"stepsizes": [1, 2, 3], "per_octave": 4}, "the first and the last"),
     ({"stepsizes": [8, 1], "per_octave": 4}, "the first and the last"),
     ({"data_set": "mnist"}, "'xor4', 'xor_noise'"),
     ({"activations": ["relu"]}, "'softplus', 'gelu'"), ({"part": "all"}, "'sweep', 'onset'"),
     ({"widths": [0]}, "greater than or equal to 1"),
     ({"steps": 0}, "greater than or equal to 10"),
     ({"seed": 1}, "there is no such key. Did you mean 'seeds'?")],
)  # fmt: skip
def test_wrong_parts_are_refused_by_name(changes: dict[str, Any], words: str) -> None:
    content = {"train_two_layer": {"grid": [{**SWEEP, **changes}]}}
    with pytest.raises(UserError, match="train_two_layer.grid") as refused:
        config.validate(content, "mine.yaml")
    assert words in str(refused.value)


def test_two_parts_of_one_file_are_refused() -> None:
    other = {**SWEEP, "activations": ["gelu", "leaky_softplus"]}
    with pytest.raises(UserError, match="the part sweep, xor4, leaky_softplus is listed twice"):
        config.validate({"train_two_layer": {"grid": [SWEEP, other]}}, "mine.yaml")


def test_a_ladder_has_as_many_stepsizes_an_octave_as_it_says() -> None:
    part = Part(**{**SWEEP, "stepsizes": [1, 1024], "per_octave": 4})
    assert len(part.ladder) == 41
    assert part.ladder[-1] == pytest.approx(1024)
    assert np.diff(np.log2(part.ladder)) == pytest.approx(0.25)
    assert Part(**{**SWEEP, "stepsizes": [64, 8]}).ladder == [8, 64]


def test_the_dag_has_a_job_for_each_part_data_set_and_activation() -> None:
    parts = [SWEEP, {**SWEEP, "part": "activations", "activations": ["gelu", "silu"]},
             {**SWEEP, "data_set": "cifar2"}]  # fmt: skip
    content = {"studies": ["stepsize"], "train_two_layer": {"grid": parts}}
    dag = Dag(content, "x")
    folder = "results/stepsize"
    assert dag.stepsize.results() == [
        f"{folder}/sweep/xor4/leaky_softplus.json", f"{folder}/activations/xor4/gelu.json",
        f"{folder}/activations/xor4/silu.json",
    ]  # fmt: skip
    wildcards = SimpleNamespace(part="sweep", data_set="xor4", activation="leaky_softplus",
                                items=lambda: [("part", "sweep"), ("data_set", "xor4"),
                                               ("activation", "leaky_softplus")])  # fmt: skip
    assert (
        dag.stepsize.part_flags(wildcards)
        == "--widths 20 --stepsizes 16.0 64.0 --seeds 1 --steps 100"
    )
    assert dag.stepsize.cifar(wildcards) == []
    with pytest.raises(UserError, match=r"train_two_layer\.cifar_dir"):
        dag.stepsize.cifar(SimpleNamespace(data_set="cifar2"))
    content |= {"train_multilayer": {"stepsizes": [0.1], "data_sets": ["digits_parity", "cifar2"]}}
    assert f"{folder}/multilayer/digits_parity.json" in Dag(content, "x").stepsize.results()
    assert f"{folder}/multilayer/cifar2.json" not in Dag(content, "x").stepsize.results()
    assert (
        Dag({**content, "studies": ["simulation"]}, "x").results()
        == Dag({**content, "studies": ["simulation"]}, "x").simulation.files()
    )


def test_cifar_is_checked_before_any_job(tmp_path: Path) -> None:
    settings = {"grid": [{**SWEEP, "data_set": "cifar2"}], "cifar_dir": str(tmp_path)}
    content = {"studies": ["stepsize"], "train_two_layer": settings}
    with pytest.raises(UserError, match="data_batch_1.bin: there is no such file"):
        Dag(content, "x")
    Dag({**content, "studies": ["simulation"]}, "x")  # which needs none of it
    from mispair.stepsize.paths import RECORD, RECORDS, cifar_files

    for path in cifar_files(str(tmp_path)):
        with Path(path).open("wb") as file:
            file.truncate(RECORD * RECORDS)  # of the right size, and no bytes on disk
    dag = Dag(content, "x")
    assert dag.stepsize.results() == ["results/stepsize/sweep/cifar2/leaky_softplus.json"]
    assert dag.stepsize.cifar(SimpleNamespace(data_set="cifar2")) == cifar_files(str(tmp_path))


def small() -> DataSet:
    data = MADE["digits_parity"](0)
    return DataSet(data.points[:40], data.labels[:40], data.test_points[:50],
                   data.test_labels[:50])  # fmt: skip


def test_the_perceptron_trains_as_torchs_own_and_from_its_state() -> None:
    data = small()
    rows = multilayer.train(data, 8, [0.5, 2.0], 70, 3, 10)
    torch.manual_seed(3)
    sizes = [64, 8, 8, 8, 1]
    layers: list[torch.nn.Module] = []
    for one, other in pairwise(sizes):
        linear = torch.nn.Linear(one, other, bias=False, dtype=torch.float64)
        layers += [linear, torch.nn.GELU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimiser = torch.optim.SGD(model.parameters(), lr=2.0)
    x, y = torch.from_numpy(data.points), torch.from_numpy(data.labels)
    risks = []
    for _ in range(71):
        q = y * model(x)[:, 0]
        risk = torch.nn.functional.softplus(-q).mean()
        risks.append(float(risk.detach()))
        norm = torch.sqrt(sum(w.square().sum() for w in model.parameters()))
        margin = float((q.min() / norm**4).detach())
        right = ((model(torch.from_numpy(data.test_points))[:, 0] > 0).numpy()
                 == (data.test_labels > 0)).mean()  # fmt: skip
        optimiser.zero_grad()
        risk.backward()
        optimiser.step()
    (run,) = [row for row in rows if row["kind"] == "run" and row["stepsize"] == 2]
    assert run["final_risk"] == pytest.approx(risks[-1], rel=1e-9)
    assert run["margin_final"] == pytest.approx(margin, rel=1e-9)
    assert run["accuracy"] == right
    curve = {row["t"]: row["risk"] for row in rows if row["kind"] == "curve"
             and row["stepsize"] == 2}  # fmt: skip
    assert all(curve[t] == pytest.approx(risks[t], rel=1e-9) for t in curve)
    memory = Memory(patience=1)  # asked at step 64
    with pytest.raises(Killed):
        multilayer.train(data, 8, [0.5, 2.0], 70, 3, 10, memory)
    assert repr(multilayer.train(data, 8, [0.5, 2.0], 70, 3, 10, memory)) == repr(rows)


def test_a_perceptron_that_diverges_is_stopped() -> None:
    rows = multilayer.train(small(), 8, [0.1, 1e7], 30, 0, 10)
    good, bad = (row for row in rows if row["kind"] == "run")
    assert (good["diverged"], bad["settled"]) == (-1, 0)
    assert bad["diverged"] > 0
    assert math.isnan(bad["final_risk"])


def test_the_perceptrons_step_writes_rows_and_needs_stepsizes(tmp_path: Path) -> None:
    files = {"data_set": "digits_parity", "cifar": [], "checkpoint": tmp_path / "states",
             "measurements": tmp_path / "runs.json"}  # fmt: skip
    with pytest.raises(UserError, match=r"train_multilayer\.stepsizes: is empty"):
        train_multilayer.run(train_multilayer.Settings(), **files)
    settings = train_multilayer.Settings(stepsizes=[0.1], width=4, steps=10, points=10)
    train_multilayer.run(settings, **files)
    content = json.loads((tmp_path / "runs.json").read_text())
    assert {row["data_set"] for row in content["rows"]} == {"digits_parity"}
    assert {row["part"] for row in content["rows"]} == {"multilayer"}
    assert not (tmp_path / "states").exists()
