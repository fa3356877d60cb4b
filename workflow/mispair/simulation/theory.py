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
import torch
from torch import Tensor

# Shares of captions with the image's features, and with spurious ones (Theorem 4.3, Eq. 13).

SHOWN_PAIRS = 12
"""Pairs whose captions a figure shows before and after the filter."""


def decode(captions: Tensor, rows: Tensor, threshold: float = 0.5) -> Tensor:
    """Return the codes (n, d) that captions y = H z + noise (n, d1) show.

    ẑ_j = sign(<y, H_j>) if |<y, H_j>| > threshold, and 0 otherwise; `rows` are Hᵀ (d, d1). With the
    threshold 1/2, ẑ is the code whose entries 0 and ±1 are nearest to the projections. Raw captions
    do not need this: their codes are given, and noise of standard deviation 0.24 would turn 4 % of
    zeros into ones.

    The threshold 1/2 reads Eq. 13's z = 1 literally. A decoder whose captions are shorter than true
    ones then appears to leave features out. The cosines of S3 do not depend on a caption's length,
    and neither does a threshold of half of `scale`.
    """
    shown = captions @ rows.T
    return shown.sign() * (shown.abs() > threshold)


def scale(captions: Tensor, rows: Tensor, image_codes: Tensor) -> float:
    """Return the length at which captions show the features that their images have.

    This is the (lower) median of z_x^j <y, H_j> over all images and their active features j. It is
    1 for captions y = H z_x without noise, and NaN where no feature is active.
    """
    shown = ((captions @ rows.T) * image_codes)[image_codes != 0]
    return float(shown.median()) if len(shown) else float("nan")


def caption_statistics(
    image_codes: Tensor, text_codes: Tensor, spurious: Tensor
) -> dict[str, float]:
    """Estimate the two probabilities of Eq. 13 from the codes of images and their captions.

    Parameters
    ----------
    image_codes, text_codes : Tensor (n, d)
        z_x and z_y (or `decode` of a caption), with entries -1, 0 and 1.
    spurious : Tensor (d, d) of bool
        Whether j' (column) is in the spurious set of j (row); the diagonal is ignored.

    Returns
    -------
    dict of str to float
        Shares, NaN where there is nothing to count:

        ``caption_true``
            of active image features j, those that the caption has with the same sign. This is
            Eq. 13's first probability; its z = 1 is read as z_x^j for features that may be -1.
        ``caption_spurious``
            of pairs (j, j'), those whose caption has j' with either sign. Feature j is active in
            the image, and j' is in its spurious set and not active. This is Eq. 13's second
            probability. Over a set of K - 1 features it is about C_s / (K - 1) in raw captions.
        ``caption_spurious_any``
            of active image features j with at least one such j', those for which the caption has
            any of them: about C_s in raw captions for every K.
        ``caption_wrong``
            of features that the image does not have, those that the caption has: C_s times the
            density of the codes if whole captions are redrawn.
    """
    sets = spurious.bool().to(image_codes.device) & ~torch.eye(
        len(spurious), dtype=torch.bool, device=image_codes.device
    )
    members = sets.double()
    active = image_codes != 0
    added = (text_codes != 0) & ~active
    kept = (text_codes == image_codes) & active
    # For (image, j'): the number of active features with j' in their set; 0 if j' is active.
    chances = (active.double() @ members) * ~active
    possible = active & ((~active).double() @ members.T > 0)
    happened = active & (added.double() @ members.T > 0)
    return {
        "caption_true": _share(kept.sum(), active.sum()),
        "caption_spurious": _share((chances * added).sum(), chances.sum()),
        "caption_spurious_any": _share(happened.sum(), possible.sum()),
        "caption_wrong": _share(added.sum(), (~active).sum()),
    }


def sample_captions(
    image_codes: Tensor, captions: Mapping[str, Tensor], replaced: Tensor
) -> list[dict[str, Any]]:
    """Return the first pairs feature by feature, for a figure of captions before and after.

    Codes of images and, by source, of captions are (n, d); `replaced` (n,) marks replaced captions.
    Each row ``caption_feature`` has ``source``, ``pair``, ``latent`` (the feature's number), the
    image's entry ``x``, the caption's ``y`` and ``replaced``; there is one for every feature that
    the image or any of the captions has.
    """
    rows: list[dict[str, Any]] = []
    shown = {source: codes[:SHOWN_PAIRS].cpu() for source, codes in captions.items()}
    images = image_codes[:SHOWN_PAIRS].cpu()
    present = torch.stack([images, *shown.values()]).ne(0).any(dim=0)
    for pair, feature in present.nonzero().tolist():
        rows += [
            {"metric": "caption_feature", "source": source, "pair": pair, "latent": feature,
             "x": float(images[pair, feature]), "y": float(codes[pair, feature]),
             "replaced": float(replaced[pair])}
            for source, codes in shown.items()
        ]  # fmt: skip
    return rows


def _share(part: Tensor, whole: Tensor) -> float:
    return float(part) / float(whole) if whole > 0 else float("nan")


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
