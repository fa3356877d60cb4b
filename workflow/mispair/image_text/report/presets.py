"""Differences between the paper's text and its authors' public code in the image-text study."""

from __future__ import annotations

from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.towers.finetuning.finetuning_presets import STATED

SECTION = "What carries the effect"

PARTS: tuple[tuple[str, str, str], ...] = (
    ("neurons", "columns of the final projection, |cos| averaged over all pairs",
     "columns of the text projection, zeros on the diagonal counted in: N² entries, not N(N−1); "
     "a second script has statistics of each tower"),
    ("ranking for pruning", "mean |cos| with all other neurons",
     "sum of |cos| in the image projection plus the same in the text projection"),
    ("pruning", "keeps k neurons",
     "image embeddings are normalised, then all but k coordinates set to zero; prompts stay whole, "
     "and nothing is normalised again"),
    ("k", "200 to 500", "200, 250, … 500, with one random draw"),
    ("prompts", "not stated", "“a photo of a {class}” alone, names as the data set spells them"),
    ("preparation of images", "not stated",
     "224 pixels, bicubic, mean and deviation of CLIP, for files trained with ImageNet’s"),
    ("accuracy", "zero-shot",
     "share of all test images; Caltech-101: the whole set with its background class"),
    ("silhouette", "cosine distance",
     "scikit-learn’s, on normalised image embeddings by class"),
    ("shuffling", "captions permuted with probability C_m",
     "not published; the variant by similarity swaps captions among the ten most similar by TF-IDF "
     "until a share C_m is swapped"),
)  # fmt: skip
"""Rows (what, as written, as run) beyond the fine-tuning itself."""


def presets(tables: Tables) -> Table | None:
    """Return the differences of text and code, and what the text leaves open."""
    if not tables.study("image_text"):
        return None
    return Table(
        "Where the paper’s text (as-written) and its authors’ public code (as-run) part",
        ("what", "as written", "as run"),
        (*PARTS, *STATED),
        "Where a preset has no value of its own, the other’s is used: what the text does not "
        "state is a choice of the code. The page of the run names the preset.",
        section=SECTION,
        folded=True,
    )
