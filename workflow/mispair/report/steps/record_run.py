"""Record the provenance of the whole run, so that it can be run again."""

import json
import logging
from pathlib import Path

from mispair.core.settings import Settings

log = logging.getLogger(__name__)


def run(
    settings: Settings,
    *,
    results: list[Path],
    provenance: Path,
    config: str,
    benchmarks: Path,
    record: Path,
) -> None:
    """Write ``run.json``, the file `record`.

    The records of `results`, the final results, lead to all results that they were made from.
    `provenance` is the table of that name, which has the fingerprints; `config` is the
    configuration with all keys, as JSON; `benchmarks` is the folder of benchmark files.
    """
    import pandas as pd

    from mispair.core import files, run_record
    from mispair.core.cost import texts_of
    from mispair.report.pages.records import fingerprints
    from mispair.report.tables import Tables

    records = run_record.ancestry(results, Path("results"))
    outputs = {output for one in records for output in one["outputs"]}
    without = [
        path for path in run_record.files_in(results) if run_record.portable(path) not in outputs
    ]
    description = run_record.describe(
        records, run_record.Digests().of(without), texts_of(benchmarks)
    )
    table = fingerprints(Tables({"provenance": pd.read_csv(provenance)}))
    description["fingerprints"] = [] if table is None else [list(row[:2]) for row in table.rows]
    files.write_json(record, {**json.loads(config), run_record.RECORD: description})
    log.info("%s: %d results of %d jobs", record, len(description["results"]), len(records))
