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


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("model", PER_FEATURE)
def test_misalignment_equals_its_slow_twin(model: str, rate: float) -> None:
    """By the twin, what is wrong at a rate is so at every higher one, with the same stand-in."""
    study = study_of(model)
    spurious = draw_spurious_sets(draws(dtype=torch.float64), study)
    generator = torch.Generator().manual_seed(3)
    codes = torch.randint(-1, 2, (300, 12), generator=generator).double()
    numbers = uniform(300, 12)
    found = misalign(codes, numbers, spurious, rate, study)
    assert torch.equal(found, slow_misalign(codes, numbers, spurious.partners, rate, model))
    assert torch.equal(found, codes) == (rate == 0)
