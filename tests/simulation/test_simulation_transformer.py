"""The transformer towers: their shapes and draws, their training step, and what it leads to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from mispair.simulation.sampling.draws import TrialDraws
from mispair.simulation.sampling.inputs import Batch, Coded, Dense, FreshNoise
from mispair.simulation.study import Study
from mispair.simulation.training.encoder import Diverged
from mispair.simulation.training.training import Trained, TrainingLength
from mispair.simulation.training.transformer import (
    HEADS,
    TransformerEncoders,
    draw_transformers,
    patches_of,
    train_transformer,
)
from tests.simulation.test_simulation_losses import spectral_by_definition

SMALL = Study(
    d1=40, d=10, m=12, classes=5, encoder="transformer", noise_draws="full", batch_size=48,
    latent_density=0.2, precision="float64", weight_penalty=1e-4, lr=2e-3, lr_decay=0.5,
    lr_decay_every=2,
)  # fmt: skip
SPECTRAL = SMALL.model_copy(
    update={
        "loss": "spectral", "loss_reduction": "mean", "temperature": 20.0, "optimiser": "sgd",
        "lr": 0.003, "weight_penalty": 0.0, "start_std": 0.05,
    }
)  # fmt: skip


def draws(trial: int = 0) -> TrialDraws:
    return TrialDraws(seed=3, trial=trial, device="cpu", dtype=torch.float64)


def dictionaries() -> tuple[Tensor, Tensor]:
    gaussian = draws().normal(draws().generator("rows"), 2, SMALL.d1, SMALL.d)
    image, text = torch.linalg.qr(gaussian).Q.mT
    return image, text


def codes(generator: torch.Generator, number: int) -> Tensor:
    return draws().bernoulli(generator, SMALL.latent_density, number, SMALL.d).double()


def aligned(step: int) -> Batch:
    """A batch of images and right captions: the images by their coordinates, the captions coded."""
    image, text = dictionaries()
    generator = draws().generator("pairs", step)
    latent = codes(generator, SMALL.batch_size)
    noise = 0.02 * draws().normal(generator, SMALL.batch_size, SMALL.d1)
    return Batch(Dense(latent @ image), Coded(latent, text, stored=noise))


def train(study: Study, epochs: int, steps: int, keeper: Memory | None = None) -> Trained:
    start = draw_transformers(draws(), "raw", study)
    plan = TrainingLength(study, epochs, steps)
    return train_transformer(start, aligned, plan, keeper)


class Killed(BaseException):
    """Raised in the middle of training, as a killed job stops."""


class Memory:
    """Keeps copies of what was saved last, and may stop the training after a number of saves."""

    def __init__(self, stop_after: int = -1) -> None:
        self.kept: dict[str, Tensor] | None = None
        self.saves = 0
        self.stop_after = stop_after

    def load(self) -> dict[str, Tensor] | None:
        self.asked = 0
        return self.kept

    def due(self) -> bool:
        self.asked += 1
        return self.asked % 3 == 0

    def save(self, state: dict[str, Tensor]) -> None:
        self.kept = {name: value.detach().clone() for name, value in state.items()}
        self.saves += 1
        if self.saves == self.stop_after:
            raise Killed


@pytest.mark.parametrize(("d1", "count"), [(2500, 25), (400, 25), (40, 20), (60, 20), (31, 1)])
def test_x_is_cut_into_the_most_equal_patches(d1: int, count: int) -> None:
    assert patches_of(d1) == count


def test_features_have_their_shape_and_towers_differ() -> None:
    encoders = draw_transformers(draws(), "raw", SMALL)
    batch = aligned(0)
    image, text = encoders.features(0, batch.image), encoders.features(1, batch.text)
    assert image.shape == text.shape == (SMALL.batch_size, SMALL.m)
    assert image.dtype == torch.float64
    assert not image.requires_grad
    assert torch.equal(image, encoders.image(batch.image.dense()))
    assert torch.equal(text, encoders.text(batch.text.dense()))
    assert not torch.allclose(encoders.text(batch.image.dense()), image)
    assert encoders.without_bias() is encoders


def plain_tower(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """Write the tower out: tokens, attention head by head, feed-forward, mean, projection."""

    def linear(key: str, values: Tensor) -> Tensor:
        return values @ state[f"{name}.{key}.weight"].T + state[f"{name}.{key}.bias"]

    def norm(key: str, values: Tensor) -> Tensor:
        centred = values - values.mean(dim=-1, keepdim=True)
        scaled = centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        return scaled * state[f"{name}.{key}.weight"] + state[f"{name}.{key}.bias"]

    positions = state[f"{name}.positions"]
    tokens = linear("embed", x.reshape(len(x), len(positions), -1)) + positions
    inner = norm("block.norm1", tokens)
    joint = inner @ state[f"{name}.block.self_attn.in_proj_weight"].T
    joint = joint + state[f"{name}.block.self_attn.in_proj_bias"]
    heads = []
    for q, k, v in zip(*(part.chunk(HEADS, -1) for part in joint.chunk(3, -1)), strict=True):
        heads.append((q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1) @ v)
    tokens = tokens + linear("block.self_attn.out_proj", torch.cat(heads, dim=-1))
    hidden = linear("block.linear1", norm("block.norm2", tokens)).relu()
    tokens = tokens + linear("block.linear2", hidden)
    return linear("project", tokens.mean(dim=1))


def plain_infonce(image: Tensor, text: Tensor, temperature: float) -> Tensor:
    both = torch.cat([image, text])
    similar = both @ both.T / temperature
    similar = similar.masked_fill(torch.eye(len(both), dtype=torch.bool), -math.inf)
    target = (torch.arange(len(both)) + len(image)) % len(both)
    return torch.nn.functional.cross_entropy(similar, target)


def plain_spectral(image: Tensor, text: Tensor, temperature: float) -> Tensor:
    """Eq. 1, pair by pair, as a mean."""
    return spectral_by_definition(image, text, temperature) / len(image)


@pytest.mark.parametrize("study", [SMALL, SPECTRAL], ids=["infonce, adam", "spectral, sgd"])
def test_training_equals_autograd_through_towers_and_losses_written_out(study: Study) -> None:
    start = draw_transformers(draws(), "raw", study)
    plan = TrainingLength(study, 3, 2)
    trained = train_transformer(start, aligned, plan)

    state = {name: value.clone().requires_grad_() for name, value in start.state().items()}
    optimisers = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    optimiser = optimisers[study.optimiser](list(state.values()), lr=study.lr)
    losses = []
    for step in range(6):
        optimiser.param_groups[0]["lr"] = study.lr * (0.5 if step >= 4 else 1)
        batch = aligned(step)
        image = plain_tower(state, "image", batch.image.dense())
        text = plain_tower(state, "text", batch.text.dense())
        loss = (plain_infonce if study.loss == "infonce" else plain_spectral)(
            image, text, study.temperature
        )
        squares = torch.stack([value.square().sum() for value in state.values()])
        loss = loss + study.weight_penalty * squares.sum()
        losses.append(float(loss.detach()))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    assert trained.losses.shape == (3, 2)
    np.testing.assert_allclose(trained.losses.ravel(), losses, rtol=1e-9)
    moved = []
    for name, value in trained.encoders.state().items():
        # Adam divides a gradient that is zero but for rounding (the key biases') by its own size.
        if not name.endswith("in_proj_bias"):
            torch.testing.assert_close(value, state[name].detach(), rtol=1e-6, atol=1e-8)
        moved.append((value - start.state()[name]).norm())
    assert max(moved) > 1e-3  # a check on unmoved weights is empty


def test_draws_are_named_by_trial_and_arm_and_touch_no_global_state() -> None:
    before = torch.get_rng_state()
    ours, again = (draw_transformers(draws(), "raw", SMALL) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    for name, value in ours.state().items():
        assert torch.equal(value, again.state()[name]), name
        assert value.isfinite().all(), name
    for other in (
        draw_transformers(draws(1), "raw", SMALL),
        draw_transformers(draws(), "filtered", SMALL),
    ):
        assert not torch.equal(other.image.embed.weight, ours.image.embed.weight)


def accuracy(encoders: TransformerEncoders) -> float:
    image, text = dictionaries()
    latent = codes(draws().generator("test"), 2000)
    best = latent.view(-1, SMALL.classes, 2).sum(dim=2)
    top = best.topk(2).values
    kept = top[:, 0] > top[:, 1]
    prompts = torch.eye(SMALL.classes).double().repeat_interleave(2, dim=1) @ text
    features = encoders.features(0, Dense(latent[kept] @ image))
    cosines = torch.nn.functional.cosine_similarity(
        features[:, None], encoders.features(1, Dense(prompts))[None], dim=2
    )
    return float((cosines.argmax(dim=1) == best[kept].argmax(dim=1)).double().mean())


@pytest.mark.parametrize(
    "study",
    # Plain descent takes a transformer nowhere in so few steps, or too far.
    [SMALL, SPECTRAL.model_copy(update={"optimiser": "adam"})],
    ids=["infonce", "spectral"],
)
def test_training_lowers_the_loss_and_classifies(study: Study) -> None:
    study = study.model_copy(update={"lr_decay": 1.0, "lr": 1e-3})
    start = draw_transformers(draws(), "raw", study)
    before = {name: value.clone() for name, value in start.state().items()}
    trained = train(study, 20, 20)
    assert trained.losses[-1].mean() < trained.losses[0].mean() - 0.1 * abs(trained.losses[0, 0])
    assert accuracy(trained.encoders) > 0.35  # chance is 0.2, four seeds gave .45 to .83
    assert all(torch.equal(value, before[name]) for name, value in start.state().items())


@pytest.mark.parametrize("study", [SMALL, SPECTRAL], ids=["adam", "sgd"])
def test_a_stopped_training_resumes_to_the_same_bits(study: Study) -> None:
    whole = train(study, 5, 2)
    memory = Memory(stop_after=2)
    with pytest.raises(Killed):
        train(study, 5, 2, memory)
    assert memory.kept is not None
    assert int(memory.kept["step"]) == 6
    resumed = train(study, 5, 2, memory)
    assert int(memory.kept["step"]) == 10
    finished = train(study, 5, 2, memory)
    for again in resumed, finished:
        assert np.array_equal(again.losses, whole.losses)
        for name, value in whole.encoders.state().items():
            assert torch.equal(again.encoders.state()[name], value), name
    assert memory.saves == 4  # after steps 3, 6, 9 and 10; a finished training takes none


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_divergence_is_stopped_at_its_step(poison: float) -> None:
    def batch(step: int) -> Batch:
        good = aligned(step)
        if step == 3:
            good.image.dense()[0, 0] = poison
        return good

    with pytest.raises(Diverged, match="at step 3") as stop:
        train_transformer(
            draw_transformers(draws(), "raw", SMALL), batch, TrainingLength(SMALL, 3, 2)
        )
    assert stop.value.step == 3


def test_projected_noise_is_refused_as_it_has_no_coordinates() -> None:
    _, text = dictionaries()
    fresh = FreshNoise(0.1, torch.zeros(4, SMALL.m), torch.zeros(SMALL.m, SMALL.d1))
    projected = Coded(codes(draws().generator("x"), 4), text, fresh=fresh)
    with pytest.raises(ValueError, match="draw it in full"):
        draw_transformers(draws(), "raw", SMALL).features(1, projected)
