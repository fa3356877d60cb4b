"""What Snakemake refuses without file, line or remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from snakemake_logger_plugin_mispair.arguments import refuse_unreadable


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("studies: [audit]\n  corpus: x\n", ["line 2", "corpus: x", "column"]),
        ("a:\n  b: 1\n c: 2\n", ["line 3", "c: 2"]),
        ("a:\n\tb: 1\n", ["line 2", "tabs"]),
        ("a: [1, 2\nb: 3\n", ["line 2"]),
        ("a: 'x\n", ["line 2", "its end"]),
        ("a: b: c\n", ["line 1"]),
        (b"\xff\xfea", ["UTF-8"]),
    ],
)
def test_a_file_that_is_no_yaml(tmp_path: Path, content: str | bytes, words: list[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SystemExit) as error:
        refuse_unreadable(["/bin/snakemake", "-n", "--configfile", str(path), "--cores", "1"])
    assert all(word in str(error.value) for word in ["mine.yaml", *words]), error.value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--configfile", "none.yaml"], ["none.yaml", "No such file"]),
        (["--configfiles=none.yaml"], ["none.yaml"]),
        (["--config", "corpus=x", "ab.cd=3"], ["ab.cd=3", '"ab={cd: 3}"']),
        (["--config", "ab.c.d=3", "--cores", "1"], ['"ab={c: {d: 3}}"']),
        (["--config", "corpus"], ["KEY=VALUE"]),
        (["-C", "1a=3"], ["KEY=VALUE"]),
    ],
)
def test_arguments_that_cannot_be_read(arguments: list[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        refuse_unreadable(["snakemake", *arguments])
    assert all(word in str(error.value) for word in words), error.value


def test_good_arguments_and_other_programs_are_left_alone(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text('{\n\t"corpus": "x"\n}\n')
    refuse_unreadable(
        ["snakemake", "--configfile", str(good), "--config", "ab={c: 1}", "cd=", "-n"]
    )
    refuse_unreadable(["pytest", "--configfile", "none.yaml"])
    refuse_unreadable([])
