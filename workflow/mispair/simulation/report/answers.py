"""Questions on the simulation, and the sentences that answer them."""

from __future__ import annotations

from mispair.core.words import count
from mispair.report.questions import Findings, Quantity, Question, effect_sentence, named_limits
from mispair.simulation.report.reproduction import foils
from mispair.simulation.report.runs import of_preset, presets

FEATURES = Quantity("the number of purified features")
FILTERING = Quantity(
    "filtering", "points", 100, "raises accuracy", "lowers accuracy", "changes accuracy"
)


def _mixing(findings: Findings) -> str:
    shares = findings.tables.simulation["spurious_probability"].dropna()
    when = f"If wrong captions rise from {100 * shares.min():.3g} to {100 * shares.max():.3g} %"
    return effect_sentence(findings, FEATURES, when)


def _synthetic(findings: Findings) -> str:
    table = findings.tables.simulation
    trials = max(of_preset(table, name)["trial"].nunique() for name in presets(table))
    return f"Sparse codes take the place of pictures and words; {count(trials, 'trial')} at most."


def _filtering(findings: Findings) -> str:
    return effect_sentence(findings, FILTERING, "On average over all shares of wrong captions")


def _limits(findings: Findings) -> str:
    return named_limits(findings) or _synthetic(findings)


def _points(findings: Findings) -> str:
    parts = [f"{verdict.reason} ({verdict.preset})" for verdict in findings.of(findings.lead)]
    return f"{'; '.join(parts)}."


def _tolerances(findings: Findings) -> str:
    foil = foils()[0]
    return (
        f"The tolerances are wide: {foil.passed} of {foil.points} published points would pass for "
        "their neighbours on the curve."
    )


QUESTIONS = (
    Question(
        "In the simulation, do wrong captions make neurons mix features?",
        ("raw-degrades", "raw-mixes", "raw-residual", "raw-fails"),
        _mixing, _synthetic, figure="small_mixing",
    ),
    Question(
        "In the simulation, does filtering repair it?",
        (
            "filtered-accuracy", "filtered-purified_features", "filtered-purified_magnitude",
            "filtered-silhouette", "gap-widens", "nearly-all", "captions-repaired",
            "filtered-unmixes", "text-concentrates", "image-concentrates", "tsne-separates",
            "filtered-residual", "filtered-succeeds", "filtering-not-worse", "high-quality-alone",
            "group-size", "plain-relu", "low-noise",
        ),
        _filtering, _limits, figure="small_filtering",
    ),
    Question(
        "Do the published numbers of the simulation come out again?",
        ("figure1-reproduced", "loss-near-optimal", "alignments-follow"),
        _points, _tolerances, figure="small_reproduction",
    ),
)  # fmt: skip
"""In the order of the page."""
