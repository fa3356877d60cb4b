"""The record of a whole run: a configuration to run again, and what must be as it was."""

import json
from pathlib import Path

import pytest
import yaml

from mispair import __version__, cli, config
from mispair.core import files, run_record
from mispair.core.files import UserError
from mispair.core.provenance import PACKAGE, code_version, fingerprint
from mispair.dag import Dag
from mispair.run_checks import compare_with_record

CONFIGS = sorted((PACKAGE.parents[1] / "config").glob("*.yaml"))


def origin(step: str, inputs: list[str], outputs: list[str], **other: object) -> dict:
    return {
        "step": step,
        "seeds": {"seed": 0},
        "inputs": {name: {"bytes": 1, "sha256": name} for name in inputs},
        "outputs": {name: {"bytes": 2, "sha256": name} for name in outputs},
        "code": dict(line.split() for line in code_version(step)),
        "git": {"commit": "abc", "changed": False},
        "device": "cpu (x)",
        **other,
    }


@pytest.fixture
def about() -> dict:
    jobs = [
        origin("index_shards", ["mine/0.tar", "results/by-hand.parquet"], ["results/0.parquet"]),
        origin("index_shards", ["mine/1.tar"], ["results/1.parquet"], device="Card"),
        origin("gather_index", ["results/0.parquet", "results/1.parquet"], ["results/c.parquet"],
               seeds={}, git=None),
    ]  # fmt: skip
    head = "s\tcpu_time\n"
    times = {
        "index_shards/x/0.tsv": f"{head}2.5\t4.0\n",
        "index_shards/x/1.tsv": f"{head}1.5\tNA\n",
        "gather_index.tsv": f"{head}0.5\t0.25\n",
        "gather_index+of_another_study/x.tsv": f"{head}1.0\t0.5\n",
        "of_another_study/x.tsv": f"{head}100\t100\n",
    }
    return run_record.describe(jobs, {"results/old.json": {"bytes": 3, "sha256": "o"}}, times)


def test_steps_are_summed_over_their_jobs(about: dict) -> None:
    assert about["steps"] == {
        "gather_index": {
            "jobs": 1, "wall_seconds": 1.0, "core_seconds": 0.5, "seeds": [],
            "code": [fingerprint(code_version("gather_index"))], "devices": ["cpu (x)"],
            "commits": [None],
        },
        "index_shards": {
            "jobs": 2, "wall_seconds": 4.0, "core_seconds": 4.0, "seeds": ["seed 0"],
            "code": [fingerprint(code_version("index_shards"))], "devices": ["cpu (x)", "Card"],
            "commits": ["abc"],
        },
    }  # fmt: skip


def test_data_are_what_no_step_made(about: dict) -> None:
    assert list(about["data"]) == ["mine/0.tar", "mine/1.tar"]
    made = ["results/0.parquet", "results/1.parquet", "results/c.parquet"]
    assert set(about["results"]) == {*made, "results/by-hand.parquet", "results/old.json"}
    assert about["unrecorded"] == ["results/by-hand.parquet", "results/old.json"]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_configuration_comes_back_from_its_record(path: Path) -> None:
    whole = config.validate(yaml.safe_load(path.read_text()), str(path))
    written = json.loads(whole.model_dump_json())
    # Snakemake lays it over the embedded configuration, so it must name every key.
    assert written.keys() == config.Config.model_fields.keys()
    record = {run_record.RECORD: {"mispair": __version__}}
    assert config.validate({**written, **record}, "run.json") == whole


def record(**changes: object) -> dict:
    return {"mispair": __version__, "git": {"commit": "abc123"}, "data": {}, "steps": {}, **changes}


def dag(changes: dict | str | None) -> Dag:
    return Dag({"studies": ["simulation"], "record": changes}, "run.json")


def test_a_run_of_another_version_is_refused_with_the_remedies() -> None:
    with pytest.raises(UserError) as error:
        dag(record(mispair="0.0.1"))
    for words in ("record:", "0.0.1", __version__, "commit abc123", "--config record=none"):
        assert words in str(error.value)
    for nothing in (None, "none", "null"):
        assert compare_with_record(dag(nothing)) == ""
    with pytest.raises(UserError, match="record: is no record of a run"):
        dag({"something": "else"})


def test_other_data_are_refused_by_name(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shards = [Path(f"mine/{number}.tar") for number in range(3)]
    for path in shards:
        files.write_text(path, f"shard {path}")
    data = run_record.Digests().of(shards)
    assert compare_with_record(dag(record(data=data))) == ""
    files.write_text(shards[1], "shard mine/X.tar")
    shards[2].unlink()
    with pytest.raises(UserError) as error:
        compare_with_record(dag(record(data=data)))
    assert "mine/1.tar has changed: other content" in str(error.value)
    assert "mine/2.tar does not exist" in str(error.value)
    assert "0.tar" not in str(error.value)


def test_other_code_is_told_by_step() -> None:
    code = [fingerprint(code_version("measure_purity"))]
    own = {"measure_purity": {"code": code, "devices": []}}
    assert compare_with_record(dag(record(steps=own))) == ""
    other = own | {"simulate": {"code": ["0123456789abcdef"], "devices": []}}
    said = compare_with_record(dag(record(steps=other)))
    assert "the code of simulate is not that" in said
    assert "measure_purity" not in said


def test_another_type_of_cpu_is_told_before_a_run_is_made_again(monkeypatch) -> None:
    one = {"simulate": {"code": [fingerprint(code_version("simulate"))], "devices": ["cpu (x)"]}}
    monkeypatch.setattr(run_record, "device_name", lambda device: f"{device} (x)")
    assert compare_with_record(dag(record(steps=one))) == ""
    monkeypatch.setattr(run_record, "device_name", lambda device: f"{device} (y)")
    said = compare_with_record(dag(record(steps=one)))
    assert "cpu (x)" in said
    assert "cpu (y)" in said
    # What a GPU computed says nothing about the CPU.
    one["simulate"]["devices"] = ["NVIDIA H200"]
    assert compare_with_record(dag(record(steps=one))) == ""


def test_results_are_compared_with_a_record(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    made = [Path("results/a.json"), Path("results/b.json")]
    for path in made:
        files.write_text(path, path.name)
    files.write_json(Path("run.json"), {"record": {"results": run_record.Digests().of(made)}})
    assert cli.main(["verify", "run.json"]) == 0
    assert "all results are as recorded" in capsys.readouterr().out
    files.write_text(made[0], "x.json")
    assert cli.main(["verify", "run.json"]) == 1
    said = capsys.readouterr().out
    assert "results/a.json has changed" in said
    assert "b.json" not in said
    assert cli.main(["verify", "results/a.json"]) == 2


@pytest.mark.parametrize(("here", "differs"), [("cpu (x)", False), ("cpu (y)", True)])
def test_a_difference_of_devices_is_a_line_of_verify(tmp_path, monkeypatch, capsys, here, differs):
    monkeypatch.chdir(tmp_path)
    files.write_text(Path("results/a.json"), "a")
    files.write_json(Path("results/a.run.json"), origin("simulate", [], ["a"], job={}, device=here))
    facts = run_record.Digests().of([Path("results/a.json")])
    recorded = {"results": facts, "steps": {"simulate": {"devices": ["cpu (x)"]}}}
    files.write_json(Path("run.json"), {"record": recorded})
    assert cli.main(["verify", "run.json"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "device" in line]
    assert bool(lines) == differs
    assert all("cpu (x)" in line and "cpu (y)" in line for line in lines)
    # Equal or not, other bytes are an error; the line gives the reason.
    files.write_text(Path("results/a.json"), "b")
    assert cli.main(["verify", "run.json"]) == 1
    assert ("cpu (y)" in capsys.readouterr().out) == differs
