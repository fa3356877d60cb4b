"""Every note that code can make has its macro, with the same arguments, and every macro is used."""

import ast
import functools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jinja2.nodes
import pytest

from mispair.core.provenance import PACKAGE
from mispair.report import dag as of_report
from mispair.report import studies, texts
from mispair.report.claims import Claim, MeasuredClaim
from mispair.report.judge import PartVerdict, Verdict
from mispair.report.pages import study_pages
from mispair.report.statistics import Effect
from mispair.report.texts import Note


class Made(NamedTuple):
    """A note in the code: where it is made, its package, key, and the names of its values."""

    where: str
    package: str
    key: str
    names: frozenset[str | None]


def made() -> Iterator[Made]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Note":
                package, key = (_constant(argument) for argument in node.args)
                names = frozenset(keyword.arg for keyword in node.keywords)
                yield Made(f"{path.relative_to(PACKAGE)}:{node.lineno}", package, key, names)


def _constant(argument: ast.expr) -> str:
    if isinstance(argument, ast.Name) and argument.id == "SHARED":
        return texts.SHARED
    assert isinstance(argument, ast.Constant), f"{ast.unparse(argument)}: not a constant"
    return str(argument.value)


MADE = [*made()]


@functools.cache
def macros(path: str) -> dict[str, jinja2.nodes.Macro]:
    tree = texts.environment().parse((PACKAGE / path).read_text("utf-8"))
    return {macro.name: macro for macro in tree.find_all(jinja2.nodes.Macro)}


def called(path: str) -> set[str]:
    """Return the names that some other macro of a template calls."""
    return {
        name.name
        for macro in macros(path).values()
        for call in macro.find_all((jinja2.nodes.Call,))
        for name in (call.node,)
        if isinstance(name, jinja2.nodes.Name) and name.name != macro.name
    }


@pytest.mark.parametrize("note", MADE, ids=lambda note: note.where)
def test_every_note_has_its_macro_with_its_arguments(note: Made) -> None:
    macro = macros(texts.path_of(note.package)).get(note.key)
    assert macro is not None, f"{texts.path_of(note.package)} has no macro {note.key}"
    names = {argument.name for argument in macro.args}
    needed = {argument.name for argument in macro.args[: len(macro.args) - len(macro.defaults)]}
    assert needed <= note.names <= names


TEMPLATES = [
    texts.NOTES, *(str(path.relative_to(PACKAGE)) for path in PACKAGE.glob("*/report/texts.md.j2"))
]  # fmt: skip


@pytest.mark.parametrize("study", studies.NAMES)
def test_the_words_of_a_figure_are_inputs_of_its_job(study: str) -> None:
    modules = {line.split()[0] for line in of_report.code("draw_figures", "figures", study=study)}
    files = {f"{module.removeprefix('mispair.').replace('.', '/')}.py" for module in modules}
    needed = {texts.path_of(note.package) for note in MADE if note.where.partition(":")[0] in files}
    given = {str(Path(path).resolve().relative_to(PACKAGE)) for path in of_report.texts_of(study)}
    assert {texts.NOTES, texts.path_of(study)} <= needed <= given


@pytest.mark.parametrize("path", TEMPLATES)
def test_every_macro_is_used(path: str) -> None:
    used = defaultdict(set)
    for note in MADE:
        used[texts.path_of(note.package)].add(note.key)
    for study in (claim.study for pages in study_pages.every_pages() for claim in pages.claims):
        pages, keys = study_pages.pages(study), used[f"{study}/report/texts.md.j2"]
        keys |= {f"remark_{claim.key}" for claim in pages.claims}
        keys |= {
            f"{part}_{question.key}"
            for question in pages.questions
            for part in ("answer", "finding", "limit", "advice")
        }
    names = {name.replace("-", "_") for name in used[path]} | called(path)
    assert macros(path).keys() <= names


def test_a_note_without_a_macro_is_an_error() -> None:
    with pytest.raises(LookupError, match="pairs/report/texts.md.j2 has no macro missing"):
        texts.text(Note("pairs", "missing"))


def test_blanks_before_punctuation_stay_in_names_from_data() -> None:
    name = "a , b :) <b>&"
    assert name in texts.text(Note("image_text", "warning_waiting", device=name, bound=0.3, jobs=1,
                                   most=0.5))  # fmt: skip
    policies = {name: "x ."}
    assert f"{name} x ." in texts.text(Note("pairs", "counts_policies", policies=policies))


def _unguarded(node: jinja2.nodes.Node, guarded: bool = False) -> Iterator[int]:
    """Yield the lines that print a lower limit outside of a condition that there is one."""
    if isinstance(node, jinja2.nodes.If):
        asked = (node.test, *node.test.find_all(jinja2.nodes.Getattr))
        known = "known" in {getattr(part, "attr", None) for part in asked}
        for part in node.body:
            yield from _unguarded(part, guarded or known)
        for part in (*node.elif_, *node.else_):
            yield from _unguarded(part, guarded)
        return
    printed = node.find_all(jinja2.nodes.Getattr) if isinstance(node, jinja2.nodes.Output) else ()
    if not guarded and any(part.attr == "low" for part in printed):
        yield node.lineno
    for part in node.iter_child_nodes():
        yield from _unguarded(part, guarded)


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.j2")), ids=lambda path: path.parent.parent.name
)
def test_an_interval_is_printed_only_where_there_is_one(path: Path) -> None:
    """Otherwise a page has "(not measured to not measured)"."""
    assert not [*_unguarded(texts.environment().parse(path.read_text("utf-8")))]


def test_a_part_without_an_interval_names_what_is_missing() -> None:
    nan = math.nan
    alone = Effect(0.02, nan, nan, nan, 1, "seed")
    claim = Claim("", "", "", "", "", lambda *_: MeasuredClaim(), unit="points")
    whole = Verdict(claim, "cannot tell", "one replicate", MeasuredClaim(), 0.1)
    printed = texts.shared("brief", PartVerdict("text", alone, 0.1, "cannot tell"), whole)
    assert "not measured" not in printed
    assert "1 seed" in printed
    unknown = replace(alone, value=nan, error=0.1)
    part = PartVerdict("text", unknown, 0.1, "cannot tell")
    assert texts.shared("brief", part, whole) == "not measured"
