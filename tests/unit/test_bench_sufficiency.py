"""The bench's naive twins against belief propagation, on a small tree."""

from __future__ import annotations

import numpy as np
import torch

from mispair.sufficiency.belief_propagation import from_the_left, upward
from mispair.sufficiency.sampling import draw_pairs, trees_at
from mispair.sufficiency.sizes import Size
from mispair.sufficiency.trees import draw_skeletons
from tests.bench import sufficiency


def test_node_objects_and_levels_agree() -> None:
    trees = trees_at(draw_skeletons(0, Size(3, 2, 4)), 0.3, 0.3, dtype=torch.float64)
    evidence = sufficiency._evidence(trees)[:5]
    naive = sufficiency._naive(trees.image.numpy(), evidence.numpy())
    np.testing.assert_allclose(sufficiency._beliefs(trees, evidence), naive, atol=1e-6)


def test_one_pass_for_each_leaf_and_one_for_all_agree() -> None:
    trees = trees_at(draw_skeletons(0, Size(3, 2, 4)), 0.3, 0.3, dtype=torch.float64)
    text = draw_pairs(trees, 5, torch.Generator().manual_seed(0)).text
    at_once = from_the_left(trees.text, upward(trees.text, text))[-1]
    np.testing.assert_allclose(sufficiency._one_by_one(trees.text, text), at_once, rtol=1e-9)


def test_candidates_and_prompts_are_summed_to_the_same() -> None:
    one, other = sufficiency._features(300), sufficiency._features(301)[:-1]
    for candidates in (2, 7, 300):
        np.testing.assert_allclose(
            sufficiency._banded(one, other, candidates),
            sufficiency._gathered(one, other, candidates),
            atol=1e-5,
        )
    prompts = sufficiency._features(2500)
    np.testing.assert_allclose(
        sufficiency._in_steps(one, prompts),
        sufficiency._one_by_one_prompt(one, prompts),
        rtol=1e-5,
        atol=1e-5,
    )


def test_operations_of_the_shallow_and_the_joint() -> None:
    config = sufficiency._config("standard")
    encoders, heads = config.train_encoders, config.train_head
    whole, shallow = (
        sufficiency._operations(encoders, 9, kind) for kind in ("standard", "shallow")
    )
    assert whole == encoders.blocks * shallow
    joint, frozen = (sufficiency._operations(heads, 9, kind, "cdm") for kind in ("joint", "frozen"))
    assert 1.8 < joint / frozen < 2.2
