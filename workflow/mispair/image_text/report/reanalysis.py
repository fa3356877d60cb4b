"""Where accuracy falls in the published table 4.

At C_m = 0 the table has a model that was not fine-tuned, and fine-tuned models at all other C_m.
So the step from 0 to 0.1 is shuffling and fine-tuning together, and only later steps are shuffling
alone.
"""

from __future__ import annotations

import math

import pandas as pd

from mispair.report import published
from mispair.report.table import Number, Table, or_dash
from mispair.report.tables import Tables

MEAN = "mean of the six"


def falls(table: pd.DataFrame) -> pd.DataFrame:
    """Return the fall of accuracy of each data set, before and after the first fine-tuned model.

    Parameters
    ----------
    table : DataFrame
        ``dataset``, ``shuffle_probability`` and ``accuracy``, a share. The lowest probability is
        that of the model that was not fine-tuned.

    Returns
    -------
    DataFrame
        Indexed by data set, and `MEAN` last: accuracy at the ``lowest``, the ``first`` and the
        ``last`` probability above it; ``before`` (first − lowest) and ``after`` (last − first);
        ``share``, the part of the whole change that is before; ``rho``, the rank correlation of
        accuracy with the probability from the first on.
    """
    wide = table.pivot(index="dataset", columns="shuffle_probability", values="accuracy")
    wide.loc[MEAN] = wide.mean()
    tuned = wide.iloc[:, 1:]
    rows = pd.DataFrame(
        {"lowest": wide.iloc[:, 0], "first": tuned.iloc[:, 0], "last": tuned.iloc[:, -1]}
    )
    rows["before"] = rows["first"] - rows["lowest"]
    rows["after"] = rows["last"] - rows["first"]
    rows["share"] = rows["before"] / (rows["last"] - rows["lowest"])
    probabilities = pd.Series(tuned.columns, index=tuned.columns, dtype=float)
    rows["rho"] = [
        values.corr(probabilities, method="spearman") if values.nunique() > 1 else math.nan
        for _, values in tuned.iterrows()
    ]
    return rows


def table4(tables: Tables) -> Table | None:
    """Return table 4's accuracies with the part of each fall that may be due to fine-tuning."""
    if not tables.study("image_text"):
        return None
    rows = tuple(
        (
            str(name), *(Number(row[at]) for at in ("lowest", "first", "last")),
            *(Number(row[change], sign=True) for change in ("before", "after")),
            or_dash(row["share"], 2), or_dash(row["rho"], 2, sign=True),
        )
        for name, row in falls(published.table4()).iterrows()
    )  # fmt: skip
    return Table(
        "Where table 4’s fall of accuracy is",
        ("data set", "C_m 0, not fine-tuned", "C_m 0.1", "C_m 0.8", "from 0 to 0.1",
         "from 0.1 to 0.8", "share of the fall from 0 to 0.1",
         "rank correlation with C_m from 0.1 on"),
        rows,
        "Published numbers. The first step is shuffling and fine-tuning together, because only the "
        "model at C_m 0 was not fine-tuned. The share of a data set whose accuracy falls by less "
        "than a point is a quotient of small numbers.",
        section="What carries the effect",
        folded=True,
    )  # fmt: skip
