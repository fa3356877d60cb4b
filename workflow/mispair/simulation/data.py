"""The generative model: dictionaries, latent codes, pairs, batches and the test set.

Images are x = M z_x and captions y = H z_y + noise, with orthonormal M and H (d1, d) from the QR
factors of Gaussian matrices. With probability C_s the whole latent code of a caption is redrawn,
independently of its image. The dictionaries stay general matrices: Adam works on each coordinate
by itself, so that turning them into the first axes would change the result (for SGD it would not).

Every draw comes from a generator named by the seed, the trial, the arm and the step, and by nothing
else; C_s only decides which draws are used, so that conditions share their data.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mispair import seeds
from mispair.simulation.study import Study


@dataclass(frozen=True)
class Draws:
    """Names the random draws of one trial, and says where and how numbers are held.

    Attributes
    ----------
    seed, trial : int
        What the draws depend on besides their own name.
    device : str
        ``cpu`` or ``cuda``.
    dtype : torch.dtype
        ``torch.float32`` or ``torch.float64``.
    """

    seed: int
    trial: int
    device: str
    dtype: torch.dtype

    def generator(self, *name: object) -> torch.Generator:
        """Return the generator of the draws called `name`."""
        return seeds.torch_generator(self.seed, "simulate", self.trial, *name, device=self.device)

    def normal(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Draw standard normal numbers."""
        return torch.randn(*shape, generator=generator, device=self.device, dtype=self.dtype)

    def bernoulli(self, generator: torch.Generator, share: float, *shape: int) -> Tensor:
        """Draw truth values that hold with probability `share`."""
        return torch.rand(*shape, generator=generator, device=self.device) < share


@dataclass(frozen=True)
class Dictionaries:
    """The two dictionaries, transposed: one feature a row, so that data are ``codes @ rows``.

    Attributes
    ----------
    image, text : Tensor (d, d1)
        M transposed and H transposed, with orthonormal rows.
    """

    image: Tensor
    text: Tensor


def draw_dictionaries(draws: Draws, d1: int, d: int) -> Dictionaries:
    """Draw M and H as the orthonormal QR factors of Gaussian matrices."""
    rows = []
    for name in ("image", "text"):
        gaussian = draws.normal(draws.generator("dictionary", name), d1, d)
        rows.append(torch.linalg.qr(gaussian).Q.T.contiguous())
    return Dictionaries(*rows)


@dataclass(frozen=True)
class Pairs:
    """Latent codes of image-caption pairs.

    Attributes
    ----------
    image, text : Tensor (n, d)
        z_x and z_y, zeros and ones.
    redrawn : Tensor (n,) of bool
        Whether the caption's code was redrawn independently of the image's.
    """

    image: Tensor
    text: Tensor
    redrawn: Tensor


def draw_pairs(
    draws: Draws, generator: torch.Generator, n: int, study: Study, spurious_probability: float
) -> Pairs:
    """Draw `n` pairs whose whole caption is redrawn with probability C_s."""
    image, other = draws.bernoulli(generator, study.latent_density, 2, n, study.d).to(draws.dtype)
    redrawn = draws.bernoulli(generator, spurious_probability, n)
    return Pairs(image, torch.where(redrawn[:, None], other, image), redrawn)


@dataclass(frozen=True)
class FreshNoise:
    """Caption noise that is drawn for one step and never seen again.

    Only two functions of such a matrix E (n, d1) of independent normals reach a training step: E Vᵀ
    in the forward pass and Gᵀ E in the backward pass, where G depends on E through E Vᵀ alone. Both
    follow exactly from far fewer normals (`mispair.simulation.noise`), which are what is drawn.

    Attributes
    ----------
    std : float
        Standard deviation per coordinate.
    seen : Tensor (n, m)
        Normals that make the part of E in the row space of V.
    unseen : Tensor (m, d1)
        Normals that make the part of Gᵀ E from outside that space.
    """

    std: float
    seen: Tensor
    unseen: Tensor


@dataclass(frozen=True)
class Batch:
    """One training step's pairs: images ``image_codes @ image_rows``, captions likewise plus noise.

    Rows come in the order: captions with fresh noise, then those with stored noise, then those
    without. The loss does not depend on the order of the pairs.

    Attributes
    ----------
    image_codes : Tensor (B, d)
        Latent codes of the images, without noise in training.
    image_rows : Tensor (d, d1)
        The image dictionary.
    text_codes : Tensor (B, k)
        Coefficients of the captions.
    text_rows : Tensor (k, d1)
        What they are coefficients of: the text dictionary, and the decoder's output weights where
        captions were generated.
    fresh : FreshNoise or None
        Noise of the first rows.
    stored : Tensor (n, d1) or None
        Noise of the rows after these, as it is added.
    """

    image_codes: Tensor
    image_rows: Tensor
    text_codes: Tensor
    text_rows: Tensor
    fresh: FreshNoise | None = None
    stored: Tensor | None = None


def draw_fresh_noise(
    draws: Draws, generator: torch.Generator, n: int, study: Study
) -> tuple[FreshNoise | None, Tensor | None]:
    """Draw the noise of `n` fresh captions in the form that the study asks for."""
    if study.noise_draws == "full":
        return None, draws.normal(generator, n, study.d1).mul_(study.text_noise)
    seen = draws.normal(generator, n, study.m)
    unseen = draws.normal(generator, study.m, study.d1)
    return FreshNoise(study.text_noise, seen, unseen), None


def draw_fresh_batch(
    draws: Draws,
    arm: str,
    step: int,
    dictionaries: Dictionaries,
    study: Study,
    spurious_probability: float,
) -> Batch:
    """Draw the raw pairs of one training step afresh."""
    generator = draws.generator(arm, step)
    pairs = draw_pairs(draws, generator, study.batch_size, study, spurious_probability)
    fresh, stored = draw_fresh_noise(draws, generator, study.batch_size, study)
    return Batch(pairs.image, dictionaries.image, pairs.text, dictionaries.text, fresh, stored)


@dataclass(frozen=True)
class TestSet:
    """Images with class labels, and one prompt per class.

    Attributes
    ----------
    images : Tensor (n, d1)
        x = M z_x + noise.
    labels : Tensor (n,) of int64
        The class with the most active features.
    prompts : Tensor (classes, d1)
        H times the indicator of the class's features, plus noise.
    """

    __test__ = False  # not a test, whatever pytest thinks of the name

    images: Tensor
    labels: Tensor
    prompts: Tensor


def draw_test_set(draws: Draws, dictionaries: Dictionaries, study: Study) -> TestSet:
    """Draw test images whose best class leads by at least the margin, and the prompts."""
    generator = draws.generator("test")
    size = study.d // study.classes
    found: list[Tensor] = []
    while sum(map(len, found)) < study.test_images:
        codes = draws.bernoulli(generator, study.test_density, 4 * study.test_images, study.d)
        best = codes.view(-1, study.classes, size).sum(dim=2).topk(2).values
        found.append(codes[best[:, 0] >= best[:, 1] + study.test_margin])
    codes = torch.cat(found)[: study.test_images]
    labels = codes.view(-1, study.classes, size).sum(dim=2).argmax(dim=1)
    images = codes.to(draws.dtype) @ dictionaries.image
    images += study.test_image_noise * draws.normal(generator, *images.shape)
    members = torch.eye(study.classes, device=draws.device, dtype=draws.dtype)
    prompts = members.repeat_interleave(size, dim=1) @ dictionaries.text
    prompts += study.prompt_noise * draws.normal(generator, *prompts.shape)
    return TestSet(images, labels, prompts)
