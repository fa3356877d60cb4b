"""Words of a page that a reader sees before anything is opened."""

from __future__ import annotations

from typing import Any

import html5lib

LANDING, STUDY = 700, 2_500
"""Most visible words of the landing page and of the page of a study."""

UNSEEN = {"script", "style", "head", "template", "option"}
UNSEEN_CLASSES = {"hidden", "skip"}


def visible_words(html: str) -> int:
    """Return the number of words outside of closed details and of texts for screen readers."""
    root = html5lib.parse(html, treebuilder="etree", namespaceHTMLElements=False)
    return len(" ".join(_texts(root)).split())


def _texts(node: Any) -> list[str]:
    if node.tag in UNSEEN or UNSEEN_CLASSES & {*(node.get("class") or "").split()}:
        return []
    if node.get("hidden") is not None:
        return []
    children = list(node)
    if node.tag == "details" and node.get("open") is None:
        return [text for child in children[:1] if child.tag == "summary" for text in _texts(child)]
    texts = [node.text or ""]
    for child in children:
        texts += [*_texts(child), child.tail or ""]
    return [text for text in texts if text.strip()]
