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


def symbols(text: object) -> Markup:
    """Escape a text; its C_m, C_s and S_h become letters with subscripts, its backticks code.

    Examples
    --------
    >>> print(symbols("C_m < 1 in `config.yaml`"))
    <i>C</i><sub>m</sub> &lt; 1 in <code>config.yaml</code>
    """
    html = Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))
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
