"""Code versions: which edits count, and for which steps."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mispair.core import provenance


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Build a package of two steps, one of which imports a module through another."""
    root = tmp_path / "mispair"
    (root / "study" / "steps").mkdir(parents=True)
    for folder in (root, root / "study", root / "study" / "steps"):
        (folder / "__init__.py").write_text('"""x."""\n')
    (root / "deep.py").write_text("VALUE = 1\n")
    (root / "shallow.py").write_text(
        "def f():\n    from mispair import deep\n    return deep.VALUE\n"
    )
    (root / "study" / "steps" / "one.py").write_text("from mispair.shallow import f\n")
    (root / "study" / "steps" / "two.py").write_text("import json\n")
    monkeypatch.setattr(provenance, "PACKAGE", root)
    monkeypatch.setattr(provenance, "MEMORY", root / "__pycache__" / "versions.json")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield root
    _forget()


def _forget() -> None:
    """Do as a new process would."""
    for cached in (provenance._source, provenance._facts, provenance._known):
        cached.cache_clear()


def _versions() -> tuple[list[str], list[str]]:
    _forget()
    return provenance.code_version("one"), provenance.code_version("two")


def test_an_edit_reaches_the_steps_that_import_it_and_no_other(package: Path) -> None:
    one, two = _versions()
    modules = ["mispair.deep", "mispair.shallow", "mispair.study.steps.one"]
    assert [entry.split()[0] for entry in one] == modules
    (package / "deep.py").write_text("VALUE = 2\n")
    edited_one, edited_two = _versions()
    assert edited_one != one
    assert edited_two == two
    assert len(set(edited_one) - set(one)) == 1, "only the edited module changes its entry"


@pytest.mark.parametrize(("text", "same"), [
    ("# a comment\nVALUE = 1\n", True), ('"""A docstring."""\nVALUE = 1\n', True),
    ("VALUE   =   1\n\n\n", True), ('VALUE = "1"\n', False),
])  # fmt: skip
def test_words_change_nothing_but_a_string_does(package: Path, text: str, same: bool) -> None:
    before = _versions()
    (package / "deep.py").write_text(text)
    assert (_versions() == before) == same


def test_what_is_known_is_not_read_anew_and_never_trusted_for_another_text(package, monkeypatch):
    first = _versions()
    assert provenance.MEMORY.is_file()
    with monkeypatch.context() as patch:
        patch.setattr(provenance.ast, "parse", lambda text: pytest.fail("a module was parsed"))
        assert _versions() == first
    (package / "deep.py").write_text("VALUE = 2\n")
    edited = _versions()
    assert edited != first
    for broken in ("", "[1]", '{"a": 1}', "\x00"):
        provenance.MEMORY.write_text(broken)
        assert _versions() == edited
    provenance.MEMORY.unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert _versions() == edited
    assert not provenance.MEMORY.exists()


def test_fingerprints_keep_parts_apart() -> None:
    assert provenance.fingerprint(["ab", "c"]) != provenance.fingerprint(["a", "bc"])
    assert provenance.fingerprint(["a", "b"]) != provenance.fingerprint(["b", "a"])
