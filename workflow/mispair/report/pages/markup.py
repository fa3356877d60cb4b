"""HTML from texts and numbers of a run: escaped, with symbols, and with safe JSON."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup, escape

from mispair.core.words import count, listing, p_value, significant, to_size
from mispair.report import texts
from mispair.report.figures import VEGA_LITE
from mispair.report.table import printed

SYMBOLS = {
    "C_m": Markup("<i>C</i><sub>m</sub>"),
    "C_s": Markup("<i>C</i><sub>s</sub>"),
    "S_h": Markup("<i>S</i><sub>h</sub>"),
}

_CODE = re.compile(r"`([^`\n]+)`")


def safe_json(content: Any) -> Markup:
    """Return JSON for a script element: no character that could end it or begin a comment."""
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


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


@functools.cache
def viewer() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script."""
    return vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg]


@functools.cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates, which escape all text that is not `Markup`."""
    created = jinja2.Environment(
        loader=jinja2.PackageLoader("mispair.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    created.filters["symbols"] = symbols
    created.filters["number"] = significant
    created.filters["printed"] = printed
    created.filters["to_size"] = to_size
    created.filters["p_value"] = p_value
    created.filters["in_unit"] = texts.in_unit
    created.filters["listing"] = listing
    created.filters["sentence"] = texts.text
    created.globals["count"] = count
    created.globals["shared"] = texts.shared
    created.globals["remark"] = texts.remark
    return created


def source(name: str) -> str:
    """Return a file of the templates as it is."""
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]
