"""Gather what all arms and checkpoints measured, and what became of the pairs, into tidy tables."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """Gathering has no settings: the columns are those of `mispair.report.tables`."""


def run(
    settings: Settings,
    *,
    purity: list[Path],
    zeroshot: list[Path],
    pruning: list[Path],
    simulation: list[Path],
    sufficiency: list[Path],
    pairings: list[Path],
    index: list[Path],
    rejected: list[Path],
    excluded: list[Path],
    statistics: list[Path],
    records: list[Path],
    probes: list[Path],
    comparisons: list[Path],
    exported: list[Path],
    semantics: list[Path],
    bases: list[Path],
    checkpoint_zeroshot: list[Path],
    checkpoint_purity: list[Path],
    checkpoint_origins: list[Path],
    stepsize: list[Path],
    pretraining: list[Path],
    models: str,
    tables: Path,
) -> None:
    """Write one CSV for each kind of measurement, and all of them as one Parquet file.

    ``metrics.csv`` has of the latter what is no part of a measurement, such as a single neuron.

    Every list may be empty: a study that was not run leaves an empty table. Of tables with a row
    for each pair only their metadata and column of reasons are read. Results of arms and
    checkpoints lie in folders ``{towers}/{arm}``. Each of `checkpoint_origins` is the
    ``config.json`` of a converted checkpoint, in a folder of its name; `models` holds the models
    that are compared as the configuration names them, by name, as JSON.
    """
    import pyarrow.parquet as pq

    from mispair.core import files
    from mispair.core.metrics import read_metrics
    from mispair.report import rows as made
    from mispair.report import tables as tidy

    def metadata(path: Path) -> dict[str, str]:
        return files.parquet_metadata(pq.read_schema(path))

    def reasons(paths: list[Path]) -> Counter[str]:
        found: Counter[str] = Counter()
        for path in paths:
            column = pq.read_table(path, columns=["reason"])["reason"].value_counts()
            found.update({row["values"]: row["counts"] for row in column.to_pylist()})
        return found

    rows: dict[str, list[tidy.Row]] = {name: [] for name in tidy.COLUMNS}
    specs = json.loads(models)
    for path in checkpoint_origins:
        converted = files.read_json(path).get("mispair", {})
        specs[path.parent.name] = converted | specs.get(path.parent.name, {})
    for name, spec in specs.items():
        rows["provenance"] += made.origins("checkpoint", spec, name)
    results = {
        "purity": purity, "zeroshot": [*zeroshot, *probes], "pruning": pruning,
        "comparisons": comparisons, "exported": exported, "semantics": semantics,
        "bases": bases,
        "checkpoints": checkpoint_zeroshot,
        made.CHECKPOINT_OVERLAP: checkpoint_purity, "corpus": statistics, "simulation": simulation,
        "sufficiency": sufficiency,
        "stepsize": stepsize,
        "pretraining": pretraining,
    }  # fmt: skip
    for artefact, path in ((name, path) for name, paths in results.items() for path in paths):
        towers = path.parent.parent.name
        parts = made.measured(artefact, *read_metrics(path), towers, specs)
        for name, found in parts.items():
            rows[name] += found
    for path in pairings:
        about = metadata(path)
        rows["pairs"] += made.swaps(about, pq.read_metadata(path).num_rows)
        rows["provenance"] += made.origins("pairing", {**about, "rate": about["nominal"]})
    lost = reasons(excluded) if excluded else None
    rows["pairs"] += made.counts(map(metadata, index), reasons(rejected), lost)
    for path in records:
        rows["encoding"] += made.encoded(path.stem, files.read_json(path))
    rows["purity_map"] = made.of_ends(rows["purity_map"])
    frames = {name: tidy.tidy(name, found) for name, found in rows.items()}
    frames["provenance"] = frames["provenance"].drop_duplicates(ignore_index=True)
    for name, frame in frames.items():
        files.write_csv(tables / f"{name}.csv", frame)
        log.info("%s.csv: %d rows", name, len(frame))
    union = tidy.everything(tidy.Tables.of(frames))
    files.write_parquet(tables / "metrics.parquet", union)
    files.write_arrow_csv(tables / "metrics.csv", tidy.summary(union))
