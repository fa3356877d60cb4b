"""Settings of a study as functions of the number of features d.

The theorems of section 4 are asymptotic: probabilities of order 1/d, o(1) and 1 - Θ(1). One d
cannot contradict them; the slope of a measure over d can. Conditions of a sweep over d therefore
follow these rules, each stated by the paper or implied by it. A base study fixes the constants,
and r = d / d_base, l = log d / log d_base.

=========================================  ========  =============================================
settings                                   times     source
=========================================  ========  =============================================
d1, m                                      r         d1 = poly(d), m = d^1.01 (theorem 4.1), with
                                                     the exponents rounded to 1
latent_density, test_density               1 / r     C_z / d (assumption 3.1d), Θ(1) / d (Eq. 8)
noises, as variance per coordinate         1 / r     1 / d (section 5.1), the bound of lemma C.4
start_std                                  1 / r     variance Θ(1 / (d1 poly(d))) (theorem 4.1)
high_quality_pairs                         r²        Θ(d²) (section 3.2)
low_quality_pairs                          r² l      poly(d), of higher order than d² (section 3.2),
                                                     so every d makes as many passes over the pairs
batch_size                                 r         Ω(d) (theorem 4.1)
temperature                                1         2 p_z B, which gives alignments of length 1
lr of the loss summed over a batch         1 / r     η = O(1) for a batch's mean (theorem 4.1)
epochs of S1 and S4, phase2_steps          r l       Θ(d log d / η), as phases I and II take
                                                     (appendices D and E)
decoder_lr of the sum over S_h             1 / r     the step in each feature is the same at every d
decoder_steps                              l         with that, Θ(d log d) steps of size O(1)
                                                     (theorem 4.3)
longer_steps                              r l       half of S1, like S1
=========================================  ========  =============================================

Theorem 4.1 allows Θ(d² log d) iterations in all. Phase III takes fewer here: with batches of Θ(d),
that many would cost d⁵ log d operations in place of d⁴ log d.
"""

from __future__ import annotations

import math
from typing import Any

from mispair.simulation.study import Study

SHRINKING = (
    "latent_density", "test_density", "image_noise", "text_noise", "high_quality_noise",
    "test_image_noise", "prompt_noise", "start_std", "lr", "decoder_lr",
)  # fmt: skip
"""Settings proportional to 1 / d."""

GROWING = ("d1", "m", "batch_size")
"""Settings proportional to d."""

LENGTHENED = (
    "epochs", "retrain_epochs", "retrain_epochs_filtered_only", "phase2_steps", "longer_steps",
)  # fmt: skip
"""Settings proportional to d log d."""

RULED = {
    "noise_unit": "variance", "optimiser": "sgd", "loss_reduction": "sum",
    "decoder_optimiser": "sgd", "decoder_loss_reduction": "sum", "data": "fixed",
    "decoder_data": "high-quality", "encoder": "symmetric-relu",
}  # fmt: skip
"""Settings that the rules presuppose: those of the preset as-written."""


def scaled(base: Study, d: int) -> dict[str, Any]:
    """Return the settings that differ from the base study's at `d` features, at least 2.

    Raises
    ------
    ValueError
        Naming a setting of the base study for which no rule is stated.

    Examples
    --------
    >>> base = Study(preset="as-written", dictionaries="axes")
    >>> changes = scaled(base, 100)
    >>> changes["d1"], changes["high_quality_pairs"], changes["latent_density"]
    (5000, 4000, 0.05)
    """
    for name, value in RULED.items():
        if getattr(base, name) != value:
            raise ValueError(
                f"scaling_dimensions: the rules of scaling need {name}: {value}, not "
                f"{getattr(base, name)}"
            )
    ratio, logs = d / base.d, math.log(d) / math.log(base.d)
    return {
        "d": d,
        **{name: round(getattr(base, name) * ratio) for name in GROWING},
        **{name: getattr(base, name) / ratio for name in SHRINKING},
        **{name: round(getattr(base, name) * ratio * logs) for name in LENGTHENED},
        "high_quality_pairs": round(base.high_quality_pairs * ratio**2),
        "low_quality_pairs": round(base.low_quality_pairs * ratio**2 * logs),
        "decoder_steps": round(base.decoder_steps * logs),
    }
