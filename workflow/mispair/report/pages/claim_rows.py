"""Rows of the table of claims: one for each claim, with its verdict on each preset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mispair.report.verdicts import Claim, Verdict


@dataclass(frozen=True)
class Row:
    """A claim with its verdict, or with one for each preset that was run."""

    claim: Claim
    verdicts: tuple[Verdict, ...]

    @property
    def is_split(self) -> bool:
        """Whether verdicts on presets are side by side."""
        return bool(self.verdicts[0].preset)

    def of(self, preset: str) -> Verdict | None:
        """Return the verdict on a preset, or None if it was not run."""
        return next((verdict for verdict in self.verdicts if verdict.preset == preset), None)

    @property
    def published(self) -> tuple[str, ...]:
        """What was published; presets may be compared with different published points."""
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
    return [Row(of_claim[0].claim, tuple(of_claim)) for of_claim in by_claim.values()]
