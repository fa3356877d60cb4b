"""Shares of captions with the image's features, and with spurious ones (Theorem 4.3, Eq. 13)."""

from __future__ import annotations

import torch
from torch import Tensor


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


def _share(part: Tensor, whole: Tensor) -> float:
    return float(part) / float(whole) if whole > 0 else float("nan")
