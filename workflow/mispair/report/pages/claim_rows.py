"""The table of claims: one row a claim, what was measured as written (repaired) and as run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from mispair.core.words import listing, number
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Verdict
from mispair.simulation.report.simulation_runs import PRESETS


@dataclass(frozen=True)
class Row:
    """A claim with its verdicts.

    Attributes
    ----------
    verdicts : tuple of Verdict
        One, or one for each preset that was run.
    absent : tuple of str
        Presets of the simulation that were not run, where another one was.
    """

    claim: Claim
    verdicts: tuple[Verdict, ...]
    absent: tuple[str, ...] = ()

    @property
    def is_split(self) -> bool:
        """Whether the presets of the simulation stand side by side."""
        return bool(self.verdicts[0].preset)

    def of(self, preset: str) -> Verdict | None:
        """Return the verdict on a preset, or None if it was not run."""
        return next((verdict for verdict in self.verdicts if verdict.preset == preset), None)

    @property
    def published(self) -> tuple[str, ...]:
        """What was published; presets may have been run where different points are."""
        return tuple(dict.fromkeys(v.published for v in self.verdicts if v.published))

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """Names of the figures that show it, each with the first preset that it shows."""
        shown = {verdict.claim.figure: verdict.preset for verdict in reversed(self.verdicts)}
        return tuple(reversed(shown.items()))


def rows(judged: Sequence[Verdict]) -> list[Row]:
    """Return one row for each claim, in the order of the verdicts."""
    by_claim: dict[str, list[Verdict]] = {}
    for verdict in judged:
        by_claim.setdefault(verdict.claim.key, []).append(verdict)
    return [
        Row(
            own[0].claim,
            tuple(own),
            tuple(name for name in PRESETS if name not in {v.preset for v in own})
            if own[0].preset
            else (),
        )
        for own in by_claim.values()
    ]


@dataclass(frozen=True)
class Drawing:
    """A figure of the paper that claims nothing: what it shows, and what this run has of it."""

    paper: str
    text: str
    here: str
    figure: str = ""


def drawings(tables: Tables) -> list[Drawing]:
    """Return the figures of the paper that no claim can be measured on, with the reason."""
    return [
        Drawing(
            "figure 6",
            "The architecture: two frozen towers, and two projections whose columns are the "
            "neurons.",
            f"A drawing without a number: nothing to measure. {_neurons(tables)}",
        ),
        Drawing(
            "figure 7",
            "What shuffling does: captions of a share C_m of the pairs change places.",
            _swapped(tables),
            "realised_swaps",
        ),
    ]


def _neurons(tables: Tables) -> str:
    own = tables.purity[tables.purity["metric"] == "neuron_purity"]
    counts = own.groupby("tower")["neuron"].nunique()
    if counts.empty:
        return "The neurons of this run were not measured."
    each = listing([f"{neurons:,} of the {tower} tower" for tower, neurons in counts.items()])
    return f"Neurons in this run: {each}."


def _swapped(tables: Tables) -> str:
    table = tables.of_scheme().pairs
    own = table[(table["metric"] == "swapped_share") & (table["rate"] > 0)]
    shares = own.groupby("rate")["value"].mean()
    if shares.empty:
        return "A drawing; no captions were shuffled in this run."
    apart = (shares - pd.Series(shares.index, shares.index)).abs().max()
    listed = ", ".join(f"{number(value)} at C_m {rate:g}" for rate, value in shares.items())
    return f"Share of pairs really swapped: {listed}; at most {number(apart)} from C_m."
