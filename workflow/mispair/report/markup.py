"""HTML and scripts from texts of a run, escaped, and parts of the report in own files."""

import json
import re
from typing import Any

from markupsafe import Markup, escape

SYMBOLS = {
    "C_m": Markup("<i>C</i><sub>m</sub>"),
    "C_s": Markup("<i>C</i><sub>s</sub>"),
    "S_h": Markup("<i>S</i><sub>h</sub>"),
}

_CODE = re.compile(r"`([^`\n]+)`")
_AFTER_NUMBER = re.compile(r"(?<=\d) (?=[%a-z][^`]*(?:`[^`]*`[^`]*)*$)")


def unbroken(text: str) -> str:
    r"""Keep each number on the line of the unit or word after it, except in code.

    Examples
    --------
    >>> unbroken("17 % of 200 pairs in `a: 1 b`").replace("\u00a0", "~")
    '17~% of 200~pairs in `a: 1 b`'
    """
    return _AFTER_NUMBER.sub("\u00a0", text)


def symbols(text: object, breaks: bool = False) -> Markup:
    """Escape a text; its C_m, C_s and S_h become letters with subscripts, its backticks code.

    Its numbers stay with their units (`unbroken`), unless it `breaks` at each blank.

    Examples
    --------
    >>> print(symbols("C_m < small in `config.yaml`"))
    <i>C</i><sub>m</sub> &lt; small in <code>config.yaml</code>
    """
    escaped = str(escape(text))
    html = Markup(_CODE.sub(r"<code>\1</code>", escaped if breaks else unbroken(escaped)))
    for name, symbol in SYMBOLS.items():
        html = Markup(str(html).replace(name, str(symbol)))
    return html


def safe_json(content: Any) -> Markup:
    """Return JSON for a script element: no character that could end it or begin a comment."""
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


PIECE = "<!-- piece -->", "<!-- end of the piece -->"
"""What a part of the report is between in a page of its own."""


def piece_of(page: str) -> str:
    """Return the part of the report that is in a page of its own."""
    return page.partition(PIECE[0])[2].rpartition(PIECE[1])[0].strip()
