"""Tests of training towers in several processes, of going on after a kill, and of a start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from safetensors.torch import load_file
from snakemake.iocontainers import ResourceList
from snakemake_executor_plugin_slurm.submit_string import get_submit_command

from mispair.core.files import UserError
from mispair.core.provenance import PACKAGE
from mispair.dag import Dag
from mispair.pairs.steps import make_scenes
from mispair.towers import loading
from mispair.towers.pretraining import launching, pretraining, trainer
from mispair.towers.steps import pretrain_towers

# Without batch normalisation, whose statistics are each process's own.
TINY = {
    "model_cfg": {
        "embed_dim": 16,
        "vision_cfg": {
            "image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16,
        },
        "text_cfg": {
            "context_length": 16, "vocab_size": 8514, "width": 32, "heads": 2, "layers": 1,
            "tokenizer_kwargs": {"bpe_path": "bpe.txt.gz"},
        },
    },
    "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.25] * 3, "interpolation": "bicubic"},
}  # fmt: skip
PAIRS = 32
AS_A_JOB = """
import sys, pathlib
from mispair.towers.steps import pretrain_towers as step
settings, towers, *shards = sys.argv[1:]
step.run(step.Settings.model_validate_json(settings), shards=[*map(pathlib.Path, shards)],
         start=[], towers=pathlib.Path(towers))
"""

pytestmark = [
    # webdataset leaves its tar streams to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("corpus") / "shards"
    settings = make_scenes.Settings(shards=2, pairs_per_shard=PAIRS, processes=1)
    make_scenes.run(settings, corpus=folder)
    return sorted(folder.glob("*.tar"))


@pytest.fixture(scope="module")
def definition(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("definition") / "tiny.json"
    path.write_text(json.dumps(TINY))
    return str(path)


@pytest.fixture(scope="module")
def tiny(definition: str) -> Callable[..., pretrain_towers.Settings]:
    """Settings of trainings in which a step sees all pairs, whatever the number of processes."""

    def settings(**others: Any) -> pretrain_towers.Settings:
        some = {"epochs": 8, "batch_size": PAIRS, "warmup": 2, "crop_scale": 1.0, "threads": 1}
        return pretrain_towers.Settings(definition=definition, **some | others)

    return settings


def train(settings: Any, shards: list[Path], towers: Path, start: tuple[Path, ...] = ()) -> bytes:
    """Run the step; return the bytes of the weights."""
    pretrain_towers.run(settings, shards=shards, start=[*start], towers=towers)
    return (towers / loading.WEIGHTS_NAME).read_bytes()


def losses_of(towers: Path) -> list[float]:
    return [one["loss"] for one in json.loads((towers / "training.json").read_text())["losses"]]


def parts_of(towers: Path) -> Path:
    return towers.with_name(f"{towers.name}.parts")


def saved_epochs(towers: Path) -> int:
    """Return after how many epochs a training surely goes on: its last may be half saved."""
    found = [*parts_of(towers).glob("*/towers/random/*-0.pt")]
    return max((int(path.name.split("-")[0]) for path in found), default=1) - 1


def wait_until(true: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture(scope="module")
def two(tiny: Any, shards: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Towers of two processes, which nothing disturbed."""
    towers = tmp_path_factory.mktemp("two") / "towers"
    train(tiny(processes=2), shards, towers)
    return towers


def test_two_processes_train_as_one_with_all_their_pairs(
    two: Path, tiny: Any, shards: list[Path], tmp_path: Path
) -> None:
    train(tiny(batch_size=2 * PAIRS), shards, tmp_path / "one")
    of_one, of_two = (load_file(x / loading.WEIGHTS_NAME) for x in (tmp_path / "one", two))
    assert of_one.keys() == of_two.keys()
    for name, weights in of_one.items():
        # Half precision keeps three digits.
        assert torch.allclose(of_two[name].float(), weights.float(), atol=5e-4), name
    losses, those_of_one = losses_of(two), losses_of(tmp_path / "one")
    assert len(losses) == 8
    assert np.isfinite(losses).all()
    # Of half of the pictures, but among the texts of all: among half of them it is 0.7 less.
    assert abs(losses[0] - those_of_one[0]) < 0.3
    assert losses[-1] < losses[0] - 0.3


def test_a_dead_process_ends_the_training_which_goes_on_from_there(
    two: Path, tiny: Any, shards: list[Path], tmp_path: Path
) -> None:
    towers = tmp_path / "towers"

    def kill_one() -> None:
        wait_until(lambda: saved_epochs(towers) >= 2)
        (job,) = parts_of(towers).glob("*/job.json")
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            words = path.read_bytes().split(b"\0")
            if str(job).encode() in words and b"torch.distributed.run" not in words:
                os.kill(int(path.parent.name), signal.SIGKILL)
                return

    killer = threading.Thread(target=kill_one)
    killer.start()
    with pytest.raises(UserError, match=r"one of 2 processes ended early.* goes on after epoch \d"):
        train(tiny(processes=2), shards, towers)
    killer.join()
    assert not towers.exists()
    done = saved_epochs(towers)
    assert 2 <= done < 8
    assert train(tiny(processes=2), shards, towers) == (two / loading.WEIGHTS_NAME).read_bytes()
    assert (towers / "training.json").read_bytes() == (two / "training.json").read_bytes()
    assert not parts_of(towers).exists()


@pytest.mark.parametrize(
    ("workers", "samples", "kills"),
    [
        (0, None, (signal.SIGUSR1,)),
        (2, 24, (signal.SIGKILL,)),
    ],
)
def test_a_training_that_is_killed_gives_the_same_bytes(
    workers: int, samples: int | None, kills: tuple[int, ...], tiny: Any, shards: list[Path],
    tmp_path: Path, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    settings = tiny(
        workers=workers, train_num_samples=samples, batch_size=8, epochs=12, crop_scale=0.3
    )
    undisturbed = train(settings, shards, tmp_path / "undisturbed")
    towers = tmp_path / "towers"
    for number in kills:
        before = saved_epochs(towers)
        # Of its own, and not forked from this one: reading processes do not bear that.
        job = subprocess.Popen(
            [sys.executable, "-c", AS_A_JOB, settings.model_dump_json(), towers, *shards],
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda before=before: saved_epochs(towers) > before)
        os.kill(job.pid, number)
        assert job.wait() == -number
        assert not towers.exists()
    with caplog.at_level("INFO"):
        assert train(settings, shards, towers) == undisturbed
    assert "going on after epoch" in caplog.text
    record = (tmp_path / "undisturbed" / "training.json").read_text()
    assert (towers / "training.json").read_text() == record
    assert sorted(tmp_path.iterdir()) == [towers, tmp_path / "undisturbed"]
    assert ("--dataset-resampled" in json.loads(record)["trainer"]) == (samples is not None)


def test_states_of_another_job_or_broken_ones_are_not_used(
    tiny: Any, shards: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = tiny(epochs=2, warmup=0, workers=0)
    expected = train(settings, shards, tmp_path / "expected")
    towers = tmp_path / "towers"
    with pytest.MonkeyPatch.context() as patch:
        # As if it was killed after the last epoch.
        patch.setattr(pretraining, "trained_weights", lambda *_: 1 / 0)
        for lr in (1e-4, settings.lr):
            with pytest.raises(ZeroDivisionError):
                train(settings.model_copy(update={"lr": lr}), shards, towers)
            assert len([*parts_of(towers).iterdir()]) == 1
    assert "is of other settings" in caplog.text
    (logs,) = parts_of(towers).iterdir()
    assert trainer.finished_epochs(logs, 1) == 2
    assert trainer.finished_epochs(logs, 2) == 0  # of another process there is nothing
    latest = trainer.latest_checkpoint(logs)
    assert not latest.exists()
    latest.write_bytes(b"half of a file")
    assert trainer.finished_epochs(logs, 1) == 0
    assert train(settings, shards, towers) == expected


def test_all_weights_are_trained_from_a_start(
    tiny: Any, shards: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "start"
    folder.mkdir()
    pretraining.write_definition(folder, TINY)
    torch.manual_seed(1)
    weights = open_clip.create_model(f"local-dir:{folder}").state_dict()
    pretraining.write_weights(folder / loading.WEIGHTS_NAME, weights, torch.float32)
    files = (folder / loading.CONFIG_NAME, folder / loading.WEIGHTS_NAME)

    settings = tiny(epochs=1, warmup=0, lr=0, workers=0)
    train(settings, shards, tmp_path / "still", files)
    found = load_file(tmp_path / "still" / loading.WEIGHTS_NAME)
    assert found.keys() == weights.keys()
    for name, value in found.items():
        assert value.dtype == weights[name].dtype
        assert torch.equal(value, weights[name]), name
    assert loading.fingerprint(tmp_path / "still") == loading.fingerprint(folder)
    recipe = json.loads((tmp_path / "still" / "training.json").read_text())
    assert recipe["start"] == loading.fingerprint(folder)
    assert str(tmp_path) not in json.dumps(recipe)

    train(settings.model_copy(update={"lr": 1e-3}), shards, tmp_path / "moved", files)
    moved = load_file(tmp_path / "moved" / loading.WEIGHTS_NAME)
    assert [name for name in found if torch.equal(found[name], moved[name])] == []
    loading.load_towers(tmp_path / "moved")


def test_what_cannot_train_is_said_before(
    tiny: Any, shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(words: str, **settings: Any) -> None:
        with pytest.raises(UserError, match=words):
            train(tiny(**settings), shards, tmp_path / "towers")
        assert not [*tmp_path.iterdir()]

    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    refused(r"4 processes are to read 2 shards \(nodes 1, processes 2, workers 2\)",
            processes=2, workers=2)  # fmt: skip
    refused(r"8 processes are to read 2 shards", workers=8)
    refused(r"batch_size: 33 .* 64 pairs in 2 shards leave one reader 32", processes=2,
            batch_size=33)  # fmt: skip
    refused(r"batch_size: 65 .* leave one reader 64", batch_size=65)
    refused(r"warmup: 100 steps, but training has 16", warmup=100, batch_size=32)
    refused(r"workers: 0, but with train_num_samples", workers=0, train_num_samples=9)
    refused(r"warmup: 9 steps, but training has 8", train_num_samples=8, warmup=9)
    refused(r"nodes: 2, but this is no SLURM job", nodes=2, train_num_samples=64)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(r"cuda is not available", device="cuda")
    with pytest.raises(UserError, match=r"processes: 8, but this machine has 2 GPUs"):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        launching.refuse_too_few_gpus("cuda", 8)


@pytest.fixture
def four_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SLURM job of four nodes, of which its steps know the number only."""
    (tmp_path / "bin").mkdir()
    squeue = tmp_path / "bin" / "squeue"
    squeue.write_text(
        '#!/bin/sh\n[ "$*" = "--noheader --jobs 1234567 --format=%D" ] || exit 1\necho 4\n'
    )
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "1234567")


@pytest.mark.usefixtures("four_nodes")
def test_several_nodes_meet_at_the_first() -> None:
    launching.refuse_other_nodes(4)
    with pytest.raises(UserError, match="nodes: 3, but this is a SLURM job of 4"):
        launching.refuse_other_nodes(3)
    command = launching.command(Path("job.json"), processes=8, nodes=4, cores=104)
    assert " ".join(command).replace(sys.executable, "python") == (
        "srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --cpus-per-task=104 --kill-on-bad-exit=1"
        " python -m torch.distributed.run --nproc-per-node=8 --nnodes=4 --rdzv-backend=c10d"
        f" --rdzv-endpoint={socket.gethostname()}:24567 --rdzv-id=1234567"
        " -m mispair.towers.pretraining.trainer job.json"
    )


def submitted(dag: Dag) -> list[str]:
    """Return how Snakemake's SLURM plugin submits the training, word by word."""
    names = ("run_uuid", "slurm_logfile", "comment_str", "account", "partition", "workdir")
    resources = ResourceList(fromdict=dag.training_resources)
    job = SimpleNamespace(resources=resources, threads=dag.training_cores)
    return str(get_submit_command(job, dict.fromkeys(names, ""))).split()


def test_slurm_is_asked_for_nodes_of_one_torchrun_each() -> None:
    training = {"device": "cuda", "processes": 8, "workers": 12, "train_num_samples": 1000}
    one = Dag({"studies": ["image_text"], "towers": "train", "pretrain_towers": training}, "x")
    assert one.training_resources == {"gpu": 8}
    assert "--cpus-per-task=104" in submitted(one)
    four = Dag(
        {"studies": ["image_text"], "towers": "train", "pretrain_towers": training | {"nodes": 4}},
        "x",
    )
    assert four.training_resources["gpu"] == 32
    words = submitted(four)
    assert {"--nodes=4", "--ntasks=4", "--cpus-per-task=104"} <= {*words}
    assert not [word for word in words if "per-gpu" in word]
    alone = Dag({"studies": ["image_text"], "towers": "train"}, "x")
    assert (alone.training_cores, alone.training_resources) == (2, {"gpu": 0})


def test_the_corpus_and_a_start_come_from_the_configuration(
    shards: list[Path], tmp_path: Path
) -> None:
    content = {
        "studies": ["image_text"],
        "towers": "train",
        "corpus": "mine",
        "shards": str(shards[0].parent),
    }
    training = {"warmup": 1}
    dag = Dag(content | {"pretrain_towers": training}, "x")
    assert [Path(path) for path in dag.training_shards] == shards
    assert Path(*dag.tower_definition).name == "scenes-small.json"
    assert dag.models.start == []
    dag = Dag(content | {"pretrain_towers": training | {"start": "shipped"}}, "x")
    assert Path(dag.models.start[0]).name == loading.CONFIG_NAME
    assert dag.tower_definition == []
    assert "start" not in dag.flags("pretrain_towers")
    weights = tmp_path / "weights.pt"
    weights.touch()
    models = [{"name": "a", "recipe": "laclip-cc", "checkpoint": str(weights)}]
    dag = Dag(content | {"models": models, "pretrain_towers": training | {"start": "a"}}, "x")
    assert dag.models.start[0] == "results/checkpoints/a/open_clip_config.json"
    assert dag.models.checkpoint(SimpleNamespace(model="a")) == [str(weights)]
    definition = {"definition": "ViT-B-32"}
    assert Dag(content | {"pretrain_towers": definition}, "x").tower_definition == []
    for settings, words in (
        ({"start": "b"}, "pretrain_towers.start: 'b' is neither one of .* nor the name of one of"),
        ({"workers": 3}, "3 processes are to read 2 shards"),
    ):
        with pytest.raises(UserError, match=words):
            Dag(content | {"pretrain_towers": settings}, "x")
    with pytest.raises(UserError, match="learns from the shards' own captions"):
        Dag(content | {"captions": str(weights)}, "x")
    with pytest.raises(UserError, match=r"warmup: 100 steps, but training has 12"):
        Dag(
            {
                "studies": ["image_text"],
                "towers": "train",
                "make_scenes": {"shards": 1, "pairs_per_shard": 128},
            },
            "x",
        )


def test_an_architecture_of_open_clip_is_a_definition() -> None:
    found = pretraining.read_definition("ViT-B-32")
    assert found["model_cfg"] == open_clip.get_model_config("ViT-B-32")
    assert found["preprocess_cfg"]["interpolation"] == "bicubic"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_processes_end_when_who_started_them_is_killed() -> None:
    child = (
        "from mispair.towers.pretraining.trainer import end_with_parent; end_with_parent(); "
        "import time; print('ready', flush=True); time.sleep(60)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", parent],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        assert process.stdout.read() == b""  # which ends when the last process that writes does


def test_a_signal_to_end_is_handed_on() -> None:
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert launching.run(words) == -signal.SIGTERM
