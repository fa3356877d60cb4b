"""The zero-shot test: shifted images with class labels, and one prompt per class (Eq. 8)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mispair.simulation.sampling.data import Dictionaries
from mispair.simulation.sampling.draws import TrialDraws
from mispair.simulation.study import Study

_MOST_DRAWS = 1000


class NoSuchImages(ValueError):  # noqa: N818 (it reads as what happened)
    """Hardly any test image has the required margin."""


@dataclass(frozen=True)
class TestSet:
    """Images with class labels, and one prompt per class.

    Attributes
    ----------
    images, codes : Tensor (n, d1), (n, d)
        x = M P_1 z_x + noise, and z_x of zeros and ones.
    labels : Tensor (n,) of int64
        The class with the most active features.
    prompts, clean_prompts : Tensor (classes, d1)
        H times the indicator of the class's features, with and without noise.
    """

    __test__ = False  # pytest would take the class for a test by its name

    images: Tensor
    codes: Tensor
    labels: Tensor
    prompts: Tensor
    clean_prompts: Tensor


def draw_test_set(
    draws: TrialDraws, dictionaries: Dictionaries, study: Study, density: float, margin: int
) -> TestSet:
    """Draw ``study.test_images`` test images, and the prompts of the classes.

    `density` is the probability that a feature is active. Only images whose best class leads by at
    least `margin` active features are kept; 1 leaves out ties only.

    Raises
    ------
    NoSuchImages
        If hardly any image that is drawn leads by the margin.
    """
    generator = draws.generator("test")
    codes = _draw_codes(draws, generator, study, density, margin)
    labels = _class_sums(codes, study).argmax(dim=1)
    codes = codes.to(draws.dtype)
    images = codes @ _shifted(draws, dictionaries.image, study)
    images += study.std("test_image_noise") * draws.normal(generator, *images.shape)
    members = torch.eye(study.classes, device=draws.device, dtype=draws.dtype)
    clean = members.repeat_interleave(study.d // study.classes, dim=1) @ dictionaries.text
    prompts = clean + study.std("prompt_noise") * draws.normal(generator, *clean.shape)
    return TestSet(images, codes, labels, prompts, clean)


def _class_sums(codes: Tensor, study: Study) -> Tensor:
    """Count each class's active features, (n, classes)."""
    return codes.view(len(codes), study.classes, -1).sum(dim=2)


def _draw_codes(
    draws: TrialDraws, generator: torch.Generator, study: Study, density: float, margin: int
) -> Tensor:
    accepted: list[Tensor] = []
    for _ in range(_MOST_DRAWS):
        codes = draws.bernoulli(generator, density, 4 * study.test_images, study.d)
        best = _class_sums(codes, study).topk(2).values
        accepted.append(codes[best[:, 0] >= best[:, 1] + margin])
        if sum(map(len, accepted)) >= study.test_images:
            return torch.cat(accepted)[: study.test_images]
    raise NoSuchImages(
        f"test_margin: of {_MOST_DRAWS * 4 * study.test_images} test images with density "
        f"{density:g} only {sum(map(len, accepted))} lead by {margin} active features, and "
        f"{study.test_images} are needed; lower the margin or change test_density"
    )


def _shifted(draws: TrialDraws, rows: Tensor, study: Study) -> Tensor:
    """Return (M P_1)ᵀ (d, d1), with entries of P_1 - I uniform around zero."""
    if study.test_shift == 0:
        return rows
    bound = study.test_shift / study.d**0.5
    identity = torch.eye(study.d, device=draws.device, dtype=draws.dtype)
    uniform = draws.uniform(draws.generator("test", "shift"), study.d, study.d).to(draws.dtype)
    shift = identity + bound * (2 * uniform - 1)
    return shift.T @ rows
