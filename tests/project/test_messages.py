"""Messages to users are short, wherever they are raised."""

from __future__ import annotations

import ast
import re

import pytest

from mispair.core.provenance import PACKAGE

SENTENCE_END = r"[.!?](?=\s+[A-Z`{]|\s*$)"


def literal(node: ast.expr) -> str:
    """Return the words of a message, with a letter for each value that is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(v) if isinstance(v, ast.Constant) else "x" for v in node.values)
    return "x"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_messages_have_at_most_three_sentences(path):
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = [node for node in calls if ast.unparse(node.func).endswith("UserError") and node.args]
    long = [m for m in (literal(n.args[0]) for n in names) if len(re.findall(SENTENCE_END, m)) > 3]
    assert not long
