"""Exact belief propagation on a tree, for a whole batch and a whole level at a time.

Messages are probabilities up to a factor: each is divided by its largest entry, so that no product
of siblings underflows as a whole. The children of node u are the nodes branching * u, ...,
branching * u + branching - 1 of the next level. A level is computed as an array of shape (nodes,
symbols, batch): its messages are one batched matrix product, and all else runs along the batch.
Results have the shape (batch, nodes, symbols); they are views of such arrays, not contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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
