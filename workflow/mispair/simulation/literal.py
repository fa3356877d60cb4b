"""Statements of the paper's text, in place of choices with which preset ``as-written`` trains.

Each statement is a switch that is thrown alone; ``all`` throws those that do not exclude each
other. The bias schedule of Eqs. 79 to 81 has two readings, because the step size of Eq. 1's sum
over pairs is not that of the expectations in the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mispair.simulation.study import Study


def _iterations(base: Study) -> dict[str, Any]:
    """Return the orders of theorems 4.1 and 4.3 with the constant 1, in epochs of the base."""
    logs = math.log(base.d)
    epochs = math.ceil(base.d**2 * logs / base.steps_per_epoch)
    return {
        **dict.fromkeys(("epochs", "retrain_epochs", "retrain_epochs_filtered_only"), epochs),
        "decoder_steps": round(base.d * logs),
    }


_BIAS = {"bias_schedule": "theory", "bias_growth": "mean"}
_DECODER = {"decoder": "plain-relu"}
_CODES = {"latent_values": "binary"}

STATEMENTS: dict[str, str] = {
    "bias": "phase II: b ← (1 + η/d) b with η of a batch’s mean (Eqs. 79-81, table 5)",
    "bias-lr": "the same with η the step size itself",
    "decoder": "G(x) = Vᵀ σ(W x) with σ the ReLU (Eq. 6)",
    "codes": "z in {0, 1}, Bernoulli(0.1) (section 5.1)",
    "steps": "d² log d steps of S1 and S4, d log d of S2 (theorems 4.1 and 4.3)",
    "all": "bias, decoder, codes and steps together",
}
"""The statements by the name of the switch."""

CHANGES: dict[str, Callable[[Study], dict[str, Any]]] = {
    "bias": lambda base: _BIAS,
    "bias-lr": lambda base: {**_BIAS, "bias_growth": "lr"},
    "decoder": lambda base: _DECODER,
    "codes": lambda base: _CODES,
    "steps": _iterations,
    "all": lambda base: {**_BIAS, **_DECODER, **_CODES, **_iterations(base)},
}
"""Settings that a switch changes, given the study that it is thrown in."""
