"""Tables of the report as LaTeX, with booktabs: the same texts and numbers as on its pages."""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from pylatexenc.latexencode import (
    RULE_DICT,
    RULE_REGEX,
    UnicodeToLatexConversionRule,
    UnicodeToLatexEncoder,
)

from mispair.report.table import Cell, Table, printed

LITERAL = {
    '"': r"\textquotedbl", "`": r"\textasciigrave", "'": r"\textquotesingle",
    # LaTeX reads a bracket or a star after the end of a row as a part of its command.
    "[": "{[}", "]": "{]}", "*": "{*}",
    "ᵀ": r"\textsuperscript{T}",
}  # fmt: skip
"""Characters that pylatexenc leaves as they are, although LaTeX prints something else."""

NAMES = re.compile(r"\b(C_m|C_s|S_h|S_w)\b")
"""Letters with an index, as the pages print them."""

_ENCODER = UnicodeToLatexEncoder(
    conversion_rules=[
        UnicodeToLatexConversionRule(
            RULE_REGEX,
            # Without braces two hyphens would become a dash.
            [(NAMES, r"$\1$"), (re.compile("(?<=-)-"), "{}-")],
        ),
        UnicodeToLatexConversionRule(RULE_DICT, {ord(key): text for key, text in LITERAL.items()}),
        "defaults",
    ],
    replacement_latex_protection="braces-after-macro",
    unknown_char_policy="keep",
    unknown_char_warning=False,
)

PREAMBLE = r"""% Written by mispair: do not edit. It needs
% \usepackage{booktabs}, \usepackage[T1]{fontenc} and \usepackage{textcomp}.
"""

LONGEST_NAME = 60
"""Characters of the name of a table's file."""


def escape(text: str) -> str:
    r"""Return a text that LaTeX prints as it is; line breaks and control characters become spaces.

    Letters of other scripts stay: for these, compile with XeLaTeX or LuaLaTeX.

    Examples
    --------
    >>> print(escape("50 % of C_m → \\input{x}"))
    50 \% of $C_m$ \textrightarrow{} \textbackslash{}input\{x\}
    """
    visible = (
        " " if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") else letter
        for letter in text
    )
    latex: str = _ENCODER.unicode_to_latex("".join(visible))
    return latex


def tabular(table: Table, name: str) -> str:
    """Return a table as a float of LaTeX, with its caption, a label and its remark.

    The label is ``tab:`` and `name`, the name of its file.
    """
    columns = "".join(map(_alignment, zip(*table.rows, strict=True))) or "l" * len(table.heads)
    lines = [
        PREAMBLE + r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape(table.caption)}}}",
        rf"  \label{{tab:{name}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        _row(table.heads),
        r"    \midrule",
        *map(_row, table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
    ]
    remarks = " ".join(filter(None, (table.warning, table.remark)))
    if remarks:
        lines.append(rf"  \par\smallskip{{\footnotesize {escape(remarks)}}}")
    return "\n".join([*lines, r"\end{table}", ""])


def _row(cells: Iterable[Cell]) -> str:
    return f"    {' & '.join(escape(printed(cell)) for cell in cells)} \\\\"


def _alignment(cells: tuple[Cell, ...]) -> str:
    """Return ``r`` for a column of numbers, else ``l``."""
    return "l" if any(isinstance(cell, str) for cell in cells) else "r"


def documents(tables: Mapping[str, Iterable[Table]]) -> dict[str, str]:
    """Return the text of each table by the name of its file, without ending.

    A name has the group of the table and the first words of its caption, so it is the same in
    every run. A second table of the same name gets a number.
    """
    texts: dict[str, str] = {}
    for group, of_group in tables.items():
        for table in of_group:
            name = first = f"{group}-{_slug(table.caption)}"
            number = 1
            while name in texts:
                number += 1
                name = f"{first}-{number}"
            texts[name] = tabular(table, name)
    return texts


def _slug(caption: str) -> str:
    """Return the first words of a caption, up to its first colon or bracket.

    Examples
    --------
    >>> _slug("Accuracy on every set: mean ± 1"), _slug("日本")
    ('accuracy-on-every-set', 'table')
    """
    plain = unicodedata.normalize("NFKD", re.split(r": |\(|\. ", caption)[0])
    parts = re.findall(r"[a-z0-9]+", plain.encode("ascii", "ignore").decode().lower())
    name = ""
    for word in parts:
        if len(name) + len(word) >= LONGEST_NAME:
            break
        name = f"{name}-{word}" if name else word
    return name or "table"
