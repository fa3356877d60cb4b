"""Bad input stops before the first job, with one message that says what to do."""

import os
import shlex
import shutil
import time
from pathlib import Path

import pytest
import yaml

from tests.pairs.test_index import jpeg, whole, write_tar
from tests.workflow.conftest import SMOKE, Checkout, new_checkout


def refused(checkout: Checkout, *arguments: str) -> str:
    printed = checkout.snakemake(*arguments, check=False)
    assert "Traceback" not in printed
    assert not (checkout.folder / "results").exists(), "a job ran"
    return printed


@pytest.mark.parametrize("key", ["pairs", "captions", "towers"])
def test_no_message_or_file_has_the_password_of_an_address(empty: Checkout, key: str) -> None:
    printed = refused(empty, "--config", f"{key}=ftp://me:hunter2@host/00000.tar")
    assert f"{key}: " in printed
    assert "hunter2" not in printed
    logs = [path.read_text() for path in (empty.folder / ".snakemake/log").rglob("*.log")]
    assert "hunter2" not in "".join(logs)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("captions: nowhere.csv", ["captions: there is no file ", "/nowhere.csv."]),
        ("towers: nowhere", ["towers: 'nowhere' is neither"]),
        ("prune_neurons: {ks: [16, 512]}", ["512 is more than the 128 neurons", "1 to 128"]),
        ("trusted: a.txt\ntrusted: b.txt", ["mine.yaml, line 2", "given twice"]),
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


AUDIT = "studies: [audit]\ncorpus: mine\nshards: pairs.tar\n"
REPAIR = AUDIT.replace("audit", "repair") + "evaluation_sets: [set]\n"
GIVEN = REPAIR + "recaption_pairs: {captioner: given, model: table.csv}\n"
COMPARED = (
    "studies: [laclip]\nevaluation_sets: [set]\nprotocols: [prompts]\n"
    "models: [{name: a, model: ViT-S-32-alt, checkpoint: a.safetensors, quick_gelu: false, "
    "preprocess: openai}]\n"
)


@pytest.mark.parametrize(
    ("ahead", "content"),
    [
        ("pairs.tar", AUDIT),
        ("of_pairs.csv", AUDIT.replace("shards: pairs.tar", "pairs: of_pairs.csv")),
        ("table.csv", AUDIT + "captions: table.csv\n"),
        ("trusted.txt", AUDIT + "trusted: trusted.txt\n"),
        ("labels.csv", AUDIT + "reviewed: labels.csv\n"),
        ("table.csv", AUDIT + "groups: table.csv\nselect_pairs: {group_fields: [caption]}\n"),
        ("texts.txt", AUDIT + "captions: texts.txt\ncaption_keys: keys.txt\n"),
        ("towers/open_clip_model.safetensors", AUDIT + "towers: towers\n"),
        ("set/test/0.tar", REPAIR),
        ("set/zeroshot_classification_templates.txt", REPAIR),
        ("table.csv", GIVEN),
        ("repairs.csv", GIVEN + "reviewed_repairs: repairs.csv\n"),
        ("a.safetensors", COMPARED),
        ("prompts/set.templates.txt", COMPARED),
        ("photos", AUDIT.replace("shards: pairs.tar", "pairs: photos")),
    ],
)
def test_an_input_that_is_dated_ahead_of_the_clock(empty: Checkout, ahead, content) -> None:
    """Files of jobs are refused by name; others, of which no job depends on the time, are used."""
    folder = empty.folder
    write_inputs(folder)
    (folder / "mine.yaml").write_text(content)
    later = time.time() + 3600
    for path in {folder / "mine.yaml", folder / ahead, *(folder / ahead).rglob("*")}:
        os.utime(path, (later, later))
    arguments = ["--dry-run", "--configfile", "mine.yaml"]
    if ahead == "photos":
        empty.snakemake(*arguments)
    else:
        printed = refused(empty, *arguments)
        assert f"{folder / ahead}" in printed
        assert "(hours:minutes:seconds) ahead" in printed


def write_inputs(folder: Path) -> None:
    """Write a small file of each kind that a configuration may name."""
    keys = [f"{number:04d}" for number in range(300)]
    write_tar(folder / "pairs.tar", [member for key in keys for member in whole(key)])
    (folder / "photos").mkdir()
    for key in keys:
        for name, member in whole(key):
            (folder / "photos" / name).write_bytes(member)
    named = "".join(f"photos/{key}.jpg,a text of {key}\n" for key in keys)
    (folder / "of_pairs.csv").write_text(f"filepath,caption\n{named}")
    (folder / "table.csv").write_text("key,caption\n" + "".join(f"{k},a text {k}\n" for k in keys))
    (folder / "keys.txt").write_text("\n".join(keys))
    (folder / "trusted.txt").write_text("\n".join(keys[:100]))
    (folder / "texts.txt").write_text("\n".join(f"a text {key}" for key in keys))
    (folder / "labels.csv").write_text("key,label\n0001,right\n")
    (folder / "repairs.csv").write_text("key,label\n0001,new\n")
    shipped = folder / "workflow/mispair/towers/shipped/scenes-small"
    shutil.copytree(shipped, folder / "towers")
    shutil.copy(folder / "towers/open_clip_model.safetensors", folder / "a.safetensors")
    (folder / "set/test").mkdir(parents=True)
    sample = [("s0.jpg", jpeg()), ("s0.cls", b"0"), ("s1.jpg", jpeg()), ("s1.cls", b"1")]
    write_tar(folder / "set/test/0.tar", sample)
    (folder / "set/test/nshards.txt").write_text("1")
    (folder / "set/classnames.txt").write_text("a\nb\n")
    (folder / "set/zeroshot_classification_templates.txt").write_text("a photo of a {c}\n")
    (folder / "prompts").mkdir()
    (folder / "prompts/set.templates.txt").write_text("a drawing of a {c}\n")


def test_names_with_any_signs_are_single_words_of_commands(tmp_path: Path) -> None:
    """Names of all kinds of inputs: each in quotation marks, or as a word without signs."""
    odd = "o {v2} [1] & 'é' $x;#(%)"
    folder = (run := new_checkout(tmp_path / "m & [ä] 'q'")).folder
    write_inputs(folder)
    (folder / odd).mkdir()
    paths = {}
    for name in ("pairs.tar", "table.csv", "labels.csv", "repairs.csv", "towers", "set", "prompts"):
        path = Path(name)
        paths[path.stem] = f"{odd}/{path.stem} {odd}{path.suffix}"
        (folder / name).rename(folder / paths[path.stem])
    content = {
        "studies": ["audit", "repair"], "corpus": odd, "evaluation_sets": {"set": paths["set"]},
        "shards": paths["pairs"], "captions": paths["table"], "towers": paths["towers"],
        "protocols": [paths["prompts"]], "reviewed": paths["labels"],
        "recaption_pairs": {"captioner": "given", "model": paths["table"]},
        "reviewed_repairs": paths["repairs"], "groups": paths["table"],
        "select_pairs": {"group_fields": ["caption"]},
    }  # fmt: skip
    (folder / "mine.yaml").write_text(yaml.safe_dump(content, allow_unicode=True))
    printed = run.snakemake("--dry-run", "--printshellcmds", "--configfile", "mine.yaml")
    commands = [line for line in printed.splitlines() if " -m mispair " in line]
    words = {word for line in commands for word in shlex.split(line)}
    found = {path for path in paths.values() if any(word.startswith(path) for word in words)}
    assert found == {*paths.values()}
    assert all((folder / word).exists() for word in words if word.startswith(odd))


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
