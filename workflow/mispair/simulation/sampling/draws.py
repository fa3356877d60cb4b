"""The random draws of one trial, each from a named generator, and the misalignment of captions."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mispair.core import seeds
from mispair.core.devices import upload
from mispair.simulation.study import Study


@dataclass(frozen=True)
class TrialDraws:
    """Random draws of one trial, on a device and in a floating-point type.

    They depend on the seed, the number of the trial, and their own name.
    """

    seed: int
    trial: int
    device: str
    dtype: torch.dtype

    def generator(self, *name: object) -> torch.Generator:
        """Return the generator of the draws called `name`."""
        return seeds.torch_generator(self.seed, "simulate", self.trial, *name)

    def normal(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Draw standard normal numbers in float32; float64 gets the same ones."""
        return upload(torch.randn(*shape, generator=generator), self.device).to(self.dtype)

    def uniform(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Draw numbers from [0, 1), the same ones for every precision."""
        return upload(torch.rand(*shape, generator=generator), self.device)

    def bernoulli(self, generator: torch.Generator, share: float, *shape: int) -> Tensor:
        """Draw truth values that hold with probability `share`."""
        return self.uniform(generator, *shape) < share


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
    chances = chances.to(draws.device)
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
