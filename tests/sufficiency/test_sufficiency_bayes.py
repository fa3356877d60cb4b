"""Belief propagation against sums over every configuration of tiny trees."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from mispair.sufficiency import belief_propagation
from mispair.sufficiency.belief_propagation import leaf_beliefs, upward
from mispair.sufficiency.measures import of_posteriors
from mispair.sufficiency.settings import Size
from mispair.sufficiency.trees import (
    Skeletons,
    Trees,
    add_noise,
    draw_pairs,
    draw_skeletons,
    trees_at,
)

SIZE = Size(2, 2, 3)
SIGMA = 0.8
EVERY = list(itertools.product(range(SIZE.symbols), repeat=SIZE.leaves))


def skeletons() -> Skeletons:
    return draw_skeletons(5, SIZE)


def trees(flip: float = 0.3, dtype: torch.dtype = torch.float64) -> Trees:
    return trees_at(skeletons(), flip, dtype=dtype)


def configurations(transitions: torch.Tensor) -> np.ndarray:
    """Return P(leaves | root) by summing over the nodes between: (roots, configurations)."""
    symbols, branching = range(SIZE.symbols), SIZE.branching
    top, bottom = transitions.numpy()
    found = np.zeros((SIZE.symbols, len(EVERY)))
    for root in symbols:
        for number, leaves in enumerate(EVERY):
            for middle in itertools.product(symbols, repeat=branching):
                chance = 1.0
                for child, own in enumerate(middle):
                    chance *= top[child, root, own]
                    for grandchild in range(branching):
                        leaf = leaves[child * branching + grandchild]
                        chance *= bottom[grandchild, own, leaf]
                found[root, number] += chance
    return found


LEAVES = torch.tensor(EVERY)


def test_posterior_of_the_root() -> None:
    given = trees()
    joint = configurations(given.text)
    assert joint.sum(axis=1) == pytest.approx([1, 1, 1])
    expected = (joint / joint.sum(axis=0)).T
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        text = given.text.to(dtype)
        seen = upward(text, LEAVES).posterior
        np.testing.assert_allclose(seen, expected, atol=tolerance)
        one_hot = torch.nn.functional.one_hot(LEAVES, SIZE.symbols).to(dtype)
        np.testing.assert_allclose(upward(text, one_hot).posterior, expected, atol=tolerance)


@pytest.mark.parametrize("with_text", [True, False])
def test_mean_of_the_clean_leaves(with_text: bool) -> None:
    given = trees()
    generator = torch.Generator().manual_seed(0)
    pairs = draw_pairs(given, 20, generator)
    noisy = add_noise(pairs.image, SIGMA, generator)
    found = belief_propagation.denoise(given, noisy, pairs.text if with_text else None, SIGMA)
    of_text, of_image = configurations(given.text), configurations(given.image)
    for number in range(20):
        reading = noisy[number].numpy()
        prior = np.ones(SIZE.symbols)
        if with_text:
            prior = of_text[:, EVERY.index(tuple(pairs.text[number].tolist()))]
        weights = np.array(
            [
                prior @ of_image[:, index]
                * math.exp(-sum((z - x) ** 2 for z, x in zip(reading, leaves, strict=True))
                           / (2 * SIGMA**2))
                for index, leaves in enumerate(EVERY)
            ]
        )  # fmt: skip
        expected = weights @ np.array(EVERY) / weights.sum()
        np.testing.assert_allclose(found[number], expected, atol=1e-5)


def test_class_of_an_image() -> None:
    given = trees()
    of_text, of_image = configurations(given.text), configurations(given.image)
    posterior = upward(given.image, LEAVES).posterior
    found = belief_propagation.class_probabilities(posterior, given.text)
    for name in range(SIZE.symbols):
        chance = of_text[:, [leaves[0] == name for leaves in EVERY]].sum(axis=1)
        expected = (of_image.T @ chance) / of_image.sum(axis=0)
        np.testing.assert_allclose(found[:, name], expected, atol=1e-5)


def test_the_best_similarity() -> None:
    given = trees()
    of_text, of_image = configurations(given.text), configurations(given.image)
    joint = of_image.T @ of_text / SIZE.symbols
    ratio = joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))
    images, texts = upward(given.image, LEAVES).posterior, upward(given.text, LEAVES).posterior
    found = of_posteriors(images, texts)(slice(None))
    np.testing.assert_allclose(found, np.log(ratio), atol=1e-10)


class Node:
    """A node of a tree that holds its children and their messages: one sample at a time."""

    def __init__(self, transitions: np.ndarray, evidence: Iterator[np.ndarray]) -> None:
        self.matrices = transitions[0] if len(transitions) else []
        self.children = [Node(transitions[1:], evidence) for _ in self.matrices]
        self.evidence = None if self.children else next(evidence)

    def up(self) -> np.ndarray:
        if not self.children:
            return self.evidence
        pairs = zip(self.children, self.matrices, strict=True)
        self.sent = [matrix @ child.up() for child, matrix in pairs]
        likelihood = np.prod(self.sent, axis=0)
        return likelihood / likelihood.max()

    def down(self, known: np.ndarray) -> list[np.ndarray]:
        """Return the beliefs of the leaves below."""
        if not self.children:
            return [known * self.evidence / (known * self.evidence).sum()]
        beliefs = []
        for number, (child, matrix) in enumerate(zip(self.children, self.matrices, strict=True)):
            siblings = self.sent[:number] + self.sent[number + 1 :]
            heard = np.prod([known, *siblings], axis=0) @ matrix
            beliefs += child.down(heard / heard.sum())
        return beliefs


@pytest.mark.parametrize("flip", [0.0, 1e-6, 0.3, 0.9])
@pytest.mark.parametrize("size", [Size(3, 3, 5), Size(2, 5, 7), Size(4, 2, 2), Size(2, 1, 3)])
def test_beliefs_are_those_of_node_objects(size: Size, flip: float) -> None:
    """Noisy leaves of which some were not seen, in batches of 7 and 1, with and without a text."""
    given = trees_at(draw_skeletons(8, size), flip, dtype=torch.float64)
    draw = torch.Generator().manual_seed(9)
    pairs = draw_pairs(given, 7, draw)
    noisy = add_noise(pairs.image, 1.0, draw).double()
    evidence = belief_propagation.noisy_evidence(noisy, size.symbols, 1.0).exp()
    evidence[torch.rand(noisy.shape, generator=draw) < 0.3] = 1.0
    root = upward(given.text, pairs.text).root
    transitions = given.image.numpy()
    for external in (None, root):
        ours = leaf_beliefs(given.image, evidence, external)
        single = leaf_beliefs(given.image.float(), evidence.float(), external if external is None
                              else external.float())  # fmt: skip
        expected = []
        for number, sample in enumerate(evidence.numpy()):
            tree = Node(transitions, iter(sample))
            tree.up()
            known = np.ones(size.symbols) if external is None else external[number].numpy()
            expected.append(tree.down(known))
        np.testing.assert_allclose(ours, expected, atol=1e-12)
        np.testing.assert_allclose(single, expected, atol=1e-5)
        alone = leaf_beliefs(given.image, evidence[:1], None if external is None else external[:1])
        np.testing.assert_allclose(alone, ours[:1], atol=1e-12)


def masked_one_by_one(transitions: torch.Tensor, leaves: torch.Tensor, root: torch.Tensor):
    """The next leaf with one pass of belief propagation for each position."""
    symbols = transitions.shape[-1]
    seen = torch.nn.functional.one_hot(leaves, symbols).to(transitions.dtype)
    found = []
    for place in range(leaves.shape[1]):
        evidence = seen.clone()
        evidence[:, place:] = 1
        found.append(leaf_beliefs(transitions, evidence, root)[:, place])
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("size", [Size(3, 3, 4), Size(4, 2, 5), Size(1, 4, 2), Size(2, 2, 3)])
def test_all_next_leaves_at_once_are_those_of_one_pass_for_each(size: Size) -> None:
    given = trees_at(draw_skeletons(1, size), 0.3, dtype=torch.float64)
    pairs = draw_pairs(given, 40, torch.Generator().manual_seed(2))
    root = upward(given.image, pairs.image).root
    for image, known in ((pairs.image, root), (None, torch.ones_like(root))):
        found = belief_propagation.next_words(given, pairs.text, image).exp()
        expected = masked_one_by_one(given.text, pairs.text, known)[:, 1:]
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert float((found - found[:1]).abs().max()) > 0.01


@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_the_ends_of_the_range_of_p_are_no_special_cases(flip: float) -> None:
    """At p = 0 nearly all entries are zero, and nothing may be divided by one."""
    given = trees(flip)
    pairs = draw_pairs(given, 50, torch.Generator().manual_seed(4))
    posterior = upward(given.text, pairs.text).posterior
    assert bool(posterior.isfinite().all())
    if flip == 0:
        assert torch.equal(posterior.argmax(dim=1), pairs.root)
        assert posterior.max() == 1
    noisy = add_noise(pairs.image, 1.0, torch.Generator().manual_seed(5))
    assert bool(belief_propagation.denoise(given, noisy, pairs.text, 1.0).isfinite().all())
    words = belief_propagation.next_words(given, pairs.text, pairs.image).exp()
    assert bool(words.isfinite().all())
    np.testing.assert_allclose(words.sum(dim=-1), 1.0)


def test_frequencies_of_sampled_pairs_are_the_joint_probabilities() -> None:
    given = trees()
    number = 200_000
    pairs = draw_pairs(given, number, torch.Generator().manual_seed(6))
    of_text, of_image = configurations(given.text), configurations(given.image)
    code = torch.tensor([SIZE.symbols**place for place in range(SIZE.leaves - 1, -1, -1)])
    joint = np.zeros((len(EVERY), len(EVERY)))
    np.add.at(joint, ((pairs.image @ code).numpy(), (pairs.text @ code).numpy()), 1 / number)
    expected = of_image.T @ of_text / SIZE.symbols
    error = (joint - expected) / np.sqrt(expected / number)
    assert float(np.abs(error[expected > 1e-3]).max()) < 5
    assert float((error**2).mean()) == pytest.approx(1, abs=0.1)
    assert joint.sum() == pytest.approx(1)
