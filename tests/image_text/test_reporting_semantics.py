"""Semantic purity in the report, beside cosine purity and its controls."""

from typing import Any

import pytest

from mispair.report import studies
from mispair.report.figures import compose
from mispair.report.tables import Tables
from tests.made_up_tables import tables

BEST = (0.9, -0.8, 0.3, 0.1)
OVERLAP = (0.02, 0.03, 0.04, 0.05)


def rows(rho: float, p: float, start: str = "untouched", seed: int = 0) -> list[dict[str, Any]]:
    """Return what a run measured on four neurons of the text tower, and in a rotated basis."""
    found = []
    for basis, factor in (("original", 1.0), ("rotated-0", 0.5)):
        here = {"start": start, "tower": "text", "seed": seed, "basis": basis}
        found += [
            {**here, "metric": "best_correlation", "neuron": neuron, "feature": f"f{neuron}",
             "value": factor * value, "overlap": OVERLAP[neuron], "n": 1000}
            for neuron, value in enumerate(BEST)
        ]  # fmt: skip
        mean = factor * sum(map(abs, BEST)) / 4
        found += [
            {**here, "metric": "mean_semantic_purity", "value": mean, "n": 1000},
            {**here, "metric": "semantic_purity_by_overlap", "value": rho * factor, "p": p, "n": 4},
        ]
    return found


def drawn(found: Tables) -> Any:
    figure = next(f for f in studies.figures() if f.name == "semantic_purity")
    return compose(figure, found)


def test_every_neuron_is_a_point_with_its_absolute_correlation():
    _, data = drawn(tables(semantics=rows(-0.8, 0.01)))
    own = data[data["basis"] == "own basis"].sort_values("neuron")
    assert own["semantic"].tolist() == pytest.approx([0.9, 0.8, 0.3, 0.1])
    assert own["overlap"].tolist() == pytest.approx(OVERLAP)
    assert len(data) == 8


def test_the_untouched_model_and_the_first_seed_are_shown():
    more = rows(0.5, 0.01, "pretrained") + rows(0.5, 0.01, seed=1)
    alone = tables(semantics=rows(-0.8, 0.01))
    found = tables(semantics=rows(-0.8, 0.01) + more)
    assert drawn(found)[0] == drawn(alone)[0]
