"""Files of metrics, in which every measuring step writes tidy rows and their provenance."""

import math
from pathlib import Path
from typing import Any

from mispair.core import files

Row = dict[str, Any]


def write_metrics(path: Path, rows: list[Row], provenance: dict[str, Any]) -> None:
    """Write ``{"provenance": ..., "rows": [...]}`` as JSON, one row a line.

    Parameters
    ----------
    path : Path
        File to write.
    rows : list of dict
        Flat rows: ``metric``, ``value`` and, where they apply, ``n``, ``low`` and ``high`` (95 %
        interval), ``chance``, ``seed`` and the step's own keys. A value that is not finite is
        written as null: JSON has no NaN.
    provenance : dict
        Fingerprints of data, model, class list and settings.
    """
    import json

    lines = ",\n".join(
        "  " + json.dumps({key: plain(value) for key, value in row.items()}, allow_nan=False)
        for row in rows
    )
    head = json.dumps(provenance, indent=1, sort_keys=True, allow_nan=False)
    files.write_text(path, f'{{"provenance": {head},\n"rows": [\n{lines}\n]}}\n')


def read_metrics(path: Path) -> tuple[list[Row], dict[str, Any]]:
    """Read what `write_metrics` wrote.

    Raises
    ------
    UserError
        If the file is missing, is not JSON or has another form.
    """
    content = files.read_json(path)
    if not isinstance(content, dict) or not {"rows", "provenance"} <= content.keys():
        raise files.UserError(f"{path}: is not a metrics file of mispair. Delete it and run again.")
    return content["rows"], content["provenance"]


def plain(value: Any) -> Any:
    """Turn NumPy scalars into Python's, and numbers that are not finite into None."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
