"""The generative model: dictionaries, latent codes, pairs, and the fixed samples S_h and S_w.

Images are x = M z_x + noise and captions y = H z_y + noise, with orthonormal M and H (d1, d) from
the QR factors of Gaussian matrices. `mispair.simulation.sampling.draws` makes z_y from z_x.
The dictionaries stay general matrices: Adam works on each coordinate by itself, so turning them
into the first axes would change the result (for SGD it would not).

Every draw comes from a generator named only by the seed, the trial, the arm and the step. C_s only
decides which draws are used, so conditions share their data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from mispair.core.devices import upload
from mispair.simulation.sampling.draws import SpuriousSets, TrialDraws, misalign
from mispair.simulation.sampling.inputs import Batch, Coded, Dense, FreshNoise
from mispair.simulation.study import Study


@dataclass(frozen=True)
class Dictionaries:
    """M and H, transposed to orthonormal rows (d, d1), so that data are ``codes @ rows``."""

    image: Tensor
    text: Tensor


def draw_dictionaries(draws: TrialDraws, d1: int, d: int) -> Dictionaries:
    """Draw M and H as the orthonormal QR factors of Gaussian matrices."""
    rows = []
    for name in ("image", "text"):
        gaussian = draws.normal(draws.generator("dictionary", name), d1, d)
        rows.append(torch.linalg.qr(gaussian).Q.T.contiguous())
    return Dictionaries(*rows)


def first_axes(draws: TrialDraws, d1: int, d: int) -> Dictionaries:
    """Return the first d axes as both dictionaries.

    Starting weights and noise are distributed alike in every direction, and gradient descent does
    not depend on the basis: any other orthonormal dictionary gives the same distribution of
    results. Adam does depend on it, because it scales every coordinate by itself.
    """
    rows = torch.eye(d, d1, dtype=draws.dtype, device=draws.device)
    return Dictionaries(rows, rows)


@dataclass(frozen=True)
class LatentPairs:
    """Latent codes of image-caption pairs.

    Attributes
    ----------
    image, text : Tensor (n, d)
        z_x and z_y: zeros, ones and, for signed latents, minus ones.
    misaligned : Tensor (n,) of bool
        Whether the caption is wrong: with `caption`, its code was redrawn independently of the
        image's; with the other models of misalignment, the two codes differ.
    """

    image: Tensor
    text: Tensor
    misaligned: Tensor


@dataclass(frozen=True)
class Population:
    """The distribution from which all pairs of one trial at one C_s are drawn."""

    draws: TrialDraws
    study: Study
    dictionaries: Dictionaries
    spurious: SpuriousSets
    spurious_probability: float


def draw_pairs(population: Population, generator: torch.Generator, n: int) -> LatentPairs:
    """Draw `n` pairs of S_w."""
    draws, study, wrong = population.draws, population.study, population.spurious_probability
    if study.misalignment == "caption":
        codes = draws.bernoulli(generator, study.latent_density, 2, n, study.d).to(draws.dtype)
        redrawn = draws.bernoulli(generator, wrong, n)
        image, second = _with_signs(draws, generator, codes, study)
        return LatentPairs(image, torch.where(redrawn[:, None], second, image), redrawn)
    image = _draw_codes(draws, generator, n, study)
    uniform = draws.uniform(generator, 2, n, study.d)
    text = misalign(image, uniform, population.spurious, wrong, study)
    return LatentPairs(image, text, (text != image).any(dim=1))


def _draw_codes(draws: TrialDraws, generator: torch.Generator, n: int, study: Study) -> Tensor:
    codes = draws.bernoulli(generator, study.latent_density, n, study.d).to(draws.dtype)
    return _with_signs(draws, generator, codes, study)


def _with_signs(
    draws: TrialDraws, generator: torch.Generator, codes: Tensor, study: Study
) -> Tensor:
    if study.latent_values == "binary":
        return codes
    return codes - 2 * codes * draws.bernoulli(generator, 0.5, *codes.shape)


def draw_fresh_noise(
    draws: TrialDraws, generator: torch.Generator, n: int, std: float, study: Study
) -> tuple[FreshNoise | None, Tensor | None]:
    """Draw noise (n, d1) for one step: in projected form, in full, or neither if there is none."""
    if std == 0 or n == 0:
        return None, None
    if study.noise_draws == "full":
        return None, draws.normal(generator, n, study.d1).mul_(std)
    seen = draws.normal(generator, n, study.m)
    return FreshNoise(std, seen, draws.normal(generator, study.m, study.d1)), None


@dataclass(frozen=True)
class CodedSample:
    """One modality of a fixed sample as codes @ rows + noise, with noise on any of its rows.

    Attributes
    ----------
    codes : Tensor (n, k)
        Coefficients.
    rows : Tensor (k, d1)
        Vectors that the codes combine.
    noise : Tensor (s, d1)
        Noise of some rows, as it is added.
    noise_row : Tensor (n,) of int64, on the CPU
        Row of `noise` that belongs to a row of `codes`; -1 for one without noise.
    """

    codes: Tensor
    rows: Tensor
    noise: Tensor
    noise_row: Tensor

    def __len__(self) -> int:
        return len(self.codes)

    def product(self, weights: Tensor) -> Tensor:
        """Return X Wᵀ."""
        result = self.codes @ (self.rows @ weights.T)
        noisy = self.noise_row >= 0
        result[noisy] += (self.noise @ weights.T)[self.noise_row[noisy]]
        return result

    def accumulate(self, gradient: Tensor, weights: Tensor, out: Tensor) -> None:
        """Add Gᵀ X to `out`."""
        out.addmm_(gradient.T @ self.codes, self.rows)
        noisy = self.noise_row >= 0
        out.addmm_(gradient[noisy].T, self.noise[self.noise_row[noisy]])

    def dense(self) -> Tensor:
        """Return X."""
        result = self.codes.new_zeros(len(self.codes), self.rows.shape[1])
        noisy = self.noise_row >= 0
        result[noisy] = self.noise[self.noise_row[noisy]]
        return result.addmm_(self.codes, self.rows)


@dataclass(frozen=True)
class FixedSample:
    """A fixed sample of pairs.

    Attributes
    ----------
    image, text : Dense or CodedSample (n, d1)
        Images and captions. Images have noise on all rows or on none, captions on any rows.
    pairs : LatentPairs
        Their latent codes as drawn; a generated caption has those of the caption that it replaced.
    """

    image: Dense | CodedSample
    text: Dense | CodedSample
    pairs: LatentPairs

    def __post_init__(self) -> None:
        """Refuse images that cannot be ordered together with the captions."""
        if isinstance(self.image, CodedSample):
            noisy = self.image.noise_row >= 0
            if bool(noisy.any()) and not bool(noisy.all()):
                raise ValueError("image: either all images of a sample have noise, or none has")

    def __len__(self) -> int:
        return len(self.pairs.image)

    def take(self, rows: Tensor) -> Batch:
        """Gather the pairs `rows` (B,), those with noisy captions first, else in that order.

        Row numbers are on the CPU, so that reading a length does not synchronise the GPU.
        """
        if isinstance(self.text, CodedSample):
            noisy = self.text.noise_row[rows] >= 0
            rows = torch.cat([rows[noisy], rows[~noisy]])
        return Batch(_take(self.image, rows), _take(self.text, rows))


def _take(inputs: Dense | CodedSample, rows: Tensor) -> Dense | Coded:
    if isinstance(inputs, Dense):
        return Dense(_rows(inputs.values, rows))
    noise_row = inputs.noise_row[rows]
    stored = _rows(inputs.noise, noise_row[noise_row >= 0])
    codes = _rows(inputs.codes, rows)
    return Coded(codes, inputs.rows, stored=stored if len(stored) else None)


def _rows(values: Tensor, rows: Tensor) -> Tensor:
    return values.index_select(0, upload(rows, values.device))


def joined(samples: Sequence[FixedSample]) -> FixedSample:
    """Put samples one after the other; one sample is returned as it is.

    Coded captions of several widths must share the rows of the narrower ones, as generated captions
    do, whose first rows are the text dictionary.
    """
    if len(samples) == 1:
        return samples[0]
    pairs = (sample.pairs for sample in samples)
    columns = zip(*((p.image, p.text, p.misaligned) for p in pairs), strict=True)
    return FixedSample(
        _joined([sample.image for sample in samples]),
        _joined([sample.text for sample in samples]),
        LatentPairs(*(torch.cat(column) for column in columns)),
    )


def _joined(parts: Sequence[Dense | CodedSample]) -> Dense | CodedSample:
    coded = [part for part in parts if isinstance(part, CodedSample)]
    if len(coded) < len(parts):
        return Dense(torch.cat([part.dense() for part in parts]))
    widest = max(coded, key=lambda part: part.codes.shape[1])
    width = widest.codes.shape[1]
    noise_rows, count = [], 0
    for part in coded:
        noise_rows.append(torch.where(part.noise_row < 0, -1, part.noise_row + count))
        count += len(part.noise)
    return CodedSample(
        codes=torch.cat([pad(part.codes, (0, width - part.codes.shape[1])) for part in coded]),
        rows=widest.rows,
        noise=torch.cat([part.noise for part in coded]),
        noise_row=torch.cat(noise_rows),
    )


def draw_high_quality(population: Population) -> FixedSample:
    """Draw S_h: aligned pairs (assumption 3.2)."""
    draws, study = population.draws, population.study
    generator = draws.generator("high-quality")
    codes = _draw_codes(draws, generator, study.high_quality_pairs, study)
    aligned = torch.zeros(len(codes), dtype=torch.bool, device=codes.device)
    return _with_noise(
        population, generator, LatentPairs(codes, codes, aligned), "high_quality_noise"
    )


def draw_low_quality(population: Population) -> FixedSample:
    """Draw S_w (assumption 3.3); with fresh data, the pairs that S3 filters."""
    study = population.study
    generator = population.draws.generator("filter" if study.data == "fresh" else "low-quality")
    pairs = draw_pairs(population, generator, study.low_quality_pairs)
    return _with_noise(population, generator, pairs, "text_noise")


def _with_noise(
    population: Population, generator: torch.Generator, pairs: LatentPairs, text_noise: str
) -> FixedSample:
    draws, study, rows = population.draws, population.study, population.dictionaries
    text = _fixed_inputs(draws, generator, pairs.text, rows.text, text_noise, study)
    image = _fixed_inputs(draws, generator, pairs.image, rows.image, "image_noise", study)
    return FixedSample(image, text, pairs)


def _fixed_inputs(
    draws: TrialDraws,
    generator: torch.Generator,
    codes: Tensor,
    rows: Tensor,
    name: str,
    study: Study,
) -> Dense | CodedSample:
    """Add noise; samples that are mixed with fresh pairs stay coded, like these pairs."""
    n, std = len(codes), study.std(name)
    if std == 0:
        nowhere = torch.full((n,), -1)
        return CodedSample(codes, rows, codes.new_zeros(0, study.d1), nowhere)
    noise = draws.normal(generator, n, study.d1).mul_(std)
    if study.data == "fresh":
        return CodedSample(codes, rows, noise, torch.arange(n))
    if study.dictionaries == "axes":
        noise[:, : study.d].add_(codes)
        return Dense(noise)
    return Dense(noise.addmm_(codes, rows))


# The zero-shot test: shifted images with class labels, and one prompt per class (Eq. 8).


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
    codes = _test_codes(draws, generator, study, density, margin)
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


def _test_codes(
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
