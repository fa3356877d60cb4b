"""What a run cannot tell, whatever its numbers are."""

from __future__ import annotations

from mispair.core.words import count, listing
from mispair.report.tables import Tables
from mispair.simulation.report import simulation_runs


def limits(tables: Tables) -> list[str]:
    """Return what this run cannot tell."""
    found = []
    if tables.study("image_text"):
        found.append(
            "One frozen model and one corpus: intervals are over draws of swapped captions, pairs "
            "and batches (a seed has its own of each), and say nothing about another model."
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
        found.append(_trials(tables))
    names = tables.protocols
    if names:
        others = f"; {listing(names[1:])} in the table of protocols" if names[1:] else ""
        found.append(
            f"Zero-shot numbers of figures and claims are by the protocol {names[0]}{others}."
        )
    if not tables.study("laclip"):
        found.append(
            "Tables 2 and 3 (LaCLIP checkpoints on public data sets) are not tested in this report."
        )
    return found


def _trials(tables: Tables) -> str:
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
    return f"Simulation: {text}."
