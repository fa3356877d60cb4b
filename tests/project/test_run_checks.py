"""What is checked of the machine, its clock and a user's files before the first job."""

import os
import re
import sys
from contextlib import chdir
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from snakemake import io
from snakemake.resources import Resource

from mispair import run_checks
from mispair.core.files import UserError
from mispair.dag import Dag
from mispair.planning import cluster
from mispair.run_checks import refuse_dated_ahead, take_literally, time_of_new_files


def test_a_gpu_that_is_not_here_is_named_by_the_rules_that_run(monkeypatch):
    dag = Dag({"encode_features": {"device": "cuda"}}, "x")

    def missing(**sections: Any) -> str:
        """Return the message of jobs of some rules, by what says how many GPUs each takes."""
        rules = [SimpleNamespace(name=rule, resources={"gpu": Resource("gpu", gpus)})
                 for rule, gpus in sections.items()]  # fmt: skip
        rules.append(SimpleNamespace(name="gather_index", resources={}))
        return run_checks.missing_gpu(dag, [SimpleNamespace(rule=rule) for rule in rules])

    monkeypatch.setattr(run_checks, "has_cuda", lambda: False)
    assert missing(read_shards=dag.gpus("encode_features")).startswith("encode_features.device")
    assert missing(weigh_pairs=dag.gpus("finetune_projection")) == missing() == ""
    monkeypatch.setattr(run_checks, "has_cuda", lambda: True)
    assert missing(read_shards=dag.gpus("encode_features")) == ""


def test_programs_that_are_missing() -> None:
    run_checks.refuse_missing_programs([sys.executable])
    with pytest.raises(UserError, match="no-such-program"):
        run_checks.refuse_missing_programs([sys.executable, "no-such-program"])


@pytest.mark.parametrize(("arguments", "warned"), [
    (["--executor", "slurm", "-n"], True),
    (["--workflow-profile", "profile"], True),
    (["--profile=profile"], True),
    (["--executor=slurm"], True),
    (["-e", "slurm"], True),
    (["--profile", "of_version"], True),
    (["--profile", "broken"], False),
    (["--workflow-profile", "none"], False),
    (["--cores", "2"], False),
])  # fmt: skip
def test_a_dry_run_without_the_programs_of_slurm(tmp_path, monkeypatch, arguments, warned):
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile/config.yaml").write_text("executor: slurm\n")
    (tmp_path / "of_version").mkdir()
    (tmp_path / "of_version/config.v9+.yaml").write_text("executor: slurm\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.yaml").write_text("executor: [slurm\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    warning = run_checks.warn_of_missing_programs(["snakemake", *arguments])
    assert ("sbatch" in warning) is warned


@pytest.mark.parametrize("link", [False, True])
def test_a_file_dated_ahead_is_refused_with_the_difference(tmp_path: Path, link: bool) -> None:
    present, ahead = tmp_path / "a", tmp_path / "b"
    now = time_of_new_files(tmp_path)
    present.touch()
    ahead.symlink_to(present) if link else ahead.touch()
    os.utime(ahead, (now + 7384, now + 7384), follow_symlinks=False)
    refuse_dated_ahead([str(present), str(tmp_path / "missing")], now)
    with pytest.raises(UserError, match=r"b: is dated 2:03:04 .*ahead"):
        refuse_dated_ahead([str(present), str(ahead)], now)
    with chdir(tmp_path), pytest.raises(UserError, match=f"^{re.escape(str(ahead))}: "):
        refuse_dated_ahead(["b"], now)


def test_braces_of_a_marked_input_are_no_wildcards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "apply_wildcards", io.apply_wildcards)
    as_named = take_literally()
    wildcards = {"corpus": "x"}
    for path in ("a{v2}/{corpus}.tar", "plain.tar"):
        marked = io.IOFile(io.ancient(as_named(path)))
        assert marked.apply_wildcards(wildcards) == path
    assert io.IOFile("{corpus}.tar").apply_wildcards(wildcards) == "x.tar"


def test_hours_of_gpu_work_on_cpus_are_said_on_clusters_of_any_kind(monkeypatch):
    monkeypatch.setattr(cluster.Requests, "plan", lambda self, dag: None)
    monkeypatch.setattr(cluster.Requests, "gpu_work_on_cpus", lambda self: "hours")
    for executor, nodes, warnings in (("generic", 9, 1), ("touch", None, 0)):
        workflow = Mock(resource_settings=Mock(nodes=nodes))
        workflow.executor_plugin.name = executor
        logger = Mock()
        run_checks.refuse_to_start(Mock(), workflow, Mock(), logger)
        assert logger.warning.call_count == warnings
