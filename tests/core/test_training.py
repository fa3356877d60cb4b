"""The training loop of small networks: step sizes, resumption, and losses that are not finite."""

import math

import pytest
import torch
from torch import nn

from mispair.core import training
from mispair.core.training import LossOfStep, TrainingPlan, add_product, times, train

PLAN = TrainingPlan(steps=40, lr=1e-2, last_lr=1e-5, weight_decay=1e-3, clip=1.0)


class Kept:
    """Keeps a state; a job that is asked to end at a step ends there, once the state is saved."""

    def __init__(self, at: int) -> None:
        self.done, self.at = 0, at
        self.state: dict[str, torch.Tensor] | None = None

    def load(self) -> dict[str, torch.Tensor] | None:
        return self.state

    def due(self) -> bool:
        self.done += 1
        return self.done == self.at

    def save(self, state: dict[str, torch.Tensor]) -> None:
        self.state = state
        if int(state["step"]) == self.at:
            raise KeyboardInterrupt


def start() -> tuple[nn.Module, LossOfStep]:
    """Return a perceptron, and its squared error on fresh inputs of each step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))

    def loss(step: int) -> torch.Tensor:
        inputs = torch.randn(32, 5, generator=torch.Generator().manual_seed(step))
        return (model(inputs)[:, 0] - inputs.sum(dim=1)).square().mean()

    return model, loss


def test_training_is_that_of_torch() -> None:
    """The same steps by torch's own AdamW and clipping, to single precision."""
    plan = TrainingPlan(40, 1e-2, 1e-5, 0.1, 0.5, warm_up=7, betas=(0.8, 0.9))
    ours, loss = start()
    losses = train(ours, loss, plan)
    peer, loss = start()
    optimiser = torch.optim.AdamW(peer.parameters(), weight_decay=0.1, betas=(0.8, 0.9))
    for step in range(plan.steps):
        value = loss(step)
        assert float(losses[step]) == pytest.approx(float(value.detach()), rel=1e-4)
        optimiser.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 0.5)
        optimiser.param_groups[0]["lr"] = plan.lr_at(step)
        optimiser.step()
    for one, other in zip(ours.parameters(), peer.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)


def test_step_sizes_grow_and_then_follow_a_cosine() -> None:
    plan = TrainingPlan(steps=100, lr=1.0, last_lr=0.1, weight_decay=0, clip=1, warm_up=10)
    assert plan.lr_at(0) == pytest.approx(0.1)
    assert plan.lr_at(9) == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi * 0.09)) / 2)
    assert plan.lr_at(50) == pytest.approx(0.55)
    assert plan.lr_at(100) == pytest.approx(0.1)
    assert PLAN.lr_at(0) == pytest.approx(1e-2)


def test_a_training_that_was_stopped_ends_as_one_that_was_not() -> None:
    whole, loss = start()
    losses = train(whole, loss, PLAN)
    keeper = Kept(at=17)
    stopped, loss = start()
    with pytest.raises(KeyboardInterrupt):
        train(stopped, loss, PLAN, keeper)
    resumed, loss = start()
    with torch.no_grad():
        for values in resumed.parameters():
            values.fill_(float("nan"))  # all comes from the state
    steps: list[int] = []
    assert torch.equal(train(resumed, loss, PLAN, keeper, steps.append), losses)
    assert steps == list(range(17, 41))
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    # The state of the last step is kept: no step is taken again.
    again, loss = start()
    assert torch.equal(train(again, loss, PLAN, keeper, steps.append), losses)
    assert steps[-1] == 40
    assert torch.equal(next(again.parameters()), next(whole.parameters()))


@pytest.mark.parametrize("step", [0, 3, 39])
def test_a_loss_that_is_not_finite_names_its_step(step: int) -> None:
    model, loss = start()
    keeper = Kept(at=100)
    with pytest.raises(FloatingPointError, match=f"step {step} "):
        train(model, lambda at: loss(at) * (math.nan if at == step else 1), PLAN, keeper)
    assert keeper.state is None


@pytest.mark.parametrize("onednn", [False, True])
@pytest.mark.parametrize("runs", [(), (3,)])
def test_products_are_written_and_added_in_place(monkeypatch, runs, onednn):
    monkeypatch.setattr(training, "_ONEDNN", onednn)
    monkeypatch.setattr(training, "_WORTHWHILE", 1)
    left, right = torch.randn(*runs, 40, 7), torch.randn(*runs, 9, 7).mT
    total = torch.randn(*runs, 40, 9)
    wanted, out = total + left @ right, torch.full_like(total, math.nan)
    assert times(left, right, out) is out
    torch.testing.assert_close(out, left @ right)
    assert add_product(total, left, right) is total
    torch.testing.assert_close(total, wanted)


def test_a_sum_of_short_products_has_the_bits_of_the_product_added() -> None:
    """At the sizes of the simulation; the library may add in another order on longer ones."""
    total, left, right = torch.randn(80, 2500), torch.randn(500, 80).T, torch.randn(80, 2500)
    for size in (50, 80):
        wanted = total + times(left[:, :size], right[:size])
        assert torch.equal(add_product(total.clone(), left[:, :size], right[:size]), wanted)
