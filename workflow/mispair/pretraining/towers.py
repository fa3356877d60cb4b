"""Small image and text towers with linear projections, and their contrastive training.

The image tower has two convolutions and one layer, the text tower two layers on a bag of words.
Each ends in layer normalisation and a linear projection without bias, as CLIP's towers do. A neuron
is a column of a projection. One training takes less than a minute of one core.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mispair.core import seeds
from mispair.core.files import read_tensors
from mispair.sufficiency.encoders import contrastive_loss

KERNEL, STRIDE = 4, 2
"""Of both convolutions: each halves the side."""

MEAN, SCALE = 128.0, 64.0
"""Pixels are (value - MEAN) / SCALE before the first layer."""

START_SCALE = 1 / 0.07
"""Logit scale before training, as CLIP's; it is trained."""

BLOCK = 1024
"""Pictures or captions in a forward pass without gradients."""


@dataclass(frozen=True)
class TowerSizes:
    """Sizes of the towers.

    Attributes
    ----------
    crop : int
        Side of the pictures, in pixels; a multiple of 4.
    channels : int
        Of the first convolution; the second has twice as many.
    width : int
        d, features before each projection; the text tower's first layer is twice as wide.
    embedding : int
        e, neurons of each projection.
    words : int
        Size of the vocabulary.
    """

    crop: int
    channels: int
    width: int
    embedding: int
    words: int


class SmallTowers(nn.Module):
    """An image and a text tower with random weights, which depend on sizes and seed alone."""

    def __init__(self, sizes: TowerSizes, seed: int) -> None:
        super().__init__()
        channels, width = sizes.channels, sizes.width
        self.crop = sizes.crop
        side = sizes.crop // STRIDE**2
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.integer(seed, "small-towers", "weights"))
            self.image_trunk = nn.Sequential(
                nn.Conv2d(3, channels, KERNEL, STRIDE, 1), nn.ReLU(),
                nn.Conv2d(channels, 2 * channels, KERNEL, STRIDE, 1), nn.ReLU(),
                nn.Flatten(), nn.Linear(2 * channels * side**2, width), nn.ReLU(),
                nn.LayerNorm(width),
            )  # fmt: skip
            self.text_trunk = nn.Sequential(
                nn.Linear(sizes.words, 2 * width), nn.ReLU(),
                nn.Linear(2 * width, width), nn.ReLU(), nn.LayerNorm(width),
            )  # fmt: skip
            start = torch.randn(2, width, sizes.embedding) / math.sqrt(width)
        self.image_projection = nn.Parameter(start[0].clone())
        self.text_projection = nn.Parameter(start[1].clone())
        self.log_scale = nn.Parameter(torch.tensor(math.log(START_SCALE)))

    def image_features(self, pictures: Tensor) -> Tensor:
        """Return features before the projection, (n, d), of (n, 3, crop, crop) uint8 pictures."""
        features: Tensor = self.image_trunk((pictures.float() - MEAN) / SCALE)
        return features

    def text_features(self, bags: Tensor) -> Tensor:
        """Return features before the projection, (n, d), of (n, words) bags."""
        features: Tensor = self.text_trunk(bags.float())
        return features

    def loss(self, pictures: Tensor, bags: Tensor) -> Tensor:
        """Return InfoNCE of a batch of pairs: cross-entropies of both directions, summed."""
        images = F.normalize(self.image_features(pictures) @ self.image_projection, dim=1)
        texts = F.normalize(self.text_features(bags) @ self.text_projection, dim=1)
        return contrastive_loss(self.log_scale.exp() * images, texts)


class Batches:
    """The batches of a training: which pairs, and where their pictures are cropped.

    Each step's batch depends on the seed and the step alone.

    Parameters
    ----------
    pictures : (n, side, side, 3) uint8 array
    bags : (n, words) uint8 array
        Captions of the same pairs.
    batch_size : int
        Pairs of a batch; the rest of a pass is left out.
    crop : int
        Side of the crop, the same place for all pictures of a batch.

    Raises
    ------
    ValueError
        If there are fewer pairs than a batch needs, or pictures are smaller than the crop.
    """

    def __init__(
        self, pictures: np.ndarray, bags: np.ndarray, batch_size: int, crop: int, seed: int
    ) -> None:
        if len(pictures) < batch_size:
            raise ValueError(f"{len(pictures)} pairs to train on are fewer than a batch needs")
        if pictures.shape[1] < crop:
            raise ValueError(f"pictures of {pictures.shape[1]} pixels are smaller than a crop")
        self.pictures = channels_first(pictures)
        self.bags = torch.from_numpy(bags)
        self.batch_size, self.crop, self.seed = batch_size, crop, seed
        self.per_epoch = len(pictures) // batch_size
        self._epoch = -1
        self._order = self._corners = np.zeros(0, np.int64)

    def of_step(self, step: int) -> tuple[Tensor, Tensor]:
        """Return pictures (b, 3, crop, crop) and bags (b, words) of a step, counted from 0."""
        epoch, number = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            draw = seeds.generator(self.seed, "small-towers", "epoch", epoch)
            room = self.pictures.shape[2] - self.crop
            self._order = draw.permutation(len(self.pictures))
            self._corners = draw.integers(0, room + 1, (self.per_epoch, 2))
            self._epoch = epoch
        rows = torch.from_numpy(self._order[number * self.batch_size :][: self.batch_size])
        top, left = self._corners[number].tolist()
        crop = self.pictures[rows, :, top : top + self.crop, left : left + self.crop]
        return crop, self.bags[rows]


def channels_first(pictures: np.ndarray) -> Tensor:
    """Return (n, side, side, 3) pictures as a (n, 3, side, side) tensor."""
    return torch.from_numpy(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)))


@torch.no_grad()
def features_of_pictures(towers: SmallTowers, pictures: np.ndarray) -> np.ndarray:
    """Return features before the projection, (n, d) float32, of the middle of each picture."""
    corner = (pictures.shape[1] - towers.crop) // 2
    middle = slice(corner, corner + towers.crop)
    parts = channels_first(pictures[:, middle, middle]).split(BLOCK)
    return torch.cat([towers.image_features(part) for part in parts]).numpy()


@torch.no_grad()
def features_of_texts(towers: SmallTowers, bags: np.ndarray) -> np.ndarray:
    """Return features before the projection, (n, d) float32, of (n, words) bags."""
    parts = torch.from_numpy(bags).split(BLOCK)
    return torch.cat([towers.text_features(part) for part in parts]).numpy()


def read_towers(path: Path) -> tuple[SmallTowers, np.ndarray, dict[str, str]]:
    """Read towers that `train_small_towers` wrote: the towers, held-out rows and metadata."""
    arrays, metadata = read_tensors(path)
    crop, channels, width, embedding = (
        int(metadata[name]) for name in ("crop", "channels", "width", "embedding")
    )
    sizes = TowerSizes(crop, channels, width, embedding, words=len(json.loads(metadata["words"])))
    towers = SmallTowers(sizes, 0)
    with torch.no_grad():
        for name, values in towers.named_parameters():
            values.copy_(torch.from_numpy(arrays[name]))
    return towers.requires_grad_(False), arrays["held_out"], metadata
