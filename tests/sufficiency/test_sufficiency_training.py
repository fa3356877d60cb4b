"""Encoders, heads and their training: what they see, and what guides them."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from mispair.core.training import TrainingPlan, train
from mispair.sufficiency import encoders, heads
from mispair.sufficiency.belief_propagation import upward
from mispair.sufficiency.encoders import Block, TreeEncoder, compare, contrastive_loss
from mispair.sufficiency.heads import Denoiser, NextWord
from mispair.sufficiency.settings import ARMS, OF_ENCODERS, TASKS, Arm, Size, Task
from mispair.sufficiency.trees import Trees, draw_pairs, draw_skeletons, trees_at

SIZE = Size(2, 2, 4)
PLAN = TrainingPlan(steps=40, lr=1e-2, last_lr=1e-5, weight_decay=1e-3, clip=1.0)


def trees(flip: float = 0.1, dtype: torch.dtype = torch.float32) -> Trees:
    return trees_at(draw_skeletons(0, SIZE), flip, dtype=dtype)


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_block_is_attention_and_a_perceptron_written_out() -> None:
    torch.manual_seed(0)
    block, tokens = Block(6).double(), torch.randn(3, 5, 6, dtype=torch.float64)
    with torch.no_grad():
        found = block(tokens)
        for one, own in zip(tokens, found, strict=True):
            normed = F.layer_norm(one, (6,))  # the norm's weights begin as ones and zeros
            queries, keys, values = (
                normed @ part.T for part in block.queries_keys_values.weight.split(6)
            )
            attended = one.clone()
            for place in range(5):
                weights = torch.stack([queries[place] @ key for key in keys]) / math.sqrt(6)
                attended[place] += (weights.softmax(0)[:, None] * values).sum(0)
            hidden = F.gelu(F.layer_norm(attended, (6,)) @ block.widen.weight.T + block.widen.bias)
            expected = attended + hidden @ block.narrow.weight.T + block.narrow.bias
            np.testing.assert_allclose(own, expected, atol=1e-12)


def test_the_next_word_is_predicted_from_its_past_and_the_image_alone() -> None:
    torch.manual_seed(0)
    pairs = draw_pairs(trees(), 1, draw())
    head = NextWord(4, 4, 8, 2, "tokens")
    with torch.no_grad():
        before = head(pairs.text, pairs.image)
        for place in range(4):
            text = pairs.text.clone()
            text[0, place] = (text[0, place] + 1) % 4
            changed = (head(text, pairs.image) - before).abs().amax(dim=-1)[0] > 1e-7
            # Leaf number `place` is read from place on: position k predicts leaf k + 1.
            assert changed.tolist() == [place <= position for position in range(3)]
        image = (pairs.image + 1) % 4
        assert bool(((head(pairs.text, image) - before).abs().amax(dim=-1) > 1e-7).all())


def test_a_head_on_a_feature_pads_it_and_reads_only_its_own_tokens() -> None:
    torch.manual_seed(0)
    head = Denoiser(4, 4, 8, 1, "feature")
    evidence, feature = torch.randn(2, 4, 4), torch.randn(2, 4)
    found = head(evidence, feature)
    assert found.shape == (2, 4)
    padded = F.pad(torch.cat([evidence, feature[:, None]], dim=1), (0, 4)) + head.position
    expected = head.readout(head.blocks[0](padded)[:, :4])[..., 0]
    np.testing.assert_allclose(found.detach(), expected.detach(), atol=1e-6)
    with pytest.raises(ValueError, match="a width of 3 has no room for 4 symbols"):
        Denoiser(4, 4, 3, 1, "feature")


def test_the_contrastive_loss_written_out() -> None:
    torch.manual_seed(0)
    image, text = torch.randn(6, 3), torch.randn(6, 3)
    sim = (image @ text.T).tolist()

    def entropy(match: float, all_: list[float]) -> float:
        return math.log(sum(math.exp(value) for value in all_)) - match

    whole = sum(
        entropy(sim[i][i], sim[i]) + entropy(sim[i][i], [row[i] for row in sim]) for i in range(6)
    )
    assert float(contrastive_loss(image, text)) == pytest.approx(whole / 6)
    some = sum(
        entropy(sim[i][i], [sim[i][(i + k) % 6] for k in range(4)])
        + entropy(sim[i][i], [sim[(i + k) % 6][i] for k in range(4)])
        for i in range(6)
    )
    assert float(contrastive_loss(image, text, 4)) == pytest.approx(some / 6)
    best = torch.rand(6, 3) + 0.1
    found = compare(image, text, best, best, 4)
    assert float(found.model.mean()) == pytest.approx(some / 6)
    with pytest.raises(ValueError, match="7 candidates are not between 2 and the 6 pairs"):
        contrastive_loss(image, text, 7)


def test_the_best_similarity_has_no_divergence() -> None:
    pairs = draw_pairs(trees(), 50, draw())
    image = upward(trees().image, pairs.image).posterior.double()
    text = upward(trees().text, pairs.text).posterior.double()
    # The product of logs is another similarity.
    assert float(compare(image.log(), text.log(), image, text, 8).divergence.mean()) > 0.02
    # One-hot features with the ratio as the other half: their product is the ratio itself.
    ratio = (image @ text.T).log()
    unit = torch.eye(50, dtype=torch.float64)
    found = compare(unit, ratio.T, image, text, 8)
    assert float(found.divergence.abs().max()) < 1e-9
    assert torch.allclose(found.model, found.bayes)


def start(variant: str = "standard", blocks: int = 2) -> tuple:
    towers = encoders.start_towers(SIZE, 8, blocks, seed=1)
    loss = encoders.loss_of_step(
        towers, trees(), batch_size=16, candidates=None, seed=1,
        guidance_weight=1e-3 if variant == "guided" else 0.0,
    )  # fmt: skip
    return towers, loss


def test_weights_are_of_the_seed_whatever_was_drawn_before() -> None:
    one = encoders.start_towers(SIZE, 8, 1, seed=1)
    torch.rand(7)
    state = torch.get_rng_state()
    other = encoders.start_towers(SIZE, 8, 1, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.text.position, other.text.position)
    third = encoders.start_towers(SIZE, 8, 1, seed=2)
    assert not torch.equal(one.text.position, third.text.position)
    assert not torch.equal(one.text.position, one.image.position)


def test_guidance_draws_hidden_states_to_the_messages() -> None:
    pairs = draw_pairs(trees(), 200, draw(5))
    targets = encoders.for_encoder(trees().image, pairs.image)

    def distance(variant: str) -> float:
        towers, loss = start(variant)
        train(towers, loss, PLAN)
        with torch.no_grad():
            return float(encoders.penalty(towers.image.states(pairs.image), targets))

    assert distance("guided") < 0.8 * distance("standard")


def test_messages_shown_to_encoders_are_those_of_the_ancestors() -> None:
    pairs = draw_pairs(trees(), 9, draw())
    up = upward(trees().text, pairs.text)
    first, last = encoders.for_encoder(trees().text, pairs.text)
    for leaf in range(4):
        for target, message in (
            (first[:, leaf], up.likelihoods[1][:, leaf // 2]),
            (last[:, leaf], up.root),
        ):
            np.testing.assert_allclose(target, message.log(), atol=1e-5)
            assert float(target.max()) == 0


def test_too_few_blocks_or_channels_for_the_messages() -> None:
    states = [torch.zeros(2, 4, 8)]
    with pytest.raises(ValueError, match="a block for each of its 2 messages, but there are 1"):
        encoders.penalty(states, [torch.zeros(2, 4, 4)] * 2)
    with pytest.raises(ValueError, match="a channel for each of 4 symbols"):
        encoders.penalty([torch.zeros(2, 4, 3)], [torch.zeros(2, 4, 4)])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("arm", ARMS)
def test_every_head_learns(task: Task, arm: Arm) -> None:
    towers = encoders.start_towers(SIZE, 8, 1, seed=0).requires_grad_(False)
    before = [value.clone() for value in towers.state_dict().values()]
    head = heads.start_head(task, arm, SIZE, 8, 1, seed=0)
    loss = heads.loss_of_step(
        task, arm, head, trees(), towers if arm in OF_ENCODERS else None,
        batch_size=16, sigma=1.0, seed=0,
    )  # fmt: skip
    losses = train(head, loss, PLAN)
    assert float(losses[-10:].mean()) < 0.9 * float(losses[:5].mean())
    after = towers.state_dict().values()
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_heads_of_one_seed_meet_the_same_pairs_and_others_do_not() -> None:
    def first(arm: Arm, seed: int) -> list[torch.Tensor]:
        seen: list[torch.Tensor] = []
        head = heads.start_head("vlm", arm, SIZE, 8, 1, seed=0)
        embed = head.embedding.register_forward_hook(lambda _, given, out: seen.append(given[0]))
        heads.loss_of_step("vlm", arm, head, trees(), None, batch_size=4, sigma=1.0,
                           seed=seed)(0)  # fmt: skip
        embed.remove()
        return seen

    assert torch.equal(first("joint", 0)[0], first("oracle", 0)[0])
    assert not torch.equal(first("joint", 0)[0], first("joint", 1)[0])


def test_an_encoder_mixes_all_leaves_into_a_vector_of_symbols() -> None:
    torch.manual_seed(0)
    encoder = TreeEncoder(4, 4, 8, 2)
    leaves = draw_pairs(trees(), 3, draw()).text
    tokens = encoder.states(leaves)[-1]
    expected = sum(
        encoder.mix.weight[0, place] * encoder.readout(tokens[:, place]) for place in range(4)
    )
    found = encoder(leaves)
    assert found.shape == (3, 4)
    np.testing.assert_allclose(found.detach(), (expected + encoder.mix.bias).detach(), atol=1e-5)
