"""Generated captions in place of those that fit their image less well (S3), and S4's batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from mispair.simulation.data import (
    Batch,
    Dictionaries,
    Draws,
    Pairs,
    draw_fresh_noise,
    draw_pairs,
)
from mispair.simulation.decoder import Decoder
from mispair.simulation.encoder import Encoders
from mispair.simulation.study import Study


@dataclass(frozen=True)
class FilteredPairs:
    """A fixed sample of pairs after filtering.

    A caption, kept or generated, is ``text_codes @ text_rows``, plus stored noise if it was kept.

    Attributes
    ----------
    image_codes : Tensor (n, d)
        Latent codes of the images.
    text_codes : Tensor (n, d + m + 1)
        Of a kept caption the latent code, of a generated one the decoder's hidden activations and
        a one for its output bias; the rest is zero.
    text_rows : Tensor (d + m + 1, d1)
        The text dictionary, the decoder's output rows, its output bias.
    noise : Tensor (kept, d1)
        Noise of the kept captions.
    noise_row : ndarray (n,) of int64
        Row of `noise` that belongs to a pair; -1 for a generated caption.
    redrawn : ndarray (n,) of bool
        Whether the original caption did not belong to the image.
    replaced : ndarray (n,) of bool
        Whether it was replaced.
    """

    image_codes: Tensor
    text_codes: Tensor
    text_rows: Tensor
    noise: Tensor
    noise_row: np.ndarray
    redrawn: np.ndarray
    replaced: np.ndarray

    def shares(self) -> dict[str, float]:
        """Return the replaced share of all captions, of bad and of clean ones if there are any."""
        kinds = {"": np.ones_like(self.redrawn), "_bad": self.redrawn, "_clean": ~self.redrawn}
        return {
            f"replaced_share{name}": float(self.replaced[kind].mean())
            for name, kind in kinds.items()
            if kind.any()
        }


def filter_pairs(
    draws: Draws,
    encoders: Encoders,
    decoder: Decoder,
    dictionaries: Dictionaries,
    study: Study,
    spurious_probability: float,
) -> FilteredPairs:
    """Draw raw pairs and replace captions whose generated rival fits the image better.

    A caption y of an image x is replaced by the decoder's ŷ if
    cos(f(x), g(ŷ)) >= factor · cos(f(x), g(y)). The cosine with a vector of zeros is zero.
    """
    generator = draws.generator("filter")
    pairs = draw_pairs(draws, generator, study.filtered_pairs, study, spurious_probability)
    noise = draws.normal(generator, study.filtered_pairs, study.d1).mul_(study.text_noise)
    images = pairs.image @ dictionaries.image
    texts = torch.addmm(noise, pairs.text, dictionaries.text)
    hidden = decoder.hidden(pairs.image, dictionaries.image)
    of_images = encoders.image_features(images)
    original = cosine_similarity(of_images, encoders.text_features(texts), dim=1)
    generated_features = encoders.text_features(decoder.captions(hidden))
    generated = cosine_similarity(of_images, generated_features, dim=1)
    replaced = generated >= study.filter_factor * original
    return _assemble(pairs, replaced, hidden, noise, decoder, dictionaries)


def _assemble(
    pairs: Pairs,
    replaced: Tensor,
    hidden: Tensor,
    noise: Tensor,
    decoder: Decoder,
    dictionaries: Dictionaries,
) -> FilteredPairs:
    swap = replaced[:, None].to(hidden.dtype)
    kept = (~replaced).cpu().numpy()
    return FilteredPairs(
        image_codes=pairs.image,
        text_codes=torch.cat([pairs.text * (1 - swap), hidden * swap, swap], dim=1),
        text_rows=torch.cat([dictionaries.text, decoder.output_rows, decoder.output_bias[None]]),
        noise=noise[~replaced],
        noise_row=np.where(kept, np.cumsum(kept) - 1, -1),
        redrawn=pairs.redrawn.cpu().numpy(),
        replaced=~kept,
    )


def filtered_batches(
    draws: Draws,
    filtered: FilteredPairs,
    raw_pairs: int,
    dictionaries: Dictionaries,
    study: Study,
    spurious_probability: float,
) -> tuple[Callable[[int], Batch], int]:
    """Mix the filtered pairs with raw ones, in a new order every epoch.

    Parameters
    ----------
    draws : Draws
        Of the trial.
    filtered : FilteredPairs
        The fixed sample.
    raw_pairs : int
        Raw pairs in an epoch, drawn afresh whenever they are met; 0 for filtered pairs only.
    dictionaries : Dictionaries
        Of the trial.
    study : Study
        Settings.
    spurious_probability : float
        C_s of the raw pairs.

    Returns
    -------
    batch : callable
        Returns the batch of a step, a function of the step's number alone.
    steps_per_epoch : int
        Full batches in an epoch; what does not fill one is left out, as in the public code.
    """
    fixed = len(filtered.replaced)
    steps_per_epoch = (fixed + raw_pairs) // study.batch_size
    orders: dict[int, np.ndarray] = {}

    def batch(step: int) -> Batch:
        epoch, within = divmod(step, steps_per_epoch)
        if epoch not in orders:
            orders.clear()
            generator = draws.generator("filtered", "order", epoch)
            order = torch.randperm(fixed + raw_pairs, generator=generator, device=draws.device)
            orders[epoch] = order.cpu().numpy()
        members = orders[epoch][within * study.batch_size : (within + 1) * study.batch_size]
        members = members[members < fixed]
        kept = members[~filtered.replaced[members]]
        members = np.concatenate([kept, members[filtered.replaced[members]]])
        generator = draws.generator("filtered", step)
        fresh_count = study.batch_size - len(members)
        raw = draw_pairs(draws, generator, fresh_count, study, spurious_probability)
        fresh, drawn = draw_fresh_noise(draws, generator, fresh_count, study)
        stored = filtered.noise[_index(filtered.noise_row[kept], draws)]
        rows = _index(members, draws)
        width = filtered.text_codes.shape[1] - study.d
        raw_codes = torch.nn.functional.pad(raw.text, (0, width))
        return Batch(
            image_codes=torch.cat([raw.image, filtered.image_codes[rows]]),
            image_rows=dictionaries.image,
            text_codes=torch.cat([raw_codes, filtered.text_codes[rows]]),
            text_rows=filtered.text_rows,
            fresh=fresh,
            stored=stored if drawn is None else torch.cat([drawn, stored]),
        )

    return batch, steps_per_epoch


def _index(values: np.ndarray, draws: Draws) -> Tensor:
    return torch.from_numpy(values).to(draws.device)
