"""HTML of texts and numbers, and a figure on a page: its chart, picture, and why it is missing."""

import base64
import functools
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from mispair.core.files import read_json
from mispair.core.provenance import COMPILED, keep_compiled
from mispair.core.words import count, listing, p_value, significant, to_size
from mispair.report import studies, texts
from mispair.report.figures import VEGA_LITE
from mispair.report.markup import safe_json, symbols, unbroken
from mispair.report.studies import Figure
from mispair.report.table import printed
from mispair.report.texts import SHARED, Note


@functools.cache
def viewer() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script, which takes three seconds to bundle."""
    version: str = vl_convert.__version__  # type: ignore[attr-defined]
    kept = COMPILED / f"viewer-{version}-{VEGA_LITE}.js"
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_bytes().decode()
    script: str = vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg]
    keep_compiled(kept, script)
    return script


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
    created.filters |= {
        "in_unit": lambda *values, **named: unbroken(texts.in_unit(*values, **named)),
        "bound": lambda *values: unbroken(texts.bound(*values)),
    }
    created.filters["listing"] = listing
    created.filters["sentence"] = texts.text
    created.globals["count"] = lambda *values: unbroken(count(*values))
    created.globals["shared"] = texts.shared
    created.globals["remark"] = texts.remark
    return created


def source(name: str) -> str:
    """Return a file of the templates as it is."""
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]


FEWEST = 20
"""Tables with fewer rows than this are not packed."""


@dataclass(frozen=True)
class PageFigure:
    """A figure on the page: its declaration, and its drawn forms (None: not drawn)."""

    figure: Figure
    svg: str | None
    spec: Mapping[str, Any] | None

    @property
    def _about(self) -> Mapping[str, str]:
        return (self.spec or {}).get("usermeta", {}).get("mispair", {})

    @property
    def hole(self) -> str | None:
        """Why there is nothing to see, or None."""
        if self.spec is None:
            return texts.text(Note(SHARED, "not_drawn"))
        return self._about.get("hole")

    @property
    def sentence(self) -> str:
        """What the figure shows."""
        return self._about.get("sentence", "")

    @property
    def toggles(self) -> bool:
        """Whether a click in the legend selects something."""
        return "params" in (self.spec or {})

    @property
    def json(self) -> Markup:
        """The chart as JSON that is safe inside a script element, its tables packed."""
        return safe_json(packed(self.spec))

    @property
    def static(self) -> str:
        """The picture as a data URI; empty if there is none."""
        if self.svg is None:
            return ""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg.encode()).decode()


def pictures_in(folders: Iterable[Path]) -> dict[str, PageFigure]:
    """Return the drawn figures in some folders by name."""
    pictures = {}
    for figure in studies.drawn():
        for folder in folders:
            svg, spec = (folder / f"{figure.name}.{form}" for form in ("svg", "vl.json"))
            if spec.is_file():
                drawn = svg.read_text(encoding="utf-8") if svg.is_file() else None
                pictures[figure.name] = PageFigure(figure, drawn, read_json(spec))
    return pictures


def packed(node: Any) -> Any:
    """Return a chart with its inline tables by column: a third of the bytes of a list of rows.

    ``templates/page.js`` unpacks them. A column of texts is the list of its distinct values, with
    the index of each row's value; null is a missing value.
    """
    if isinstance(node, Mapping):
        return {
            key: {name: _packed_table(rows) for name, rows in value.items()}
            if key == "datasets"
            else _packed_table(value)
            if key == "values"
            else packed(value)
            for key, value in node.items()
        }
    return [packed(item) for item in node] if isinstance(node, list) else node


def _packed_table(value: Any) -> Any:
    is_table = isinstance(value, list) and all(isinstance(row, dict) for row in value)
    return _columns(value) if is_table and len(value) >= FEWEST else value


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {
        "rows": len(rows),
        "columns": {name: _column(values) for name, values in columns.items()},
    }


def _column(values: list[Any]) -> Any:
    if not all(value is None or isinstance(value, str) for value in values):
        return values
    distinct = list(dict.fromkeys(values))
    position = {value: number for number, value in enumerate(distinct)}
    return {"of": distinct, "at": [position[value] for value in values]}
