"""What an audit reports on the texts of its pairs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mispair.audit.texts.group_rates import SCRIPT
from mispair.audit.texts.scripts import scripts_of
from mispair.audit.texts.suspect_texts import LEAST_SUSPECTS, suspect_rows, suspects
from mispair.audit.texts.text_checks import check_rows, checked
from mispair.core.metrics import Row


def described(texts: pa.Array, of_pair: np.ndarray) -> dict[str, np.ndarray]:
    """Return columns on the text of each pair: the check that it meets (or ""), and its script.

    Parameters
    ----------
    texts : (t,) pyarrow array of str
        Distinct texts.
    of_pair : (n,) int array
        Which text each pair has.
    """
    checks = checked(texts, np.bincount(of_pair))
    return {"text_check": checks[of_pair], SCRIPT: scripts_of(texts)[of_pair]}


def text_rows(
    texts: pa.Array,
    of_pair: np.ndarray,
    checks: np.ndarray,
    probability: np.ndarray,
    similarity: np.ndarray,
) -> list[Row]:
    """Return how many pairs meet each check of texts, and what the most suspicious pairs share.

    `texts` and `of_pair` are as `described` takes them, which returned `checks` (n,).
    """
    names = np.empty(len(texts), object)
    names[of_pair] = checks
    rows = check_rows(texts, np.bincount(of_pair), names)
    suspected = suspects(probability, similarity)
    for number in sorted({len(suspected), LEAST_SUSPECTS}, reverse=True):
        rows += suspect_rows(texts, of_pair, suspected[:number])
    return rows
