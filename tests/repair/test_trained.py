"""The captioner that learns from trusted pairs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from torch.nn import functional as F

from mispair.core.files import UserError
from mispair.core.resume import Checkpoints, Interrupted
from mispair.core.training import train
from mispair.repair.captioners import trained
from mispair.repair.captioners.decoder import CaptionReading, RecurrentDecoder
from mispair.repair.captioners.recaption_settings import Settings
from mispair.repair.captioners.trained import (
    LearningCaptions,
    Order,
    TrainedCaptioner,
    fit,
    loss_of_step,
    plan,
)
from mispair.towers.loading import bounded

COLOURS, SHAPES = ("red", "green", "blue", "pink"), ("star", "ring", "box")
SETTINGS = Settings(
    decoding="greedy", steps=60, lr=0.02, weight_decay=0.01, train_batch_size=16, width=16,
    max_words=12,
)  # fmt: skip


tokenizer = bounded(open_clip.tokenizer.SimpleTokenizer())


def scenes(number: int, seed: int) -> tuple[np.ndarray, list[str]]:
    """Features of pictures (one-hot and noise), and their captions in one of two forms."""
    draws = np.random.default_rng(seed)
    colour, shape = draws.integers(0, 4, number), draws.integers(0, 3, number)
    features = draws.normal(scale=0.1, size=(number, 10)).astype(np.float32)
    features[np.arange(number), colour] += 1
    features[np.arange(number), 4 + shape] += 1
    forms = ("a {} {}", "there is a {} {} in this picture")
    texts = [
        forms[draws.integers(2)].format(COLOURS[c], SHAPES[s])
        for c, s in zip(colour, shape, strict=True)
    ]
    return features, texts


def changed(**values: Any) -> Settings:
    return SETTINGS.model_copy(update=values)


@pytest.fixture(scope="module")
def captioner() -> TrainedCaptioner:
    features, texts = scenes(200, 0)
    return fit(features, np.arange(200), texts, tokenizer, changed(width=32))[0]


def test_captions_name_what_unseen_pictures_show(captioner: TrainedCaptioner) -> None:
    features, texts = scenes(300, 1)
    captions = captioner.caption(features, [str(row) for row in range(300)])
    named = [
        set(text.split()) & {*COLOURS, *SHAPES} == set(caption.text.split()) & {*COLOURS, *SHAPES}
        for text, caption in zip(texts, captions, strict=True)
    ]
    assert np.mean(named) > 0.97
    assert {caption.reason for caption in captions} == {None}


def test_draws_depend_on_keys_not_on_the_batch(captioner, monkeypatch) -> None:
    drawing = replace(captioner, settings=changed(decoding="nucleus", top_p=1.0, seed=3))
    features, _ = scenes(50, 2)
    keys = [f"key {row}" for row in range(50)]
    captions = drawing.caption(features, keys)
    assert drawing.caption(features[30:], keys[30:]) == captions[30:]
    assert drawing.caption(features, [key.upper() for key in keys]) != captions
    told: list[int] = []
    monkeypatch.setattr(trained, "PICTURES_AT_ONCE", 20)
    assert drawing.caption(features, keys, told.append) == captions
    assert told == [20, 40, 50]


def test_a_caption_without_room_is_cut(captioner: TrainedCaptioner) -> None:
    features, _ = scenes(100, 3)
    keys = [str(row) for row in range(100)]
    short = replace(captioner, settings=changed(decoding="nucleus", top_p=1.0, max_words=3))
    assert 20 < sum(one.reason is not None for one in short.caption(features, keys)) < 80


def test_token_by_token_is_the_whole_caption_at_once() -> None:
    torch.manual_seed(0)
    decoder = RecurrentDecoder(7, 11, 16, 2).eval()
    features, tokens = torch.randn(5, 7), torch.randint(0, 11, (5, 9))
    with torch.no_grad():
        whole = decoder.logits(decoder(features, tokens))
        reading = CaptionReading(decoder, features)
        for position in range(9):
            step = reading.step(tokens[:, position], position)
            assert torch.allclose(step, whole[:, position], atol=1e-5)
            if position == 4:
                reading.keep(torch.tensor([0, 3]))
                tokens, whole = tokens[[0, 3]], whole[[0, 3]]


def test_training_is_that_of_torch() -> None:
    """The same steps by torch's own AdamW, on captions one by one without padding."""
    draws = np.random.default_rng(0)
    lengths = draws.integers(1, 6, 30)
    tokens = np.full((30, 5), 8)
    for row, length in enumerate(lengths):
        tokens[row, :length] = draws.integers(0, 7, length)
    is_cut = lengths == 5
    captions = LearningCaptions(tokens, lengths, is_cut, draws.integers(0, 10, 30), 7, 8)
    features = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    short = plan(changed(steps=8, lr=0.01, weight_decay=0.2))
    torch.manual_seed(0)
    ours, peer = RecurrentDecoder(4, 9, 8, 1), RecurrentDecoder(4, 9, 8, 1)
    peer.load_state_dict(ours.state_dict())
    losses = train(ours, loss_of_step(ours, features, captions, 10, 1), short)
    optimiser = torch.optim.AdamW(
        peer.parameters(), weight_decay=short.weight_decay, betas=trained.BETAS
    )
    order = Order(lengths, 10, 1)
    for step in range(short.steps):
        terms = []
        for row in order(step):
            written = tokens[row, : lengths[row]].tolist() + [8] * (not is_cut[row])
            read = torch.tensor([[7, *written[:-1]]])
            picture = features[captions.pictures[row]][None]
            logits = peer.logits(peer(picture, read))[0]
            terms.append(F.cross_entropy(logits, torch.tensor(written), reduction="none"))
        loss = torch.cat(terms).mean()
        assert float(losses[step]) == pytest.approx(float(loss.detach()), rel=1e-4)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), trained.LARGEST_GRADIENT)
        for group in optimiser.param_groups:
            group["lr"] = short.lr_at(step)
        optimiser.step()


def test_each_epoch_has_each_caption_once() -> None:
    lengths = np.random.default_rng(0).integers(1, 20, 25)
    order = Order(lengths, 8, 0)
    first = np.concatenate([order(step) for step in range(3)])
    second = np.concatenate([order(step) for step in range(3, 6)])
    assert len(set(first)) == len(set(second)) == 24
    assert sorted(first) != first.tolist() != second.tolist()
    spread = [np.ptp(lengths[order(step)]) for step in range(3)]
    assert max(spread) < np.ptp(lengths)  # about as long as one another
    assert (Order(lengths, 8, 0)(4) == order(4)).all()
    assert len(Order(lengths, 100, 0)(7)) == 25


def test_a_training_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    features, texts = scenes(60, 0)
    ending = [False]
    states = Checkpoints(tmp_path, "job", lambda: ending[0])

    def fitted(states: Checkpoints | None, stop: int | None = None) -> TrainedCaptioner:
        def progress(step: int) -> None:
            ending[0] = step == stop

        keeper = None if states is None else states.keeper("training")
        return fit(
            features, np.arange(60), texts, tokenizer, SETTINGS, keeper=keeper, progress=progress
        )[0]

    expected = fitted(None).revision
    for stop in (7, 40):
        with pytest.raises(Interrupted):
            fitted(states, stop)
    assert fitted(states).revision == expected
    # Finished: nothing is trained again.
    monkeypatch.setattr(trained.F, "cross_entropy", None)
    assert fitted(states).revision == expected


def test_too_few_captions_are_refused() -> None:
    features, texts = scenes(25, 0)
    texts[:6] = [""] * 6
    with pytest.raises(UserError, match="19 trusted captions"):
        fit(features, np.arange(25), texts, tokenizer, SETTINGS)


def test_a_training_that_diverges_names_the_remedy() -> None:
    captions = LearningCaptions(
        np.zeros((20, 2), int), np.full(20, 2), np.zeros(20, bool), np.zeros(20, int), 1, 2
    )
    features = torch.full((1, 4), torch.nan)
    with pytest.raises(FloatingPointError, match="step 0"):
        decoder = RecurrentDecoder(4, 3, 8, 1)
        train(decoder, loss_of_step(decoder, features, captions, 16, 0), plan(SETTINGS))
