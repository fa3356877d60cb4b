"""`mispair audit PATH` and its relatives: the settings that they write, and what Snakemake gets."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mispair import cli, config
from mispair.core.files import UserError
from mispair.core.provenance import PACKAGE
from mispair.towers.checkpoints import hub_weights
from mispair.towers.checkpoints.hub_weights import SAVED_AS
from mispair.verbs import running
from mispair.verbs.running import SETTINGS, run_snakemake
from mispair.verbs.settings_file import (
    MODEL,
    REPOSITORY,
    STUDIES,
    TAG,
    FirstSettings,
    default_towers,
    name_of,
    towers_of,
)
from tests.towers.test_hub_weights import put_into_cache

REPOSITORY_OF_MISPAIR = Path(__file__).parents[2]


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Collect the words that Snakemake is called with, in place of running it."""
    called: list[list[str]] = []

    def main(given: list[str]) -> None:
        called.append(given)
        assert sys.argv == ["snakemake", *given]
        raise SystemExit(0)

    monkeypatch.setattr("snakemake.cli.main", main)
    monkeypatch.setattr(sys, "argv", ["mispair"])
    return called


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a folder of pairs, `photos`."""
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((folder / SETTINGS).read_text("utf-8"))
    config.validate(content, SETTINGS)
    return content


def option(words: list[str], name: str) -> str:
    (value,) = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    return value


# The settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", STUDIES)
def test_a_verb_writes_valid_settings_and_runs_them(verb, here, words, capsys):
    (here / "checked.txt").write_text("a\n")
    (here / "table.csv").write_text("key,caption\n")
    given = ["photos", "--checked", "checked.txt", "--captions", "table.csv"]
    assert cli.main([verb, *given, "--towers", "shipped", "--cores", "3", "--dry-run"]) == 0
    folder = here / "mispair-photos"
    content = settings(folder)
    assert content["studies"] == [*STUDIES[verb]]
    captions = {"captions": str(here / "table.csv")}
    assert content["pairs"] == {"path": str(here / "photos"), **captions}
    assert content["trusted"] == str(here / "checked.txt")
    assert content["corpus"] == "photos"
    assert content["towers"] == "shipped"
    assert ("filter_captions" in content) == ("repair" in content["studies"])
    assert ("evaluation_sets" in content) == (verb != "audit")
    assert "Warning" in capsys.readouterr().err
    (called,) = words
    assert Path(option(called, "--directory")) == Path("mispair-photos")
    assert Path(option(called, "--configfile")) == Path("mispair-photos") / SETTINGS
    assert Path(option(called, "--snakefile")) == REPOSITORY_OF_MISPAIR / "Snakefile"
    assert called[-2:] == ["--dry-run", "--cores=3"]


def test_labels_are_added_to_a_run_that_has_results(here: Path, words: list[list[str]]) -> None:
    """A person labels after the first run; a list of keys alone is one of trusted pairs."""
    (here / "review.csv").write_text("Key;Label\na;right\n")
    assert cli.main(["audit", "photos", "--towers", "shipped"]) == 0
    folder = here / "mispair-photos"
    (folder / "results").mkdir()
    assert settings(folder).get("reviewed") is None
    assert cli.main(["audit", "photos", "--checked", "review.csv"]) == 0
    content = settings(folder)
    assert content["reviewed"] == str(here / "review.csv")
    assert "trusted" not in content
    assert len(words) == 2


def test_the_second_call_continues_with_an_edited_file(here: Path, words: list[list[str]]) -> None:
    assert cli.main(["audit", "photos", "--towers", "shipped"]) == 0
    file = here / "mispair-photos" / SETTINGS
    edited = file.read_text() + "select_pairs: {cut: 0.4}\n"
    file.write_text(edited)
    assert cli.main(["audit", "photos"]) == 0
    assert cli.main(["audit", "./photos/../photos/"]) == 0
    assert cli.main(["audit", "--out", "mispair-photos"]) == 0
    assert file.read_text() == edited
    assert len(words) == 4


def test_captions_of_shards_are_replaced_and_those_of_pictures_are_found(here, words):
    for name in ("a.csv", "shards/0.tar", "shards/1.tar"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).touch()
    table, towers = str(here / "a.csv"), ("--captions", "a.csv", "--towers", "shipped")
    assert cli.main(["audit", "shards", *towers]) == 0
    content = settings(here / "mispair-shards")
    assert (content["pairs"], content["captions"]) == (str(here / "shards"), table)
    assert cli.main(["audit", "shards/0.tar", "shards/1.tar", *towers, "--out", "two"]) == 0
    content = settings(here / "two")
    assert content["shards"] == [str(here / f"shards/{n}.tar") for n in (0, 1)]
    assert content["captions"] == table
    assert cli.main(["audit", "photos", "--towers", "shipped", "--captions", ".caption"]) == 0
    file = here / "mispair-photos" / SETTINGS
    assert settings(file.parent)["pairs"]["captions"] == ".caption"
    (file.parent / "results").mkdir()
    assert cli.main(["audit", "photos"]) == 0  # what is left out stays
    assert settings(file.parent)["pairs"]["captions"] == ".caption"
    assert cli.main(["audit", "photos", "--captions", "a.csv"]) == 2
    assert cli.main(["audit", "--out", "mispair-photos", "--captions", "a.csv"]) == 2


def test_flags_that_contradict_an_edited_file_are_refused(here, words, capsys):
    (here / "others").mkdir()
    assert cli.main(["audit", "photos", "--towers", "shipped", "--out", "run"]) == 0
    file = here / "run" / SETTINGS
    edited = file.read_text() + "select_pairs: {cut: 0.4}\n"
    file.write_text(edited)
    assert cli.main(["audit", "others", "--towers", "shipped-1", "--out", "run"]) == 2
    told = capsys.readouterr().err
    assert f'  pairs: "{here / "photos"}" there, and "{here / "others"}" by this' in told
    assert "  towers: shipped there, and shipped-1 by this" in told
    assert cli.main(["repair", "photos", "--out", "run"]) == 2
    assert "  studies: [audit] there, and [audit, repair] by this" in capsys.readouterr().err
    assert file.read_text() == edited
    assert len(words) == 1


def test_a_file_as_it_was_written_changes_until_there_are_results(here, words):
    (here / "others").mkdir()
    assert cli.main(["audit", "photos", "--towers", "shipped", "--out", "run"]) == 0
    assert cli.main(["audit", "others", "--towers", "shipped-1", "--out", "run"]) == 0
    content = settings(here / "run")
    assert (content["pairs"], content["towers"]) == (str(here / "others"), "shipped-1")
    (here / "run/results").mkdir()
    assert cli.main(["repair", "others", "--out", "run"]) == 0  # further studies change no result
    assert settings(here / "run")["studies"] == ["audit", "repair"]
    assert cli.main(["audit", "photos", "--out", "run"]) == 2
    assert cli.main(["study", "--out", "run"]) == 0
    content = settings(here / "run")
    assert content["studies"] == ["audit", "repair", "image_text"]
    assert "corrupt_captions" not in content  # the study has shares of its own


@pytest.mark.parametrize("name", [
    "plain", "with blank", "with 'quotes' and \"others\"", "a#b: c",
    "true", "naïve", "1", "{v2} [1] & $x;(%)", "2024-11-02", "~", "null", "- a", "*a", "!a",
    "cafe\u0301",
])  # fmt: skip
def test_settings_have_any_path_and_are_read_again(name: str, tmp_path: Path) -> None:
    start = FirstSettings(
        ("audit",), str(tmp_path / name), towers={"name": name, "folder": f"/{name}"}
    )
    content = yaml.safe_load(start.text)
    assert content["pairs"] == str(tmp_path / name)
    assert content["towers"] == {"name": name, "folder": f"/{name}"}
    assert FirstSettings.read(content, tmp_path) == start
    several = FirstSettings(("repair",), (str(tmp_path / name), "/b"), sets=("scenes-shape", "/s"))
    assert yaml.safe_load(several.text)["shards"] == [str(tmp_path / name), "/b"]
    assert FirstSettings.read(yaml.safe_load(several.text), tmp_path) == several
    elsewhere = FirstSettings(
        ("audit",), {"path": f"/{name}", "captions": ".txt"}, captions=f"/{name}.csv"
    )
    assert FirstSettings.read(yaml.safe_load(elsewhere.text), tmp_path) == elsewhere


def test_the_current_folder_has_its_own_name(here, words, monkeypatch):
    monkeypatch.chdir(here / "photos")
    assert cli.main(["audit", ".", "--towers", "shipped"]) == 0
    content = settings(here / "photos/mispair-photos")
    assert (content["pairs"], content["corpus"]) == (str(here / "photos"), "photos")


@pytest.mark.parametrize("start", ["~/", "$HOME/", "${HOME}/"])
@pytest.mark.parametrize("verb", ["audit", "init"])
def test_a_home_folder_that_no_shell_expanded_is_expanded(verb, start, here, words, monkeypatch):
    """As in `--out=~/a`, in quotes, or from another program."""
    monkeypatch.setenv("HOME", str(here / "home"))
    for name in ("home/photos", "home/model"):
        (here / name).mkdir(parents=True)
    for name in ("checked.txt", "c.csv"):
        (here / "home" / name).write_text("a\n")
    given = [f"--captions={start}c.csv", f"--checked={start}checked.txt", f"--towers={start}model"]
    places = {"audit": [f"{start}photos", f"--out={start}run"],
              "init": [f"{start}run", f"--pairs={start}photos"]}  # fmt: skip
    cli.main([verb, *places[verb], *given])
    content = settings(here / "home/run")
    assert content["pairs"] == {"path": str(here / "home/photos"),
                                "captions": str(here / "home/c.csv")}  # fmt: skip
    assert content["trusted"] == str(here / "home/checked.txt")
    assert content["towers"] == str(here / "home/model")
    assert [path.name for path in here.iterdir() if path.name != "photos"] == ["home"]


def test_several_paths_and_patterns_are_named_by_their_folder(here: Path) -> None:
    assert name_of("/data/*/x.tar") == "data"
    assert name_of(["/data/cc3m/0.tar", "/data/cc3m/1.tar"]) == "cc3m"
    assert name_of(["/data/one.tar"]) == "one"
    assert name_of(str(here / "b[1]")) == name_of(str(here))
    (here / "b[1]").mkdir()
    assert name_of(str(here / "b[1]")) == "b-1"


def test_init_writes_settings_that_are_valid_and_replaces_none(here: Path, capsys) -> None:
    assert cli.main(["init", "runs/trial"]) == 0
    assert settings(here / "runs/trial")["pairs"] == "generated"
    assert cli.main(["init", "runs/own", "--pairs", "photos", "--towers", "photos"]) == 0
    assert settings(here / "runs/own")["towers"] == str(here / "photos")
    assert cli.main(["init", "runs/own"]) == 2


def test_remote_shards_are_named_by_their_address(here: Path, words: list[list[str]]) -> None:
    shards = "s3://bucket/cc3m/{00000..00331}.tar"
    for _ in range(2):
        assert cli.main(["audit", shards, "--towers", "shipped", "--out", "run"]) == 0
        assert settings(here / "run")["pairs"] == shards
    assert cli.main(["audit", "https://x.invalid/set/", "--towers", "shipped"]) == 0
    assert settings(here / "mispair-set")["pairs"] == "https://x.invalid/set/"
    assert cli.main(["init", "own", "--pairs", shards, "--towers", "shipped"]) == 0
    assert settings(here / "own")["pairs"] == shards
    assert len(words) == 3


@pytest.mark.parametrize(("arguments", "told"), [
    (["photoz"], "PATH: there is no file or folder "),
    (["https://x.invalid/a.csv"], "PATH: https://x.invalid/a"),
    (["S3://b/0.tar"], "write s3://"),
    (["s3://me:word@b/0.tar"], "b/0.tar has a password"),
    (["s3://b/0.tar", "--key-column", "a"], "Tar shards have"),
    ([], "Name the pairs"),
    (["--out", "run"], "Name the pairs as PATH"),
    (["photos", "--checked", "a.txt"], "--checked: there is"),
    (["photos", "--configfile", "a"], "`mispair run` takes"),
    (["photos", "--out", "a.jpg"], "a.jpg/mispair.yaml: cannot be"),
    (["photos", "--out", "/proc/none"], "/proc/none/mispair.yaml: cannot be"),
    (["photos", "--out", "taken"], "taken/mispair.yaml: cannot be"),
    (["of.tar", "a.jpg"], "a.jpg has none"),
    (["of.tar", "photos"], "photos has none"),
    *((["photos", "--cores", cores], f"--cores {cores}") for cores in ("0", "-1", "many")),
    (["photos", "--towers", "ViT-B-16:opennai"], "no tag 'opennai'. It has openai"),
])  # fmt: skip
def test_mistakes_are_named_before_anything_is_written(arguments, told, here, words, capsys):
    (here / "a.jpg").touch()
    (here / "of.tar").touch()
    (here / "taken" / SETTINGS).mkdir(parents=True)  # a folder in the place of the file
    before = {*here.rglob("*")}
    assert cli.main(["audit", "--towers=shipped", *arguments]) == 2
    assert told in capsys.readouterr().err
    assert cli.main(["init", "a.jpg", "--towers", "shipped"]) == 2
    assert words == []
    assert {*here.rglob("*")} == before


@pytest.mark.parametrize(("content", "key"), [
    (b"studies: audit\n", "studies"),
    (b"studies:\n", "studies"),
    (b"pairs: 3\n", "pairs"),
    (b"pairs: {captions: 3}\n", "pairs.path"),
    (b"trusted: [a]\n", "trusted"),
    (b"cut: 0.4\n", "select_pairs.cut"),
])  # fmt: skip
def test_mistakes_in_an_edited_file_are_named(content, key, here, words, capsys):
    (here / "run").mkdir()
    (here / "run" / SETTINGS).write_bytes(content)
    assert cli.main(["audit", "photos", "--out", "run"]) == 2
    told = capsys.readouterr().err
    assert f"run/{SETTINGS} has" in told
    assert f"  {key}: " in told or f"It is {key};" in told
    assert (here / "run" / SETTINGS).read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"- a\n", b"a: [\n", b"corpus: caf\xe9\n"])
def test_a_file_that_is_no_configuration_is_left_to_the_start_of_snakemake(content, here, words):
    (here / "run").mkdir()
    (here / "run" / SETTINGS).write_bytes(content)
    assert cli.main(["audit", "photos", "--out", "run"]) == 0
    assert len(words) == 1
    assert (here / "run" / SETTINGS).read_bytes() == content


def test_an_edited_file_may_have_shards_with_names(here: Path, words: list[list[str]]) -> None:
    (here / "run").mkdir()
    (here / "run" / SETTINGS).write_text("studies: [audit]\nshards: {a: x.tar, b: [y.tar]}\n")
    assert cli.main(["audit", "--out", "run"]) == 0
    assert cli.main(["repair", "--out", "run"]) == 2  # other studies than in the edited file


def test_a_path_in_another_encoding_is_refused(here: Path, words: list[list[str]], capsys) -> None:
    other = os.fsdecode(b"caf\xe9")
    try:
        (here / other).mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    audit = ["audit", "--towers", "shipped"]
    assert cli.main([*audit, other, "--out", "run"]) == 2
    assert cli.main([*audit, "photos", "--out", f"{other}/run"]) == 2
    told = capsys.readouterr().err
    assert told.count("UTF-8") == 2
    assert "pairs: " in told  # the line, and not the whole file
    assert "corpus: " not in told
    assert words == []
    assert {path.name for path in here.rglob("*")} == {"photos", other}


def test_settings_of_a_refused_run_are_removed_again(here, monkeypatch, capsys):
    def refuse(words: list[str]) -> None:
        Path(option(words, "--directory"), ".snakemake/log").mkdir(parents=True, exist_ok=True)
        raise SystemExit("trusted: names no key")

    def fail(words: list[str]) -> None:
        Path(option(words, "--directory"), ".snakemake").mkdir()
        Path(option(words, "--directory"), "logs").mkdir()
        raise SystemExit(1)

    (here / "mine").mkdir()
    (here / "used/.snakemake/log").mkdir(parents=True)
    (here / "used/notes.txt").touch()
    before = {*here.rglob("*")}
    audit = ["audit", "photos", "--towers", "shipped", "--out"]
    monkeypatch.setattr("snakemake.cli.main", refuse)
    for folder in ("new", "mine", "used", "mine/deep/deeper"):
        with pytest.raises(SystemExit):
            cli.main([*audit, folder])
        assert f"{folder}/{SETTINGS}: removed" in capsys.readouterr().err
    assert {*here.rglob("*")} == before
    monkeypatch.setattr("snakemake.cli.main", fail)
    assert cli.main([*audit, "new"]) == 1
    assert "removed" not in capsys.readouterr().err
    written = (here / "new" / SETTINGS).read_text()
    monkeypatch.setattr("snakemake.cli.main", refuse)
    with pytest.raises(SystemExit):
        cli.main([*audit, "new"])  # it was there before
    assert (here / "new" / SETTINGS).read_text() == written


# The model ---------------------------------------------------------------------------------------


def test_a_model_is_named_by_name_folder_or_tag(here: Path) -> None:
    assert towers_of("shipped-1") == "shipped-1"
    assert towers_of("photos") == str(here / "photos")
    named = towers_of("ViT-B-16:openai")
    assert named == {"name": "ViT-B-16-openai", "model": "ViT-B-16", "pretrained": "openai"}
    config.validate({"towers": named}, SETTINGS)
    (here / "weights.pt").touch()
    for word, told in (
        ("ViT-B-16", "Its tag is missing"),
        ("VitB16:openai", "--towers shipped"),
        ("weights.pt", "quick_gelu"),
        ("nowhere", "--towers FOLDER"),
    ):
        with pytest.raises(UserError, match=told):
            towers_of(word)


@pytest.mark.parametrize("name", SAVED_AS)
def test_a_cached_model_is_taken_without_a_network(name, here, words, monkeypatch, capsys):
    put_into_cache(here / "cache", REPOSITORY, name).write_bytes(bytes(3_000_000))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(here / "cache"))
    monkeypatch.setattr(hub_weights, "_ask", lambda weights: pytest.fail("asked the hub"))
    assert cli.main(["audit", "photos"]) == 0
    assert f"{MODEL} with {TAG}, which is in the cache (3 MB)" in capsys.readouterr().err
    assert settings(here / "mispair-photos")["towers"] == towers_of(f"{MODEL}:{TAG}")


def test_a_model_is_fetched_after_its_size_is_stated(tmp_path, monkeypatch):
    hub_weights.offered.cache_clear()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub_weights, "_ask", lambda weights: hub_weights.Offer(605_143_316))
    towers, line = default_towers()
    assert towers == towers_of(f"{MODEL}:{TAG}")
    assert line.endswith("which is fetched once (605 MB)")


def test_without_cache_and_network_the_ways_are_listed(here, words, monkeypatch, capsys):
    hub_weights.offered.cache_clear()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(here / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert cli.main(["audit", "photos"]) == 2
    told = capsys.readouterr().err
    assert all(f"--towers {way}" in told for way in ("MODEL:TAG", "FOLDER", "shipped"))
    assert words == []
    assert not (here / "mispair-photos").exists()


def test_the_model_is_the_one_of_open_clips_table() -> None:
    from mispair.towers.light_open_clip import open_clip

    assert open_clip.get_pretrained_cfg(MODEL, TAG)["hf_hub"] == f"{REPOSITORY}/"


# Snakemake ---------------------------------------------------------------------------------------


def test_the_users_options_override_those_that_are_set(words: list[list[str]]) -> None:
    given = ["target", "--cores", "2"]
    assert run_snakemake(["--directory=a"], given) == 0
    assert words[0] == ["--directory=a", "--logger=mispair", "--cores=all", *given]
    assert run_snakemake([], ["--executor", "slurm", "-j", "100"]) == 0
    assert not [word for word in words[1] if word.startswith("--cores")]


@pytest.mark.parametrize("code", [0, 1, None])
def test_the_exit_code_is_that_of_snakemake(code, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mispair"])
    monkeypatch.setattr("snakemake.cli.main", lambda words: sys.exit(code))
    assert run_snakemake([], []) == (code or 0)


def test_run_takes_the_settings_of_this_folder(here: Path, words: list[list[str]], capsys) -> None:
    assert cli.main(["run", "--dry-run"]) == 0
    assert "this is the demo" in capsys.readouterr().err
    assert not [word for word in words[0] if word.startswith("--configfile")]
    (here / SETTINGS).write_text("studies: [audit]\n")
    assert cli.main(["run", "audit"]) == 0
    assert option(words[1], "--configfile") == SETTINGS
    assert cli.main(["run", "--configfile", "other.yaml"]) == 0
    assert words[2][-2:] == ["--configfile", "other.yaml"]
    assert f"--configfile={SETTINGS}" not in words[2]
    assert capsys.readouterr().err == ""


def test_the_workflow_of_an_installed_package_precedes_what_surrounds_it(tmp_path, monkeypatch):
    package = tmp_path / "site-packages/mispair"
    package.mkdir(parents=True)
    monkeypatch.setattr(running, "PACKAGE", package)
    monkeypatch.setattr(running, "CHECKOUT", tmp_path)
    with pytest.raises(UserError, match="lacks the workflow"):
        running.snakefile()
    shutil.copytree(PACKAGE.parent / "rules", tmp_path / "workflow/rules")
    (tmp_path / "workflow/Snakefile").touch()
    assert running.snakefile() == tmp_path / "Snakefile"
    (package / "workflow_files/workflow").mkdir(parents=True)
    (package / "workflow_files/workflow/Snakefile").touch()
    assert running.snakefile() == package / "workflow_files/Snakefile"
