"""The landing page: answers, and every claim of the paper with what was measured on it."""

from __future__ import annotations

from typing import Any

from mispair.core import failures
from mispair.core.words import count, listing
from mispair.evaluation.report import arm_words, comparison_evaluation
from mispair.pairs.report import corpus
from mispair.report import catalogue, verdicts
from mispair.report.pages import claim_rows, records
from mispair.report.pages.content import Content
from mispair.report.pages.limits import limits
from mispair.sufficiency.report.sufficiency_runs import RUN, trained
from mispair.towers.report import encoding


def parts(content: Content) -> dict[str, Any]:
    """Return what the template of the page is given."""
    tables, failed = content.tables, content.failed
    answers = [verdicts.answer(question, content.judged) for question in verdicts.QUESTIONS]
    answers.sort(key=lambda answer: not answer.measured)  # the rest keep the paper's order
    return {
        "failed": failed and {
            "heading": failures.heading(failed),
            "failures": [(job, failures.named(job), failures.why(job)) for job in failed["failed"]],
        },
        "warnings": [
            *records.warnings(tables),
            *corpus.warnings(tables),
            *encoding.warnings(tables),
            *comparison_evaluation.warnings(tables),
        ],
        "summary": _summary(content),
        "answers": [(answer, claim_rows.rows(answer.verdicts)) for answer in answers],
        "drawings": claim_rows.drawings(tables),
        "lost": {
            figure.name: content.lost.get((study.key, figure.section), [])
            for study in catalogue.STUDIES
            for figure in catalogue.FIGURES[study.key]
        },
        "not_run": [study for study in catalogue.STUDIES if study not in content.studies],
        "limits": limits(tables),
        "holes": records.holes(tables),
    }  # fmt: skip


def _summary(content: Content) -> str:
    """Say in one sentence what this run is."""
    tables, found = content.tables, []
    if tables.study("image_text"):
        arms = arm_words.arms(tables.purity, tables.zeroshot, tables.pruning)
        found.append(f"{count(len(arms), 'arm')} of {content.main_model}")
    if content.set_files:
        found.append(count(len(content.set_files), "evaluation set"))
    compared = len(content.model_files) - bool(content.main_model)
    if compared:
        found.append(f"{count(compared, 'model')} compared as they are")
    if tables.study("simulation"):
        runs = tables.simulation[["condition", "spurious_probability", "trial"]].drop_duplicates()
        found.append(count(len(runs), "run of the simulation", "runs of the simulation"))
    for key, runs in (
        ("sufficiency", trained(tables.sufficiency)[RUN].drop_duplicates()),
        ("stepsize", tables.stepsize_runs),
        ("pretraining", tables.pretraining[["scheme", "rate", "seed"]].drop_duplicates()),
    ):
        if tables.study(key):
            found.append(count(len(runs), f"run of the {key} study", f"runs of the {key} study"))
    return f"This run: {listing(found)}." if found else "Nothing was measured in this run."
