"""Where accuracy falls in the published table 4.

At C_m = 0 the table has a model that was not fine-tuned, and fine-tuned models at all other C_m.
So the step from 0 to 0.1 is shuffling and fine-tuning together, and only later steps are shuffling
alone.
"""

from __future__ import annotations

import math

import pandas as pd

from mispair.report import published

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


def falls_after_tuning() -> pd.DataFrame:
    """Return `falls` of every data set of the published table, without their mean."""
    return falls(published.table4()).drop(index=MEAN)
