"""What jobs ask a cluster for, and what is refused before the first of them."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from snakemake.resources import Resources

from mispair.core.cost import Work
from mispair.core.files import UserError
from mispair.planning import cluster
from mispair.planning.estimates import FAR, HERE, NONE, Estimate, Estimator
from mispair.planning.failed_run import Recorder, was_cancelled

WILDCARDS = {"arm": "untouched", "corpus": "mine"}
KEY = cluster.key_of("measure", WILDCARDS)


def rule(**expressions: Any) -> Any:
    """Return a rule whose resources come from a profile: words are expressions."""
    given = [f"{name}={value}" for name, value in expressions.items()]
    return SimpleNamespace(
        resources=Resources.parse(given, defaults="bare", allow_expressions=True)
    )


def asked(of: Any, name: str, attempt: int) -> Any:
    resource = of.resources[name]
    given = {"rulename": "measure", "threads": 1, "async_run": None, "input": []}
    return resource.evaluate(WILDCARDS, attempt=attempt, **given).value


@pytest.fixture
def requests() -> cluster.Requests:
    return cluster.Requests(Recorder())


def test_the_plan_is_asked_for_first_and_the_profile_is_its_bound(requests):
    small = rule(mem_mb="attempt * 24000", runtime="attempt * 480")
    requests.limit([small])
    assert asked(small, "mem_mb", 1) == 24000  # nothing is planned yet
    requests._planned[KEY] = {"mem_mb": 1500, "runtime": 100_000}
    assert asked(small, "mem_mb", 1) == 1500
    assert asked(small, "runtime", 1) == 480
    assert [asked(small, "mem_mb", attempt) for attempt in (2, 3)] == [48000, 72000]


def test_a_cancelled_attempt_does_not_count(requests: cluster.Requests) -> None:
    large = rule(mem_mb="attempt * 24000", runtime="attempt * 480")
    requests.limit([large])
    requests._planned[KEY] = {"mem_mb": 1500, "runtime": 20}
    requests._recorder.cancelled[KEY] = 1
    assert (asked(large, "mem_mb", 2), asked(large, "runtime", 2)) == (1500, 20)
    assert asked(large, "mem_mb", 3) == 48000


def test_only_rules_that_ask_for_a_gpu_name_its_kind(requests: cluster.Requests) -> None:
    with_one, without, never = rule(gpu=1, gpu_model="a100"), rule(gpu=0, gpu_model="a100"), rule()
    requests.limit([with_one, without, never])
    assert asked(with_one, "gpu_model", 1) == "a100"
    assert asked(without, "gpu_model", 1) == asked(never, "gpu_model", 1) == ""


@pytest.mark.parametrize(("estimate", "gpus", "expected"), [
    (Estimate("reference", 60, 100), 0, {"mem_mb": 1000, "runtime": 15}),
    (Estimate("reference", 36_000, 40_000), 0, {"mem_mb": 80_000, "runtime": 2400}),
    (Estimate(NONE), 0, {}),
    (Estimate("reference", 60, 100, beyond=2 * FAR), 0, {}),
    (Estimate("reference", 60, 100, is_bound=True), 1, {}),
    (Estimate(HERE, 60, 6000), 1, {"mem_mb": 12_000, "runtime": 15}),
])  # fmt: skip
def test_a_poor_estimate_leaves_the_profile(estimate, gpus, expected):
    assert cluster.request_for(estimate, gpus) == expected


@pytest.mark.parametrize(("message", "log", "expected"), [
    ("SLURM-job '1' failed, SLURM status is: 'CANCELLED'. ", "", True),
    ("SLURM-job '1' failed, SLURM status is: 'TIMEOUT'. ", "", False),
    ("", "slurmstepd: error: *** JOB 1 ON node0 CANCELLED AT 2026-01-01T00:00:00 ***", True),
    ("", "*** JOB 1 ON a CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", False),
])  # fmt: skip
def test_a_cancelled_job_is_told_from_one_out_of_time(tmp_path, message, log, expected):
    (tmp_path / "1.log").write_text(log)
    assert was_cancelled(message, [str(tmp_path / "1.log")]) is expected


def command(folder: Path, name: str, prints: str, code: int = 0) -> None:
    (folder / name).write_text(f"#!/bin/sh\nprintf '{prints}'\nexit {code}\n")
    (folder / name).chmod(0o755)


def refuse(folder: Path, partitions: dict | None = None, **resources: Any) -> None:
    file = None
    if partitions is not None:
        file = folder / "partitions.yaml"
        file.write_text(yaml.safe_dump({"partitions": partitions}))
    job = SimpleNamespace(is_local=False, resources=resources)
    dag = SimpleNamespace(needrun_jobs=lambda: [job])
    settings = SimpleNamespace(partition_config=file)
    cluster.refuse_what_the_cluster_lacks(dag, settings, logging.getLogger("cluster"))


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put commands of a cluster into the path, with one account and two kinds of GPU."""
    command(tmp_path, "sacctmgr", "my-lab\\n")
    command(tmp_path, "squeue", "")  # the plugin requires it where there is sinfo
    command(tmp_path, "sinfo", "gpu:a100:8(S:0-1)\\ngpu:v100:2\\n(null)\\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_what_the_cluster_has_is_accepted(commands: Path) -> None:
    partitions = {"cpu": {}, "gpu": {"max_gpu": 8, "available_gpu_models": ["a100"]}}
    refuse(commands, partitions, slurm_account="my-lab", gpu=1, gpu_model="a100")
    refuse(commands, gpu=0, gpu_model="h100")
    refuse(commands)


@pytest.mark.parametrize(("resources", "words"), [
    ({"slurm_account": "theirs"}, "(?s)slurm_account: theirs.*my-lab"),
    ({"gpu": 1, "gpu_model": "h100"}, "gpu_model: h100.*has a100, v100"),
    ({"gpu": 1, "gpu_model": "v100"}, "gpu_model: v100.*partitions.yaml.*has a100"),
])  # fmt: skip
def test_what_the_cluster_lacks_is_refused(commands, resources, words):
    partitions = {"gpu": {"max_gpu": 8, "available_gpu_models": ["a100"]}}
    with pytest.raises(UserError, match=words):
        refuse(commands, partitions, **resources)


def test_a_cluster_without_accounts_says_so_once(commands: Path) -> None:
    for name in ("sacctmgr", "sshare"):
        command(commands, name, "", code=1)
    with pytest.raises(UserError, match="take the line out if the cluster has no accounts"):
        refuse(commands, slurm_account="my-lab")


@pytest.mark.parametrize(("device", "gpus", "pairs", "warns"), [
    ("auto", 0, 3_000_000, True),
    ("auto", 0, 100, False),
    ("auto", 1, 3_000_000, False),
    ("cpu", 0, 3_000_000, False),
])  # fmt: skip
def test_hours_of_gpu_work_on_cpus_are_said(requests, device, gpus, pairs, warns, monkeypatch):
    """Time is made to be a second for ten pairs: how work is counted is tested elsewhere."""
    command = f"python -m mispair encode-features --device {device} --towers t > log 2>&1"
    nothing = dict.fromkeys(("input", "output", "log"), ())
    job = Mock(
        shellcmd=command, benchmark=None, resources={"gpu": gpus}, wildcards_dict={}, **nothing
    )
    dag = SimpleNamespace(needrun_jobs=lambda: [job], toposorted=lambda jobs: [list(jobs)])
    monkeypatch.setattr("mispair.planning.estimates.calibrate", lambda: 1.0)
    monkeypatch.setattr(cluster, "work_of", lambda *_: Work())
    monkeypatch.setattr(Estimator, "estimate", lambda *_: Estimate("reference", seconds=pairs / 10))
    requests.plan(dag)
    assert ("encode_features" in requests.gpu_work_on_cpus()) is warns
