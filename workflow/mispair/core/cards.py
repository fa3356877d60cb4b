"""Cards of models and data sets: a ``README.md`` whose front matter the Hugging Face hub reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from tabulate import tabulate

UNKNOWN = "unknown"
"""The hub's name for an unstated licence."""

SIZES = {
    1_000: "n<1K",
    10_000: "1K<n<10K",
    100_000: "10K<n<100K",
    1_000_000: "100K<n<1M",
    10_000_000: "1M<n<10M",
    100_000_000: "10M<n<100M",
}
"""The hub's names of sizes by their upper limit in examples, which is excluded."""


def card(front: Mapping[str, Any], *parts: str) -> str:
    """Return a card as Markdown.

    `front` has the keys of the hub; `parts` are paragraphs, headings, tables and lists.
    """
    matter = yaml.safe_dump(dict(front), sort_keys=False, allow_unicode=True)
    return "\n\n".join([f"---\n{matter}---", *parts]) + "\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; bars in cells are escaped, and line breaks become spaces."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return tabulate(cells, columns, "github", disable_numparse=True)


def assumed(share: str, contradicted: bool) -> str:
    """Return what probabilities of wrong captions are where their share has no lower limit.

    `share` is the one that they are computed for, and `contradicted` states whether the ranks of
    all pairs contradict the trusted ones.
    """
    why = "no lower limit is known without trusted pairs"
    if contradicted:
        why = "the ranks of all pairs contradict the trusted ones, so no lower limit is known"
    return (
        f"Probabilities of wrong captions order pairs by suspicion. They are for an assumed share "
        f"of {share}, so they are not how likely a caption is wrong: {why}."
    )


def size_category(examples: int) -> str:
    """Return the hub's name for a number of examples.

    Examples
    --------
    >>> size_category(20_000)
    '10K<n<100K'
    """
    return next((name for limit, name in SIZES.items() if examples < limit), "n>100M")
