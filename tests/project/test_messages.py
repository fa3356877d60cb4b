"""Messages to users are short, wherever they are raised."""

import ast
import re

from mispair.core.provenance import PACKAGE

SENTENCE_END = r"[.!?](?=\s+[A-Z`{]|\s*$)"


def literal(node: ast.expr) -> str:
    """Return the words of a message, with a letter for each value that is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(v) if isinstance(v, ast.Constant) else "x" for v in node.values)
    return "x"


def test_messages_have_at_most_three_sentences():
    long = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("UserError") and node.args
        if len(re.findall(SENTENCE_END, literal(node.args[0]))) > 3
    ]
    assert long == []


def test_shares_are_written_by_percent():
    """`mispair.core.words.percent` writes 54 %, as pages do; a format writes 54%."""
    formats = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FormattedValue) and node.format_spec
        if literal(node.format_spec).endswith("%")
    ]
    assert formats == []


def test_what_cannot_be_read_has_a_remedy():
    without = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("UserError") and node.args
        if "cannot be read" in (words := literal(node.args[0]))
        if not re.search(r"cannot be read.*[.;] \S", words, re.DOTALL)
    ]
    assert without == []
