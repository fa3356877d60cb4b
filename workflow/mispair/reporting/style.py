"""Colours, fonts and words that all figures share.

Colours are of Okabe and Ito's and Paul Tol's sets, which stay apart for colour-blind readers; lines
that could still be mixed up differ in dashes or points too.
"""

from __future__ import annotations

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
INK, QUIET, GRID = "#1f2328", "#57606a", "#e6e8eb"

ARMS = {
    "raw": "#c2410c",
    "filtered": "#0060a8",
    "filtered-2": "#56b4e9",
    "filtered-3": "#3d8f8f",
    "replace-all": "#8e3b8e",
    "random-decoder": "#9a6700",
    "generated-only": "#6e7781",
    "high-quality-only": "#0b6e4f",
    "oracle": "#1f2328",
}
"""What encoders are trained on, in the order of tables and legends."""

ARM_WORDS = {
    "raw": "raw captions",
    "filtered": "filtered captions",
    "filtered-2": "filtered, second round",
    "filtered-3": "filtered, third round",
    "replace-all": "every caption replaced",
    "random-decoder": "filtered with a decoder from random weights",
    "generated-only": "S_h and replaced captions only",
    "high-quality-only": "S_h alone",
    "oracle": "right captions only",
}
SUFFICIENCY = {
    "bayes": "#1f2328",
    "unconditional": "#1f2328",
    "misspecified": "#6e7781",
    "exact": "#56b4e9",
    "guided": "#0b6e4f",
    "standard": "#0060a8",
    "frozen": "#0060a8",
    "oracle": "#56b4e9",
    "joint": "#8e3b8e",
    "shallow": "#9a6700",
    "untrained": "#c2410c",
}
"""Predictors of the sufficiency study, the best first."""

SOURCES = {"raw": "#c2410c", "generated": "#8e3b8e", "filtered": "#0060a8"}
CHANGES = {"raw": "#c2410c", "filtered": "#0060a8", "gain": "#1f2328"}
EQUATIONS = {"measured": "#1f2328", "Eq. 34": "#0060a8", "Eqs. 35-36": "#c2410c"}
CLASSES = ("#0060a8", "#c2410c", "#0b6e4f", "#8e3b8e", "#9a6700", "#6e7781", "#56b4e9", "#1f2328")
TOWERS = {"text": "#0b6e4f", "image": "#8e3b8e"}
STRATEGIES = {
    "high-purity": "#0060a8",
    "random": "#6e7781",
    "low-purity": "#c2410c",
    "high-variance": "#0b6e4f",
    "low-variance": "#9a6700",
    "high-norm": "#56b4e9",
    "low-norm": "#8e3b8e",
}
SCHEMES = {
    "random": "#c2410c",
    "similar": "#0060a8",
    "spurious": "#8e3b8e",
    "missing": "#9a6700",
    "drop": "#0b6e4f",
}
"""How captions are corrupted, the main scheme first."""

FINE_TUNED = {
    "pretrained": "#0060a8",
    "reinitialised": "#9a6700",
    "without-decay": "#0b6e4f",
    "free-logit-scale": "#c2410c",
}
"""Starts of the fine-tuning: what the paper does first, then its controls."""
STARTS = {**FINE_TUNED, "untouched": "#1f2328"}
PUBLISHED = "#1f2328"

START_WORDS = {
    "pretrained": "from pre-trained",
    "reinitialised": "from re-initialised",
    "without-decay": "without weight decay, from pre-trained",
    "free-logit-scale": "with a free logit scale, from pre-trained",
    "untouched": "untouched model",
}
MEASURES = {
    "purified_features": "Purified features (count)",
    "purified_magnitude": "Mean magnitude of purified features (|cos|)",
    "accuracy": "Zero-shot accuracy (share of images)",
    "silhouette": "Silhouette (cosine)",
}
"""The four measures of figure 1, in its order, with their units."""

CM = "Shuffle probability C_m (share of pairs)"
CS = "Spurious probability C_s (share of captions)"
