"""Exact belief propagation on a tree by levels, the best predictors, and their check by sums.

Messages are probabilities up to a factor: each is divided by its largest entry, so that no product
of siblings underflows as a whole. The children of node u are the nodes branching * u, ...,
branching * u + branching - 1 of the next level. A level is computed as an array of shape (nodes,
symbols, batch): its messages are one batched matrix product, and all else runs along the batch.
Results have the shape (batch, nodes, symbols); they are views of such arrays, not contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
import torch
from torch import Tensor

from mispair.core import seeds
from mispair.sufficiency.settings import Size
from mispair.sufficiency.trees import Trees, add_noise, draw_pairs, draw_skeletons, trees_at


@dataclass(frozen=True)
class Upward:
    """Messages from the leaves to the root.

    Attributes
    ----------
    likelihoods : list of Tensor
        Likelihood of the evidence below each node, given its symbol. By level, from the root's
        (batch, 1, symbols) to that of the leaves' parents.
    sent : list of Tensor
        By level of the receiver, the root's first: ``sent[l]`` of shape (branching**l, branching,
        symbols, batch) holds the messages from the nodes of level l + 1 to their parents.
    """

    likelihoods: list[Tensor]
    sent: list[Tensor]

    @property
    def root(self) -> Tensor:
        """Likelihood of all evidence given the root: (batch, symbols), the largest entry one."""
        return self.likelihoods[0][:, 0]

    @property
    def posterior(self) -> Tensor:
        """Probabilities of the root given all evidence, from a uniform prior: (batch, symbols)."""
        return normalised(self.root)


def normalised(values: Tensor) -> Tensor:
    """Divide by the sum over the last dimension."""
    return values / values.sum(dim=-1, keepdim=True)


def _scaled(values: Tensor) -> Tensor:
    return values / values.amax(dim=1, keepdim=True)


def _batch_first(values: Tensor) -> Tensor:
    return values.permute(2, 0, 1)


def _batch_last(evidence: Tensor, transitions: Tensor) -> Tensor:
    """Return evidence as probabilities: contiguous (leaves, symbols, batch)."""
    if evidence.dim() == 3:
        # Transposing two dimensions is the fast way.
        return evidence.flatten(1).T.contiguous().unflatten(0, evidence.shape[1:])
    symbols = torch.arange(transitions.shape[-1], device=evidence.device)
    return (evidence.T.contiguous()[:, None] == symbols[:, None]).to(transitions.dtype)


def upward(transitions: Tensor, evidence: Tensor) -> Upward:
    """Send the evidence on the leaves to the root.

    Parameters
    ----------
    transitions : Tensor (depth, branching, symbols, symbols)
        Rows are the parent's symbols.
    evidence : Tensor (batch, leaves, symbols), or of integers (batch, leaves)
        Likelihood of each symbol of a leaf: ones for an unseen leaf. Or the symbols themselves, if
        all are seen.
    """
    return _up(transitions, _batch_last(evidence, transitions))


def _up(transitions: Tensor, leaves: Tensor) -> Upward:
    likelihoods: list[Tensor] = []
    sent: list[Tensor] = []
    below = leaves
    for matrices in transitions.flip(0):
        messages = matrices @ below.unflatten(0, (-1, len(matrices)))
        below = _scaled(messages.prod(dim=1))
        sent.insert(0, messages)
        likelihoods.insert(0, _batch_first(below))
    return Upward(likelihoods, sent)


def downward(transitions: Tensor, up: Upward, external: Tensor | None = None) -> list[Tensor]:
    """Return the distribution of each node given all evidence but that below it, by level from 1.

    The last level times the evidence on the leaves gives the leaves' beliefs.

    Parameters
    ----------
    transitions, up
        As for `upward`, and its messages.
    external : Tensor (batch, symbols), optional
        Evidence on the root from elsewhere, such as the other tree's `Upward.root`.

    Returns
    -------
    list of Tensor (batch, branching**level, symbols)
        Probabilities.
    """
    return [_batch_first(level) for level in _down(transitions, up, external, after=True)]


def leaf_beliefs(transitions: Tensor, evidence: Tensor, external: Tensor | None = None) -> Tensor:
    """Return the probabilities of each leaf given all evidence: (batch, leaves, symbols).

    Parameters are those of `upward` and `downward`.
    """
    leaves = _batch_last(evidence, transitions)
    beliefs = _down(transitions, _up(transitions, leaves), external, after=True)[-1].mul_(leaves)
    return _batch_first(beliefs.div_(beliefs.sum(dim=1, keepdim=True)))


def from_the_left(transitions: Tensor, up: Upward, external: Tensor | None = None) -> list[Tensor]:
    """Return the distribution of each node given the leaves left of its subtree, by level from 1.

    The last level holds the distribution of every leaf given all leaves before it, for all leaves
    at once. This is exact and takes one pass: leaves to the right are not seen, so their messages
    are constant, and a node receives those of its left siblings, which are complete, and the belief
    of its parent from the left. Parameters and shapes are those of `downward`; `up` is of all
    leaves.
    """
    return [_batch_first(level) for level in _down(transitions, up, external, after=False)]


def _heard(evidence: Tensor | float, sent: Tensor, after: bool) -> Tensor:
    """Multiply, for each child, the belief of its parent by the messages of its siblings.

    The `evidence` on the parents from elsewhere is (nodes, symbols, batch), or 1; messages `sent`
    by the children, and the result, are (nodes, branching, symbols, batch). Siblings to the right
    count only if `after` is true.
    """
    heard = torch.empty_like(sent)
    heard[:, 0] = evidence
    for child in range(1, sent.shape[1]):
        torch.mul(heard[:, child - 1], sent[:, child - 1], out=heard[:, child])
    if after:
        right = sent[:, -1]
        for child in range(sent.shape[1] - 2, -1, -1):
            heard[:, child] *= right
            if child > 0:
                right = right * sent[:, child]
    return heard


def _down(transitions: Tensor, up: Upward, external: Tensor | None, after: bool) -> list[Tensor]:
    """Return the levels from 1 on, each node from its parent and its siblings."""
    belief: Tensor | float = 1.0 if external is None else external.T
    levels = []
    for matrices, sent in zip(transitions, up.sent, strict=True):
        level = (matrices.mT @ _heard(belief, sent, after)).flatten(0, 1)
        belief = level.div_(level.sum(dim=1, keepdim=True))
        levels.append(level)
    return levels


def ancestors(leaves: int, branching: int, levels_up: int) -> Tensor:
    """Return the number of each leaf's ancestor on its level."""
    return torch.arange(leaves) // branching**levels_up


def prefix_messages(transitions: Tensor, up: Upward) -> list[Tensor]:
    """Return the messages of each leaf and those before it to each ancestor of the leaf.

    Parameters
    ----------
    transitions, up
        As for `upward`; `up` of all leaves, which are seen.

    Returns
    -------
    list of Tensor (batch, leaves, symbols)
        By level of the ancestor, the parents' first and the root last: entry j is the likelihood
        of the leaves 0, ..., j below leaf j's ancestor, given its symbol. The largest entry is one.
    """
    depth, branching = transitions.shape[:2]
    prefixes: list[Tensor] = []
    for level in range(depth - 1, -1, -1):
        parents = ancestors(branching**depth, branching, depth - 1 - level).to(transitions.device)
        message = up.sent[level].flatten(0, 1)
        left = _heard(1.0, up.sent[level], after=False).flatten(0, 1)[parents]
        if prefixes:
            message = transitions[level][parents % branching] @ prefixes[-1]
        prefixes.append(_scaled(left * message))
    return [_batch_first(messages) for messages in prefixes]


# The best possible predictor of each task, by belief propagation.


def first_leaf(transitions: Tensor) -> Tensor:
    """Return the distribution of the first leaf given the root: (symbols, symbols)."""
    return reduce(torch.matmul, transitions[:, 0])


def class_probabilities(image_posterior: Tensor, text_transitions: Tensor) -> Tensor:
    """Return the distribution of the first text leaf given an image: (batch, symbols)."""
    return image_posterior @ first_leaf(text_transitions)


def noisy_evidence(noisy: Tensor, symbols: int, sigma: float) -> Tensor:
    """Return the log-likelihood of each symbol of a leaf given its noisy reading.

    For readings (batch, leaves) this is a view (batch, leaves, symbols) with the batch contiguous,
    as belief propagation needs it.
    """
    levels = torch.arange(symbols, device=noisy.device, dtype=noisy.dtype)
    distances = noisy.T.contiguous()[:, None] - levels[:, None]
    return (-(distances**2) / (2 * sigma**2)).permute(2, 0, 1)


def denoise(trees: Trees, noisy: Tensor, text: Tensor | None, sigma: float) -> Tensor:
    """Return the posterior mean of every image leaf: (batch, leaves).

    Parameters
    ----------
    trees : Trees
        At the flip probabilities that the predictor assumes.
    noisy : Tensor (batch, leaves)
        Image with Gaussian noise.
    text : Tensor of int (batch, leaves), or None
        The text of the pair; None for a prediction without it.
    sigma : float
        Standard deviation of the noise.
    """
    symbols = trees.size.symbols
    logs = noisy_evidence(noisy.to(trees.image.dtype), symbols, sigma)
    evidence = (logs - logs.amax(dim=-1, keepdim=True)).exp()
    external = None if text is None else upward(trees.text, text).root
    beliefs = leaf_beliefs(trees.image, evidence, external)
    levels = torch.arange(symbols, device=noisy.device, dtype=beliefs.dtype)
    return (beliefs * levels).sum(dim=-1)


def next_words(trees: Trees, text: Tensor, image: Tensor | None) -> Tensor:
    """Return log-probabilities of the leaves 2, 3, ... of a text given those before.

    Parameters
    ----------
    trees : Trees
        At the flip probabilities that the predictor assumes.
    text : Tensor of int (batch, leaves)
        Whole texts; each position is predicted from its past alone.
    image : Tensor of int (batch, leaves), or None
        The image of the pair; None for a prediction without it.

    Returns
    -------
    Tensor (batch, leaves - 1, symbols)
        The first leaf, which has no past, is not predicted.
    """
    external = None if image is None else upward(trees.image, image).root
    return from_the_left(trees.text, upward(trees.text, text), external)[-1][:, 1:].log()


# Belief propagation checked on trees so small that every configuration can be summed over.

SMALL = Size(2, 2, 3)


def table_of(transitions: np.ndarray) -> np.ndarray:
    """Return P(all leaves | root), (symbols, symbols**leaves), in the order of `product`."""
    below = np.eye(transitions.shape[-1])
    for matrices in transitions[::-1]:
        sides = [matrix @ below for matrix in matrices]
        below = reduce(lambda a, b: (a[:, :, None] * b[:, None]).reshape(len(a), -1), sides)
    return below


def errors(
    flip: float, seed: int, sigma: float, dtype: torch.dtype, pairs: int = 50
) -> dict[str, float]:
    """Return the largest error of each task's best predictor on a tiny tree.

    The errors are by task: clip (posterior of the root), zsc (class), cdm (mean of a leaf), vlm
    (next leaf). The `dtype` is that of belief propagation; the sums are in double precision.
    """
    skeletons = draw_skeletons(seed, SMALL)
    trees = trees_at(skeletons, flip, flip, dtype=dtype)
    draw = seeds.torch_generator(seed, "enumeration")
    drawn = draw_pairs(trees, pairs, draw)
    noisy = add_noise(drawn.image, sigma, draw)
    predicted = next_words(trees, drawn.text, drawn.image).exp()
    image = upward(trees.image, drawn.image).posterior
    results = {
        "clip": image,
        "zsc": class_probabilities(image, trees.text),
        "cdm": denoise(trees, noisy, drawn.text, sigma),
        "vlm": predicted.flatten(1),
    }
    every = np.array(list(product(range(SMALL.symbols), repeat=SMALL.leaves)))
    of_text = table_of(skeletons.text.transitions(flip))
    of_image = table_of(skeletons.image.transitions(flip))
    expected: dict[str, list[np.ndarray]] = {task: [] for task in results}
    for text, picture, reading in zip(
        drawn.text.numpy(), drawn.image.numpy(), noisy.numpy(), strict=True
    ):
        given_text = of_text[:, (every == text).all(axis=1)][:, 0]
        given_image = of_image[:, (every == picture).all(axis=1)][:, 0]
        expected["clip"].append(given_image / given_image.sum())
        chances = given_image @ of_text
        classes = np.array([chances[every[:, 0] == s].sum() for s in range(SMALL.symbols)])
        expected["zsc"].append(classes / chances.sum())
        fits = np.exp(-((reading - every) ** 2).sum(axis=1) / (2 * sigma**2))
        weights = (given_text @ of_image) * fits
        expected["cdm"].append(weights @ every / weights.sum())
        following = []
        for length in range(1, SMALL.leaves):
            matching = chances * (every[:, :length] == text[:length]).all(axis=1)
            next_leaf = [matching[every[:, length] == s].sum() for s in range(SMALL.symbols)]
            following.append(np.array(next_leaf) / matching.sum())
        expected["vlm"].append(np.concatenate(following))
    return {
        task: float(np.abs(values.double().numpy() - np.array(expected[task])).max())
        for task, values in results.items()
    }
