"""Paths of the report; see `mispair.core.paths`."""

from __future__ import annotations

TABLES = "reports/tables"
PROVENANCE = f"{TABLES}/provenance.csv"
CLAIMS = f"{TABLES}/claims.csv"
FIGURES = "reports/figures/{study}"
RUN = "reports/run.json"
PAGE = "reports/index.html"
PAGES = "reports/pages"
LATEX = "reports/latex"
TENSORBOARD = "reports/tensorboard"
