"""JSON inside a script element of a page."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup


def safe_json(content: Any) -> Markup:
    """Return JSON for a script element: no character that could end it or begin a comment."""
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
