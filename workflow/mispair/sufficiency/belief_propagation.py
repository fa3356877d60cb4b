"""Exact belief propagation on a tree by levels, and the best predictors.

Messages are probabilities up to a factor: each is divided by its largest entry, so that no product
of siblings underflows as a whole. The children of node u are the nodes branching * u, ...,
branching * u + branching - 1 of the next level. A level is computed as an array of shape (nodes,
symbols, batch): its messages are one batched matrix product, and all else runs along the batch.
Results have the shape (batch, nodes, symbols); they are views of such arrays, not contiguous.
"""

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from mispair.sufficiency.trees import Trees


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


def leaf_beliefs(transitions: Tensor, evidence: Tensor, external: Tensor | None = None) -> Tensor:
    """Return the probabilities of each leaf given all evidence: (batch, leaves, symbols).

    Parameters
    ----------
    transitions, evidence
        As for `upward`.
    external : Tensor (batch, symbols), optional
        Evidence on the root from elsewhere, such as the other tree's `Upward.root`.
    """
    leaves = _batch_last(evidence, transitions)
    beliefs = _down(transitions, _up(transitions, leaves), external, after=True).mul_(leaves)
    return _batch_first(beliefs.div_(beliefs.sum(dim=1, keepdim=True)))


def from_the_left(transitions: Tensor, up: Upward, external: Tensor | None = None) -> Tensor:
    """Return the distribution of each leaf given the leaves before it: (batch, leaves, symbols).

    This is exact and takes one pass for all leaves: those to the right are not seen, so their
    messages are constant, and a node receives those of its left siblings, which are complete, and
    the belief of its parent from the left. `up` is of all leaves; `external` is that of
    `leaf_beliefs`.
    """
    return _batch_first(_down(transitions, up, external, after=False))


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


def _down(transitions: Tensor, up: Upward, external: Tensor | None, after: bool) -> Tensor:
    """Return what the leaves receive, level by level, each node from its parent and siblings."""
    belief: Tensor | float = 1.0 if external is None else external.T
    for matrices, sent in zip(transitions, up.sent, strict=True):
        level = (matrices.mT @ _heard(belief, sent, after)).flatten(0, 1)
        belief = level.div_(level.sum(dim=1, keepdim=True))
    return torch.as_tensor(belief)


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
    return from_the_left(trees.text, upward(trees.text, text), external)[:, 1:].log()
