"""Where results come from: the records beside them, and running a step again from one."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mispair import cli
from mispair.core import commands, files, provenance, run_record
from mispair.core.files import replacing_folder

RESULT = Path("results/arms/x/purity.json")
RECORD = Path("results/arms/x/purity.run.json")
PROJECTION = Path("results/arms/x/projection.safetensors")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with one pair of projections."""
    monkeypatch.chdir(tmp_path)
    write_projection(0)
    return tmp_path


def write_projection(seed: int) -> None:
    drawn = np.random.default_rng(seed).normal(size=(2, 1, 6, 4)).astype(np.float32)
    stacks = {"image_projection": drawn[0], "text_projection": drawn[1]}
    files.write_tensors(PROJECTION, {**stacks, "logit_scale": np.zeros(1)}, {"start": "x"})


def measure(*options: str) -> dict:
    code = cli.main([
        "measure-purity", "--projection", str(PROJECTION), "--purity", str(RESULT),
        "--rotations", "1", "--seed", "7", *options,
    ])  # fmt: skip
    assert code == 0
    return json.loads(RECORD.read_text())


def test_a_result_says_what_it_was_made_with_and_from(folder: Path) -> None:
    about = measure()
    assert about["step"] == "measure_purity"
    assert about["settings"] == {"rotations": 1, "seed": 7}
    assert about["seeds"] == {"seed": 7}
    job = {"projection": str(PROJECTION), "covariance": None, "purity": str(RESULT)}
    assert about["job"] == job
    for key, path in {"inputs": PROJECTION, "outputs": RESULT}.items():
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        assert about[key] == {str(path): {"bytes": len(content), "sha256": digest}}
    step = "mispair.evaluation.steps.measure_purity"
    assert {"mispair.evaluation.purity", step} <= about["code"].keys()
    assert about["versions"]["numpy"] == np.__version__
    assert about["device"].startswith("cpu (")


def test_the_same_job_writes_the_same_record_elsewhere(folder, tmp_path_factory, monkeypatch):
    measure()
    first = RECORD.read_bytes()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    write_projection(0)
    measure()
    assert RECORD.read_bytes() == first
    assert str(folder).encode() not in first
    assert os.uname().nodename.encode() not in first


def test_a_step_that_fails_leaves_no_record(folder: Path) -> None:
    write_projection(0)
    files.write_tensors(PROJECTION, {
        "image_projection": np.zeros((1, 6, 4), np.float32),
        "text_projection": np.zeros((1, 6, 4), np.float32),
    })  # fmt: skip
    arguments = ["--projection", str(PROJECTION), "--purity", str(RESULT)]
    assert cli.main(["measure-purity", *arguments]) == 2
    assert not RECORD.exists()


def test_a_record_that_cannot_be_written_fails_no_step(folder, monkeypatch, caplog) -> None:
    def full(path: Path, content: object) -> None:
        raise files.UserError("the disk is full")

    monkeypatch.setattr(run_record.files, "write_json", full)
    arguments = ["--projection", str(PROJECTION), "--purity", str(RESULT)]
    assert cli.main(["measure-purity", *arguments]) == 0
    assert RESULT.exists()
    assert "could not be recorded: the disk is full" in caplog.text


def recorded(**job: object) -> None:
    """Write each output of a made-up job inside its record."""
    settings = commands.step_module("measure_purity").Settings()
    with run_record.recorded("measure_purity", settings, job):
        for key, path in job.items():
            if key == "corpus":
                with replacing_folder(Path(str(path))) as whole:
                    (whole / "inside").mkdir()
                    (whole / "inside/a.txt").write_text("x")
            elif key == "checkpoint":
                Path(str(path)).mkdir(parents=True)
            elif isinstance(path, Path):
                files.write_text(path, "x")


def test_records_lie_beside_files_and_folders(folder: Path) -> None:
    pairing = Path("results/pairs/c/pairing/random~0.5.parquet")
    captions = pairing.with_suffix(".captions.parquet")
    recorded(rate=0.5, workers=3, pairing=pairing, captions=captions)
    about = run_record.read(pairing.with_name("random~0.5.run.json"))
    assert list(about["outputs"]) == [str(pairing), str(captions)]
    assert about["job"]["rate"] == 0.5
    assert "workers" not in about["job"]  # it follows the number of cores
    recorded(corpus=Path("results/v0.5"))
    about = run_record.read(Path("results/v0.5.run.json"))
    assert list(about["outputs"]) == ["results/v0.5/inside/a.txt"]


def test_a_folder_and_files_of_one_name_have_a_record_each(folder: Path) -> None:
    """As a repaired pairing and the corpus that is made of it."""
    pairing = Path("results/repair/factor.parquet")
    recorded(pairing=pairing)
    for _ in range(2):
        recorded(corpus=pairing.with_suffix(""))
    of_file = run_record.read(pairing.with_name("factor.run.json"))["outputs"]
    assert list(of_file) == [str(pairing)]
    of_folder = run_record.read(pairing.with_name("factor.folder.run.json"))["outputs"]
    assert list(of_folder) == ["results/repair/factor/inside/a.txt"]
    (one,) = run_record.ancestry([pairing.with_suffix("")], Path("results"))
    assert list(one["outputs"]) == [*of_folder]


def test_what_is_for_people_or_differs_from_run_to_run_is_no_result(folder: Path) -> None:
    recorded(page=Path("reports/index.html"), record=Path("logs/a.json"))
    # Snakemake writes those of other jobs while one runs.
    recorded(page=Path("reports/index.html"), benchmarks=Path("benchmarks/a.tsv"))
    recorded(features=Path("results/a.parquet"), record=Path("logs/a.json"))
    assert [path.name for path in folder.rglob(f"*{run_record.ENDING}")] == ["a.run.json"]
    assert list(run_record.read(Path("results/a.run.json"))["outputs"]) == ["results/a.parquet"]


def test_states_that_another_copy_of_the_job_makes_are_no_result(folder: Path) -> None:
    result = Path("results/cs~0.4/trials~0-0.json")
    recorded(checkpoint=result.with_suffix(".checkpoint"), simulation=result)
    (record,) = folder.rglob(f"*{run_record.ENDING}")
    assert record.name == "trials~0-0.run.json"
    assert list(run_record.read(record)["outputs"]) == [str(result)]


@pytest.mark.parametrize("gone", ["first", "second"])
def test_a_job_whose_results_are_removed_leaves_no_record(folder: Path, gone: str) -> None:
    """As when Snakemake is killed, and the next one removes what the job has written by then."""
    job = {name: Path(f"results/{name}.parquet") for name in ("first", "second")}
    settings = commands.step_module("measure_purity").Settings()
    with run_record.recorded("measure_purity", settings, job):
        for path in job.values():
            files.write_text(path, "x")
        job[gone].unlink()
    assert list(folder.rglob(f"*{run_record.ENDING}")) == []


def test_files_of_the_package_are_named_from_it(folder: Path) -> None:
    shipped = run_record.PACKAGE / "towers/shipped/scenes-small/tokenizer.json"
    name = run_record.portable(Path(os.path.relpath(shipped)))
    assert name == "mispair:towers/shipped/scenes-small/tokenizer.json"
    assert run_record.local_path(name).samefile(shipped)
    assert run_record.local_path(run_record.portable(PROJECTION)) == PROJECTION


def test_large_files_are_told_apart_by_samples(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(run_record, "BUDGET", 300_000)
    small, large = Path("small"), Path("large")
    small.write_bytes(b"s" * 100_000)
    content = bytearray(b"l" * 250_000)
    large.write_bytes(content)
    facts = run_record.Digests().of([small, large])
    assert "sha256" in facts["small"]
    assert list(facts["large"]) == ["bytes", "sha256_of_samples"]
    assert run_record.difference("large", facts["large"]) is None
    for place in (0, 125_000, 249_999):
        large.write_bytes(content[:place] + b"x" + content[place + 1 :])
        assert "other content" in str(run_record.difference("large", facts["large"]))
    large.write_bytes(content + b"l")
    assert "250001 bytes instead of 250000" in str(run_record.difference("large", facts["large"]))


def test_ancestors_are_found_by_their_records_and_strangers_are_not(folder: Path) -> None:
    steps = {"a": [], "b": ["a"], "c": ["b"], "stranger": ["a"]}
    for name, inputs in steps.items():
        job = {f"from_{one}": Path(f"results/{one}.txt") for one in inputs}
        job["to"] = Path(f"results/{name}.txt")
        settings = commands.step_module("measure_purity").Settings()
        with run_record.recorded("measure_purity", settings, job):
            files.write_text(job["to"], name)
    found = run_record.ancestry([Path("results/c.txt")], Path("results"))
    assert found == run_record.ancestry(
        [Path("results/c.txt"), Path("results/b.txt")], Path("results")
    )
    assert [list(one["outputs"]) for one in found] == [
        ["results/a.txt"], ["results/b.txt"], ["results/c.txt"],
    ]  # fmt: skip


def test_a_step_is_run_again_from_its_record(folder: Path, capsys) -> None:
    measure()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert cli.main(["rerun", str(RECORD)]) == 0
    assert "the same bytes" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_other_bytes_are_told_with_what_changed_since(folder: Path, capsys) -> None:
    about = measure()
    # As if the record were of another machine and of code that has changed since.
    about["outputs"][str(RESULT)]["sha256"] = "0" * 64
    about["code"]["mispair.evaluation.purity"] = "0123456789"
    about["device"] = "NVIDIA H200"
    files.write_json(RECORD, about)
    assert cli.main(["rerun", str(RECORD)]) == 1
    said = capsys.readouterr().out
    assert f"{RESULT}: other bytes" in said
    assert "code: mispair.evaluation.purity\n" in said
    assert "device: NVIDIA H200, now cpu (" in said


def test_nothing_is_run_again_on_another_input(folder: Path, capsys) -> None:
    measure()
    write_projection(1)
    assert cli.main(["rerun", str(RECORD)]) == 2
    assert f"{PROJECTION} has changed: other content" in capsys.readouterr().err
    PROJECTION.unlink()
    assert cli.main(["rerun", str(RECORD)]) == 2
    assert f"{PROJECTION} does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(("part", "name"), [("settings", "angles"), ("job", "projection")])
def test_a_record_of_another_version_of_a_step_is_a_message(folder, capsys, part, name) -> None:
    about = measure()
    if part == "settings":
        about["settings"][name] = 1
    else:
        del about["job"][name]
    files.write_json(RECORD, about)
    assert cli.main(["rerun", str(RECORD)]) == 2
    assert f"{name} of measure_purity is not in both" in capsys.readouterr().err


def test_a_file_that_is_no_record_is_a_message(folder: Path, capsys) -> None:
    measure()
    assert cli.main(["rerun", str(RESULT)]) == 2
    assert "is not a record of a result" in capsys.readouterr().err


# Software ---------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make a checkout with one commit, and take the package to lie in it."""

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    package = tmp_path / "workflow/mispair"
    files.write_text(package / "a.py", "A = 1\n")
    files.write_text(tmp_path / "README.md", "words\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    monkeypatch.setattr(provenance, "CHECKOUT", tmp_path)
    monkeypatch.setattr(provenance, "PACKAGE", package)
    provenance.commit.cache_clear()
    yield git
    provenance.commit.cache_clear()


def test_the_commit_and_whether_the_code_was_changed(checkout, tmp_path: Path) -> None:
    head = checkout("rev-parse", "HEAD")
    assert provenance.commit() == {"commit": head, "changed": False}
    assert provenance.difference() is None
    (tmp_path / "README.md").write_text("other words\n")
    provenance.commit.cache_clear()
    assert provenance.commit() == {"commit": head, "changed": False}
    words = provenance.difference()
    assert words is not None
    (tmp_path / "workflow/mispair/a.py").write_text("A = 2\n")
    provenance.commit.cache_clear()
    assert provenance.commit() == {"commit": head, "changed": True}
    assert provenance.difference() not in (None, words)


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(provenance, "CHECKOUT", tmp_path)
    provenance.commit.cache_clear()
    assert provenance.commit() is None
    assert provenance.difference() is None
    provenance.commit.cache_clear()
