"""Number formats of towers, and preparation of pictures: the model's own way, or random crops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from mispair.core import seeds
from mispair.core.devices import Precision
from mispair.towers.light_open_clip import transforms

if TYPE_CHECKING:
    from PIL import Image

    from mispair.towers.loading import Towers


# Number formats in which towers run, and in which their features are kept.

COMPUTED: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
"""Format of the products inside the towers."""

STORED: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    # NumPy has no bfloat16; half precision keeps all of its digits in the range of features.
    "bf16": torch.float16,
    "fp16": torch.float16,
}
"""Format of the features on disk."""


def autocast(precision: Precision, device: str) -> torch.autocast:
    """Return the context in which towers compute in a precision.

    Norms and sums stay in single precision, as torch decides for each operation. In ``fp32``
    nothing is cast, and TF32, which keeps 10 bits of a factor's 23, is off.
    """
    if precision == "fp32":
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
    return torch.autocast(device, COMPUTED[precision], enabled=precision != "fp32")


@dataclass(frozen=True)
class PixelForm:
    """Number format and order in memory of pixels, as a tower computes with them.

    They are cast before the transfer, not by the tower's first product; the numbers are the same.
    """

    dtype: torch.dtype = torch.float32
    memory_format: torch.memory_format = torch.contiguous_format

    def __call__(self, prepared: Sequence[torch.Tensor]) -> torch.Tensor:
        """Join prepared pictures (k, 3, side, side) to one batch."""
        return torch.cat(list(prepared)).to(self.dtype, memory_format=self.memory_format)


@dataclass(frozen=True)
class Preparation:
    """Makes ``crops`` tensors (crops, 3, side, side) of a picture.

    Attributes
    ----------
    transform : callable
        From a picture to one tensor; it may draw from torch's generator.
    crops : int
        Tensors of a picture.
    seed : int
        Each draw depends on this, the picture's key and the number of the crop only, not on the
        process or the order of pictures.
    """

    transform: Callable[[Image.Image], torch.Tensor]
    crops: int = 1
    seed: int = 0

    def __call__(self, image: Image.Image, key: str) -> torch.Tensor:
        """Return the tensors of the picture with that key."""
        if self.crops == 1:
            return self.transform(image)[None]
        with torch.random.fork_rng(devices=[]):
            return torch.stack([self._crop(image, key, crop) for crop in range(self.crops)])

    def _crop(self, image: Image.Image, key: str, crop: int) -> torch.Tensor:
        torch.default_generator.manual_seed(seeds.integer(self.seed, "crop", key, crop))
        return self.transform(image)


def preparation(
    towers: Towers, crops: int = 1, crop_scale_min: float = 0.5, seed: int = 0
) -> Preparation:
    """Return how pictures are prepared for towers.

    One crop is the model's own preprocessing. More are random resized crops, with which open_clip
    trains: between `crop_scale_min` and all of the area, with an aspect ratio between 3/4 and 4/3,
    resized to the model's side with the model's interpolation, mean and deviation.
    """
    if crops == 1:
        return Preparation(towers.preprocess)
    visual: Any = towers.model.visual
    settings = visual.preprocess_cfg
    crop = transforms.RandomResizedCrop(
        settings["size"],
        scale=(crop_scale_min, 1.0),
        interpolation=transforms.InterpolationMode(settings["interpolation"]),
    )
    transform: Any = towers.preprocess
    # Conversion to RGB and to a tensor, and normalisation, come last in every open_clip transform.
    return Preparation(transforms.Compose([crop, *transform.transforms[-3:]]), crops, seed)
