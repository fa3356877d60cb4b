"""Messages to users are short, wherever they are raised."""

import ast
import re
from functools import cache

from mispair.core.provenance import PACKAGE

SENTENCE_END = r"[.!?](?=\s+[A-Z`{]|\s*$)"


def literal(node: ast.expr) -> str:
    """Return the words of a message, with a letter for each value that is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(v) if isinstance(v, ast.Constant) else "x" for v in node.values)
    return "x"


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Return all calls and formatted values of the code, with their file and line."""
    return [
        (f"{path.relative_to(PACKAGE)}:{node.lineno}", node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call | ast.FormattedValue)
    ]


def messages() -> list[tuple[str, str]]:
    """Return where each message to users is, and its words."""
    return [
        (place, literal(node.args[0]))
        for place, node in nodes()
        if isinstance(node, ast.Call) and node.args
        if "UserError" in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    ]


def test_messages_have_at_most_three_sentences():
    long = [place for place, words in messages() if len(re.findall(SENTENCE_END, words)) > 3]
    assert long == []


def test_shares_are_written_by_percent():
    """`mispair.core.words.percent` writes 54 %, as pages do; a format writes 54%."""
    formats = [
        place
        for place, node in nodes()
        if isinstance(node, ast.FormattedValue) and node.format_spec
        if literal(node.format_spec).endswith("%")
    ]
    assert formats == []


def test_what_cannot_be_read_has_a_remedy():
    told = [(place, words) for place, words in messages() if "cannot be read" in words]
    remedy = re.compile(r"cannot be read.*[.;] \S", re.DOTALL)
    assert told
    without = [place for place, words in told if not remedy.search(words)]
    assert without == []
