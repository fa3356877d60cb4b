"""Real handwritten digits (scikit-learn's) as pictures."""

from __future__ import annotations

import numpy as np
from PIL import Image


def handwritten_digits(size: int) -> tuple[list[Image.Image], list[int]]:
    """Return scikit-learn's 1,797 scanned digits, enlarged with smooth edges.

    The scans have 8 by 8 pixels of 17 grey levels; here bright ink on a dark ground with a margin.

    Parameters
    ----------
    size : int
        Side of the pictures in pixels.

    Returns
    -------
    pictures : list of PIL.Image.Image
        RGB pictures of `size` by `size` pixels.
    labels : list of int
        The digit, 0 to 9, of each.

    References
    ----------
    E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine
    Learning Repository (its test set).
    """
    from sklearn.datasets import load_digits

    scans = load_digits()
    inner = round(size * 0.8)
    corner = ((size - inner) // 2, (size - inner) // 2)
    pictures = []
    for scan in scans.images:
        grey = Image.fromarray(np.round(scan * (232 / 16) + 16).astype(np.uint8))
        picture = Image.new("L", (size, size), 16)
        picture.paste(grey.resize((inner, inner), Image.Resampling.BICUBIC), corner)
        pictures.append(picture.convert("RGB"))
    return pictures, scans.target.tolist()
