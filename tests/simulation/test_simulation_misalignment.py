"""How captions go wrong: against Eqs. 5 and 21-26, a slow twin, and a sum over all outcomes."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from mispair.simulation.pairs import SpuriousSets, TrialDraws, draw_spurious_sets, misalign
from mispair.simulation.study import Study

PER_FEATURE = ["partner", "groups", "random-sets", "independent"]


def draws(trial: int = 0, dtype: torch.dtype = torch.float32) -> TrialDraws:
    return TrialDraws(seed=0, trial=trial, dtype=dtype)


def study_of(model: str, d: int = 12, **changes: Any) -> Study:
    return Study(
        d1=max(40, d), d=d, m=d, classes=2, misalignment=model,
        **{"spurious_group_size": 4, "test_margin": 1, **changes},
    )  # fmt: skip


def uniform(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(2, n, d, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("model", ["caption", *PER_FEATURE])
def test_sets_are_probabilities_of_other_features(model: str) -> None:
    study = study_of(model)
    partners = draw_spurious_sets(draws(), study).partners
    assert partners.shape == (12, 12)
    assert not partners.diagonal().any()
    torch.testing.assert_close(partners.sum(dim=1), torch.ones(12))
    others = {"caption": 11, "partner": 1, "independent": 1}.get(model, 3)
    assert ((partners > 0).sum(dim=1) == others).all()
    if model == "random-sets":
        assert len(partners[partners > 0].unique()) == 12 * 3
    else:
        assert torch.equal(partners, partners.T)
        torch.testing.assert_close(partners[partners > 0], torch.full((12 * others,), 1 / others))
        same = partners + torch.eye(12) > 0
        assert torch.equal(same, same.float() @ same.float() > 0)  # disjoint groups: transitive
    elsewhere = draw_spurious_sets(draws(trial=1), study).partners
    assert torch.equal(partners, elsewhere) == (model == "caption")


def cross_moment(study: Study, rate: float, spurious: SpuriousSets) -> Tensor:
    """Return E[z_x z_y^T] (d, d) of a pair of S_w; rows are features of images.

    It goes through everything that can happen to every feature, so d is small.
    """
    d, p, partners = study.d, study.latent_density, spurious.partners
    if study.misalignment == "caption":
        by_chance = 0.0 if study.latent_values == "signed" else p**2
        return (1 - rate) * (p - by_chance) * torch.eye(d).double() + by_chance
    signs = {1.0: p} if study.latent_values == "binary" else {1.0: p / 2, -1.0: p / 2}
    options = []
    for j in range(d):
        mine: list[tuple[float, float, bool, int]] = [(1 - p, 0.0, False, -1)]
        for sign, chance in signs.items():
            if study.misalignment == "independent":
                partner = int(partners[j].argmax())
                for kept, added in itertools.product([True, False], [True, False]):
                    weight = (1 - rate if kept else rate) * (rate if added else 1 - rate)
                    mine.append((chance * weight, sign, kept, partner if added else -1))
            else:
                mine.append((chance * (1 - rate), sign, True, -1))
                mine += [
                    (chance * rate * float(partners[j, k]), sign, False, k)
                    for k in range(d)
                    if partners[j, k] > 0
                ]
        options.append(mine)
    total = torch.zeros(d, d, dtype=torch.float64)
    for outcome in itertools.product(*options):
        weight = math.prod(part[0] for part in outcome)
        x = torch.tensor([part[1] for part in outcome], dtype=torch.float64)
        y = torch.zeros(d, dtype=torch.float64)
        for _, sign, _, target in outcome:
            if target >= 0:
                y[target] += sign
        y.clamp_(-1, 1)
        for j, (_, sign, kept, _) in enumerate(outcome):
            if kept:
                y[j] = sign
        total += weight * torch.outer(x, y)
    return total


@pytest.mark.parametrize("model", ["caption", *PER_FEATURE])
def test_features_are_correlated_if_captions_have_them_more_often_than_by_chance(model) -> None:
    # With signs, chance alone gives no correlation.
    study = study_of(model, d=4, latent_values="signed", spurious_group_size=2)
    spurious = draw_spurious_sets(draws(), study)
    moment = cross_moment(study, 0.4, spurious)
    assert torch.equal(spurious.correlated, (moment > 1e-12) & ~torch.eye(4).bool())
    assert bool(spurious.correlated.any()) == (model != "caption")


def test_unequal_chances_are_uniform_on_the_simplex() -> None:
    d, k = 600, 4
    partners = draw_spurious_sets(
        draws(), study_of("random-sets", d=d, spurious_group_size=k + 1)
    ).partners
    found = partners[partners > 0]
    variance = (k - 1) / (k**2 * (k + 1))  # of one coordinate of a Dirichlet(1, ..., 1)
    assert float(found.var()) == pytest.approx(variance, rel=0.1)
    chosen = (partners > 0).float().mean(dim=0) * d / k  # nobody is spurious more often
    assert float(chosen.mean()) == pytest.approx(1, abs=1e-4)
    assert float(chosen.var()) == pytest.approx((1 - k / d) / k, rel=0.3)


@pytest.mark.parametrize("model", PER_FEATURE)
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_one_active_feature_goes_wrong_as_the_model_says(model: str, rate: float) -> None:
    """Eqs. 5 and 21-23: without company, there are no collisions."""
    d, n = 12, 4000
    spurious = draw_spurious_sets(draws(), study_of(model))
    image = torch.eye(d).repeat_interleave(n, dim=0)
    image[::2] *= -1
    text = misalign(image, uniform(n * d, d), spurious, rate, study_of(model))
    sign = image.sum(dim=1, keepdim=True)
    present = (text * sign).view(d, n, d)  # z_y^j' = z_x^j where it is there
    assert set(present.unique().tolist()) <= {0.0, 1.0}
    found = present.mean(dim=1)
    expected = (1 - rate) * torch.eye(d) + rate * spurious.partners
    band = 5 * (expected * (1 - expected) / n).sqrt() + 1e-6
    assert ((found - expected).abs() <= band).all()
    own = present.diagonal(dim1=0, dim2=2).bool()  # (n, d)
    spuriously = present.sum(dim=2).T - own.float()
    if model == "independent":
        both = float((own & (spuriously == 1)).double().mean())
        expected_both = (1 - rate) * rate
        assert abs(both - expected_both) <= 5 * math.sqrt(expected_both / (n * d))
    else:
        assert torch.equal(own, spuriously == 0)  # Eq. 23: one of the two


@pytest.mark.parametrize("number", [0.0, 1 - 2**-24])
def test_the_extreme_numbers_choose_a_possible_feature(number: float) -> None:
    for trial in range(20):
        spurious = draw_spurious_sets(draws(trial), study_of("random-sets"))
        chosen = spurious.choose(torch.full((1, 12), number))[0]
        assert (spurious.partners[torch.arange(12), chosen] > 0).all()


def slow_misalign(
    codes: torch.Tensor, numbers: torch.Tensor, partners: torch.Tensor, rate: float, model: str
) -> torch.Tensor:
    text = torch.zeros_like(codes)
    for row, code in enumerate(codes.tolist()):
        kept, arrived = {}, dict.fromkeys(range(len(code)), 0.0)
        for j, value in enumerate(code):
            if value == 0:
                continue
            first, second = float(numbers[0, row, j]), float(numbers[1, row, j])
            if first >= rate:
                kept[j] = value
            if (second if model == "independent" else first) < rate:
                reached, target = 0.0, -1
                while reached <= second:
                    target += 1
                    reached += float(partners[j, target])
                    if target == len(code) - 1:
                        break
                if model == "independent":
                    target = int(partners[j].argmax())
                arrived[target] += value
        for j in range(len(code)):
            text[row, j] = kept.get(j, max(-1.0, min(1.0, arrived[j])))
    return text


@pytest.mark.parametrize("model", PER_FEATURE)
def test_misalignment_equals_its_slow_twin(model: str) -> None:
    study = study_of(model)
    spurious = draw_spurious_sets(draws(dtype=torch.float64), study)
    generator = torch.Generator().manual_seed(3)
    codes = torch.randint(-1, 2, (300, 12), generator=generator).double()
    numbers = uniform(300, 12)
    found = misalign(codes, numbers, spurious, 0.4, study)
    assert torch.equal(found, slow_misalign(codes, numbers, spurious.partners, 0.4, model))
    assert len(found.unique()) == 3


def test_collisions() -> None:
    """Three features whose only stand-in is feature 0."""
    partners = torch.zeros(4, 4)
    partners[1:, 0] = 1
    partners[0, 1] = 1
    wrong, right = 0.0, 0.9

    def text(code: list[float], first: list[float]) -> list[float]:
        numbers = torch.tensor([[first], [[0.5] * 4]])
        spurious = SpuriousSets(partners, partners > 0)
        found = misalign(torch.tensor([code]), numbers, spurious, 0.3, study_of("groups", d=4))
        return found[0].tolist()

    assert text([0, 1, 1, 0], [right, wrong, wrong, right]) == [1, 0, 0, 0]  # clipped
    assert text([0, -1, -1, -1], [right, wrong, wrong, wrong]) == [-1, 0, 0, 0]
    assert text([0, 1, -1, 0], [right, wrong, wrong, right]) == [0, 0, 0, 0]  # cancelled
    assert text([-1, 1, 1, 0], [right, wrong, wrong, right]) == [-1, 0, 0, 0]  # kept
    assert text([-1, 1, 0, 0], [wrong, wrong, right, right]) == [1, -1, 0, 0]  # swapped
    assert text([-1, 0, 0, 1], [wrong, right, right, right]) == [0, -1, 0, 1]


@pytest.mark.parametrize("model", PER_FEATURE)
def test_what_goes_wrong_does_so_at_every_higher_rate(model: str) -> None:
    study = study_of(model)
    spurious = draw_spurious_sets(draws(), study)
    d, n = 12, 500
    image = torch.eye(d).repeat_interleave(n, dim=0)
    low, middle, high = (
        misalign(image, uniform(n * d, d), spurious, rate, study) for rate in (0.1, 0.3, 0.5)
    )
    for less, more in ((low, middle), (middle, high)):
        assert ((more != image) | (less == image)).all()  # what was wrong still is
        missing, there = (image - less).clamp(min=0), (less - image).clamp(min=0)
        assert torch.equal(missing * more, torch.zeros_like(more))
        assert torch.equal(there * more, there)  # the same feature stands in
        assert (more != image).sum() > (less != image).sum()
