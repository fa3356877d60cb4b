"""Statistics of captions against hand-made cases and loops."""

import math

import pytest
import torch
from torch import Tensor

from mispair.simulation.metrics import caption_statistics, decode, scale

D, D1, N = 8, 30, 400


def rows() -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.linalg.qr(torch.randn(D1, D, generator=generator)).Q.T


def signed(generator: torch.Generator, n: int = N, density: float = 0.3) -> Tensor:
    active = torch.rand(n, D, generator=generator) < density
    return active * (torch.randint(0, 2, (n, D), generator=generator) * 2.0 - 1)


def groups(size: int) -> Tensor:
    return torch.kron(torch.eye(D // size), torch.ones(size, size)).bool()


def test_decode_compares_with_the_threshold_strictly() -> None:
    basis = torch.eye(2, 3)
    captions = torch.tensor([[0.5, -0.51, 9.0], [-0.5, 0.2, 0.0]])
    assert decode(captions, basis).tolist() == [[0, -1], [0, 0]]
    assert decode(captions, basis, threshold=0.1).tolist() == [[1, -1], [-1, 1]]


def test_scale_is_the_length_of_true_features() -> None:
    generator = torch.Generator().manual_seed(6)
    codes = signed(generator)
    captions = 0.3 * codes @ rows()
    assert scale(captions, rows(), codes) == pytest.approx(0.3, rel=1e-5)
    assert scale(-captions, rows(), codes) == pytest.approx(-0.3, rel=1e-5)
    assert math.isnan(scale(captions, rows(), torch.zeros_like(codes)))
    # Short captions show nothing at 1/2 and everything at half their own scale.
    assert not decode(captions, rows()).any()
    assert torch.equal(decode(captions, rows(), threshold=0.15), codes)


@pytest.mark.parametrize("kind", ["groups", "one-way"])
def test_random_codes_equal_a_loop(kind: str) -> None:
    generator = torch.Generator().manual_seed(8)
    image, text = signed(generator, 60), signed(generator, 60)
    spurious = groups(4) if kind == "groups" else torch.rand(D, D, generator=generator) < 0.3
    kept, cases = [], []
    for x, y in zip(image.tolist(), text.tolist(), strict=True):
        for j in range(D):
            if x[j] == 0:
                continue
            kept.append(y[j] == x[j])
            cases += [y[k] != 0 for k in range(D) if spurious[j, k] and k != j and x[k] == 0]
    found = caption_statistics(image, text, spurious)
    assert found == pytest.approx(
        {"caption_true": sum(kept) / len(kept), "caption_spurious": sum(cases) / len(cases)}
    )


def test_shares_of_nothing_are_undefined() -> None:
    nothing, full = torch.zeros(3, D), torch.ones(3, D)
    assert all(map(math.isnan, caption_statistics(nothing, nothing, groups(2)).values()))
    found = caption_statistics(full, full, groups(2))
    assert found["caption_true"] == 1
    assert math.isnan(found["caption_spurious"])
    uncorrelated = caption_statistics(full[:, :4], full[:, :4], torch.zeros(4, 4).bool())
    assert math.isnan(uncorrelated["caption_spurious"])
