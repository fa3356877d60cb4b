"""Mixing against hand-made neuron pairs, a loop, and least squares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from mispair.simulation.mixing import Mixing, mixing

D, D1 = 6, 15


def rows(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(D1, D, generator=generator, dtype=torch.float64)).Q.T


def partners() -> Tensor:
    """Features 0 and 1, 2 and 3, 4 and 5 are spuriously correlated."""
    return torch.kron(torch.eye(3), torch.tensor([[0, 1], [1, 0]])).bool()


def of_codes(image: list[list[float]], text: list[list[float]], spurious: Tensor) -> Mixing:
    m, h = rows(1), rows(2)
    w, v = (torch.tensor(codes, dtype=torch.float64) for codes in (image, text))
    return mixing(w @ m, v @ h, m, h, spurious)


def test_a_pure_pair_has_share_one_and_no_residual() -> None:
    codes = [[0, 0, -2.5, 0, 0, 0], [0.1, 0, 0, 0, 0, 0]]
    found = of_codes(codes, codes, partners())
    assert found.features[:, 0].tolist() == [2, 0]
    np.testing.assert_allclose(found.alphas[:, 0], [-2.5, 0.1])
    np.testing.assert_allclose(found.alpha_share, 1)
    np.testing.assert_allclose(found.second_alpha_share, 0, atol=1e-12)
    np.testing.assert_allclose(found.residual_share_pure, 0, atol=1e-12)
    assert not found.mixed.any()
    assert found.pairs_covered == 0


def test_an_even_mixture_of_a_spurious_pair() -> None:
    codes = [[0, 0, 0, 0, 1.0, -1.0]]
    found = of_codes(codes, codes, partners())
    np.testing.assert_allclose(found.alpha_share, 0.5)
    np.testing.assert_allclose(found.second_alpha_share, 0.5)
    np.testing.assert_allclose(found.residual_share, 0, atol=1e-12)
    np.testing.assert_allclose(found.residual_share_pure, 0.5)
    assert found.mixed.tolist() == [True]
    assert found.pairs_covered == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("code", "mixed"),
    [
        ([1, 0.51, 0, 0, 0, 0], True),
        ([0.51, 1, 0, 0, 0, 0], True),
        ([1, 0.49, 0, 0, 0, 0], False),  # less than half
        ([1, 0, 0.9, 0, 0, 0], False),  # not spuriously correlated
        ([1, 0.8, 0.9, 0, 0, 0], False),  # the second is another
    ],
)
def test_mixed_needs_half_of_the_first_and_a_spurious_pair(code: list[float], mixed: bool) -> None:
    assert of_codes([code], [code], partners()).mixed.tolist() == [mixed]


def test_towers_that_disagree_cancel() -> None:
    """One coefficient serves both halves, so that opposite halves are explained by none."""
    found = of_codes([[1, 0, 0, 0, 0, 0]], [[-1, 0, 0, 0, 0, 0]], partners())
    np.testing.assert_allclose(found.alpha_share, 0, atol=1e-12)
    np.testing.assert_allclose(found.residual_share, 1)
    image_only = of_codes([[1, 0, 0, 0, 0, 0]], [[0, 0, 0, 0, 0, 0]], partners())
    np.testing.assert_allclose(image_only.alpha_share, 0.5)


def test_spurious_sets_count_in_both_directions_and_not_on_the_diagonal() -> None:
    one_way = torch.eye(D).bool()
    one_way[3, 0] = True
    codes = [[1.0, 0, 0, 0.9, 0, 0], [0, 1.0, 0, 0, 0.9, 0]]
    found = of_codes(codes, codes, one_way)
    assert found.mixed.tolist() == [True, False]
    assert found.pairs_covered == 1


def test_without_spurious_pairs_the_share_covered_is_undefined() -> None:
    found = of_codes([[1, 1, 0, 0, 0, 0]], [[1, 1, 0, 0, 0, 0]], torch.zeros(D, D).bool())
    assert np.isnan(found.pairs_covered)
    assert not found.mixed.any()
    assert np.isnan(found.means()["mixed_neurons"])


def test_a_neuron_pair_of_zeros_explains_nothing() -> None:
    found = of_codes([[0] * D], [[0] * D], torch.ones(D, D).bool())
    assert (found.alpha_share[0], found.residual_share[0], found.residual_share_pure[0]) == (
        0,
        1,
        1,
    )
    assert not found.mixed[0]


def test_random_neurons_equal_explicit_residuals() -> None:
    """Residual vectors are formed and no other α makes the first one shorter."""
    generator = torch.Generator().manual_seed(3)
    w, v = torch.randn(2, 20, D1, generator=generator, dtype=torch.float64)
    m, h = rows(1), rows(2)
    found = mixing(w, v, m, h, partners())
    for i in range(20):
        energy = w[i] @ w[i] + v[i] @ v[i]
        both = torch.cat([w[i], v[i]])
        # Least squares on each joint feature (M_j, H_j) by itself.
        joint = torch.cat([m, h], dim=1)
        alphas = torch.stack([torch.linalg.lstsq(f[:, None], both[:, None])[0] for f in joint])
        alphas = alphas.flatten()
        order = alphas.abs().argsort(descending=True)[:2]
        assert found.features[i].tolist() == order.tolist()
        np.testing.assert_allclose(found.alphas[i], alphas[order])
        pure = both - alphas[order[0]] * joint[order[0]]
        rest = pure - alphas[order[1]] * joint[order[1]]
        assert found.residual_share_pure[i] == pytest.approx(float(pure @ pure / energy))
        assert found.residual_share[i] == pytest.approx(float(rest @ rest / energy))
        assert found.alpha_share[i] == pytest.approx(2 * float(alphas[order[0]] ** 2 / energy))
        first, second = order.tolist()
        expected = (
            abs(float(alphas[second])) >= 0.5 * abs(float(alphas[first])) and second == first ^ 1
        )
        assert found.mixed[i] == expected
    covered = {frozenset(f) for f in found.features[found.mixed].tolist()}
    assert found.pairs_covered == pytest.approx(len(covered) / 3)
    assert 0 < found.mixed.sum() < 20


def test_the_order_of_neurons_and_features_does_not_matter() -> None:
    generator = torch.Generator().manual_seed(4)
    w, v = torch.randn(2, 12, D1, generator=generator, dtype=torch.float64)
    m, h, spurious = rows(1), rows(2), partners()
    neurons, features = (torch.randperm(n, generator=generator) for n in (12, D))
    there = mixing(w, v, m, h, spurious).means()
    permuted = mixing(
        w[neurons], v[neurons], m[features], h[features], spurious[features][:, features]
    ).means()
    assert there == pytest.approx(permuted)
