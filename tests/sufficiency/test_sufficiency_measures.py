"""Measures of the sufficiency study: against published risks, and where inequalities must hold."""

import math
from functools import cache

import numpy as np
import pytest
import torch

from mispair.report import published
from mispair.sufficiency import measures
from mispair.sufficiency.belief_propagation import upward
from mispair.sufficiency.encoders import compare, start_towers
from mispair.sufficiency.heads import start_head
from mispair.sufficiency.settings import TASKS, Size
from mispair.sufficiency.trees import draw_skeletons
from tests.sufficiency.test_sufficiency_bayes import configurations

SIZE = Size(2, 2, 3)
TOLERANCES = {"clip": (0.03, 0.0), "zsc": (0.04, 0.0), "cdm": (0.1, 0.01), "vlm": (0.008, 0.0)}
"""By task: largest distance of a measured Bayes risk from the published one, absolute and relative;
for ten thousand samples in both."""


def setting(flip: float = 0.2, seed: int = 0) -> measures.Setting:
    return measures.Setting(draw_skeletons(1, SIZE), flip, seed, "cpu", torch.float64)


def towers(seed: int = 0) -> dict:
    return {"standard": start_towers(SIZE, 8, 1, seed).requires_grad_(False)}


def value(rows: list[dict], **where: object) -> float:
    found = [
        row["value"] for row in rows if all(row.get(key) == want for key, want in where.items())
    ]
    assert len(found) == 1, (where, found)
    return float(found[0])


# The published risks ------------------------------------------------------------------------------


@pytest.mark.parametrize("flip", [0.02, 0.2, 0.4])
def test_bayes_risks_at_the_published_size_are_the_published_ones(flip: float) -> None:
    given = measures.Setting(draw_skeletons(42, Size(4, 3, 10)), flip, 42, "cpu", torch.float32)
    rows = measures.bayes_risks(given, 10_000, 4, 1.0)
    table = published.sufficiency_risks()
    theirs = table[(table["model"] == "bayes") & (table["flip"] == flip)].set_index("task")["risk"]
    assert set(theirs.index) == {"clip", "zsc", "cdm", "vlm"}
    for task, risk in theirs.items():
        absolute, relative = TOLERANCES[str(task)]
        found = value(rows, task=task, arm="bayes", metric="risk")
        assert found == pytest.approx(risk, abs=absolute + relative * risk), task
    # What the text is worth in denoising, as an independent program found it (20,000 samples).
    worth = {0.02: 0.012, 0.1: 0.121, 0.2: 0.416, 0.3: 0.625, 0.4: 0.484}[flip]
    found = value(rows, task="cdm", arm="unconditional", metric="difference")
    assert found == pytest.approx(worth, abs=0.07)
    words = {0.02: 0.0046, 0.1: 0.0151, 0.2: 0.0197, 0.3: 0.0179, 0.4: 0.0120}[flip]
    found = value(rows, task="vlm", arm="unconditional", metric="difference")
    assert found == pytest.approx(words, abs=0.001)


# Sufficiency --------------------------------------------------------------------------------------


@cache
def everything(flip: float) -> dict[str, np.ndarray]:
    """All texts and images of the tiny trees with their probabilities and posteriors."""
    given = setting(flip).trees
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    of_text, of_image = (configurations(edges) for edges in (given.text, given.image))
    return {
        "leaves": every.numpy(), "joint": of_image.T @ of_text / 3,
        "image": upward(given.image, every).posterior.numpy(),
        "text": upward(given.text, every).posterior.numpy(),
        "of_text": of_text,
    }  # fmt: skip


def features() -> tuple[np.ndarray, np.ndarray]:
    """Features of all images and texts: the logs of the posteriors, with errors of some size."""
    own, draw = everything(0.2), np.random.default_rng(0)
    image, text = (
        np.log(own[name]) + draw.normal(size=own[name].shape) for name in ("image", "text")
    )
    return image, text


def divergence(joint: np.ndarray, sim: np.ndarray) -> float:
    """E KL( P(text | image) || P_Sim(text | image) ), summed over all texts and images."""
    image, text = joint.sum(axis=1, keepdims=True), joint.sum(axis=0)
    tilted = text * np.exp(sim)
    tilted /= tilted.sum(axis=1, keepdims=True)
    return float((joint * np.log(joint / image / tilted)).sum())


def test_the_divergence_over_candidates_rises_to_that_over_all_texts() -> None:
    own = everything(0.2)
    image, text = features()
    exact = divergence(own["joint"], image @ text.T) + divergence(own["joint"].T, text @ image.T)
    number = 60_000
    flat = np.random.default_rng(0).choice(own["joint"].size, number, p=own["joint"].ravel())
    chosen = [torch.from_numpy(part) for part in np.divmod(flat, len(text))]

    def taken(name: str, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values)[chosen[0 if name == "image" else 1]]

    found = []
    for k in (2, 8, 64, 512):
        compared = compare(taken("image", image), taken("text", text),
                           taken("image", own["image"]), taken("text", own["text"]), k)  # fmt: skip
        found.append(float(compared.divergence.mean()))
        excess = measures.estimate(compared.model - compared.bayes, k)
        assert excess["low"] - 0.04 < found[-1] < excess["high"] + 0.04
    assert found == sorted(found)
    assert found[-1] == pytest.approx(exact, rel=0.04)
    assert found[0] < 0.7 * exact


def test_rows_of_encoders() -> None:
    rows = measures.contrastive(setting(), towers(), 600, [2, 16])
    for k in (2, 16):
        excess = value(rows, metric="difference", candidates=k)
        assert value(rows, metric="sufficiency", candidates=k) == pytest.approx(excess, rel=0.3)
        assert excess == pytest.approx(
            value(rows, metric="risk", arm="standard", candidates=k)
            - value(rows, metric="risk", arm="bayes", candidates=k)
        )
    assert value(rows, metric="risk", arm="bayes", candidates=2) < 2 * math.log(2)
    with pytest.raises(ValueError, match="700 candidates are not between 2 and the 600 pairs"):
        measures.contrastive(setting(), towers(), 600, [700])


# Zero-shot ----------------------------------------------------------------------------------------


def test_prompts_are_texts_given_their_first_leaf() -> None:
    given = setting().trees
    prompts = measures.draw_prompts(given, 4000, torch.Generator().manual_seed(0))
    assert prompts.shape == (12_000, 4)
    assert prompts[:, 0].tolist() == [0] * 4000 + [1] * 4000 + [2] * 4000
    own = everything(0.2)
    chance = own["of_text"].mean(axis=0)
    for name in range(3):
        of_class = own["leaves"][:, 0] == name
        expected = [
            chance[of_class & (own["leaves"][:, 3] == last)].sum() / chance[of_class].sum()
            for last in range(3)
        ]
        found = torch.bincount(prompts[4000 * name : 4000 * (name + 1), 3], minlength=3) / 4000
        np.testing.assert_allclose(found, expected, atol=0.03)


def test_log_probabilities_of_the_first_prompts_written_out() -> None:
    images, prompts = torch.randn(5, 3).double(), torch.randn(12, 3).double()
    found = measures.class_log_probabilities(measures.of_features(images, prompts), 5, 3, [1, 4])
    for place, m in enumerate((1, 4)):
        for image in range(5):
            scores = [
                sum(math.exp(float(images[image] @ prompts[4 * name + k])) for k in range(m)) / m
                for name in range(3)
            ]
            expected = [math.log(score / sum(scores)) for score in scores]
            np.testing.assert_allclose(found[place, image], expected, atol=1e-9)
    labels = torch.tensor([0, 1, 2, 0, 1])
    losses = measures.losses_of(found, labels)
    assert losses.shape == (2, 5)
    assert float(losses[1, 2]) == -float(found[1, 2, 2])


def test_the_best_similarity_classifies_as_bayes_once_there_are_prompts_enough() -> None:
    rows = measures.classification(setting(), towers(), 400, [1, 10, 20, 2000])
    gaps = [value(rows, arm="exact", metric="difference", per_class=m) for m in (1, 10, 2000)]
    assert gaps[0] > gaps[1] > gaps[2]
    # The classes' own frequencies, which prompts of equal number leave out, are what remains.
    assert abs(gaps[2]) < 0.03


# Transfer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_no_predictor_is_better_than_bayes_and_differences_are_of_the_same_samples(task) -> None:
    heads = {
        arm: (start_head(task, arm, SIZE, 8, 1, 0).requires_grad_(False),
              towers()["standard"] if arm == "frozen" else None)
        for arm in ("frozen", "oracle")
    }  # fmt: skip
    rows = measures.transfer(setting(), task, heads, 500, 1.0)
    risk = {
        arm: value(rows, arm=arm, metric="risk")
        for arm in ("bayes", "unconditional", "frozen", "oracle")
    }
    assert risk["bayes"] < risk["unconditional"] < min(risk["frozen"], risk["oracle"])
    gap = value(rows, arm="frozen", metric="difference")
    assert gap == pytest.approx(risk["frozen"] - risk["bayes"])
    other = measures.transfer(setting(seed=1), task, heads, 500, 1.0)
    assert value(other, arm="bayes", metric="risk") != risk["bayes"]


# Intervals ----------------------------------------------------------------------------------------


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    draw = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(400):
        # Neighbours share a draw, as pairs share candidates.
        values = torch.randn(420, generator=draw).unfold(0, 20, 1).sum(dim=1)[:400]
        found = measures.estimate(values, 40)
        held += found["low"] < 0 < found["high"]
    assert 0.88 < held / 400 < 0.98
    alone = measures.estimate(torch.ones(10), 10)
    assert alone["value"] == 1
    assert math.isnan(alone["low"])
