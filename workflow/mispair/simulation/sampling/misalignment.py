r"""How captions of S_w go wrong: which feature replaces which, and what that does on average.

Given that feature j of an image goes wrong in its caption, it becomes another feature j' with
probability P[j, j']. Five models differ in P and in the events (assumption 3.3, appendix B.2):

===========  =================================================================================
caption      the whole caption is redrawn, so that any feature may stand for any other
partner      features form random pairs; a wrong feature becomes its partner (Eqs. 21-23)
groups       features form random groups of K; it becomes any other one of its group
random-sets  it becomes one of K - 1 random others, which are unequally likely
independent  features form random pairs; j is missing, and its partner is added, independently
             of each other (Eq. 5)
===========  =================================================================================

A feature carries its sign with it: :math:`z_y^{j'} = z_x^j`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mispair.simulation.sampling.draws import Draws
from mispair.simulation.study import Study


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
        in others. Nothing is if whole captions are redrawn: E[z_x z_y^T] is then a multiple of the
        identity plus a constant (`cross_moment`), and theorems 4.2 to 4.5 have no pair (j, j') to
        speak about.
    """

    partners: Tensor
    correlated: Tensor

    def choose(self, uniform: Tensor) -> Tensor:
        """Turn uniform numbers (n, d) into the features (n, d) that a wrong one becomes."""
        cumulative = self.partners.double().cumsum(dim=1)
        cumulative = cumulative / cumulative[:, -1:]
        quantiles = uniform.T.double().contiguous()
        return torch.searchsorted(cumulative, quantiles, right=True).T


def draw_spurious_sets(draws: Draws, study: Study) -> SpuriousSets:
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
    """Let features of captions go wrong, each by itself; for every model but `caption`.

    A feature that is kept stays as it is, whatever else becomes it. Where several meet at an empty
    place, their signs are added and clipped to [-1, 1].

    Parameters
    ----------
    codes : Tensor (n, d)
        z_x: zeros, ones and minus ones.
    uniform : Tensor (2, n, d)
        Independent numbers from [0, 1). C_s only decides which of them count, so that what goes
        wrong at one C_s does so, in the same way, at every higher one.
    spurious : SpuriousSets
        Of the trial.
    spurious_probability : float
        C_s.
    study : Study
        Says which model.

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


def cross_moment(study: Study, spurious_probability: float, spurious: SpuriousSets) -> Tensor:
    r"""Return :math:`E[z_x z_y^T]` of a pair of S_w, exactly.

    With p the density of the latents, to first order in p the diagonal is (1 - C_s) p (Eq. 24) and
    the rest C_s p P[j, j'] (Eq. 25), which add up to p (Eq. 26). What is of order p² comes from
    features that meet at one place and, for binary latents, from chance. It is included: a place j'
    is empty with probability 1 - p (1 - C_s), and other features arrive at it independently.

    Parameters
    ----------
    study : Study
        Says which model, the density and the values of latents.
    spurious_probability : float
        C_s.
    spurious : SpuriousSets
        Of the trial.

    Returns
    -------
    Tensor (d, d)
        Rows for features of images, columns for features of captions.
    """
    p, wrong = study.latent_density, spurious_probability
    chances = spurious.partners.double()
    identity = torch.eye(len(chances), dtype=chances.dtype, device=chances.device)
    signed = study.latent_values == "signed"
    if study.misalignment == "caption":
        by_chance = 0.0 if signed else p**2
        moment = (1 - wrong) * (p - by_chance) * identity + by_chance
        return moment.to(spurious.partners.dtype)
    empty = 1 - p * (1 - wrong)
    arrives = p * wrong * chances
    if signed:
        # A feature that arrives counts fully where the others' sum S is at least 0, cancels where S
        # is -1, and is outvoted beyond: E clip(1 + S) = P(S = 0) + P(S = 1), S being symmetric. The
        # two are Fourier coefficients of the product of all characteristic functions.
        steps = 2 * len(chances) + 2
        angle = torch.arange(steps, device=chances.device).double() * (2 * torch.pi / steps)
        cosine = angle.cos()[:, None, None]
        from_others = _product_of_others(1 - arrives + arrives * cosine)
        counts = (from_others * (1 + cosine)).mean(dim=0)
        moment = p * (1 - wrong) * identity + p * wrong * chances * empty * counts
    else:
        nothing = _product_of_others(1 - arrives)
        moment = p * (1 - empty * (1 - wrong * chances) * nothing)
        from_itself = p * (1 - wrong * nothing.diagonal())
        moment = moment.diagonal_scatter(from_itself)
    return moment.to(spurious.partners.dtype)


def _product_of_others(factors: Tensor) -> Tensor:
    """Multiply the other rows' factors (..., d, d) in every column, without dividing."""
    ones = torch.ones_like(factors[..., :1, :])
    before = torch.cat([ones, factors[..., :-1, :]], dim=-2).cumprod(dim=-2)
    after = torch.cat([ones, factors[..., 1:, :].flip(-2)], dim=-2).cumprod(dim=-2).flip(-2)
    return before * after
