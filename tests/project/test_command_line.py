"""The command `mispair` itself: its verbs and steps, their help, and who reads it."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mispair import __version__, cli
from mispair.core.commands import step_names
from mispair.verbs import program
from mispair.verbs.verb import GROUPS, VERBS


def test_the_help_lists_every_verb_once_and_no_step(capsys) -> None:
    assert cli.main([]) == cli.main(["--help"]) == 0
    printed = capsys.readouterr().out
    first = [line.split()[0] for line in printed.splitlines() if line.startswith("  ")]
    assert sorted(first) == sorted([*VERBS] * 2)
    assert {verb.group for verb in VERBS.values()} == set(GROUPS)
    places = [printed.index(f"\n{group}:") for group in GROUPS]
    assert places == sorted(places)
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_steps_are_listed_apart(capsys) -> None:
    assert cli.main(["steps"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [name.replace("_", "-") for name in step_names()]
    assert set(listed) & VERBS.keys() == set()


@pytest.mark.parametrize("name", VERBS)
def test_the_help_of_a_verb_ends_with_an_example_that_it_takes(name: str, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert printed.rstrip().endswith(f"example:\n  {VERBS[name].example}")
    assert VERBS[name].line in " ".join(printed.split())
    # The words after the verb, up to a sign of the shell, are options that its parser takes.
    command = VERBS[name].example.split(f"mispair {name}", 1)[1]
    words = re.split(r"[|>)]", command)[0].split()
    _, rest = VERBS[name].parser().parse_known_args(words)
    assert rest == [] or VERBS[name].of_snakemake


def imported_by(*arguments: str) -> set[str]:
    """Return the modules that a call imports."""
    asked = f"import sys; from mispair import cli; cli.main({[*arguments]}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [["--help"], ["completion", "zsh"]])
def test_help_and_completion_are_there_at_once(arguments: list[str]) -> None:
    """A shell waits for the latter at its start; the help imports neither steps nor libraries."""
    loaded = imported_by(*arguments)
    heavy = {"open_clip", "pandas", "scipy", "snakemake", "torch"}
    if arguments == ["--help"]:
        heavy |= {"numpy", "pyarrow", "yaml"}
        assert [name for name in loaded if ".steps." in name] == []
    assert {name.split(".")[0] for name in loaded} & heavy == set()


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last of some words."""
    typed = " ".join(shlex.quote(word) for word in words)
    asked = (
        f"source /dev/stdin; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _mispair; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", asked], input=program.bash(), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_verbs_steps_options_and_values() -> None:
    assert completed("mispair", "fail") == ["failures"]
    assert completed("mispair", "measure-pur") == ["measure-purity"]
    assert set(completed("mispair", "")) >= VERBS.keys()
    assert completed("mispair", "compare", "--h") == ["--help", "--html"]
    assert completed("mispair", "completion", "z") == ["zsh"]
    assert "--confidence" in completed("mispair", "write-report", "--c")


def test_the_script_for_zsh_has_the_same_words() -> None:
    script = program.zsh()
    for name, options in program.words().items():
        assert f"{name}) found={shlex.quote(' '.join(options))} ;;" in script
    if zsh := shutil.which("zsh"):
        subprocess.run([zsh, "-n"], input=script, text=True, check=True)


def test_an_interruption_during_the_imports_has_no_traceback() -> None:
    interrupted = """
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test in the background inherits none
class Finder:
    def find_spec(self, name, *rest):
        if name == "mispair.verbs":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
runpy.run_module("mispair", run_name="__main__")
"""
    run = subprocess.run([sys.executable, "-c", interrupted, "--help"], capture_output=True)
    assert (run.returncode, run.stdout, run.stderr) == (-signal.SIGINT, b"", b"")


def test_a_reader_who_has_enough_is_no_fault() -> None:
    command = [sys.executable, "-m", "mispair", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, told = process.communicate()
    assert process.returncode == cli.CLOSED_PIPE
    assert told == b""


def test_steps_of_one_process_run_in_order_until_one_fails(tmp_path: Path, capsys) -> None:
    """Each leaves its own results; what is printed last names the one that failed."""
    listed, first, second = (tmp_path / name for name in ("a.parquet", "first", "second"))
    listed.write_text("a")
    steps = [
        ["list-files", "--files", str(listed), "--listings", str(folder / "parquet.sha256")]
        for folder in (first, second)
    ]
    assert cli.main([*steps[0], "+", *steps[1]]) == 0
    written = (second / "parquet.sha256").read_text()
    assert written == (first / "parquet.sha256").read_text() != ""
    (second / "parquet.sha256").unlink()
    failing = ["measure-purity", "--projection", str(listed), "--purity", str(tmp_path / "p.json")]
    assert cli.main([*steps[0], "+", *failing, "+", *steps[1]]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith(f"mispair measure-purity: {listed}")
    assert not (second / "parquet.sha256").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (["corupt-captions"], "Did you mean 'corrupt-captions'?"),
    (["measure-purity", "--projection", "p", "--purity", "q", "--rotations", "-1"], "rotations"),
])  # fmt: skip
def test_command_line_mistakes(arguments: list[str], words: str, capsys) -> None:
    assert cli.main(arguments) == 2
    assert words in capsys.readouterr().err
