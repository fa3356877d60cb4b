"""The hand-derived step against autograd on explicit matrices, written the plain way."""

from __future__ import annotations

import math

import pytest
import torch

from mispair.simulation import noise
from mispair.simulation.data import Batch, Draws, draw_dictionaries, draw_fresh_batch
from mispair.simulation.decoder import start_decoder, train_decoder
from mispair.simulation.encoder import Diverged, Encoders, draw_encoders
from mispair.simulation.filtering import filter_pairs, filtered_batches
from mispair.simulation.losses import InfoNCE
from mispair.simulation.study import Study
from mispair.simulation.training import Plan, gradients, train

SMALL = Study(
    d1=60, d=10, m=14, classes=5, batch_size=30, steps_per_epoch=4, epochs=10, filtered_pairs=60,
    lr=0.02, latent_density=0.2, precision="float64", test_images=50, test_density=0.2,
)  # fmt: skip


def draws(trial: int = 0, dtype: torch.dtype = torch.float64) -> Draws:
    return Draws(seed=3, trial=trial, device="cpu", dtype=dtype)


def plain_loss(features: torch.Tensor, temperature: float) -> torch.Tensor:
    """InfoNCE by its definition, one row at a time."""
    pairs = len(features) // 2
    total = torch.zeros((), dtype=features.dtype)
    for i in range(2 * pairs):
        partner = (i + pairs) % (2 * pairs)
        logits = torch.stack(
            [features[i] @ features[j] / temperature for j in range(2 * pairs) if j != i]
        )
        total = total - features[i] @ features[partner] / temperature + logits.logsumexp(dim=0)
    return total / (2 * pairs)


def vectorised_loss(features: torch.Tensor, temperature: float) -> torch.Tensor:
    """The same through a library's cross entropy, for longer runs."""
    pairs = len(features) // 2
    logits = features @ features.T / temperature
    logits = logits.masked_fill(torch.eye(2 * pairs, dtype=torch.bool), -math.inf)
    target = (torch.arange(2 * pairs) + pairs) % (2 * pairs)
    return torch.nn.functional.cross_entropy(logits, target)


def explicit_captions(batch: Batch, encoders: Encoders, gradient: torch.Tensor) -> torch.Tensor:
    """Build noise that has exactly the forward and backward products the step used."""
    texts = batch.text_codes @ batch.text_rows
    count = 0
    if batch.fresh is not None:
        V = encoders.weights[1]
        seen, unseen = batch.fresh.seen, batch.fresh.unseen
        count = len(seen)
        basis = torch.linalg.solve_triangular(
            torch.linalg.cholesky(V @ V.T), V, upper=False
        )  # orthonormal rows
        left = torch.linalg.qr(gradient[:count]).Q
        outside = unseen[: left.shape[1]]
        outside = outside - (outside @ basis.T) @ basis
        texts[:count] += batch.fresh.std * (seen @ basis + left @ outside)
    if batch.stored is not None:
        texts[count : count + len(batch.stored)] += batch.stored
    return texts


def autograd_step(
    encoders: Encoders, images: torch.Tensor, texts: torch.Tensor, study: Study
) -> tuple[float, torch.Tensor, torch.Tensor, torch.Tensor]:
    weights = encoders.weights.detach().clone().requires_grad_()
    biases = encoders.biases.detach().clone().requires_grad_()
    raw = texts @ weights[1].T + biases[1]
    raw.retain_grad()
    features = torch.cat([(images @ weights[0].T + biases[0]).relu(), raw.relu()])
    penalty = study.weight_penalty * ((weights**2).sum() + (biases**2).sum())
    loss = vectorised_loss(features, study.temperature) + penalty
    loss.backward()
    return float(loss.detach()), weights.grad, biases.grad, raw.grad


def ready(encoders: Encoders) -> Encoders:
    encoders.weights.grad = torch.zeros_like(encoders.weights)
    encoders.biases.grad = torch.zeros_like(encoders.biases)
    assert encoders.normalise()
    return encoders


def raw_batch(study: Study, step: int, trial: int = 0) -> Batch:
    dictionaries = draw_dictionaries(draws(trial), study.d1, study.d)
    return draw_fresh_batch(draws(trial), "raw", step, dictionaries, study, 0.3)


@pytest.mark.parametrize("scale", [0.3, 1.0, 8.0])
def test_infonce_and_its_gradient_follow_the_definition(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    both = (scale * torch.randn(14, 5, generator=generator, dtype=torch.float64)).relu()
    both.requires_grad_()
    expected = plain_loss(both, 0.1)
    expected.backward()
    loss, image, text = InfoNCE(0.1)(both[:7].detach(), both[7:].detach())
    # At scale 8 the rows' largest terms lie too far apart for one shift: the other path is taken.
    assert loss == pytest.approx(float(expected.detach()), rel=1e-12)
    torch.testing.assert_close(torch.cat([image, text]), both.grad, rtol=1e-10, atol=1e-12)


def test_infonce_survives_large_features_in_float32() -> None:
    generator = torch.Generator().manual_seed(1)
    features = 6 * torch.randn(40, 8, generator=generator).relu()
    loss, image, text = InfoNCE(0.1)(features[:20], features[20:])
    exact, exact_image, exact_text = InfoNCE(0.1)(features[:20].double(), features[20:].double())
    assert loss == pytest.approx(exact, rel=1e-5)
    torch.testing.assert_close(image.double(), exact_image, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(text.double(), exact_text, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("noise_draws", ["projected", "full"])
def test_trajectory_equals_plain_autograd(noise_draws: str) -> None:
    study = SMALL.model_copy(update={"noise_draws": noise_draws, "text_noise": 0.3})
    ours = ready(draw_encoders(draws(), "raw", study.m, study.d1, 0.05))
    start = ours.weights.clone()
    plain = Encoders(ours.weights.clone().requires_grad_(), ours.biases.clone().requires_grad_())
    adam = torch.optim.Adam([ours.weights, ours.biases], lr=study.lr, fused=True)
    plain_adam = torch.optim.Adam([plain.weights, plain.biases], lr=study.lr, foreach=False)
    loss = InfoNCE(study.temperature)
    for step in range(40):
        assert ours.normalise()
        with torch.no_grad():
            norm = plain.weights.norm(dim=2, keepdim=True)
            plain.weights.div_(norm)
            plain.biases.div_(norm[:, :, 0])
        batch = raw_batch(study, step)
        images = batch.image_codes @ batch.image_rows
        # The gradient by the captions' features decides the unseen noise; it does not depend on it.
        texts = explicit_captions(batch, plain, torch.zeros(study.batch_size, study.m).double())
        gradient = autograd_step(plain, images, texts, study)[3]
        texts = explicit_captions(batch, plain, gradient)
        value, weight_gradient, bias_gradient, _ = autograd_step(plain, images, texts, study)
        assert gradients(ours, batch, loss, study.weight_penalty) == pytest.approx(value, rel=1e-9)
        plain.weights.grad, plain.biases.grad = weight_gradient, bias_gradient
        adam.step()
        plain_adam.step()
    torch.testing.assert_close(ours.weights, plain.weights.detach(), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(ours.biases, plain.biases.detach(), rtol=1e-6, atol=1e-8)
    assert (ours.weights - start).norm() / start.norm() > 0.5  # a check on unmoved weights is empty


def test_step_on_filtered_pairs_equals_autograd() -> None:
    dictionaries = draw_dictionaries(draws(), SMALL.d1, SMALL.d)
    encoders = ready(draw_encoders(draws(), "raw", SMALL.m, SMALL.d1, 0.05))
    decoder = train_decoder(draws(), start_decoder(draws(), encoders, SMALL), dictionaries, SMALL)
    pairs = filter_pairs(draws(), encoders, decoder, dictionaries, SMALL, 0.3)
    assert 0 < pairs.replaced.sum() < len(pairs.replaced)
    batch_of, steps = filtered_batches(draws(), pairs, 60, dictionaries, SMALL, 0.3)
    assert steps == 4
    for step in range(4):
        batch = batch_of(step)
        assert batch.fresh is not None
        assert batch.stored is not None
        images = batch.image_codes @ batch.image_rows
        texts = explicit_captions(batch, encoders, torch.zeros(30, SMALL.m).double())
        gradient = autograd_step(encoders, images, texts, SMALL)[3]
        texts = explicit_captions(batch, encoders, gradient)
        value, weights, biases, _ = autograd_step(encoders, images, texts, SMALL)
        ours = gradients(encoders, batch, InfoNCE(SMALL.temperature), SMALL.weight_penalty)
        assert ours == pytest.approx(value, rel=1e-10)
        torch.testing.assert_close(encoders.weights.grad, weights, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(encoders.biases.grad, biases, rtol=1e-8, atol=1e-10)


def test_projected_noise_has_the_joint_distribution_of_full_noise() -> None:
    """E Vᵀ and Gᵀ E, with G a function of E Vᵀ: the same first and second moments both ways."""
    generator = torch.Generator().manual_seed(0)
    n, m, d1, repeats = 4, 2, 5, 8_000
    V = torch.randn(m, d1, generator=generator, dtype=torch.float64)
    lower, inverse = noise.factor(V)
    samples: dict[str, list[torch.Tensor]] = {"full": [], "projected": []}
    for _ in range(repeats):
        E = torch.randn(n, d1, generator=generator, dtype=torch.float64)
        forward = E @ V.T
        G = forward.relu() + 0.5
        samples["full"].append(torch.cat([forward.flatten(), (G.T @ E).flatten()]))
        seen = torch.randn(n, m, generator=generator, dtype=torch.float64)
        unseen = torch.randn(m, d1, generator=generator, dtype=torch.float64)
        forward = noise.forward(seen, lower)
        G = forward.relu() + 0.5
        a, b, rows = noise.backward(G, seen, unseen, V, inverse)
        samples["projected"].append(torch.cat([forward.flatten(), (a @ V + b @ rows).flatten()]))
    full, projected = (torch.stack(values) for values in samples.values())
    error = full.std(dim=0) / math.sqrt(repeats)
    assert ((full.mean(dim=0) - projected.mean(dim=0)).abs() < 6 * error).all()
    scale = full.std(dim=0)
    difference = (full.T.cov() - projected.T.cov()) / (scale[:, None] * scale)
    assert difference.abs().max() < 0.12


@pytest.mark.parametrize("dependent", [False, True])
def test_factor_gives_an_orthonormal_basis_even_of_dependent_rows(dependent: bool) -> None:
    V = draw_encoders(draws(), "raw", 6, 20, 1.0).weights[0]
    if dependent:
        V[3] = V[1] - V[2]
    lower, inverse = noise.factor(V)
    rank = 5 if dependent else 6
    assert lower.shape == (6, rank)
    basis = inverse @ V
    identity = torch.eye(rank, dtype=torch.float64)
    torch.testing.assert_close(basis @ basis.T, identity, rtol=0, atol=1e-9)
    torch.testing.assert_close(lower @ lower.T, V @ V.T, rtol=1e-9, atol=1e-9)


def plan(**changes: float) -> Plan:
    values = {
        "epochs": 3, "steps_per_epoch": 4, "lr": 0.02, "lr_decay": 0.1, "lr_decay_every": 1,
        "temperature": 0.1, "weight_penalty": 1e-3,
    }  # fmt: skip
    return Plan(**{**values, **changes})


def test_training_lowers_the_loss_leaves_the_start_alone_and_ends_on_unit_rows() -> None:
    start = draw_encoders(draws(), "raw", SMALL.m, SMALL.d1, 1e-3)
    before = start.weights.clone()
    trained, losses = train(start, lambda step: raw_batch(SMALL, step), plan(epochs=10))
    assert losses.shape == (10, 4)
    assert losses[-1].mean() < 0.9 * losses[0].mean()
    assert torch.equal(start.weights, before)
    norms = trained.weights.norm(dim=2)
    torch.testing.assert_close(norms, torch.ones_like(norms))


def test_step_size_decays_after_the_given_epochs() -> None:
    start = draw_encoders(draws(), "raw", SMALL.m, SMALL.d1, 1e-3)

    def batch(step: int) -> Batch:
        return raw_batch(SMALL, step)

    # Without decay in reach, two epochs differ from those with a decay after the first ...
    slow = train(start, batch, plan(epochs=2, lr_decay=1e-9))[0]
    one = train(start, batch, plan(epochs=1))[0]
    torch.testing.assert_close(slow.weights, one.weights, rtol=0, atol=1e-6)
    # ... and with a decay only after the second, they do not.
    late = train(start, batch, plan(epochs=2, lr_decay_every=2, lr_decay=1e-9))[0]
    none = train(start, batch, plan(epochs=2, lr_decay=1.0))[0]
    assert torch.equal(late.weights, none.weights)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_divergence_is_stopped_at_its_step(poison: float) -> None:
    def batch(step: int) -> Batch:
        good = raw_batch(SMALL, step)
        if step == 5:
            good.image_codes[0, 0] = poison
        return good

    with pytest.raises(Diverged, match="at step 5") as stop:
        train(draw_encoders(draws(), "raw", SMALL.m, SMALL.d1, 1e-3), batch, plan())
    assert stop.value.step == 5


def test_float32_agrees_with_float64() -> None:
    """The same draws, rounded: the trajectories stay together over tens of steps."""
    start = draw_encoders(draws(), "raw", SMALL.m, SMALL.d1, 0.05)
    batches = [raw_batch(SMALL, step) for step in range(20)]

    def rounded(step: int) -> Batch:
        b = batches[step]
        assert b.fresh is not None
        fresh = type(b.fresh)(b.fresh.std, b.fresh.seen.float(), b.fresh.unseen.float())
        return Batch(
            b.image_codes.float(), b.image_rows.float(), b.text_codes.float(),
            b.text_rows.float(), fresh,
        )  # fmt: skip

    exact, exact_losses = train(start, batches.__getitem__, plan(epochs=5))
    single = Encoders(start.weights.float(), start.biases.float())
    ours, losses = train(single, rounded, plan(epochs=5))
    assert ours.weights.dtype == torch.float32
    assert abs(losses - exact_losses).max() < 1e-4
    assert (ours.weights.double() - exact.weights).norm() / exact.weights.norm() < 1e-3
