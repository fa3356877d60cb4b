"""Captions token by token, against plain loops."""

import math

import numpy as np
import pytest
import torch

from mispair.repair.captioners import decoder
from mispair.repair.captioners.decoder import choice, decode, from_nucleus
from mispair.repair.captioners.recaption_settings import Settings

START, END, SIZE = 8, 9, 10


def plain_nucleus(logits: list[float], top_p: float, drawn: float) -> int:
    """Return the token at `drawn` of the nucleus, by the definition."""
    weights = [math.exp(value - max(logits)) for value in logits]
    shares = sorted(
        ((weight / sum(weights), -token) for token, weight in enumerate(weights)), reverse=True
    )
    nucleus, total = [], 0.0
    for share, token in shares:
        nucleus.append((share, -token))
        total += share
        if total >= top_p:
            break
    passed = 0.0
    for share, token in nucleus:
        passed += share
        if passed > drawn * total:
            return token
    return nucleus[-1][1]


@pytest.mark.parametrize("size", [5, 300])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 1.0])
def test_nucleus_is_the_fewest_tokens_that_reach_top_p(size: int, top_p: float) -> None:
    draws = np.random.default_rng(0)
    logits = draws.normal(scale=2, size=(200, size))
    drawn = draws.random(200)
    tokens = from_nucleus(torch.from_numpy(logits), top_p, torch.from_numpy(drawn))
    plain = [plain_nucleus(row, top_p, u) for row, u in zip(logits.tolist(), drawn, strict=True)]
    assert tokens.tolist() == plain


def test_a_flat_vocabulary_is_sorted_whole() -> None:
    size = 3 * decoder.FIRST_TOKENS
    logits = torch.arange(size, 0, -1).float()[None] * 1e-3
    tokens = from_nucleus(logits.repeat(2, 1), 1.0, torch.tensor([0.0, 1 - 1e-12]))
    assert tokens.tolist() == [0, size - 1]


class Chain:
    """Logits depend on the caption and on all tokens that it has read."""

    def __init__(self, number: int) -> None:
        self.rows = torch.arange(number)
        self.read = torch.zeros(number, dtype=torch.int64)
        self.sizes: list[int] = []

    def step(self, tokens: torch.Tensor, position: int) -> torch.Tensor:
        self.sizes.append(len(tokens))
        self.read = (31 * self.read + tokens + 1) % 10_007
        return self.logits(self.rows, self.read)

    @staticmethod
    def logits(rows: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        angles = (rows[:, None] + 1) * (read[:, None] + 3) * torch.arange(1, SIZE + 1)
        return 3 * torch.sin(angles.double()).float()

    def keep(self, rows: torch.Tensor) -> None:
        self.rows, self.read = self.rows[rows], self.read[rows]


def plain(row: int, room: int, how: Settings, seeds: list[int]) -> tuple[list[int], bool]:
    """Write one caption by itself."""
    from mispair.pairs.corruption.draws import uniforms

    read, last, written = 0, START, []
    for position in range(room):
        read = (31 * read + last + 1) % 10_007
        logits = Chain.logits(torch.tensor([row]), torch.tensor([read]))[0].tolist()
        logits[START] = -math.inf
        if how.decoding == "greedy":
            last = int(np.argmax(logits))
        else:
            drawn = float(uniforms(np.array([seeds[row]], np.uint64), position)[0])
            last = plain_nucleus([x / how.temperature for x in logits], how.top_p, drawn)
        if last == END:
            return written, False
        written.append(last)
    return written, True


@pytest.mark.parametrize(
    "how",
    [Settings(decoding="greedy"), Settings(top_p=0.8), Settings(top_p=1.0, temperature=2)],
    ids=["greedy", "nucleus", "hot"],
)
def test_captions_of_a_batch_are_those_of_a_plain_loop(how: Settings) -> None:
    number, room = 60, 12
    seeds = [1000 + row for row in range(number)]
    chain = Chain(number)
    tokens, lengths = decode(chain, number, START, END, room, choice(how, seeds))
    for row in range(number):
        written, is_cut = plain(row, room, how, seeds)
        assert lengths[row] == (-1 if is_cut else len(written))
        assert tokens[row].tolist() == written + [0] * (room - len(written))
    assert 0 < (lengths < 0).sum() < number
    assert sorted(chain.sizes, reverse=True) == chain.sizes
    assert chain.sizes[-1] < number  # captions that ended have left the batch


def test_no_caption_at_all() -> None:
    tokens, lengths = decode(Chain(0), 0, START, END, 5, choice(Settings(), []))
    assert tokens.shape == (0, 5)
    assert lengths.shape == (0,)
