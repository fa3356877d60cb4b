"""Gather what all arms measured, and what became of the pairs, into tidy tables."""

from __future__ import annotations

import logging
from collections import Counter
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
    excluded: list[Path],
    statistics: list[Path],
    records: list[Path],
    tables: Path,
) -> None:
    """Write one CSV for each kind of measurement, and all of them as one Parquet file.

    Every list may be empty: a study that was not run leaves an empty table. Of tables with a row
    for each pair only their metadata and column of reasons are read.
    """
    import pyarrow.parquet as pq

    from mispair import files
    from mispair.metrics import read_metrics
    from mispair.reporting import tables as tidy

    def metadata(path: Path) -> dict[str, str]:
        return files.parquet_metadata(pq.read_schema(path))

    def reasons(paths: list[Path]) -> Counter[str]:
        found: Counter[str] = Counter()
        for path in paths:
            column = pq.read_table(path, columns=["reason"])["reason"].value_counts()
            found.update({row["values"]: row["counts"] for row in column.to_pylist()})
        return found

    rows: dict[str, list[tidy.Row]] = {name: [] for name in tidy.COLUMNS}
    measured = {"purity": purity, "zeroshot": zeroshot, "pruning": pruning, "corpus": statistics}
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
    lost = reasons(excluded) if excluded else None
    rows["pairs"] += tidy.counts(map(metadata, index), reasons(rejected), lost)
    for path in records:
        rows["encoding"] += tidy.encoded(path.stem, files.read_json(path))
    frames = {name: tidy.tidy(name, found) for name, found in rows.items()}
    frames["provenance"] = frames["provenance"].drop_duplicates(ignore_index=True)
    for name, frame in frames.items():
        files.write_csv(tables / f"{name}.csv", frame)
        log.info("%s.csv: %d rows", name, len(frame))
    files.write_parquet(tables / "metrics.parquet", tidy.everything(tidy.Tables.of(frames)))
