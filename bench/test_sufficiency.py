"""The bench's peers against belief propagation, on a small tree."""

import numpy as np
import pytest
import torch

from bench import sufficiency
from mispair.sufficiency.belief_propagation import leaf_beliefs
from mispair.sufficiency.settings import Size
from mispair.sufficiency.trees import draw_skeletons, trees_at

SIZES = [Size(3, 2, 4), Size(1, 4, 2), Size(2, 1, 3), Size(4, 3, 10)]


@pytest.mark.parametrize("size", SIZES)
def test_the_published_algorithm_and_ours_agree(size: Size) -> None:
    trees = trees_at(draw_skeletons(0, size), 0.3, dtype=torch.float64)
    for batch in (1, 5):
        evidence = sufficiency._evidence(trees, batch)
        peer = sufficiency._published(trees.image, evidence)
        np.testing.assert_allclose(leaf_beliefs(trees.image, evidence), peer, atol=1e-12)


def test_operations_of_the_shallow_and_the_joint() -> None:
    config = sufficiency._config("standard")
    encoders, heads = config.train_encoders, config.train_head
    whole, shallow = (
        sufficiency._operations(encoders, 9, kind) for kind in ("standard", "shallow")
    )
    assert whole == encoders.blocks * shallow
    joint, frozen = (sufficiency._operations(heads, 9, kind, "cdm") for kind in ("joint", "frozen"))
    assert 1.8 < joint / frozen < 2.2
