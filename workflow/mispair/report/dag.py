"""Files and code of the jobs of the report."""

from typing import Any

from mispair.core.paths import from_here
from mispair.core.provenance import CHECKOUT, PACKAGE, code_version
from mispair.report import studies
from mispair.report.paths import TABLES


def tables() -> list[str]:
    """Return the tidy tables of the report."""
    names = [*(f"{name}.csv" for name in studies.tables()), "metrics.parquet", "metrics.csv"]
    return [f"{TABLES}/{name}" for name in names]


def code(step: str, *parts: str, study: str | None = None) -> list[str]:
    """Return the code of a step of the report, with modules that it imports by their name.

    `parts` are modules of a study's report besides ``study``: rows, figures or pages. They are
    those of one `study`, or of all.
    """
    modules = studies.modules(*parts, of=[study] if study else studies.NAMES)
    return code_version(step, *studies.modules("study"), *modules)


def files(*patterns: str) -> list[str]:
    """Return data files of the report: code versions see Python modules only.

    A pattern begins at the package ``mispair``.
    """
    found = sorted(path for pattern in patterns for path in PACKAGE.glob(pattern))
    return [from_here(path, CHECKOUT) for path in found]


def piece_files(name: str) -> list[str]:
    """Return the templates of a part of the report that is drawn by a job of its own."""
    shared = (f"report/templates/{file}" for file in ("piece.html.j2", "style.css"))
    return files(f"report/templates/{name}.html.j2", *shared)


def texts_of(study: str) -> list[str]:
    """Return the templates with the words of a study's figures.

    Packages without a page, such as ``pairs``, draw figures of studies.
    """
    packages = (path.parts[-3] for path in PACKAGE.glob("*/report/texts.md.j2"))
    of = [study, *(name for name in packages if name not in studies.NAMES)]
    templates = [f"{name}/report/texts.md.j2" for name in of]
    shared = [f"report/templates/{name}.j2" for name in ("notes", "verdicts")]
    return files(*shared, *templates)


def category(wildcards: Any) -> str:
    """Return the heading of a file of the site in Snakemake's report."""
    return "Report" if hasattr(wildcards, "page") else "Scripts of the report"


def labels(wildcards: Any) -> dict[str, str]:
    """Return the name of a file of the site in Snakemake's report."""
    name = next(iter(wildcards))
    return {"page": "Answers: begin here" if name == "index" else name}
