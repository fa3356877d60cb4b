"""A made-up draw with hostile captions and keys, and its page."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from mispair.review.report import page as pages

EVIL = "</script><b onclick=hit()>&amp;\u2028 <!-- 'x' \"y\""
ARABIC = "قطة سوداء (2) على العشب"
CAPTIONS = [EVIL, ARABIC, "a dog", "a cafe\u0301", "", "__proto__"]
KEYS = ["__proto__", "12", 'a,"b;c', "e\u0301t", "last", " spaced"]
STRATA = [{"pairs": 400, "drawn": 2}, {"pairs": 100, "drawn": 4}]
OF = [0, 0, 1, 1, 1, 1]
DIGEST = "d1"


def jpeg(side: int = 40, seed: int | None = None) -> bytes:
    """Return a picture: grey, or noise, which compresses worst."""
    pixels = np.full((side, side, 3), 99, np.uint8)
    if seed is not None:
        pixels = np.random.default_rng(seed).integers(0, 256, pixels.shape, np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def sample() -> pd.DataFrame:
    """Return the draw; rows are not in the order in which they are shown."""
    table = pd.DataFrame(
        {"key": KEYS, "caption": CAPTIONS, "stratum": OF, "order": range(len(KEYS))}
    )
    probability = [0.73125 + row / 1e4 for row in range(len(KEYS))]
    return table.assign(probability=probability, share=0.5).iloc[::-1]


def parts() -> list[pages.QuestionnairePart]:
    """Return both questions."""
    replaced = pd.DataFrame({
        "key": ["12", *(f"r{number}" for number in range(9))], "order": range(10),
        "old": [EVIL] + ["before"] * 9, "new": ["after"] * 10,
    })  # fmt: skip
    return [pages.of_captions(sample(), STRATA, DIGEST), pages.of_repairs(replaced, 50)]


def write_page(path: Path) -> Path:
    """Write the page; the picture of the third pair is missing."""
    images = {key: jpeg() for key in KEYS if key != KEYS[2]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(pages.page(parts(), images), encoding="utf-8")
    return path
