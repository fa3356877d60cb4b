"""The page: everything that was measured, put together into one HTML file that works offline."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup, escape

from mispair import failures
from mispair.evaluation.purity import DEFINITION
from mispair.reporting import (
    catalogue,
    claims_checkpoints,
    claims_image_text,
    claims_pruning,
    claims_schemes,
    claims_simulation,
    claims_stepsize,
    comparison,
    comparison_checkpoints,
    comparison_evaluation,
    comparison_exported,
    comparison_protocols,
    comparison_shuffling,
    comparison_simulation,
    comparison_stepsize,
    controls_image_text,
    corpus,
    encoding,
    figures_semantics,
    missing,
    pairings,
    presets_image_text,
    records,
    simulation_runs,
    verdicts,
)
from mispair.reporting.figures import VEGA_LITE
from mispair.reporting.tables import Tables
from mispair.reporting.words import count, listing

LARGEST_STATIC = 60_000
"""Bytes of the largest SVG that is put into the page itself; larger ones are linked."""

SYMBOLS = {
    "C_m": Markup("<i>C</i><sub>m</sub>"),
    "C_s": Markup("<i>C</i><sub>s</sub>"),
    "S_h": Markup("<i>S</i><sub>h</sub>"),
}


@dataclass(frozen=True)
class Picture:
    """A figure on the page: what the catalogue says, and its drawn forms (None: not there)."""

    figure: catalogue.Figure
    svg: str | None
    spec: Mapping[str, Any] | None

    @property
    def hole(self) -> str | None:
        """Why there is nothing to see, or None."""
        if self.spec is None:
            return "the figure was not drawn"
        return self.spec.get("usermeta", {}).get("mispair", {}).get("hole")

    @property
    def sentence(self) -> str:
        """What the figure shows."""
        if self.spec is None:
            return ""
        return self.spec.get("usermeta", {}).get("mispair", {}).get("sentence", "")

    @property
    def json(self) -> Markup:
        """The chart as JSON that is safe inside a script element."""
        return safe_json(self.spec)

    @property
    def static(self) -> str | None:
        """The picture as a data URI, if it is small enough."""
        if self.svg is None or len(self.svg) > LARGEST_STATIC:
            return None
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg.encode()).decode()


def safe_json(content: Any) -> Markup:
    """Return JSON for a script element: no character that could end it or begin a comment."""
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def symbols(text: object) -> Markup:
    """Escape a text and print its C_m, C_s and S_h as letters with subscripts."""
    html = escape(text)
    for name, symbol in SYMBOLS.items():
        html = Markup(str(html).replace(name, str(symbol)))
    return html


@functools.cache
def _viewer() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script."""
    script = vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg]
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mispair.reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["symbols"] = symbols
    environment.globals["count"] = count
    return environment


def _source(environment: jinja2.Environment, name: str) -> Markup:
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])


def limits(tables: Tables) -> list[str]:
    """Return what this run cannot tell, whatever its numbers are."""
    found = []
    if tables.study("image_text"):
        found.append(
            "One frozen model, one corpus and one draw of swapped captions: seeds differ in the "
            "order of batches only (and in the new weights of re-initialised projections)."
        )
    schemes = tables.schemes
    if schemes and schemes[0] != "random":
        found.append(
            f"Captions were corrupted by the scheme {schemes[0]}, while most published numbers are "
            "of random shuffling."
        )
    if len(schemes) > 1:
        found.append(
            f"Figures and claims are of the scheme {schemes[0]}, where they do not compare it with "
            f"{listing(schemes[1:])}."
        )
    if tables.study("simulation"):
        presets = simulation_runs.presets(tables.simulation)
        missing = [name for name in simulation_runs.PRESETS if name not in presets]
        trials = [
            count(simulation_runs.of_preset(tables.simulation, name)["trial"].nunique(), "trial")
            for name in presets
        ]
        text = ", ".join(f"{name} with {n}" for name, n in zip(presets, trials, strict=True))
        text = f"preset {text} (the paper: fifteen to twenty)"
        if missing:
            text += f"; {listing(missing)} was not run"
        found.append(f"Simulation: {text}.")
    names = tables.protocols
    if names:
        others = f"; {listing(names[1:])} in the table of protocols" if names[1:] else ""
        found.append(
            f"Zero-shot numbers of figures and claims are by the protocol {names[0]}{others}."
        )
    if not tables.study("laclip"):
        found.append(
            "Tables 2 and 3 (LaCLIP checkpoints on public data sets) are not tested on this page."
        )
    return found


def render(
    tables: Tables,
    pictures: Mapping[str, Picture],
    contact_sheet: str | None,
    neurons: str | None,
    benchmarks: Mapping[str, str],
    record: Mapping[str, Any] | None,
    *,
    title: str,
    confidence: float,
    failed: failures.Record | None = None,
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    tables : Tables
        All measurements; empty where a study was not run.
    pictures : mapping of str to Picture
        By figure name.
    contact_sheet : str or None
        Piece of HTML of `mispair.reporting.contact_sheet`, its texts already escaped.
    neurons : str or None
        Piece of HTML of `mispair.reporting.neurons`, its texts already escaped.
    benchmarks : mapping of str to str
        Snakemake's benchmark files by path.
    record : mapping of str to object, or None
        What the run was made with (`mispair.run_record`).
    title : str
        Heading of the page.
    confidence : float
        Of all intervals and tests, between 0 and 1.
    failed : mapping or None
        Failures of the run, of an incomplete report.
    """
    lost = missing.holes(failed) if failed else {}
    judged = [
        *claims_image_text.judge(tables, confidence),
        *claims_pruning.judge(tables, confidence),
        *claims_schemes.judge(tables, confidence),
        *claims_simulation.judge(tables, confidence),
        *claims_checkpoints.judge(tables, confidence),
        *claims_stepsize.judge(tables, confidence),
    ]
    printed = {
        "image_text": _image_text(tables, 1 - confidence),
        "simulation": comparison_simulation.simulation(tables, judged, confidence),
        "laclip": comparison_checkpoints.checkpoints(tables),
        "stepsize": comparison_stepsize.stepsize(tables),
    }
    studies = []
    for study in catalogue.STUDIES:
        drawn = [_picture(pictures, figure) for figure in catalogue.figures(study.key)]
        studies.append({
            "study": study,
            "measured": tables.study(study.key),
            "sections": _sections(
                study, drawn, printed[study.key], _pieces(tables, neurons, study.key), lost
            ),
            "holes": [picture for picture in drawn if picture.hole],
        })  # fmt: skip
    environment = _environment()
    return environment.get_template("index.html.j2").render(
        title=f"Incomplete: {title}" if failed else title,
        failed=failed and {
            "heading": failures.heading(failed),
            "failures": [(job, failures.named(job), failures.why(job)) for job in failed["failed"]],
        },
        lost={
            figure.name: lost.get((study.key, figure.section), [])
            for study in catalogue.STUDIES
            for figure in catalogue.FIGURES[study.key]
        },
        answers=[verdicts.answer(question, judged) for question in verdicts.QUESTIONS],
        answer_rule=verdicts.ANSWERS,
        contradicted=[v for v in judged if v.outcome == verdicts.CONTRADICTS],
        limited=[v for v in judged if v.limited],
        rules=_rules(judged),
        alpha=f"{1 - confidence:g}",
        confidence=f"{100 * confidence:g}",
        limits=limits(tables),
        warnings=[
            *records.warnings(tables),
            *corpus.warnings(tables),
            *encoding.warnings(tables),
            *comparison_evaluation.warnings(tables),
        ],
        holes=records.holes(tables),
        studies=studies,
        tables=[name for name in catalogue.TABLES if name.endswith(".csv")],
        contact_sheet=None if contact_sheet is None else Markup(contact_sheet),
        run_times=records.run_times(benchmarks),
        origin=record and records.origin(record),
        versions=records.versions(),
        fingerprints=records.fingerprints(tables),
        settings=records.settings_of(tables),
        style=_source(environment, "style.css"),
        script=_source(environment, "page.js"),
        viewer=Markup(_viewer()),
    ) + "\n"  # fmt: skip


def _picture(pictures: Mapping[str, Picture], figure: catalogue.Figure) -> Picture:
    return pictures.get(figure.name, Picture(figure, None, None))


def _image_text(tables: Tables, alpha: float) -> list[comparison.Table]:
    """Return the tables of the image-text study."""
    single = (
        controls_image_text.controls(tables, alpha),
        presets_image_text.presets(tables),
        comparison_protocols.protocols(tables, alpha),
        pairings.pairings(tables),
        encoding.encoding(tables),
    )
    return [
        *filter(None, single),
        *comparison_exported.exported(tables),
        *comparison.image_text(tables),
        *comparison_shuffling.shuffling(tables, alpha),
        *comparison_evaluation.evaluation(tables),
        *figures_semantics.semantics(tables),
        *corpus.corpus(tables),
    ]


@dataclass(frozen=True)
class Piece:
    """What a section holds besides figures and tables: a text first, and HTML last."""

    text: str = ""
    html: Markup | None = None


def _pieces(tables: Tables, neurons: str | None, study: str) -> dict[str, Piece]:
    """Return the definition of purity with the gallery of neurons, where purity was measured."""
    if study != "image_text" or (tables.purity.empty and neurons is None):
        return {}
    gallery = None if neurons is None else Markup(neurons)
    return {figures_semantics.SECTION: Piece("" if gallery else DEFINITION, gallery)}


def _sections(
    study: catalogue.Study,
    pictures: Sequence[Picture],
    tables: Sequence[comparison.Table],
    pieces: Mapping[str, Piece],
    lost: Mapping[tuple[str, str], Sequence[missing.Hole]],
) -> list[dict[str, Any]]:
    """Put all where it belongs; sections without anything, and without a hole, are left out."""
    found = [
        {
            "title": title,
            "piece": pieces.get(title, Piece()),
            "pictures": [p for p in pictures if p.figure.section == title and not p.hole],
            "tables": [table for table in tables if table.section == title],
            "lost": lost.get((study.key, title), ()),
        }
        for title in study.sections
    ]
    return [
        section
        for section in found
        if section["pictures"] or section["tables"] or section["lost"] or section["title"] in pieces
    ]


def _rules(judged: Sequence[verdicts.Verdict]) -> list[tuple[str, str]]:
    used = {verdict.claim.rule for verdict in judged}
    return [(name, text) for name, text in verdicts.RULES.items() if name in used]
