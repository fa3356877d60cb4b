"""Contrastive encoders: transformers, loss, targets by layer, first weights, evaluation."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mispair.core import seeds
from mispair.core.files import read_tensors, write_tensors
from mispair.core.training import LossOfStep
from mispair.sufficiency.belief_propagation import upward
from mispair.sufficiency.settings import Size
from mispair.sufficiency.trees import Metadata, Trees, draw_pairs

# Transformers that read leaves: the blocks of all models, and the contrastive encoder.
#
# A block is pre-norm, with one head of the full width, no projection after the attention, no final
# norm and no dropout, as in the published study. The `states` of a model are its tokens after each
# block: guidance compares them with messages of belief propagation.


class Block(nn.Module):
    """Attention and a perceptron on tokens of one width, each added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.before_perceptron = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return new tokens (batch, tokens, width); `mask` is added to the logits."""
        width = tokens.shape[-1]
        projected = self.queries_keys_values(self.before_attention(tokens))
        queries, keys, values = projected.split(width, dim=-1)
        # Keys by queries: a softmax along columns is vectorised also where rows are short.
        logits = keys @ queries.mT * width**-0.5
        if mask is not None:
            logits = logits + mask.mT
        tokens = tokens + logits.softmax(dim=-2).mT @ values
        return tokens + self.narrow(F.gelu(self.widen(self.before_perceptron(tokens))))


def run_blocks(blocks: nn.ModuleList, tokens: Tensor, mask: Tensor | None = None) -> list[Tensor]:
    """Return the tokens after each block."""
    states = []
    for block in blocks:
        tokens = block(tokens, mask)
        states.append(tokens)
    return states


class TreeEncoder(nn.Module):
    """Turn the leaves of one tree into a vector of as many numbers as there are symbols."""

    def __init__(self, leaves: int, symbols: int, width: int, blocks: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.position = nn.Parameter(torch.randn(leaves, width))
        self.blocks = nn.ModuleList([Block(width) for _ in range(blocks)])
        self.readout = nn.Linear(width, symbols)
        self.mix = nn.Linear(leaves, 1)

    def states(self, leaves: Tensor) -> list[Tensor]:
        """Return the tokens after each block: (batch, leaves, width) each."""
        return run_blocks(self.blocks, self.embedding(leaves) + self.position)

    def read(self, tokens: Tensor) -> Tensor:
        """Return the feature (batch, symbols) of the last block's tokens."""
        return self.mix(self.readout(tokens).mT)[..., 0]

    def forward(self, leaves: Tensor) -> Tensor:
        """Return the feature of leaves (batch, leaves)."""
        return self.read(self.states(leaves)[-1])


class TreeEncoders(nn.Module):
    """A text and an image encoder; the similarity of a pair is the product of their features."""

    def __init__(self, leaves: int, symbols: int, width: int, blocks: int) -> None:
        super().__init__()
        self.text = TreeEncoder(leaves, symbols, width, blocks)
        self.image = TreeEncoder(leaves, symbols, width, blocks)


# The contrastive loss, and how far a similarity is from the best one.
#
# In a batch of matched pairs, candidate k of pair i is the other half of pair i + k, modulo the
# batch: k = 0 is the match, all others are independent draws.

PAIRS = 256
"""Pairs whose candidates are computed at a time."""


def contrastive_loss(image: Tensor, text: Tensor, candidates: int | None = None) -> Tensor:
    """Return the sum of both directions' cross-entropies, mean over the batch.

    Features are (batch, symbols). Each pair has `candidates` candidates, its match among them;
    None means the whole batch.

    Raises
    ------
    ValueError
        If there are more candidates than pairs.
    """
    if candidates is None:
        logits = image @ text.mT
        match = torch.arange(len(logits), device=logits.device)
        return F.cross_entropy(logits, match) + F.cross_entropy(logits.mT, match)
    first = torch.zeros(len(image), dtype=torch.long, device=image.device)
    return F.cross_entropy(with_candidates(image, text, candidates), first) + F.cross_entropy(
        with_candidates(text, image, candidates), first
    )


def with_candidates(
    one: Tensor, partners: Tensor, candidates: int, first: int = 0, last: int | None = None
) -> Tensor:
    """Return the products of pairs from `first` to `last` with their candidates.

    Candidates of neighbours overlap: one matrix product has those of all pairs, in a band next to
    its diagonal.

    Parameters
    ----------
    one, partners : Tensor (pairs, symbols)
        One half of each pair, and the other half.
    candidates : int
        Of each pair.
    first, last : int, optional
        Range of pairs; all by default.

    Returns
    -------
    Tensor (last - first, candidates)
        The match first. It shares memory with the whole product.

    Raises
    ------
    ValueError
        If there are more candidates than pairs.
    """
    number = len(partners)
    if not 2 <= candidates <= number:
        raise ValueError(
            f"{candidates} candidates are not between 2 and the {number} pairs to draw them from"
        )
    rows = one[first:last]
    indices = torch.arange(first, first + len(rows) + candidates - 1, device=partners.device)
    products = rows @ partners[indices % number].mT
    return products.as_strided((len(rows), candidates), (products.shape[1] + 1, 1))


class MatchLosses(NamedTuple):
    """Losses of pairs, both directions summed.

    Attributes
    ----------
    model, bayes : Tensor (pairs,)
        Cross-entropy of the match under the model's similarity and under the best one.
    divergence : Tensor (pairs,)
        KL divergence of the model's distribution over candidates from the best one's. Its mean is
        the excess risk, with less noise.
    """

    model: Tensor
    bayes: Tensor
    divergence: Tensor


def compare(
    image: Tensor, text: Tensor, image_posterior: Tensor, text_posterior: Tensor, candidates: int
) -> MatchLosses:
    """Compare the product of features with the log-likelihood ratio.

    Parameters
    ----------
    image, text : Tensor (pairs, symbols)
        Features: only their products count.
    image_posterior, text_posterior : Tensor (pairs, symbols)
        The root's posteriors, whose product is the ratio up to a constant.
    candidates : int
        Of each pair.
    """
    text_given_image = _direction(image, text, image_posterior, text_posterior, candidates)
    image_given_text = _direction(text, image, text_posterior, image_posterior, candidates)
    return MatchLosses(*(a + b for a, b in zip(text_given_image, image_given_text, strict=True)))


def _direction(
    one: Tensor, partners: Tensor, one_posterior: Tensor, other_posterior: Tensor, candidates: int
) -> MatchLosses:
    triples: list[tuple[Tensor, Tensor, Tensor]] = []
    for first in range(0, len(one), PAIRS):
        block = candidates, first, first + PAIRS
        model = with_candidates(one, partners, *block).log_softmax(dim=-1)
        best = with_candidates(one_posterior, other_posterior, *block).log().log_softmax(dim=-1)
        triples.append((-model[:, 0], -best[:, 0], (best.exp() * (best - model)).sum(dim=-1)))
    return MatchLosses(*(torch.cat(parts) for parts in zip(*triples, strict=True)))


# Targets of guided encoders: the messages of belief propagation, layer by layer.
#
# Messages are logarithms with their largest entry shifted to zero. The targets of the first L
# blocks are the upward messages of the leaves' ancestors, level by level.

SMALLEST = 1e-20
"""Smallest share of the largest entry that is kept: trees without noise have messages of 0."""


def logs(messages: Tensor) -> Tensor:
    """Return logarithms with the largest entry at zero."""
    scaled = messages / messages.amax(dim=-1, keepdim=True)
    return scaled.clamp_min(SMALLEST).log()


def for_encoder(transitions: Tensor, leaves: Tensor) -> list[Tensor]:
    """Return the targets of an encoder's first blocks: (batch, leaves, symbols) each."""
    number = leaves.shape[1]
    rising = (logs(messages) for messages in reversed(upward(transitions, leaves).likelihoods))
    return [level.repeat_interleave(number // level.shape[1], dim=1) for level in rising]


def penalty(states: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """Return the squared distance of the states' first channels, summed; mean over the batch.

    States (batch, tokens, width) are those after each block, targets (batch, tokens, symbols) those
    of the first blocks: further blocks are free.

    Raises
    ------
    ValueError
        If there are fewer blocks than targets, or fewer channels than symbols.
    """
    if len(states) < len(targets):
        raise ValueError(
            f"guidance needs a block for each of its {len(targets)} messages, but there are "
            f"{len(states)}"
        )
    symbols = targets[0].shape[-1]
    if states[0].shape[-1] < symbols:
        raise ValueError(
            f"guidance needs a channel for each of {symbols} symbols: increase the width"
        )
    distance = sum(
        (state[..., :symbols] - target).square().sum()
        for state, target in zip(states, targets, strict=False)
    )
    return torch.as_tensor(distance) / len(states[0])


UNTRAINED = "untrained"
"""The control: the weights that the standard encoders began with."""

FLOOR = 1e-4
"""Least probability in the oracle feature."""


def start_towers(size: Size, width: int, blocks: int, seed: int) -> TreeEncoders:
    """Return towers with random weights that depend only on the seed."""
    with seeded(seed, "towers"):
        return TreeEncoders(size.leaves, size.symbols, width, blocks)


@contextmanager
def seeded(*parts: object) -> Iterator[None]:
    """Seed PyTorch's generator, from which modules draw their first weights, for a block."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds.integer(*parts))
        yield


def loss_of_step(
    towers: TreeEncoders,
    trees: Trees,
    *,
    batch_size: int,
    candidates: int | None,
    guidance_weight: float,
    seed: int,
) -> LossOfStep:
    """Return the loss of a step, which draws its pairs.

    Every variant gets the same pairs in the same order.
    """

    def loss(step: int) -> Tensor:
        draw = seeds.torch_generator(seed, "train-encoders", step)
        pairs = draw_pairs(trees, batch_size, draw)
        image, text = towers.image.states(pairs.image), towers.text.states(pairs.text)
        value = contrastive_loss(
            towers.image.read(image[-1]), towers.text.read(text[-1]), candidates
        )
        if guidance_weight:
            value = value + guidance_weight * (
                penalty(image, for_encoder(trees.image, pairs.image))
                + penalty(text, for_encoder(trees.text, pairs.text))
            )
        return value

    return loss


def oracle_feature(posterior: Tensor) -> Tensor:
    """Return the feature that belief propagation would give: centred logs of the posterior."""
    logs = posterior.clamp_min(FLOOR).log()
    return logs - logs.mean(dim=-1, keepdim=True)


ROWS, ROWS_OF_A_CORE = 2000, 250
"""Pairs that are computed at a time: on a GPU, and on a core, where they fit into the cache."""


def in_parts(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Apply a function to a few samples at a time, without gradients."""
    rows = ROWS if inputs[0].is_cuda else ROWS_OF_A_CORE
    with torch.no_grad():
        return torch.cat(
            [
                function(*(values[first : first + rows] for values in inputs))
                for first in range(0, len(inputs[0]), rows)
            ]
        )


def weights_of(module: nn.Module, name: str) -> dict[str, Tensor]:
    """Return copies of a module's weights, each under a name that begins with `name`."""
    return {f"{name}.{key}": value.detach().clone() for key, value in module.state_dict().items()}


def write_weights(path: Path, weights: dict[str, Tensor], metadata: Metadata) -> None:
    """Write weights with their metadata."""
    write_tensors(path, {name: value.cpu().numpy() for name, value in weights.items()}, metadata)


def load_weights(module: nn.Module, arrays: dict[str, Any], name: str, device: str) -> Any:
    """Give a module the weights that `weights_of` named; return it for evaluation only."""
    start = f"{name}."
    module.load_state_dict(
        {
            key.removeprefix(start): torch.from_numpy(array)
            for key, array in arrays.items()
            if key.startswith(start)
        }
    )
    return module.to(device).requires_grad_(False)


def read_towers(path: Path, device: str, trained: bool = True) -> tuple[TreeEncoders, Metadata]:
    """Read encoders with the weights after training, or before it, for evaluation only."""
    arrays, metadata = read_tensors(path)
    towers = TreeEncoders(
        *(int(metadata[name]) for name in ("leaves", "symbols", "width", "blocks"))
    )
    return load_weights(towers, arrays, "trained" if trained else UNTRAINED, device), metadata
