"""Bad input stops before the first job, with one message that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.conftest import SMOKE, Checkout, new_checkout


def refused(checkout: Checkout, *arguments: str) -> str:
    printed = checkout.snakemake(*arguments, check=False)
    assert "Traceback" not in printed
    assert not (checkout.folder / "results").exists(), "a job ran"
    return printed


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("captions: nowhere.csv", ["captions: there is no file ", "/nowhere.csv."]),
        ("towers: nowhere", ["towers: 'nowhere' is neither"]),
        ("prune_neurons: {ks: [16, 512]}", ["512 is more than the 128 neurons", "1 to 128"]),
        ("trusted: $NOWHERE/a.txt", ["trusted: there is no environment variable $NOWHERE"]),
        (
            "corrupt_captions: {rate: [0.1]}\nfinetune_projection: {epochs: 1, warmup_epochs: 2}\n"
            "simulate: {m: 10}\ncorupt_captions: {}\ncorpus: 2024_11\nstudies: [simulatoin]",
            ["6 mistakes", "corrupt_captions.rate: there is no such key", "Did you mean 'rates'?",
             "warmup_epochs: 2 must be fewer", "simulate: m: 10", "given: 202411", "quote it",
             "corupt_captions: there is no such key. Did you mean 'corrupt_captions'?",
             "studies[0]", "Did you mean 'simulation'?"],
        ),
    ],
)  # fmt: skip
def test_wrong_settings(empty: Checkout, content: str, words: list[str]) -> None:
    (empty.folder / "mine.yaml").write_text(content + "\n")
    printed = refused(empty, "--configfile", "mine.yaml")
    for word in words:
        assert word in printed
    assert "WorkflowError" not in printed


def test_a_mistake_names_its_file_and_the_path_that_was_tried(empty: Checkout) -> None:
    folder = empty.folder / "mine"
    folder.mkdir()
    (folder / "mine.yaml").write_text("coprus: a\n")
    printed = refused(empty, "--configfile", "mine/mine.yaml")
    assert "mine/mine.yaml has 1 mistake" in printed
    printed = refused(empty, "--configfile", SMOKE, "--config", "coprus=a")
    assert "--config has 1 mistake" in printed
    (folder / "mine.yaml").write_text("shards: data/*.tar\n")
    printed = refused(empty, "--configfile", "mine/mine.yaml")
    assert f"{folder}/data/*.tar matches no file" in printed


def test_a_config_that_is_no_yaml(empty: Checkout) -> None:
    (empty.folder / "mine.yaml").write_text("a: [1, 2\nb: }\n")
    printed = refused(empty, "--configfile", "mine.yaml")
    assert "mine.yaml, line 2" in printed


def test_a_failing_step_shows_its_message(empty: Checkout) -> None:
    """That weights are broken is found by the step that reads them."""
    folder = empty.folder / "towers-of-mine"
    folder.mkdir()
    shipped = empty.folder / "workflow/mispair/towers/shipped/scenes-small/open_clip_config.json"
    (folder / shipped.name).write_bytes(shipped.read_bytes())
    (folder / "open_clip_model.safetensors").write_bytes(b"\x08" + bytes(7) + b"{no json")
    (empty.folder / "mine.yaml").write_text("towers: towers-of-mine\n")
    target = "results/arms/scenes/towers-of-mine/untouched/projection.safetensors"
    printed = empty.snakemake(target, "--configfile", "mine.yaml", check=False)
    assert "mispair extract-projection:" in printed
    assert "towers-of-mine" in printed.partition("mispair extract-projection:")[2]
    assert not (empty.folder / target).exists()


@pytest.mark.parametrize(("name", "runs"), [("odd v2 [ä] & 'b'", True), ("odd {v2}", False)])
def test_the_folder_of_the_project_has_an_odd_name(tmp_path: Path, name: str, runs: bool) -> None:
    run = new_checkout(tmp_path / name / "mispair")
    printed = run.snakemake("results/scenes/shards/00000.tar", "--dry-run", check=False)
    assert ("make_scenes" in printed) == runs
    assert ("Rename or move that folder" in printed) != runs
    assert "Traceback" not in printed
