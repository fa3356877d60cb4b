"""What Snakemake refuses without file, line or remedy."""

from pathlib import Path

import pytest

from mispair.core.files import UserError
from mispair.planning.jobs import planned_jobs
from snakemake_logger_plugin_mispair.arguments import refuse_unreadable


@pytest.mark.parametrize(("content", "words"), [
    ("studies: [audit]\n  corpus: x\n", ["line 2", "corpus: x", "column"]),
    ("a:\n  b: 1\n c: 2\n", ["line 3", "c: 2"]),
    ("a:\n\tb: 1\n", ["line 2", "tabs"]),
    ("a: [1, 2\nb: 3\n", ["line 2"]),
    ("a: 'x\n", ["line 2", "end of the file"]),
    ("a:\n  b: 1\n  b: 2\n", ["line 3", "'b'", "twice"]),
    ('{"a": 1,\n "a": 2}', ["line 2", "'a'", "twice"]),
    ("corpus: {{name}}\n", ["line 1", "{{name}}", "quote"]),
    ("corpus: !env NAME\n", ["line 1", "!env", "quote"]),
    ("corpus: 2024-13-45\n", ["month"]),
    ("", ["only comments"]),
    ("# corpus: mine\n", ["only comments"]),
    ("- a\n- b\n", ["no keys"]),
    ("corpus = mine\n", ["no keys"]),
    ('["a"]', ["no keys"]),
    ("a: b: c\n", ["line 1"]),
    (b"\xff\xfea", ["UTF-8"]),
])  # fmt: skip
def test_a_file_that_is_no_yaml(tmp_path: Path, content: str | bytes, words: list[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SystemExit) as error:
        refuse_unreadable(["/bin/snakemake", "-n", "--configfile", str(path), "--cores", "1"])
    assert all(word in str(error.value) for word in ["mine.yaml", *words]), error.value


@pytest.mark.parametrize(("arguments", "words"), [
    (["--configfile", "none.yaml"], ["none.yaml", "No such file"]),
    (["--configfiles=none.yaml"], ["none.yaml"]),
    (["--config", "corpus=x", "ab.cd=3"], ["ab.cd=3", '"ab={cd: 3}"']),
    (["--config", "ab.c.d=3", "--cores", "1"], ['"ab={c: {d: 3}}"']),
    (["--config", "a.b=1"], ['"a={b: 1}"']),
    (["--config", "ab={rates: [0.2}"], ["ab={rates: [0.2}", "brackets"]),
    (["--configfile", "audit"], ["target", "before --configfile"]),
    (["--config", "corpus"], ["KEY=VALUE"]),
    (["-C", "1a=3"], ["KEY=VALUE"]),
])  # fmt: skip
def test_arguments_that_cannot_be_read(arguments: list[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        refuse_unreadable(["snakemake", *arguments])
    assert all(word in str(error.value) for word in words), error.value


def test_a_plan_refuses_them_as_a_run_does() -> None:
    with pytest.raises(UserError, match=r"none\.yaml.*No such file"):
        planned_jobs(["--configfile", "none.yaml"])


def test_good_arguments_and_other_programs_are_left_alone(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text('{\n\t"corpus": "x"\n}\n')
    refuse_unreadable(
        ["snakemake", "--configfile", str(good), "--config", "ab={c: 1}", "cd=", "ef=a[", "-n"]
    )
    good.write_text("a: &a {x: 1}\nb:\n  <<: *a\n  x: 2\nc: {x: 1}\n")
    refuse_unreadable(["snakemake", "--configfile", str(good)])
    refuse_unreadable(["pytest", "--configfile", "none.yaml"])
    refuse_unreadable([])
