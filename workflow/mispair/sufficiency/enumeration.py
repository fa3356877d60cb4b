"""Belief propagation checked on trees so small that every configuration can be summed over."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
import torch

from mispair.core import seeds
from mispair.sufficiency import bayes
from mispair.sufficiency.belief_propagation import upward
from mispair.sufficiency.sampling import add_noise, draw_pairs, trees_at
from mispair.sufficiency.sizes import Size
from mispair.sufficiency.trees import draw_skeletons

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
    predicted = bayes.next_words(trees, drawn.text, drawn.image).exp()
    image = upward(trees.image, drawn.image).posterior
    results = {
        "clip": image,
        "zsc": bayes.class_probabilities(image, trees.text),
        "cdm": bayes.denoise(trees, noisy, drawn.text, sigma),
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
