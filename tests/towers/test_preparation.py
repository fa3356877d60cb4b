"""From pictures to what an image tower takes."""

import numpy as np
import pytest
import torch
from PIL import Image

from mispair.towers.loading import load_towers
from mispair.towers.preparation import PixelForm, Preparation, preparation
from tests.towers.made_up import SHIPPED


@pytest.fixture(scope="module")
def towers():
    return load_towers(SHIPPED)


def ramps(width: int = 240, height: int = 160) -> Image.Image:
    """Return a picture in which red says how far right a pixel is and green how far down."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width).round()
    pixels[..., 1] = np.linspace(0, 255, height).round()[:, None]
    return Image.fromarray(pixels)


def spans(crop: torch.Tensor) -> tuple[float, float]:
    """Return which shares of the width and of the height of `ramps` a crop shows."""
    # The mean and deviation of the shipped towers are 0.5 and 0.25.
    colours = crop * 0.25 + 0.5
    right, down = colours[0].mean(0), colours[1].mean(1)
    # Between the centres of the outer pixels, at 48 pixels a side.
    across, along = float(right[-1] - right[0]), float(down[-1] - down[0])
    return across * 48 / 47, along * 48 / 47


def test_one_view_is_the_models_own(towers) -> None:
    found = preparation(towers)(ramps(), "key")
    assert torch.equal(found, towers.preprocess(ramps())[None])


def test_crops_show_the_share_of_the_picture_that_was_asked_for(towers) -> None:
    prepare = preparation(towers, crops=40, crop_scale_min=0.3, seed=1)
    crops = prepare(ramps(), "key")
    assert crops.shape == (40, 3, 48, 48)
    shares = np.array([spans(crop) for crop in crops])
    areas = shares.prod(axis=1)
    assert areas.min() > 0.27
    assert areas.max() < 1.03
    assert areas.std() > 0.1
    aspects = shares[:, 0] * 240 / (shares[:, 1] * 160)
    assert aspects.min() > 0.7
    assert aspects.max() < 1.4
    assert aspects.std() > 0.1


def test_a_crop_depends_on_seed_key_and_number_only(towers) -> None:
    prepare = preparation(towers, crops=3, seed=7)
    first = prepare(ramps(), "a")
    other = prepare(ramps(), "b")
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    assert torch.equal(prepare(ramps(), "a"), first)
    assert torch.equal(torch.random.get_rng_state(), before)  # nobody else's draws change
    assert torch.equal(preparation(towers, crops=2, seed=7)(ramps(), "a"), first[:2])
    assert not torch.equal(other, first)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(preparation(towers, crops=3, seed=8)(ramps(), "a"), first)


def test_pixels_in_the_form_of_the_tower() -> None:
    pictures = [torch.rand(2, 3, 5, 4), torch.rand(1, 3, 5, 4)]
    form = PixelForm(torch.bfloat16, torch.channels_last)
    batch = form(pictures)
    assert torch.equal(batch, torch.cat(pictures).bfloat16())
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert PixelForm()(pictures).is_contiguous()


def test_what_prepares_can_be_sent_to_other_processes(towers) -> None:
    import pickle

    for crops in (1, 2):
        prepare = preparation(towers, crops)
        copy = pickle.loads(pickle.dumps(prepare))
        assert isinstance(copy, Preparation)
        assert torch.equal(copy(ramps(), "a"), prepare(ramps(), "a"))
    form = PixelForm(torch.float16, torch.channels_last)
    assert pickle.loads(pickle.dumps(form)) == form
