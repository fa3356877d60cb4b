"""Colours, fonts and words that all figures share.

Any two of the eight hues differ for readers with normal sight, without red cones and without green
ones: their CIE 1976 distance is at least 20 for each of these readers. The contrast of each hue
is at least 3 to 1, which WCAG requires of graphics: with white, and on the dark page, whose style
sheet turns the lightness of pictures.
"""

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
INK, QUIET, GRID = "#1f2328", "#57606a", "#e6e8eb"
ORANGE, BLUE, SKY, AMBER = "#b3360a", "#0060a8", "#3f9bd8", "#c28a00"
GREEN, VIOLET, GREY = "#0b6e4f", "#9664fa", "#8c959f"
PALETTE = {
    "orange": ORANGE, "blue": BLUE, "sky": SKY, "amber": AMBER, "green": GREEN, "violet": VIOLET,
    "grey": GREY, "ink": INK,
}  # fmt: skip
"""The hues by name, for declarations that import no figures."""
CLASSES = (BLUE, ORANGE, GREEN, VIOLET, AMBER, GREY, SKY, INK)
"""The hues in the order in which things without a colour of their own take them."""

SHADES = ("#1f9f7c", "#440154")
"""Ends of a scale of quantities, small to large; between them lightness falls evenly."""

_ARMS = {
    "raw": (ORANGE, "raw captions"),
    "filtered": (BLUE, "filtered captions"),
    "replace-all": (VIOLET, "every caption replaced"),
    "random-decoder": (AMBER, "filtered with a decoder from random weights"),
    "generated-only": (GREY, "S_h and replaced captions only"),
    "high-quality-only": (GREEN, "S_h alone"),
    "oracle": (INK, "right captions only"),
}
"""What encoders are trained on, in the order of tables and legends."""
ARMS = {arm: colour for arm, (colour, _) in _ARMS.items()}
ARM_WORDS = {arm: words for arm, (_, words) in _ARMS.items()}

SUFFICIENCY = {
    "bayes": INK,
    "unconditional": INK,
    "misspecified": GREY,
    "exact": SKY,
    "guided": GREEN,
    "standard": BLUE,
    "frozen": BLUE,
    "oracle": SKY,
    "joint": VIOLET,
    "shallow": AMBER,
    "untrained": ORANGE,
}
"""Predictors of the sufficiency study, the best first."""

CHANGES = {"raw": ORANGE, "filtered": BLUE, "gain": INK}
METHODS = {"CLIP": ORANGE, "LaCLIP": BLUE}
"""Trained on raw captions and on rewritten ones."""
TOWERS = {"text": GREEN, "image": VIOLET}
BASES = {"identified": BLUE, "linear": VIOLET, "neurons": GREY, "prompts": AMBER}
"""Bases of an embedding in which features may be mixed."""

OUTCOMES = {
    "supports": BLUE,
    "direction only": SKY,
    "contradicts": ORANGE,
    "no such effect": GREY,
    "cannot tell": AMBER,
}
"""Outcomes of claims, where they are drawn."""

STRATEGIES = {
    "high-purity": BLUE,
    "random": GREY,
    "low-purity": ORANGE,
    "high-variance": GREEN,
    "low-variance": AMBER,
    "high-norm": SKY,
    "low-norm": VIOLET,
}

MEASURES = {
    "purified_features": "Purified features (count)",
    "purified_magnitude": "Mean magnitude of purified features (|cos|)",
    "accuracy": "Zero-shot accuracy (share of images)",
    "silhouette": "Silhouette (cosine)",
}
"""The four measures of figure 1, in its order, with their units."""

# A picture cannot print letters with an index: its axes have words for C_m and C_s.
CM = "Share of shuffled pairs"
CS = "Share of captions with wrong features"
