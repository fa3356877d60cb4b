"""Mixing against hand-made neuron pairs, a loop, and least squares."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mispair.simulation.metrics import mixing

D, D1 = 6, 15


def rows(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(D1, D, generator=generator, dtype=torch.float64)).Q.T


def partners() -> Tensor:
    """Features 0 and 1, 2 and 3, 4 and 5 are spuriously correlated."""
    return torch.kron(torch.eye(3), torch.tensor([[0, 1], [1, 0]])).bool()


def of_codes(
    image: list[list[float]], text: list[list[float]], spurious: Tensor
) -> dict[str, float]:
    m, h = rows(1), rows(2)
    w, v = (torch.tensor(codes, dtype=torch.float64) for codes in (image, text))
    return mixing(w @ m, v @ h, m, h, spurious)


@pytest.mark.parametrize(
    ("code", "mixed"),
    [
        ([1, 0.51, 0, 0, 0, 0], True),
        ([0.51, 1, 0, 0, 0, 0], True),
        ([1, 0.49, 0, 0, 0, 0], False),  # less than half
        ([1, 0, 0.9, 0, 0, 0], False),  # not spuriously correlated
        ([1, 0.8, 0.9, 0, 0, 0], False),  # the second is another
        ([0, 0, -2.5, 0, 0, 0], False),  # pure
    ],
)
def test_mixed_needs_half_of_the_first_and_a_spurious_pair(code: list[float], mixed: bool) -> None:
    assert of_codes([code], [code], partners())["mixed_neurons"] == mixed


def test_spurious_sets_count_in_both_directions_and_not_on_the_diagonal() -> None:
    one_way = torch.eye(D).bool()
    one_way[3, 0] = True
    codes = [[1.0, 0, 0, 0.9, 0, 0], [0, 1.0, 0, 0, 0.9, 0]]
    assert [of_codes([code], [code], one_way)["mixed_neurons"] for code in codes] == [1, 0]
    assert of_codes(codes, codes, one_way)["mixed_pairs_covered"] == 1


def test_without_spurious_pairs_the_share_covered_is_undefined() -> None:
    found = of_codes([[1, 1, 0, 0, 0, 0]], [[1, 1, 0, 0, 0, 0]], torch.zeros(D, D).bool())
    assert np.isnan(found["mixed_pairs_covered"])
    assert np.isnan(found["mixed_neurons"])


def test_a_neuron_pair_of_zeros_explains_nothing() -> None:
    found = of_codes([[0] * D], [[0] * D], torch.ones(D, D).bool())
    names = ("alpha_share", "residual_share", "residual_share_pure", "mixed_neurons")
    assert [found[name] for name in names] == [0, 1, 1, 0]


def test_random_neurons_equal_explicit_residuals() -> None:
    """Residual vectors are formed and no other α makes the first one shorter."""
    generator = torch.Generator().manual_seed(3)
    w, v = torch.randn(2, 20, D1, generator=generator, dtype=torch.float64)
    m, h = rows(1), rows(2)
    every, covered = [], set()
    for i in range(20):
        found = mixing(w[i : i + 1], v[i : i + 1], m, h, partners())
        every.append(found)
        energy = w[i] @ w[i] + v[i] @ v[i]
        both = torch.cat([w[i], v[i]])
        # Least squares on each joint feature (M_j, H_j) by itself.
        joint = torch.cat([m, h], dim=1)
        alphas = torch.stack([torch.linalg.lstsq(f[:, None], both[:, None])[0] for f in joint])
        alphas = alphas.flatten()
        order = alphas.abs().argsort(descending=True)[:2]
        pure = both - alphas[order[0]] * joint[order[0]]
        rest = pure - alphas[order[1]] * joint[order[1]]
        assert found["residual_share_pure"] == pytest.approx(float(pure @ pure / energy))
        assert found["residual_share"] == pytest.approx(float(rest @ rest / energy))
        shares = (2 * alphas[order] ** 2 / energy).tolist()
        assert [found["alpha_share"], found["second_alpha_share"]] == pytest.approx(shares)
        first, second = order.tolist()
        expected = (
            abs(float(alphas[second])) >= 0.5 * abs(float(alphas[first])) and second == first ^ 1
        )
        assert found["mixed_neurons"] == expected
        if expected:
            covered.add(frozenset(order.tolist()))
    whole = mixing(w, v, m, h, partners())
    assert whole.pop("mixed_pairs_covered") == pytest.approx(len(covered) / 3)
    assert whole == pytest.approx({name: np.mean([one[name] for one in every]) for name in whole})
    assert 0 < whole["mixed_neurons"] < 1
