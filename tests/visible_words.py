"""What a reader sees of a page: its words, and those before anything is opened."""

from typing import Any

import html5lib

LANDING, STUDY = 600, 2_500
"""Most visible words of the landing page and of the page of a study."""

UNSEEN = {"script", "style", "head", "template", "option"}
UNSEEN_CLASSES = {"hidden", "skip"}


def parsed(html: str) -> Any:
    """Parse a page as the standard says; any error is raised."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(html)


def words(html: str) -> str:
    """Return all words of a page, or of several, with single blanks between them."""
    root = html5lib.parse(html, treebuilder="etree", namespaceHTMLElements=False)
    skipped = {id(inner) for tag in ("script", "style") for inner in root.iter(tag)}
    texts = [
        text
        for node in root.iter()
        for text in ((node.text if id(node) not in skipped else ""), node.tail)
        if text
    ]
    return " ".join(" ".join(texts).split())


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
