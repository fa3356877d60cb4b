"""The captioner that learns from trusted pairs: its speed of training and of writing captions.

On features and captions that are made up like those of the demo: 512 numbers a picture, sentences
of 5 to 20 words out of 150. The plain twin runs the whole caption again for each token, and one
batch to its end, as a first script does. The peer is ``generate`` of transformers, greedy and with
its key-value cache, on a GPT-2 of one block and the same width, which has about as many weights; it
is given a prefix of one token and writes captions of the same lengths. All write as many captions
at a time.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from bench.processor_time import fastest
from bench.simulation import square_rate

Row = tuple[str, str, str, str]

FEATURES, WORDS, WIDTH = 512, 150, 128
LENGTHS = (5, 20)
PICTURES, TRAINED, BATCH, STEPS = 4096, 2000, 128, 40
AT_ONCE = 1024
ROOM = 80


def measure() -> Iterator[Row]:
    """Yield the rows."""
    torch.set_num_threads(1)
    yield from rows(PICTURES, STEPS)


def rows(pictures: int, steps: int) -> Iterator[Row]:
    """Measure training and generation at a size."""
    from mispair.repair.captioners.decoder import RecurrentDecoder

    torch.manual_seed(0)
    decoder = RecurrentDecoder(FEATURES, WORDS + 2, WIDTH, 1)
    yield from _training(decoder, steps)
    decoder.eval().requires_grad_(False)
    yield from _generation(decoder, pictures)


def _captions(number: int) -> Any:
    """Return captions in which each word depends on the word before and on the place."""
    from mispair.repair.captioners.trained import LearningCaptions

    draws = np.random.default_rng(0)
    lengths = draws.integers(*LENGTHS, number, endpoint=True)
    tokens = np.full((number, LENGTHS[1]), WORDS + 1)
    for row, length in enumerate(lengths):
        tokens[row, :length] = (draws.integers(WORDS) + 7 * np.arange(length)) % WORDS
    return LearningCaptions(
        tokens, lengths, np.zeros(number, bool), np.arange(number), WORDS, WORDS + 1
    )


def _training(decoder: Any, steps: int) -> Iterator[Row]:
    """Compare with a plain loop: batches padded to the longest caption, and torch's own AdamW."""
    from mispair.core.training import train
    from mispair.repair.captioners.recaption_settings import Settings
    from mispair.repair.captioners.trained import loss_of_step, plan

    captions, features = _captions(TRAINED), torch.randn(TRAINED, FEATURES)
    loss = loss_of_step(decoder, features, captions, BATCH, 0)
    settings = Settings(steps=steps, lr=3e-3, weight_decay=0.3)
    ours = _seconds(lambda: train(decoder, loss, plan(settings))) / steps
    twin = _plain_training(decoder, features, captions, steps)
    yield (
        f"captioner, training on batches of {BATCH}, one core",
        f"{BATCH / ours:,.0f} captions/s",
        f"{BATCH / twin:,.0f} captions/s, padded to the longest, torch.optim.AdamW",
        f"{twin / ours:.1f}x",
    )
    least = BATCH * _products(float(captions.lengths.mean()) + 1) / square_rate("cpu")
    yield (
        "the same: its products alone",
        f"{1e3 * ours:.1f} ms a step",
        f"{1e3 * least:.1f} ms at torch.matmul's peak of this core; the plain loop takes "
        f"{1e3 * twin:.1f} ms, so that nothing can be more than {twin / least:.1f} times as fast",
        f"{least / ours:.0%}",
    )


def _products(tokens: float) -> float:
    """Return the FLOP of a caption's products, forwards and twice that backwards."""
    recurrent, readout = 2 * 6 * WIDTH**2, 2 * WIDTH * (WORDS + 2)
    return 3 * (tokens * (recurrent + readout) + 2 * 2 * FEATURES * WIDTH)


def _plain_training(decoder: Any, features: torch.Tensor, captions: Any, steps: int) -> float:
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=1e-3)
    read, targets, inside = captions.batch(np.arange(len(captions.lengths)))
    draws = torch.Generator().manual_seed(0)

    def run() -> None:
        for _ in range(steps):
            rows = torch.randint(len(read), (BATCH,), generator=draws)
            logits = decoder.logits(decoder(features[rows], read[rows]))
            wanted = targets[rows].masked_fill(~inside[rows], -100)
            loss = torch.nn.functional.cross_entropy(logits.mT, wanted)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
            optimiser.step()

    return _seconds(run) / steps


class _Told:
    """A decoder whose captions end where they are told to, so that all methods do the same work."""

    def __init__(self, reading: Any, lengths: torch.Tensor) -> None:
        self.reading, self.lengths = reading, lengths

    def step(self, tokens: torch.Tensor, position: int) -> torch.Tensor:
        logits = self.reading.step(tokens, position)
        logits[:, WORDS + 1] = torch.where(self.lengths == position, 1e9, -1e9)
        return logits

    def keep(self, rows: torch.Tensor) -> None:
        self.lengths = self.lengths[rows]
        self.reading.keep(rows)


@torch.inference_mode()
def _generation(decoder: Any, pictures: int) -> Iterator[Row]:
    from mispair.repair.captioners.decoder import CaptionReading, choice, decode
    from mispair.repair.captioners.recaption_settings import Settings

    features = torch.randn(pictures, FEATURES)
    lengths = torch.randint(*LENGTHS, (pictures,))
    size = AT_ONCE

    def ours(how: Settings) -> list[np.ndarray]:
        written = []
        for start in range(0, pictures, size):
            some = slice(start, start + size)
            told = _Told(CaptionReading(decoder, features[some]), lengths[some])
            seeds = np.arange(start, start + len(features[some]))
            written.append(decode(told, len(seeds), WORDS, WORDS + 1, ROOM, choice(how, seeds))[0])
        return written

    def plain() -> list[np.ndarray]:
        written = []
        for start in range(0, pictures, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            tokens = torch.full((len(features[some]), 1), WORDS)
            ended = torch.zeros(len(tokens), dtype=torch.bool)
            for position in range(ROOM):
                logits = decoder.logits(decoder(features[some], tokens))[:, -1]
                logits[:, WORDS] = -torch.inf
                logits[:, WORDS + 1] = torch.where(lengths[some] == position, 1e9, -1e9)
                last = logits.argmax(dim=-1)
                ended |= last == WORDS + 1
                if ended.all():
                    break
                tokens = torch.cat([tokens, last.masked_fill(ended, WORDS + 1)[:, None]], dim=1)
            rows = torch.zeros(len(tokens), ROOM, dtype=torch.int64)
            kept = tokens[:, 1:].masked_fill(tokens[:, 1:] == WORDS + 1, 0)
            rows[:, : kept.shape[1]] = kept
            written.append(rows.numpy())
        return written

    greedily, from_nucleus = Settings(decoding="greedy"), Settings(top_p=0.9)
    if not (np.concatenate(ours(greedily)) == np.concatenate(plain())).all():
        raise SystemExit("the captions of the plain twin are others")
    greedy, twin = _seconds(lambda: ours(greedily)), _seconds(plain)
    drawn = _seconds(lambda: ours(from_nucleus))
    peer, blocks, weights = _peer(features, lengths)
    count = sum(values.numel() for values in decoder.parameters())
    what = f"captioner, {pictures:,} greedy captions of 5 to 20 words, one core"
    yield (
        what,
        f"{pictures / greedy:,.0f} captions/s (drawn from a nucleus: {pictures / drawn:,.0f})",
        f"{pictures / twin:,.0f} captions/s, the same, each by running the whole caption again for "
        "each token",
        f"{twin / greedy:.1f}x",
    )
    yield (
        what,
        f"{pictures / greedy:,.0f} captions/s, {count:,} weights",
        f"{pictures / peer:,.0f} captions/s by generate() of transformers, GPT-2 with "
        f"{blocks} block{'s' * (blocks > 1)} and {weights:,} weights",
        f"{peer / greedy:.1f}x",
    )


def _peer(features: torch.Tensor, lengths: torch.Tensor) -> tuple[float, int, int]:
    import transformers

    transformers.logging.set_verbosity_error()
    blocks = 1
    config = transformers.GPT2Config(
        vocab_size=WORDS + 2, n_positions=ROOM + 8, n_embd=WIDTH, n_layer=blocks, n_head=4,
        bos_token_id=WORDS, eos_token_id=WORDS + 1, pad_token_id=WORDS + 1,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    prefix = torch.nn.Linear(FEATURES, WIDTH).requires_grad_(False)

    class Ends(transformers.LogitsProcessor):
        def __init__(self, lengths: torch.Tensor) -> None:
            self.lengths = lengths

        def __call__(self, tokens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            scores = scores.clone()
            scores[:, WORDS + 1] = torch.where(self.lengths == tokens.shape[1], 1e9, -1e9)
            return scores

    def run() -> None:
        for start in range(0, len(features), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            begun = prefix(features[some])[:, None]
            model.generate(
                inputs_embeds=begun, attention_mask=torch.ones(begun.shape[:2]),
                max_new_tokens=ROOM, do_sample=False,
                logits_processor=transformers.LogitsProcessorList([Ends(lengths[some])]),
            )  # fmt: skip

    weights = sum(values.numel() for values in model.parameters())
    return _seconds(run), blocks, weights + prefix.weight.numel()


def _seconds(run: Callable[[], Any], times: int = 3) -> float:
    """Return the least processor time of some calls; the first does not count."""
    run()
    return fastest(run, times)
