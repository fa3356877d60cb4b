"""Gather what all arms measured into tidy tables."""

from __future__ import annotations

import logging
from pathlib import Path

from mispair import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """Gathering has no settings: the columns are those of `mispair.reporting.tables`."""


def run(
    settings: Settings,
    *,
    purity: list[Path],
    zeroshot: list[Path],
    pruning: list[Path],
    simulation: list[Path],
    pairings: list[Path],
    index: list[Path],
    rejected: list[Path],
    tables: Path,
) -> None:
    """Write one CSV for each kind of measurement, and all of them as one Parquet file.

    Every list may be empty: a study that was not run leaves an empty table.
    """
    import pyarrow.parquet as pq

    from mispair import files
    from mispair.metrics import read_metrics
    from mispair.reporting import tables as tidy

    def metadata(path: Path) -> dict[str, str]:
        # The rows of millions of pairs are not needed here, only what the file says of them.
        found = pq.read_schema(path).metadata or {}
        return {key.decode(): value.decode() for key, value in found.items()}

    rows: dict[str, list[tidy.Row]] = {name: [] for name in tidy.COLUMNS}
    measured = {"purity": purity, "zeroshot": zeroshot, "pruning": pruning}
    for artefact, paths in {**measured, "simulation": simulation}.items():
        for path in paths:
            found, provenance = read_metrics(path)
            if artefact == "simulation":
                found = tidy.simulated(found, provenance)
                condition = found[0]["condition"] if found else None
                rows["provenance"] += tidy.origins(artefact, provenance, condition)
                for row in found:
                    points = row["metric"] in tidy.POINTS
                    rows["simulation_points" if points else artefact].append(row)
            else:
                rows["provenance"] += tidy.origins(artefact, provenance)
                rows[artefact] += [{**tidy.arm(provenance), **row} for row in found]
    for path in pairings:
        about = metadata(path)
        rows["pairs"] += tidy.swaps(about, pq.read_metadata(path).num_rows)
        rows["provenance"] += tidy.origins("pairing", {**about, "rate": about["nominal"]})
    reasons = [reason for path in rejected for reason in files.read_parquet(path)[0]["reason"]]
    rows["pairs"] += tidy.counts([metadata(path) for path in index], reasons)
    frames = {name: tidy.tidy(name, found) for name, found in rows.items()}
    frames["provenance"] = frames["provenance"].drop_duplicates(ignore_index=True)
    for name, frame in frames.items():
        files.write_csv(tables / f"{name}.csv", frame)
        log.info("%s.csv: %d rows", name, len(frame))
    files.write_parquet(tables / "metrics.parquet", tidy.everything(tidy.Tables.of(frames)))
