"""Paths of the review: samples for a person, and what the labels measure."""

from __future__ import annotations

FOLDER = "results/review/{corpus}/{towers}"
SAMPLE = f"{FOLDER}/sample.parquet"
STRATA = f"{FOLDER}/strata.json"
REVIEW = f"{FOLDER}/review.json"
PAIRS = f"{FOLDER}/pairs.parquet"
REPLACED_SAMPLE = f"{FOLDER}/replaced.parquet"
REPLACED = f"{FOLDER}/replaced.json"
PAGE = "reports/review.html"
