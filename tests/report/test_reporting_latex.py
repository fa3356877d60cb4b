"""LaTeX of the report's tables, read back by a strict parser of LaTeX."""

import re

import pytest
from pylatexenc.latex2text import LatexNodes2Text
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMacroNode, LatexWalker

from mispair.report.latex import documents, escape, tabular
from mispair.report.table import Number, Table

NASTY = ["50 % & more_$x$ #1 {a} ~^", r"\input{/etc/passwd} \\ \end{tabular}",
         "<script>alert('x')</script>", "[0.1, 0.2]", "* starred", "a--b---c",
         '"quoted" `ticks` it\'s', "café, naïve, Ångström", "日本 語", "C_m → 0.5, C_s ≤ 1, S_h",
         "−0.25 ± 0.10 (n = 3)"]  # fmt: skip


UNKNOWN = {"textquotedbl": '"', "textperiodcentered": "·"}
"""Macros that the parser has no words for, or others."""


def nodes(text: str) -> list:
    """Parse strictly: an unclosed brace or environment is an error."""
    return LatexWalker(text, tolerant_parsing=False).get_latex_nodes()[0]


def read(text: str) -> str:
    """Return what a reader sees, with signs that TeX draws from others as these others."""
    nodes(text)
    text = re.sub(r"\$(.)_(.)\$", r"\1\\_\2", text)
    for macro, letter in UNKNOWN.items():
        text = text.replace(rf"\{macro}{{}}", letter)
    shown = LatexNodes2Text(math_mode="text", keep_comments=False).latex_to_text(text)
    return " ".join(shown.replace("−", "-").replace("ˆ", "^").split())


def plain(text: str) -> str:
    return " ".join(text.replace("−", "-").replace("\u00a0", " ").split())


@pytest.mark.parametrize("text", NASTY)
def test_every_text_is_printed_as_it_is_and_no_command_runs(text: str) -> None:
    written = escape(text)
    assert read(written) == plain(text)
    macros = set(re.findall(r"\\([A-Za-z]+)", written))
    assert macros <= UNKNOWN.keys() | {
        "ensuremath", "textrightarrow", "leq", "pm", "textbackslash", "textasciitilde",
        "textasciicircum", "textasciigrave", "textquotesingle", "i", "r",
    }  # fmt: skip


@pytest.mark.parametrize("letter", '$&#%_{}<>|"[]*…±÷·→≤≥≈∞αβγσρμηλπΔΘΣ')
def test_each_symbol_reads_as_itself(letter: str) -> None:
    assert read(f"a {escape(letter)} b") == f"a {letter} b"


def test_line_breaks_and_control_characters_cannot_end_a_comment_or_row() -> None:
    assert escape("a\nb\r\nc\x00d\u2028e\u202ef") == "a b  c d e f"


def test_hyphens_of_data_stay_hyphens() -> None:
    assert escape("a--b---c") == "a-{}-b-{}-{}-c"


def test_a_table_has_the_cells_of_the_page_under_its_heads() -> None:
    rows = tuple((name, Number(number, 0), None) for number, name in enumerate(NASTY))
    table = Table("Words & numbers of 50 %", ("name_x", "n", "p"), rows, "A remark: 5 %.")
    text = tabular(table, "group-words")
    (environment,) = [n for n in nodes(text) if isinstance(n, LatexEnvironmentNode)]
    assert environment.environmentname == "table"
    inner = [n for n in environment.nodelist if isinstance(n, LatexEnvironmentNode)]
    (body,) = inner
    assert body.environmentname == "tabular"
    rules = [n.macroname for n in body.nodelist if isinstance(n, LatexMacroNode)]
    assert [name for name in rules if name.endswith("rule")] == ["toprule", "midrule", "bottomrule"]
    # As TeX does: a row ends at two backslashes, a cell at an ampersand that none precedes.
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    cells = [[read(c) for c in re.split(r"(?<!\\) & ", line[4:-3])] for line in lines]
    assert cells == [["name_x", "n", "p"],
                     *([plain(name), str(n), "–"] for n, name in enumerate(NASTY))]  # fmt: skip
    assert r"\begin{tabular}{lrr}" in text
    assert r"\caption{Words \& numbers of 50 \%}" in text
    assert r"\label{tab:group-words}" in text
    assert r"A remark: 5 \%." in text


def test_names_stay_the_same_and_are_not_given_twice() -> None:
    def table(caption: str) -> Table:
        return Table(caption, ("a",), (("1",),))

    captions = ["Accuracy: mean", "Accuracy (again)", "日本", "x" * 200, "Where it says ../../etc"]
    names = list(documents({"image_text": map(table, captions)}))
    assert names == [
        "image_text-accuracy", "image_text-accuracy-2", "image_text-table", "image_text-table-2",
        "image_text-where-it-says-etc",
    ]  # fmt: skip
    assert list(documents({"image_text": map(table, captions)})) == names


def test_letters_with_an_index_are_only_those() -> None:
    for name in ("C_m", "C_s", "S_h", "S_w"):
        assert escape(f"({name})") == f"(${name}$)"
    assert escape("C_max xC_m") == r"C\_max xC\_m"


def test_a_table_without_rows_is_still_a_table() -> None:
    assert r"\begin{tabular}{ll}" in tabular(Table("None", ("a", "b"), ()), "none")
