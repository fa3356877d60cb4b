"""Generated captions in place of those that fit their image less well (S3)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from mispair.simulation.sampling.data import CodedSample, FixedSample, LatentPairs
from mispair.simulation.sampling.inputs import Dense
from mispair.simulation.training.decoder import Decoder
from mispair.simulation.training.encoder import Encoders


def compare(
    encoders: Encoders, decoder: Decoder, sample: FixedSample, factor: float
) -> tuple[Tensor, Tensor]:
    """Compare captions with generated rivals, which replace them where they fit better (S3).

    A caption y of an image x is replaced by the decoder's ŷ if
    cos(f(x), h(ŷ)) >= factor · cos(f(x), h(y)) (section 2.1). The cosine with a vector of zeros is
    zero. The results are whether each caption is replaced, (n,) of bool, and the decoder's hidden
    activations, from which it makes its captions, (n, m).
    """
    hidden = decoder.hidden(sample.image)
    of_images = encoders.features(0, Dense(sample.image.dense()))
    original, generated = (
        cosine_similarity(of_images, encoders.features(1, Dense(captions)), dim=1)
        for captions in (sample.text.dense(), decoder.captions(hidden))
    )
    return generated >= factor * original, hidden


def replaced_sample(
    sample: FixedSample, hidden: Tensor, decoder: Decoder, replaced: Tensor
) -> FixedSample:
    """Return the same images with generated captions where `replaced`.

    Captions of a coded sample stay coded, over the text dictionary, the decoder's output rows and
    its output bias. A kept caption has its latent code; a generated one has its hidden activations
    and a one for the bias. Only kept captions have noise.
    """
    if isinstance(sample.text, Dense):
        generated = decoder.captions(hidden)
        captions = torch.where(replaced[:, None], generated, sample.text.values)
        return FixedSample(sample.image, Dense(captions), sample.pairs)
    swap = replaced[:, None].to(hidden.dtype)
    text = sample.text
    kept = text.noise_row.masked_fill(replaced.cpu(), -1)
    rows = torch.cat([text.rows, decoder.output_rows, decoder.output_bias[None]])
    codes = torch.cat([text.codes * (1 - swap), hidden * swap, swap], dim=1)
    return FixedSample(sample.image, _compacted(codes, rows, text.noise, kept), sample.pairs)


def only(sample: FixedSample, chosen: Tensor) -> FixedSample:
    """Return the pairs of a sample that are `chosen`, a mask (n,)."""
    pairs = sample.pairs
    return FixedSample(
        _only(sample.image, chosen),
        _only(sample.text, chosen),
        LatentPairs(pairs.image[chosen], pairs.text[chosen], pairs.misaligned[chosen]),
    )


def _only(inputs: Dense | CodedSample, chosen: Tensor) -> Dense | CodedSample:
    if isinstance(inputs, Dense):
        return Dense(inputs.values[chosen])
    codes, noise_row = inputs.codes[chosen], inputs.noise_row[chosen.cpu()]
    return _compacted(codes, inputs.rows, inputs.noise, noise_row)


def shares(replaced: Tensor, misaligned: Tensor) -> dict[str, float]:
    """Return the replaced share of all captions, of bad and of clean ones where there are any."""
    kinds = {"": torch.ones_like(misaligned), "_bad": misaligned, "_clean": ~misaligned}
    return {
        f"replaced_share{name}": float(replaced[kind].double().mean())
        for name, kind in kinds.items()
        if bool(kind.any())
    }


def _compacted(codes: Tensor, rows: Tensor, noise: Tensor, noise_row: Tensor) -> CodedSample:
    """Leave out noise that no row has any more."""
    noisy = noise_row >= 0
    targets = torch.where(noisy, noisy.cumsum(dim=0) - 1, -1)
    return CodedSample(codes, rows, noise[noise_row[noisy]], targets)
