"""Run frozen towers over images and texts, up to but without the final projections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

if TYPE_CHECKING:
    from PIL import Image

    from mispair.towers.loading import Towers

Item = TypeVar("Item")


def encode_images(towers: Towers, images: Iterable[Image.Image], batch_size: int) -> np.ndarray:
    """Return pre-projection features, shape (n, d_image), float32, of RGB images.

    Raises
    ------
    FloatingPointError
        If a feature is not finite; the message says which image.
    """
    blocks = [np.empty((0, towers.image_projection.shape[0]), np.float32)]
    with torch.inference_mode():
        for batch in _batches(images, batch_size):
            pixels = torch.stack([towers.preprocess(image) for image in batch])
            blocks.append(
                towers.image_features(pixels.to(towers.image_projection.device))
                .float()
                .cpu()
                .numpy()
            )
            _require_finite(blocks, "image")
    return np.concatenate(blocks)


def encode_texts(towers: Towers, texts: Sequence[str], batch_size: int) -> np.ndarray:
    """Return pre-projection features, shape (c, d_text), float32, of texts.

    Raises
    ------
    FloatingPointError
        If a feature is not finite; the message says which text.
    """
    blocks = [np.empty((0, towers.text_projection.shape[0]), np.float32)]
    with torch.inference_mode():
        for batch in _batches(texts, batch_size):
            tokens = towers.tokenizer(list(batch)).to(towers.image_projection.device)
            blocks.append(towers.text_features(tokens).float().cpu().numpy())
            _require_finite(blocks, "text")
    return np.concatenate(blocks)


def _batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _require_finite(blocks: Sequence[np.ndarray], kind: str) -> None:
    finite = np.isfinite(blocks[-1]).all(axis=1)
    if not finite.all():
        number = sum(len(block) for block in blocks[:-1]) + int(np.argmin(finite))
        raise FloatingPointError(f"the features of {kind} number {number} are not finite")
