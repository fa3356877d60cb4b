"""The generative model: dictionaries, latent codes of pairs, and how captions go wrong.

Images are x = M z_x + noise and captions y = H z_y + noise, with orthonormal M and H (d1, d) from
the QR factors of Gaussian matrices. The dictionaries stay general matrices: Adam works on each
coordinate by itself, so turning them into the first axes would change the result (for SGD it would
not).

Every draw comes from a generator named only by the seed, the trial, the arm and the step. C_s only
decides which draws are used, so conditions share their data.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mispair.core import seeds
from mispair.simulation.study import Study


@dataclass(frozen=True)
class TrialDraws:
    """Random draws of one trial, in a floating-point type.

    They depend on the seed, the number of the trial, and their own name.
    """

    seed: int
    trial: int
    dtype: torch.dtype

    def generator(self, *name: object) -> torch.Generator:
        """Return the generator of the draws called `name`."""
        return seeds.torch_generator(self.seed, "simulate", self.trial, *name)

    def normal(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Draw standard normal numbers in float32; float64 gets the same ones."""
        return torch.randn(*shape, generator=generator).to(self.dtype)

    def uniform(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Draw numbers from [0, 1), the same ones for every precision."""
        return torch.rand(*shape, generator=generator)

    def bernoulli(self, generator: torch.Generator, share: float, *shape: int) -> Tensor:
        """Draw truth values that hold with probability `share`."""
        return self.uniform(generator, *shape) < share


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
    rows = torch.eye(d, d1, dtype=draws.dtype)
    return Dictionaries(rows, rows)


# Misalignment of captions of S_w: which feature replaces which, and the mean effect.
#
# Given that feature j of an image goes wrong in its caption, it becomes another feature j' with
# probability P[j, j']. Five models differ in P and in the events (assumption 3.3, appendix B.2):
#
# ===========  =================================================================================
# caption      the whole caption is redrawn, so that any feature may replace any other
# partner      features form random pairs; a wrong feature becomes its partner (Eqs. 21-23)
# groups       features form random groups of K; it becomes any other one of its group
# random-sets  it becomes one of K - 1 random others, which are unequally likely
# independent  features form random pairs; j is missing, and its partner is added, independently
#              of each other (Eq. 5)
# ===========  =================================================================================
#
# A feature carries its sign with it: :math:`z_y^{j'} = z_x^j`.


@dataclass(frozen=True)
class SpuriousSets:
    """Which features replace which.

    Attributes
    ----------
    partners : Tensor (d, d)
        P[j, j']: probability that feature j becomes j', given that it goes wrong. Rows sum to one,
        the diagonal is zero.
    correlated : Tensor (d, d) of bool
        Whether j' is spuriously correlated with j: more likely in captions of images with j than
        in others. If whole captions are redrawn, no feature is: E[z_x z_y^T] is then a multiple of
        the identity plus a constant, and theorems 4.2 to 4.5 have no pair (j, j').
    """

    partners: Tensor
    correlated: Tensor

    def choose(self, uniform: Tensor) -> Tensor:
        """Turn uniform numbers (n, d) into the features (n, d) that a wrong one becomes."""
        cumulative = self.partners.double().cumsum(dim=1)
        cumulative = cumulative / cumulative[:, -1:]
        quantiles = uniform.T.double().contiguous()
        return torch.searchsorted(cumulative, quantiles, right=True).T


def draw_spurious_sets(draws: TrialDraws, study: Study) -> SpuriousSets:
    """Draw a trial's sets; for `caption` every other feature is equally likely."""
    d, size = study.d, study.spurious_group_size
    generator = draws.generator("spurious")
    if study.misalignment == "random-sets":
        scores = torch.rand(d, d, generator=generator)
        scores.fill_diagonal_(-1.0)
        partners = scores.topk(size - 1, dim=1).indices
        weights = torch.empty(d, size - 1, dtype=torch.float64)
        weights.exponential_(generator=generator)  # normalised, these are Dirichlet(1)
        chances = torch.zeros(d, d, dtype=torch.float64)
        chances.scatter_(1, partners, weights)
    else:
        size = {"groups": size, "caption": d}.get(study.misalignment, 2)
        order = torch.randperm(d, generator=generator)
        group = torch.empty_like(order)
        group[order] = torch.arange(d) // size
        chances = (group[:, None] == group).double().fill_diagonal_(0.0)
    correlated = chances > 0 if study.misalignment != "caption" else torch.zeros_like(chances) > 0
    return SpuriousSets((chances / chances.sum(dim=1, keepdim=True)).to(draws.dtype), correlated)


def misalign(
    codes: Tensor,
    uniform: Tensor,
    spurious: SpuriousSets,
    spurious_probability: float,
    study: Study,
) -> Tensor:
    """Misalign features of captions, each independently; for every model but `caption`.

    A kept feature stays unchanged if other features arrive at it. Where several arrive at an
    inactive feature, their signs are added and clipped to [-1, 1].

    Parameters
    ----------
    codes : Tensor (n, d)
        z_x: zeros, ones and minus ones.
    uniform : Tensor (2, n, d)
        Independent numbers from [0, 1). C_s only decides which of them count, so that a feature
        that goes wrong at one C_s does so, in the same way, at every higher one.
    spurious : SpuriousSets
        Sets of the trial.
    spurious_probability : float
        C_s.
    study : Study
        Its ``misalignment`` is the model.

    Returns
    -------
    Tensor (n, d)
        z_y.
    """
    dropped = uniform[0] < spurious_probability
    # The one partner of `independent` needs no choosing, which leaves the second numbers free.
    added = uniform[1] < spurious_probability if study.misalignment == "independent" else dropped
    kept = codes.masked_fill(dropped, 0.0)
    arriving = torch.zeros_like(codes)
    arriving.scatter_add_(1, spurious.choose(uniform[1]), codes * added)
    return torch.where(kept != 0, kept, arriving.clamp_(-1, 1))


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
    image = draw_codes(draws, generator, n, study)
    uniform = draws.uniform(generator, 2, n, study.d)
    text = misalign(image, uniform, population.spurious, wrong, study)
    return LatentPairs(image, text, (text != image).any(dim=1))


def draw_codes(draws: TrialDraws, generator: torch.Generator, n: int, study: Study) -> Tensor:
    """Draw the latent codes (n, d) of images."""
    codes = draws.bernoulli(generator, study.latent_density, n, study.d).to(draws.dtype)
    return _with_signs(draws, generator, codes, study)


def _with_signs(
    draws: TrialDraws, generator: torch.Generator, codes: Tensor, study: Study
) -> Tensor:
    if study.latent_values == "binary":
        return codes
    return codes - 2 * codes * draws.bernoulli(generator, 0.5, *codes.shape)
