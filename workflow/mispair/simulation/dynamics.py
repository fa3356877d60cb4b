r"""Growth of alignments in phase I by the theory (Eqs. 32 to 36).

Without thresholds (b = 0), and as long as features are small, only the term -<f(x), h(y)> of the
loss moves the weights. In expectation over pairs, one step of gradient descent then changes
A_ij = <w_i, M_j> and B_ij = <v_i, H_j> by

.. math:: A \leftarrow A + \eta B C^\top, \qquad B \leftarrow B + \eta A C, \qquad
          C_{jj'} = \mathbb{E}[z_x^j z_y^{j'}],

both at once. These are Eqs. 32 and 33 for any model of misalignment: noise is uncorrelated with
everything and drops out. η is the step size times the batch size if the loss of a batch is the sum
over its pairs, and the step size itself if it is the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def alignments_after(
    image: np.ndarray, text: np.ndarray, moment: np.ndarray, step_size: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Take `steps` steps of Eq. 34 at once, without its error term.

    With C = U diag(s) Vᵀ, each singular value s links a column of A U with one of B V. Each step
    multiplies their sum by 1 + η s and their difference by 1 - η s. A and B (`image`, `text`) are
    (m, d), C (`moment`) is (d, d), `step_size` is η.
    """
    left, singular, right = np.linalg.svd(moment)
    a, b = image @ left, text @ right.T
    together = (a + b) * (1 + step_size * singular) ** steps
    apart = (a - b) * (1 - step_size * singular) ** steps
    return (together + apart) / 2 @ left.T, (together - apart) / 2 @ right


def alignments_as_printed(
    image: np.ndarray,
    text: np.ndarray,
    moment: np.ndarray,
    partners: np.ndarray,
    step_size: float,
    steps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate Eqs. 35 and 36 as printed, for features in pairs (j, j') and with a = 1.

    b and c are η C_jj and η C_jj', averaged with their mirror images under j ↔ j'; other entries of
    C are dropped. Both encoders get the same alignments: the printed solution keeps the modes of
    A + B, which grow by a + b ± c, and drops those of A - B, which Eq. 34 lets shrink by a - b ± c.
    `partners` (d,) is j' of every j; the other arguments are those of `alignments_after`.

    Raises
    ------
    ValueError
        If a partner's partner is another feature.
    """
    features = np.arange(len(partners))
    if (partners[partners] != features).any():
        raise ValueError("Eqs. 35 and 36 hold for features in pairs: j' of j' must be j")
    b = moment[features, features]
    c = moment[features, partners]
    b, c = step_size * (b + b[partners]) / 2, step_size * (c + c[partners]) / 2
    faster, slower = (1 + b + c) ** steps, (1 + b - c) ** steps
    start = image + text
    alignments = (faster + slower) / 4 * start + (faster - slower) / 4 * start[:, partners]
    return alignments, alignments.copy()


def trajectory_errors(
    measured: Sequence[tuple[int, np.ndarray, np.ndarray]],
    predicted: Mapping[str, Callable[[int], tuple[np.ndarray, np.ndarray]]],
    spurious: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """Compare measured alignments with predictions, step by step.

    Parameters
    ----------
    measured : sequence of (int, ndarray (m, d), ndarray (m, d))
        Steps with A and B.
    predicted : mapping of str to callable
        By source, a function from a number of steps to A and B.
    spurious : ndarray (d, d) of bool, optional
        Whether feature j' (column) is spuriously correlated with j.

    Returns
    -------
    list of dict
        Rows with ``metric``, ``step``, ``source`` and ``value``: ``alignment_norm`` is the
        Frobenius norm of A and B together, for the source ``measured`` and each prediction;
        ``alignment_error`` is the norm of the difference from what was measured, divided by the
        measured norm, for each prediction. With `spurious`, ``alignment_true``,
        ``alignment_spurious`` and ``alignment_other`` are mean absolute alignments by the groups of
        `feature_groups` at the last step measured.
    """
    rows = []
    groups = {} if spurious is None or not measured else feature_groups(measured[-1][1:], spurious)
    for step, image, text in measured:
        truth = np.stack([image, text])
        norm = float(np.linalg.norm(truth))
        rows.append(_row("alignment_norm", step, "measured", norm))
        rows += _by_group(groups, step, "measured", truth)
        for source, predict in predicted.items():
            expected = np.stack(predict(step))
            rows.append(_row("alignment_norm", step, source, float(np.linalg.norm(expected))))
            error = float(np.linalg.norm(expected - truth)) / norm
            rows.append(_row("alignment_error", step, source, error))
            rows += _by_group(groups, step, source, expected)
    return rows


def feature_groups(
    last: tuple[np.ndarray, np.ndarray], spurious: np.ndarray
) -> dict[str, np.ndarray]:
    """Return masks (2, m, d) of true, of spuriously correlated and of other features of neurons.

    The true feature of a neuron has its largest alignment in `last`: A and B (m, d) of grown
    neurons. `spurious` (d, d) is as in `trajectory_errors`; its diagonal is ignored.
    """
    strongest = np.abs(np.stack(last)).argmax(axis=2)
    true = np.eye(len(spurious), dtype=bool)[strongest]
    wrong = spurious[strongest] & ~true
    return {"true": true, "spurious": wrong, "other": ~true & ~wrong}


def _by_group(
    groups: Mapping[str, np.ndarray], step: int, source: str, values: np.ndarray
) -> list[dict[str, Any]]:
    return [
        _row(f"alignment_{name}", step, source, float(np.abs(values[mask]).mean()))
        for name, mask in groups.items()
        if mask.any()
    ]


def _row(metric: str, step: int, source: str, value: float) -> dict[str, Any]:
    return {"metric": metric, "step": step, "source": source, "value": value}
