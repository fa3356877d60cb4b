"""The claim on weights: judged by what wrong captions cost, and what weights give back."""

from __future__ import annotations

import pytest

from mispair.image_text.report.claims_added import judge
from mispair.report.tables import Tables, tidy


def compared(cost: float, gain: float | None, error: float = 0.004) -> Tables:
    """Return differences at C_m 0.8: without weights from C_m 0, and of weights from none."""
    rows = [("pretrained", "rate 0", cost)]
    rows += [] if gain is None else [("audit-weighted", "not weighted", gain)]
    return Tables(
        {
            "comparisons": tidy(
                "comparisons",
                [
                    {"start": start, "scheme": "random", "rate": 0.8, "reference": reference,
                     "protocol": "clip_benchmark", "metric": "acc1_difference_of_all_sets",
                     "value": value, "error": error, "freedom": 500.0, "n": 2000}
                    for start, reference, value in rows
                ],
            )
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cost", "gain", "outcome"),
    [
        (-0.06, None, "not measured"),
        (-0.06, 0.05, "supports"),
        (-0.06, -0.05, "contradicts"),
        (-0.06, 0.0, "no such effect"),
        (-0.06, 0.018, "cannot tell"),  # an effect below a third of the cost
        (0.0, 0.05, "cannot tell"),  # nothing was lost
        (0.06, 0.05, "cannot tell"),
    ],
)
def test_what_weights_give_back_is_judged_by_what_was_lost(cost, gain, outcome):
    verdict, *_ = judge(compared(cost, gain), 0.95)
    assert verdict.outcome == outcome
    if gain is not None and cost < 0:
        assert verdict.smallest == pytest.approx(-cost / 3)
        assert "0.8" in verdict.test
