"""Real handwritten digits (scikit-learn's) as pictures."""

from __future__ import annotations

import numpy as np
from PIL import Image

from mispair.pairs.scenes.scene_images import BACKGROUND_VALUES

INK = (28, 28, 30)
HEIGHT = 0.6
"""Share of the picture's side that a scan takes, about that of the corpus's printed digits."""


def handwritten_digits(size: int) -> tuple[list[Image.Image], list[int]]:
    """Return scikit-learn's 1,797 scanned digits as ink on paper, and the digit, 0 to 9, of each.

    The scans have 8 by 8 pixels of 17 grey levels, the amount of ink. The pictures are RGB, `size`
    by `size` pixels: dark ink on the corpus's plain ground, enlarged with smooth edges.

    References
    ----------
    E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine
    Learning Repository (its test set).
    """
    from sklearn.datasets import load_digits

    scans = load_digits()
    inner = round(size * HEIGHT)
    corner = ((size - inner) // 2, (size - inner) // 2)
    paper = Image.new("RGB", (size, size), BACKGROUND_VALUES[""])
    ink = Image.new("RGB", (size, size), INK)
    pictures = []
    for scan in scans.images:
        grey = Image.fromarray(np.round(scan * (255 / 16)).astype(np.uint8))
        cover = Image.new("L", (size, size), 0)
        cover.paste(grey.resize((inner, inner), Image.Resampling.BICUBIC), corner)
        pictures.append(Image.composite(ink, paper, cover))
    return pictures, scans.target.tolist()
