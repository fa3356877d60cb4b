"""Exact belief propagation on a tree, for a whole batch and a whole level at a time.

Messages are probabilities up to a factor: each is divided by its largest entry. A level l holds
arrays of shape (batch, branching**l, symbols), and the children of node u are the nodes
branching * u, ..., branching * u + branching - 1 of the next level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Upward:
    """Messages from the leaves to the root.

    Attributes
    ----------
    likelihoods : list of Tensor
        By level, from the root: (batch, 1, symbols) to the one above the leaves: how likely the
        evidence below each node is, given its symbol.
    sent : list of Tensor
        By level of the sender, the children's first: ``sent[l]`` of shape (batch, branching**l,
        branching, symbols) is what the nodes of level l + 1 tell their parents of level l.
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
    return values / values.amax(dim=-1, keepdim=True)


def upward(transitions: Tensor, evidence: Tensor) -> Upward:
    """Send what is known of the leaves to the root.

    Parameters
    ----------
    transitions : Tensor (depth, branching, symbols, symbols)
        Rows are the parent's symbols.
    evidence : Tensor (batch, leaves, symbols), or of integers (batch, leaves)
        Likelihood of each symbol of a leaf: ones for a leaf that was not seen. Or the symbols
        themselves, all seen: then the first messages are looked up.
    """
    branching = transitions.shape[1]
    symbols_are_seen = evidence.dim() == 2
    likelihoods: list[Tensor] = []
    sent: list[Tensor] = []
    below = evidence
    for matrices in transitions.flip(0):
        children = below.unflatten(1, (-1, branching))
        if symbols_are_seen and not sent:
            child = torch.arange(branching, device=evidence.device)
            messages = matrices.mT[child, children]
        else:
            messages = torch.einsum("nucs,cas->nuca", children, matrices)
        below = _scaled(messages.prod(dim=2))
        sent.insert(0, messages)
        likelihoods.insert(0, below)
    return Upward(likelihoods, sent)


def downward(transitions: Tensor, up: Upward, external: Tensor | None = None) -> list[Tensor]:
    """Return what each node is, given all evidence that is not its own: by level, from 1 on.

    To multiply the last level by the evidence on the leaves gives the leaves' beliefs.

    Parameters
    ----------
    transitions : Tensor (depth, branching, symbols, symbols)
        As for `upward`.
    up : Upward
        Its messages.
    external : Tensor (batch, symbols), optional
        Evidence on the root from elsewhere, such as the other tree's `Upward.root`.

    Returns
    -------
    list of Tensor (batch, branching**level, symbols)
        Probabilities.
    """
    others = [products_before(sent) * products_before(sent.flip(2)).flip(2) for sent in up.sent]
    return _down(transitions, others, external)


def from_the_left(transitions: Tensor, up: Upward, external: Tensor | None = None) -> list[Tensor]:
    """Return what each node is, given the leaves to the left of its subtree: by level, from 1 on.

    The last level holds the distribution of every leaf given all leaves before it, for all leaves
    at once. This is exact and takes one pass: leaves to the right are not seen, so what they would
    send is constant, and a node hears of its left siblings, which are complete, and of what its
    parent knew from the left.

    Parameters
    ----------
    transitions, up, external
        As for `downward`; `up` of all leaves.

    Returns
    -------
    list of Tensor (batch, branching**level, symbols)
        Probabilities.
    """
    return _down(transitions, [products_before(sent) for sent in up.sent], external)


def products_before(sent: Tensor) -> Tensor:
    """Return for each child the product of what its left siblings sent: ones for the first."""
    first = torch.ones_like(sent[:, :, :1])
    return torch.cat([first, sent[:, :, :-1]], dim=2).cumprod(dim=2)


def _down(transitions: Tensor, siblings: Sequence[Tensor], external: Tensor | None) -> list[Tensor]:
    """Go down, each node hearing of its parent and of the siblings that are given."""
    known = torch.ones_like(siblings[0][:, :, 0]) if external is None else external[:, None]
    found = []
    for matrices, heard in zip(transitions, siblings, strict=True):
        told = known[:, :, None] * heard
        known = normalised(torch.einsum("nuca,cas->nucs", told, matrices).flatten(1, 2))
        found.append(known)
    return found


def ancestors(leaves: int, branching: int, levels_up: int) -> Tensor:
    """Return the number of each leaf's ancestor on its level."""
    return torch.arange(leaves) // branching**levels_up


def prefix_messages(transitions: Tensor, up: Upward) -> list[Tensor]:
    """Return what the leaves up to and with each leaf tell each of its ancestors.

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
    found: list[Tensor] = []
    for level in range(depth - 1, -1, -1):
        own = ancestors(branching**depth, branching, depth - 1 - level).to(transitions.device)
        left = products_before(up.sent[level]).flatten(1, 2)[:, own]
        if not found:
            message = up.sent[level].flatten(1, 2)
        else:
            message = torch.einsum("njs,jas->nja", found[-1], transitions[level][own % branching])
        found.append(_scaled(left * message))
    return found
