"""What the pages of the documentation take from the program, kept in git so that a forge shows it.

Run as ``python bench/docs_pages.py``. A part of a page between ``<!-- from NAME -->`` and
``<!-- /from -->`` is written by this program alone; so is the picture of the rules.
"""

import re
import subprocess
import sys
from collections import defaultdict
from html import escape
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import networkx as nx

from mispair.core import files

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "rules.svg"

PART = re.compile(
    r"(?<=^<!-- from )([\w.]+):(\w+)( -->\n).*?(?=^<!-- /from -->$)", re.MULTILINE | re.DOTALL
)
"""A text of the program in a page, such as that of ``mispair.cli:usage``."""

RULE = re.compile(r"^\s*rule (\w+):|^use rule \w+ as (\w+) with:", re.MULTILINE)

Box = tuple[float, float, float]
"""Left side, upper side and height of a package, in pixels."""

BOX, GAP, LINE, MARGIN = 204, 44, 17, 14
"""Width of a package, width between packages, height of a rule, and margin, in pixels."""

STYLE = """\
text { font: 13px Helvetica, Arial, sans-serif; fill: #1f2933 }
text.name { font-size: 16px; font-weight: bold }
rect { fill: #eef4fb; stroke: #2f6fb3; stroke-width: 1.5 }
rect.paper { fill: #ffffff; stroke: none }
path { fill: none; stroke: #52606d; stroke-width: 1.5; marker-end: url(#tip) }
path.back { stroke-dasharray: 5 4 }
"""


def filled(page: str) -> str:
    """Return a page with the program's own texts between the markers of their names."""
    return PART.sub(lambda part: f"{part[1]}:{part[2]}{part[3]}\n{_text(*part.groups())}\n\n", page)


def _text(module: str, name: str, *_: str) -> str:
    value = getattr(import_module(module), name)
    value = value() if callable(value) else value
    if isinstance(value, dict):
        return "\n".join(f"- **{term}**: {text}" for term, text in value.items())
    return f"```text\n{dedent(value).strip()}\n```" if "\n" in value else value


def packages(folder: Path = ROOT / "workflow" / "rules") -> dict[str, str]:
    """Return the package of each rule: the name of the file of rules that has it."""
    return {
        first or second: path.stem
        for path in sorted(folder.glob("*.smk"))
        for first, second in RULE.findall(path.read_text())
    }


def rule_graph(printed: str) -> nx.DiGraph:
    """Return the graph that ``snakemake --rulegraph mermaid-js`` prints, without the targets."""
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", printed))
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(set(names.values())))
    arrows = re.findall(r"(id\d+) --> (id\d+)", printed)
    graph.add_edges_from((names[one], names[other]) for one, other in arrows)
    graph.remove_nodes_from([rule for rule in names.values() if rule == "default"])
    return graph


def between_packages(rules: nx.DiGraph, package: dict[str, str]) -> tuple[nx.DiGraph, list]:
    """Return which packages read which, without arrows that others imply, and the arrows back.

    Where packages read each other in turn, the arrow with the fewest rules behind it leads back.
    """
    graph, back = nx.DiGraph(), []
    graph.add_nodes_from(sorted({package[rule] for rule in rules}))
    for one, other in sorted(rules.edges):
        ends = package[one], package[other]
        if ends[0] != ends[1]:
            graph.add_edge(*ends, rules=graph.get_edge_data(*ends, {"rules": 0})["rules"] + 1)
    while not nx.is_directed_acyclic_graph(graph):
        cycle = nx.find_cycle(graph)
        weakest = min(cycle, key=lambda edge: (graph.edges[edge]["rules"], edge))
        back.append(weakest)
        graph.remove_edge(*weakest)
    return nx.transitive_reduction(graph), back


def columns(graph: nx.DiGraph) -> list[list[str]]:
    """Return the packages from left to right, each as near to its readers as it can be.

    A name that starts with a number and a blank is no package: an arrow passes there.
    """
    generations = [sorted(part) for part in nx.topological_generations(graph.reverse())][::-1]
    level = {name: at for at, part in enumerate(generations) for name in part}
    result = [list(part) for part in generations]
    for one, other in sorted(graph.edges):
        for at in range(level[one] + 1, level[other]):
            result[at].insert(0, f"{at} {one} {other}")
    return result


def picture(rules: nx.DiGraph, package: dict[str, str]) -> str:
    """Return an SVG picture of the packages with their rules, and of which package reads which."""
    graph, back = between_packages(rules, package)
    members = defaultdict(list)
    for rule in sorted(rules):
        members[package[rule]].append(rule)
    parts = columns(graph)
    heights = {name: (len(members[name]) + 2) * LINE for name in members}
    tall = max(sum(heights.get(name, 0) + GAP for name in part) - GAP for part in parts)
    width = len(parts) * (BOX + GAP) - GAP + 2 * MARGIN
    height = tall + 2 * MARGIN + LINE
    place: dict[str, Box] = {}
    shapes: list[str] = []
    texts: list[str] = []
    for at, part in enumerate(parts):
        x = MARGIN + at * (BOX + GAP)
        y = MARGIN + (tall - sum(heights.get(name, 0) + GAP for name in part) + GAP) / 2
        for name in part:
            high = heights.get(name, 0)
            place[name] = (x, y, high)
            if high:
                shapes.append(f'<rect x="{x}" y="{y:g}" width="{BOX}" height="{high}" rx="8"/>')
                lines = [f'<text class="name" x="{x + 12}" y="{y + 23:g}">{escape(name)}</text>']
                lines += [
                    f'<text x="{x + 12}" y="{y + 42 + LINE * row:g}">{escape(rule)}</text>'
                    for row, rule in enumerate(members[name])
                ]
                texts += lines
            y += high + GAP
    arrows = [_arrow(place, one, other) for one, other in sorted(graph.edges)]
    arrows += [_back(place[one], place[other], height - MARGIN) for one, other in back]
    label = "Packages with their rules; an arrow leads from results to the package that reads them"
    body = "\n".join(shapes + arrows + texts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" role="img" '
        f'aria-label="{label}">\n<style>\n{STYLE}</style>\n<defs><marker id="tip" '
        'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" style="fill:#52606d;stroke:none;marker-end:none"/></marker>'
        "</defs>\n"
        f'<rect class="paper" width="{width}" height="{height:g}"/>\n{body}\n</svg>\n'
    )


def _arrow(place: dict[str, Box], one: str, other: str) -> str:
    """Return the path from a package to another, through the gaps in the columns between."""
    passed = [name for name in place if re.fullmatch(rf"\d+ {one} {other}", name)]
    stops = [one, *sorted(passed, key=lambda name: place[name][0]), other]
    x, y, high = place[one]
    path = f"M{x + BOX:g} {y + high / 2:g}"
    x += BOX
    y += high / 2
    for name in stops[1:]:
        to_x, to_y, high = place[name]
        to_y += high / 2
        to_x -= 3 if high else 0
        bend = (x + to_x) / 2
        path += f"C{bend:g} {y:g} {bend:g} {to_y:g} {to_x:g} {to_y:g}"
        x, y = to_x, to_y
        if not high:
            x += BOX
            path += f"H{x:g}"
    return f'<path d="{path}"/>'


def _back(start: Box, end: Box, low: float) -> str:
    """Return the path of an arrow back: between two of a column, or below all packages."""
    (x0, y0, h0), (x1, y1, h1) = start, end
    if x0 == x1:
        out, into, bend = y0 + 0.75 * h0, y1 + 0.25 * h1, x0 - 0.6 * GAP
        path = f"M{x0} {out:g}C{bend:g} {out:g} {bend:g} {into:g} {x1 - 3} {into:g}"
    else:
        path = f"M{x0} {y0 + 0.85 * h0:g}H{x0 - GAP / 3:g}V{low:g}H{x1 + BOX / 2:g}V{y1 + h1 + 3:g}"
    return f'<path class="back" d="{path}"/>'


def main() -> None:
    """Write the texts of all pages and the picture of the rules of the default configuration."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        if (new := filled(text)) != text:
            files.write_text(page, new)
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--rulegraph", "mermaid-js"],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    files.write_text(PICTURE, picture(rule_graph(done.stdout), packages()))


if __name__ == "__main__":
    main()
