"""Trajectories of the hand-derived engine against autograd with B × B losses, the plain way."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from mispair.simulation.encoder import Diverged, Encoders, Silenced, draw_encoders
from mispair.simulation.inputs import Batch, Coded, Dense, FreshNoise, Inputs, factor
from mispair.simulation.pairs import TrialDraws
from mispair.simulation.study import Study
from mispair.simulation.training import TrainingLength, train

D1, D, M, B = 40, 6, 9, 30
EPOCHS, STEPS = 6, 20

WRITTEN = Study(
    preset="as-written", d1=D1, d=D, m=M, classes=2, spurious_group_size=3, batch_size=B,
    precision="float64", temperature=30.0, lr=0.02, start_std=0.05, phase2_steps=30,
    low_quality_pairs=200,
)  # fmt: skip
RUN = Study(
    preset="as-run", d1=D1, d=D, m=M, classes=2, batch_size=B, precision="float64", lr=0.02,
    lr_decay=0.5, lr_decay_every=2, start_std=0.05, low_quality_pairs=200,
)  # fmt: skip


def draws(dtype: torch.dtype = torch.float64) -> TrialDraws:
    return TrialDraws(seed=3, trial=0, dtype=dtype)


@dataclass(frozen=True)
class Drawn:
    """Dense pairs with sparse codes, some of them mismatched, drawn by the step's number."""

    seed: int = 0
    dtype: torch.dtype = torch.float64
    d1: int = D1
    size: int = B
    steps_per_epoch: int = STEPS

    def batch(self, step: int) -> Batch:
        generator = torch.Generator().manual_seed(1000 * self.seed + step)
        normal = {"generator": generator, "dtype": torch.float64}
        codes = (torch.rand(2, self.size, D, generator=generator) < 0.25).double()
        codes *= torch.randn(2, self.size, D, **normal).sign()
        codes[1] = torch.where(torch.rand(self.size, 1, generator=generator) < 0.2, *codes.flip(0))
        fixed = torch.Generator().manual_seed(self.seed)
        bases = torch.linalg.qr(
            torch.randn(2, self.d1, D, generator=fixed, dtype=torch.float64)
        ).Q.mT
        values = codes @ bases + 0.05 * torch.randn(2, self.size, self.d1, **normal)
        return Batch(*(Dense(one) for one in values.to(self.dtype)))


def start(study: Study, arm: str = "raw") -> Encoders:
    return draw_encoders(draws(), arm, study)


# The plain way -----------------------------------------------------------------------------------


def plain_infonce(f: Tensor, h: Tensor, tau: float) -> Tensor:
    """The mean over the batch through a library's cross entropy."""
    both = torch.cat([f, h])
    logits = (both @ both.T / tau).masked_fill(torch.eye(2 * len(f), dtype=torch.bool), -math.inf)
    return torch.nn.functional.cross_entropy(logits, torch.arange(2 * len(f)).roll(len(f)))


def plain_spectral(f: Tensor, h: Tensor, tau: float) -> Tensor:
    """Eq. 1 as a mean over the batch, with the whole B × B matrix."""
    gram = f @ h.T
    negatives = (gram**2).fill_diagonal_(0) / (2 * tau)
    return (-gram.diagonal() + negatives.sum(dim=0) + negatives.sum(dim=1)).mean()


def plain_features(kind: str, a: Tensor, b: Tensor) -> Tensor:
    if kind == "symmetric-relu":
        return (a - b).relu() - (-a - b).relu()
    return (a + b).relu()


def plain_thresholds(plan: TrainingLength, weights: Tensor, step: int, memory: dict) -> Tensor:
    """The schedules once more, with a dictionary for a memory."""
    norms = (weights.detach() ** 2).sum(dim=2)
    both = norms.mean(dim=0)
    start_norms = memory.setdefault("start", both)
    anew = plan.study.bias_scale * (math.log(plan.study.d) / plan.study.d * both).sqrt()
    b = memory.setdefault("b", torch.zeros_like(both))
    eta = plan.lr_at(step) * (B if plan.study.loss_reduction == "sum" else 1)
    if plan.study.bias_schedule == "zero" or "third" in memory:
        return b
    if "second" not in memory:
        by_theory = bool((both >= 2 * start_norms).all())
        on_the_whole = bool(both.sum() >= 2 * start_norms.sum())
        if by_theory if plan.study.bias_schedule == "theory" else on_the_whole:
            memory.update(second=step, norms_first=norms, b=anew)
    elif plan.study.bias_schedule == "theory":
        memory["b"] = b * (1 + eta / plan.study.d)
        grown = plan.study.phase2_growth * plan.study.d * memory["norms_first"][0]
        if bool((norms[0] >= grown).all()):
            memory.update(third=step, norms_second=norms)
    elif step == memory["second"] + plan.study.phase2_steps:
        memory.update(third=step, norms_second=norms)
    else:
        memory["b"] = anew
    return memory["b"]


TextOf = Callable[[int, Tensor, Tensor], Tensor]


def plain_training(
    begin: Encoders, images: Callable[[int], Tensor], texts: TextOf, plan: TrainingLength
) -> tuple[Encoders, list[float], dict]:
    """Train by autograd. Captions may depend on V and on the gradient by its pre-activations."""
    weights = begin.weights.clone().requires_grad_()
    biases = begin.biases.clone().requires_grad_()
    optimiser = (
        torch.optim.Adam([weights, biases], lr=plan.study.lr, foreach=False)
        if plan.study.optimiser == "adam"
        else torch.optim.SGD([weights, biases], lr=plan.study.lr)
    )
    losses, memory = [], {}

    def rescale() -> None:
        with torch.no_grad():
            norms = weights.norm(dim=2, keepdim=True)
            weights.div_(norms)
            biases.div_(norms[:, :, 0])

    def backward(step: int, gradient: Tensor) -> tuple[float, Tensor]:
        optimiser.zero_grad()
        text = texts(step, weights[1].detach(), gradient) @ weights[1].T
        text.retain_grad()
        f = plain_features(begin.kind, images(step) @ weights[0].T, biases[0])
        h = plain_features(begin.kind, text, biases[1])
        loss = plain_infonce if plan.study.loss == "infonce" else plain_spectral
        value = loss(f, h, plan.study.temperature) * (
            B if plan.study.loss_reduction == "sum" else 1
        )
        squares = (weights**2).sum() + ((biases**2).sum() if begin.kind == "relu" else 0)
        value = value + plan.study.weight_penalty * squares
        value.backward()
        return float(value.detach()), text.grad

    for step in range(plan.steps):
        if plan.study.unit_rows:
            rescale()
        if begin.kind == "symmetric-relu":
            with torch.no_grad():
                biases.copy_(plain_thresholds(plan, weights, step, memory).expand(2, -1))
        _, gradient = backward(step, torch.zeros(B, M, dtype=torch.float64))
        losses.append(backward(step, gradient)[0])
        if begin.kind != "relu":
            biases.grad = None
        optimiser.param_groups[0]["lr"] = plan.lr_at(step)
        optimiser.step()
    if plan.study.unit_rows:
        rescale()
    return Encoders(begin.kind, weights.detach(), biases.detach()), losses, memory


def moved(found: Encoders, begin: Encoders) -> float:
    """How far weights went, relative to where they started; if of unit rows, on the sphere."""
    unit = [one.weights / one.weights.norm(dim=2, keepdim=True) for one in (found, begin)]
    return float((unit[0] - unit[1]).norm() / unit[1].norm())


THEORY = {"bias_schedule": "theory", "bias_scale": 0.3, "phase2_growth": 0.25}
TRAJECTORIES = {
    "as written, practical": WRITTEN,
    "as written, no third phase": WRITTEN.model_copy(update={"phase2_steps": 1000}),
    "as written, theory": WRITTEN.model_copy(update=THEORY),
    "as written, zero": WRITTEN.model_copy(update={"bias_schedule": "zero"}),
    "theory, mean": WRITTEN.model_copy(update={**THEORY, "loss_reduction": "mean", "lr": 0.6}),
    "relu, spectral, penalty": WRITTEN.model_copy(
        update={"encoder": "relu", "weight_penalty": 0.3}
    ),
    "symmetric, adam, penalty": WRITTEN.model_copy(
        update={"optimiser": "adam", "weight_penalty": 0.1}
    ),
    "as written, unit rows": WRITTEN.model_copy(update={"unit_rows": True}),
    "symmetric, infonce": WRITTEN.model_copy(
        update={"loss": "infonce", "temperature": 0.5, "loss_reduction": "mean", "lr": 0.5}
    ),
    "as run": RUN,
    "as run, sum, no penalty": RUN.model_copy(
        update={"loss_reduction": "sum", "weight_penalty": 0.0}
    ),
}


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_trajectory_equals_plain_autograd(name: str) -> None:
    study = TRAJECTORIES[name]
    plan = TrainingLength(study, EPOCHS, STEPS)
    begin, data = start(study), Drawn()
    ours = train(begin, data.batch, plan)
    plain, losses, memory = plain_training(
        begin,
        lambda step: data.batch(step).image.dense(),
        lambda step, *_: data.batch(step).text.dense(),
        plan,
    )
    np.testing.assert_allclose(ours.losses.ravel(), losses, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(ours.encoders.weights, plain.weights, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(ours.encoders.biases, plain.biases, rtol=1e-7, atol=1e-9)
    assert moved(ours.encoders, begin) > 0.1  # a check on unmoved weights is empty
    assert (ours.phases.second, ours.phases.third) == (memory.get("second"), memory.get("third"))
    for name in ("norms_first", "norms_second"):  # of a phase that never began, those of the end
        norms = memory.get(name, (plain.weights**2).sum(dim=2))
        torch.testing.assert_close(getattr(ours.phases, name), norms, rtol=1e-7, atol=1e-9)
    if study.encoder == "symmetric-relu" and study.bias_schedule != "zero" and not study.unit_rows:
        assert 0 < memory["second"] < memory.get("third", plan.steps - 2) < plan.steps - 1
        features = ours.encoders.features(0, data.batch(0).image)
        assert 0.1 < float((features == 0).double().mean()) < 0.95  # thresholds that bite


def test_a_second_phase_without_steps_leaves_the_thresholds_at_zero() -> None:
    study = WRITTEN.model_copy(update={"phase2_steps": 0})
    found = train(start(study), Drawn().batch, TrainingLength(study, EPOCHS, STEPS))
    assert found.phases.second == found.phases.third is not None
    assert not found.encoders.biases.any()


def coded(step: int, *, stored: bool) -> Batch:
    """Noiseless images; captions with projected noise, then with stored noise, then with none."""
    generator = torch.Generator().manual_seed(step)
    normal = {"generator": generator, "dtype": torch.float64}
    codes = (torch.rand(B, D, generator=generator) < 0.25).double()
    fixed = torch.Generator().manual_seed(7)
    rows = torch.linalg.qr(torch.randn(2, D1, D, generator=fixed, dtype=torch.float64)).Q.mT
    count = 12 if stored else B
    fresh = FreshNoise(0.3, torch.randn(count, M, **normal), torch.randn(M, D1, **normal))
    kept = 0.3 * torch.randn(10, D1, **normal) if stored else None
    return Batch(Coded(codes, rows[0].clone()), Coded(codes, rows[1].clone(), fresh, kept))


def explicit(inputs: Inputs, V: Tensor, gradient: Tensor) -> Tensor:
    """Build noise that has exactly the forward and backward products the step uses."""
    values = inputs.codes @ inputs.rows
    count = 0
    if inputs.fresh is not None:
        seen, unseen = inputs.fresh.seen, inputs.fresh.unseen
        count = len(seen)
        lower = torch.linalg.cholesky(V @ V.T)
        basis = torch.linalg.solve_triangular(lower, V, upper=False)  # orthonormal rows
        left = torch.linalg.qr(gradient[:count]).Q
        outside = unseen[: left.shape[1]]
        outside = outside - (outside @ basis.T) @ basis
        values[:count] += inputs.fresh.std * (seen @ basis + left @ outside)
    if inputs.stored is not None:
        values[count : count + len(inputs.stored)] += inputs.stored
    return values


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", ["as run", "as written, zero"])
def test_trajectory_on_coded_pairs_with_projected_noise_equals_autograd(name, stored) -> None:
    study = TRAJECTORIES[name].model_copy(
        update={"temperature": 1.0, "lr": 0.005, "weight_penalty": 0.01}
    )
    plan, begin = TrainingLength(study, 2, STEPS), start(study)
    ours = train(begin, lambda step: coded(step, stored=stored), plan)
    plain, losses, _ = plain_training(
        begin,
        lambda step: coded(step, stored=stored).image.dense(),
        lambda step, V, gradient: explicit(coded(step, stored=stored).text, V, gradient),
        plan,
    )
    np.testing.assert_allclose(ours.losses.ravel(), losses, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(ours.encoders.weights, plain.weights, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(ours.encoders.biases, plain.biases, rtol=1e-6, atol=1e-8)
    assert moved(ours.encoders, begin) > 0.1


@pytest.mark.parametrize("study", [WRITTEN, RUN], ids=["as written", "as run"])
def test_float32_agrees_with_float64(study: Study) -> None:
    """At a size at which products go to the faster library; the same draws, rounded.

    In the median of five draws: rounding may switch a neuron on or off that is at its threshold, by
    either library, and a training that does so ends some 1e-3 away.
    """
    big = study.model_copy(update={"d1": 300, "m": 48, "batch_size": 100})
    plan = TrainingLength(big.model_copy(update={"lr": study.lr / 3}), 2, STEPS)
    begin = start(big)
    single = Encoders(begin.kind, begin.weights.float(), begin.biases.float())
    differences = []
    for seed in range(5):
        exact = train(begin, Drawn(seed, d1=300, size=100).batch, plan)
        ours = train(single, Drawn(seed, torch.float32, 300, 100).batch, plan)
        assert ours.encoders.weights.dtype == torch.float32
        assert moved(exact.encoders, begin) > 0.1
        weights = ours.encoders.weights.double() - exact.encoders.weights
        differences.append(
            (
                float(weights.norm() / exact.encoders.weights.norm()),
                float(np.abs(ours.losses - exact.losses).max() / np.abs(exact.losses).max()),
            )
        )
    assert np.median(differences, axis=0).max() < 1e-5


@dataclass(frozen=True)
class Poisoned(Drawn):
    """Gives one entry of one batch another value."""

    value: float = math.nan
    at: int = 5

    def batch(self, step: int) -> Batch:
        found = super().batch(step)
        if step == self.at:
            found.image.dense()[0, 0] = self.value
        return found


# Failure -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("study", [WRITTEN, RUN], ids=["as written", "as run"])
def test_divergence_is_stopped_at_its_step(study: Study, poison: float) -> None:
    with pytest.raises(Diverged, match="at step 5") as stop:
        train(start(study), Poisoned(value=poison).batch, TrainingLength(study, 1, STEPS))
    assert stop.value.step == 5


def test_weights_that_the_last_step_spoils_are_no_result() -> None:
    wild = WRITTEN.model_copy(update={"lr": 1e308, "bias_schedule": "zero", "start_std": 1.0})
    with pytest.raises(Diverged) as stop:
        train(start(wild), Drawn().batch, TrainingLength(wild, 1, 1))
    assert stop.value.step == 1


def test_neurons_too_long_to_be_rescaled_are_a_divergence() -> None:
    begin = start(RUN)
    begin.weights[0, 1] = 1e200  # its norm overflows, so that rescaling would leave a zero
    with pytest.raises(Diverged, match="at step 0"):
        train(begin, Drawn().batch, TrainingLength(RUN, 1, STEPS))


@pytest.mark.parametrize("side", ["image", "text"])
def test_a_batch_to_which_one_tower_is_silent_is_reported(side: str) -> None:
    def batch(step: int) -> Batch:
        found = Drawn().batch(step)
        nothing = Dense(torch.zeros(B, D1, dtype=torch.float64))
        return replace(found, **{side: nothing}) if step == 7 else found

    with pytest.raises(Silenced, match="at step 7") as stop:
        train(start(WRITTEN), batch, TrainingLength(WRITTEN, 1, STEPS))
    assert stop.value.step == 7


def test_thresholds_that_outgrow_the_weights_are_reported() -> None:
    harsh = WRITTEN.model_copy(update={"bias_scale": 50.0})
    plan = TrainingLength(harsh, EPOCHS, STEPS)
    with pytest.raises(Silenced) as stop:
        train(start(harsh), Drawn().batch, plan)
    gentle = train(start(WRITTEN), Drawn().batch, TrainingLength(WRITTEN, EPOCHS, STEPS))
    assert stop.value.step == gentle.phases.second  # until then both have no threshold


# Going on after an interruption ------------------------------------------------------------------


class Shelf:
    """A keeper that remembers all states, and may be cut off."""

    def __init__(self, every: int = 25) -> None:
        self.states: list[dict[str, Tensor]] = []
        self.asked, self.every = 0, every

    def due(self) -> bool:
        self.asked += 1
        return self.asked % self.every == 0

    def load(self) -> dict[str, Tensor] | None:
        self.asked = 0
        return self.states[-1] if self.states else None

    def save(self, state: dict[str, Tensor]) -> None:
        self.states.append(state)


class Interrupted(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize(
    "name", ["as written, practical", "as written, theory", "as run", "symmetric, adam, penalty"]
)
def test_a_resumed_training_is_bit_identical(name: str) -> None:
    study = TRAJECTORIES[name]
    plan = TrainingLength(study, EPOCHS, STEPS)
    whole = train(start(study), Drawn().batch, plan)
    shelf = Shelf()
    taken: list[int] = []

    def until(stop: int) -> Callable[[int], Batch]:
        def batch(step: int) -> Batch:
            if step == stop:
                raise Interrupted
            taken.append(step)
            return Drawn().batch(step)

        return batch

    for stop in (10, 30, 80, 119):
        with pytest.raises(Interrupted):
            train(start(study), until(stop), plan, shelf)
    assert [int(state["step"]) for state in shelf.states] == [25, 50, 75, 100]
    assert taken == [*range(10), *range(30), *range(25, 80), *range(75, 119)]
    for _ in range(2):  # to the end, and once more after it
        taken.clear()
        ours = train(start(study), until(-1), plan, shelf)
        assert torch.equal(ours.encoders.weights, whole.encoders.weights)
        assert torch.equal(ours.encoders.biases, whole.encoders.biases)
        assert np.array_equal(ours.losses, whole.losses)
        assert (ours.phases.second, ours.phases.third) == (whole.phases.second, whole.phases.third)
        assert torch.equal(ours.phases.norms_first, whole.phases.norms_first)
        assert torch.equal(ours.phases.norms_second, whole.phases.norms_second)
    assert not taken
    assert [int(state["step"]) for state in shelf.states[4:]] == [120]


def test_a_training_that_failed_is_not_kept() -> None:
    shelf = Shelf(every=2)
    plan = TrainingLength(WRITTEN, 1, STEPS)
    with pytest.raises(Diverged):
        train(start(WRITTEN), Poisoned().batch, plan, shelf)
    assert [int(state["step"]) for state in shelf.states] == [2, 4]


# Lesser promises ---------------------------------------------------------------------------------


def test_step_size_decays_after_the_given_epochs() -> None:
    plan = TrainingLength(RUN, EPOCHS, STEPS)  # halves every two epochs of 20 steps
    assert [plan.lr_at(step) for step in (0, 39, 40, 79, 80)] == [0.02, 0.02, 0.01, 0.01, 0.005]


# Encoders ----------------------------------------------------------------------------------------


def test_starting_weights_are_one_draw_and_only_learned_biases_start_off_zero() -> None:
    started = {study.encoder: start(study) for study in (RUN, WRITTEN)}
    generator = draws().generator("start", "raw")
    assert torch.equal(started["relu"].weights, 0.05 * draws().normal(generator, 2, M, D1))
    assert torch.equal(started["relu"].biases, 0.05 * draws().normal(generator, 2, M))
    assert started["symmetric-relu"].kind == "symmetric-relu"
    assert torch.equal(started["symmetric-relu"].weights, started["relu"].weights)
    assert not started["symmetric-relu"].biases.any()


# Inputs, and the arithmetic they rest on ---------------------------------------------------------


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("form", ["dense", "coded"])
def test_inputs_have_the_products_of_the_matrix_they_stand_for(form: str, in_place: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    normal = {"generator": generator, "dtype": torch.float64}
    weights = torch.randn(M, D1, **normal)
    inputs = coded(0, stored=True).text if form == "coded" else Dense(torch.randn(B, D1, **normal))
    gradient = torch.randn(B, M, **normal)
    X = explicit(inputs, weights, gradient) if form == "coded" else inputs.dense()
    assert len(inputs) == B
    torch.testing.assert_close(inputs.product(weights), X @ weights.mT, rtol=1e-9, atol=1e-10)
    expected = weights + gradient.mT @ X
    out = weights if in_place else weights.clone()
    inputs.accumulate(gradient, weights, out=out)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)


def test_projected_noise_has_the_joint_distribution_of_full_noise() -> None:
    """E Vᵀ and Gᵀ E, with G a function of E Vᵀ: the same first and second moments both ways."""
    generator = torch.Generator().manual_seed(0)
    n, m, d1, repeats = 4, 2, 5, 8_000
    V = torch.randn(m, d1, generator=generator, dtype=torch.float64)
    samples: dict[str, list[torch.Tensor]] = {"full": [], "projected": []}
    for _ in range(repeats):
        E = torch.randn(n, d1, generator=generator, dtype=torch.float64)
        forward = E @ V.T
        G = forward.relu() + 0.5
        samples["full"].append(torch.cat([forward.flatten(), (G.T @ E).flatten()]))
        seen = torch.randn(n, m, generator=generator, dtype=torch.float64)
        unseen = torch.randn(m, d1, generator=generator, dtype=torch.float64)
        noise = FreshNoise(1.0, seen, unseen)
        forward = noise.product(V)
        back = noise.back_product(forward.relu() + 0.5, V)
        samples["projected"].append(torch.cat([forward.flatten(), back.flatten()]))
    full, projected = (torch.stack(values) for values in samples.values())
    error = full.std(dim=0) / math.sqrt(repeats)
    assert ((full.mean(dim=0) - projected.mean(dim=0)).abs() < 6 * error).all()
    scale = full.std(dim=0)
    difference = (full.T.cov() - projected.T.cov()) / (scale[:, None] * scale)
    assert difference.abs().max() < 0.12


@pytest.mark.parametrize("dependent", [False, True])
def test_factor_gives_an_orthonormal_basis_even_of_dependent_rows(dependent: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    V = torch.randn(6, 20, generator=generator, dtype=torch.float64)
    if dependent:
        V[3] = V[1] - V[2]
    lower, inverse = factor(V)
    rank = 5 if dependent else 6
    assert lower.shape == (6, rank)
    basis = inverse @ V
    identity = torch.eye(rank, dtype=torch.float64)
    torch.testing.assert_close(basis @ basis.T, identity, rtol=0, atol=1e-9)
    torch.testing.assert_close(lower @ lower.T, V @ V.T, rtol=1e-9, atol=1e-9)
