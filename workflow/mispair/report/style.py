"""Colours, fonts and words that all figures share.

One meaning has one colour in all figures of the report: `COLOURS`. Any two colours that meet in one
figure differ for readers with normal sight, without red cones and without green ones: their CIE
1976 distance is at least 20 for each of these readers. Any two colours of the report have at least
15 for normal sight. The contrast of each is at least 3 to 1, which WCAG requires of graphics: with
white, and on the dark page, whose style sheet turns the lightness of pictures.
"""

from collections.abc import Iterable, Sequence

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
INK, QUIET, GRID = "#1f2328", "#57606a", "#e6e8eb"

MAIN, GREY, RAW, FILTERED = "#0060a8", "#8c959f", "#b3360a", "#3f9bd8"
SHARED = {
    MAIN: "the condition that the others of a study change",
    INK: "what others are compared with",
    QUIET: "the only series of a figure, and the first of several estimates",
    GREY: "chance, or no effect",
    RAW: "trained on captions as they are",
    FILTERED: "trained on repaired or rewritten captions",
}
"""Colours of meanings that occur in several families, and these meanings."""
ONLY = QUIET
"""The colour of the only series of a figure."""

COLOURS = {
    "start": {
        "pretrained": MAIN, "scale-converged": "#c28a00", "scale-5": "#9c9054",
        "scale-10": "#a884c0", "scale-20": "#6c303c", "scale-35": "#3c3c00", "scale-70": "#5484fc",
        "reinitialised": "#7a3c08", "reinitialised-small": "#cc7878", "without-decay": "#6c0c60",
        "audit-weighted": "#0c309c", "untouched": INK,
    },
    "scheme": {
        "random": MAIN, "similar": "#d81b60", "similar-swap": "#0ca830", "drop": "#900024",
        "missing": "#543c6c", "spurious": "#d86ca8",
    },
    "tower": {"text": "#007f8c", "image": "#9664fa"},
    "neurons": {"own basis": MAIN, "rotated bases": GREY},
    "kept": {"highest": "#849c00", "random": GREY, "lowest": "#2a6a0a"},
    "outcome": {
        "supports": "#0a5c36", "direction only": "#48a068", "contradicts": "#a01a6a",
        "no such effect": GREY, "cannot tell": "#8460c0",
    },
    "captions": {
        "raw": RAW, "filtered": FILTERED, "generated": "#78189c",
        "filtered, more neurons": "#fc5454", "gain": INK,
    },
    "preset": {"as-written": "#d860d8", "as-run": RAW},
    "estimate": {
        "without trusted pairs": QUIET, "with trusted pairs": "#cc783c", "memorised": "#846048",
        "cross-fitted": "#f03ca8",
    },
    "method": {"CLIP": RAW, "LaCLIP": FILTERED},
    "basis": {"identified": MAIN, "linear": "#786000", "neurons": "#60846c", "prompts": "#00486c"},
    "predictor": {
        "bayes": INK, "unconditional": INK, "misspecified": GREY, "exact": "#e46c0c",
        "guided": "#546c30", "standard": MAIN, "frozen": MAIN, "oracle": "#e46c0c",
        "joint": "#3c4830", "shallow": "#0090f0", "untrained": "#843c6c",
    },
    "schedule": {"monotone": "#a80090", "one": "#9c6c84", "proportional": "#789c48"},
    "risk": {"fell throughout": "#004848", "oscillated": "#9c483c"},
}  # fmt: skip
"""Colours by family and name, in the order of legends."""
SPARE = ("#c04860", "#84003c", "#e46c54", "#5460e4")
"""Colours of names that `COLOURS` lacks, such as a scheme of a user's own."""

SHADES = ("#1f9f7c", "#440154")
"""Ends of a scale of quantities, small to large; between them lightness falls evenly."""


def colours(family: str, names: Iterable[str] = ()) -> dict[str, str]:
    """Return the colours of names in their order, or of all that a family has.

    Names that the family lacks take the spare colours in turn.

    Examples
    --------
    >>> colours("tower")
    {'text': '#007f8c', 'image': '#9664fa'}
    >>> colours("scheme", ["random", "my-own"])
    {'random': '#0060a8', 'my-own': '#c04860'}
    """
    declared = COLOURS[family]
    names = [*names] or [*declared]
    new = [name for name in names if name not in declared]
    spare = {name: SPARE[number % len(SPARE)] for number, name in enumerate(new)}
    return {name: declared.get(name) or spare[name] for name in names}


def shades(levels: Sequence[str]) -> dict[str, str]:
    """Return the colours of quantities in their order, evenly spaced between `SHADES`.

    Examples
    --------
    >>> shades(["low", "high"])
    {'low': '#1f9f7c', 'high': '#440154'}
    """
    ends = [bytes.fromhex(end[1:]) for end in SHADES]
    last = max(1, len(levels) - 1)
    return {
        level: "#" + bytes(round(a + (b - a) * at / last) for a, b in zip(*ends, strict=True)).hex()
        for at, level in enumerate(levels)
    }


ARM_WORDS = {
    "raw": "raw captions",
    "filtered": "filtered captions",
    "replace-all": "every caption replaced",
    "random-decoder": "filtered with a decoder from random weights",
    "generated-only": "S_h and replaced captions only",
    "high-quality-only": "S_h alone",
    "oracle": "right captions only",
}
"""What encoders are trained on, in the order of tables and legends."""

MEASURES = {
    "purified_features": "Purified features (count)",
    "purified_magnitude": "Mean magnitude of purified features (|cos|)",
    "accuracy": "Zero-shot accuracy (share of images)",
    "silhouette": "Silhouette (cosine)",
}
"""The four measures of figure 1, in its order, with their units."""

# A picture cannot print letters with an index: its axes have words for C_m and C_s.
CM = "Share of captions shuffled"
CS = "Share of captions with wrong features"
