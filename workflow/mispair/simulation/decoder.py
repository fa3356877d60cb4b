"""The caption decoder (S2), m hidden neurons between image and caption, and its use (S3)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from mispair.core.training import AdamW, times
from mispair.simulation.encoder import Diverged, Encoders, Phases, refuse_infinite
from mispair.simulation.inputs import Coded, Dense, Inputs
from mispair.simulation.pairs import Dictionaries, LatentPairs, TrialDraws
from mispair.simulation.samples import CodedSample, FixedSample
from mispair.simulation.study import Study

# Gradient descent on a two-layer network, carried out in the span of the pairs it is fitted to.
#
# With hidden activations S = s(X Wᵀ) (n, m) the loss is ½ ‖S V − Y‖², and
#
# .. math:: ∇_W = G^T X, \quad G = s'(X W^T) ∘ (S V - Y) V^T, \qquad ∇_V = S^T S V - S^T Y,
#
# so that W never leaves W₀ + the row space of X, nor V the row spaces of V₀ and Y:
#
# .. math:: W = W_0 - D^T X, \qquad V = M V_0 + N^T Y.
#
# A step needs the coefficients D (n, m), M (m, m) and N (n, m) only, because X and Y enter it
# through
#
# .. math:: X W^T = X W_0^T - K_x D, \qquad Y V^T = Y V_0^T M^T + K_y N,
#
# where the kernels K = X Xᵀ, Y Yᵀ (n, n) and the products with W₀, V₀ are made once. That is two
# products of n × n by n × m in place of five of n × d1 by d1 × m. Results agree up to rounding. No
# basis is needed.
#
# It holds for plain gradient descent, for any number of steps and any starting weights. It does
# not hold for Adam, which rescales each coordinate by itself and so leaves the span.


def descend(
    images: Tensor,
    captions: Tensor,
    weights: Tensor,
    output: Tensor,
    activate: Callable[[Tensor, int], Tensor],
    rate: float,
    steps: int,
) -> tuple[Tensor, Tensor]:
    """Minimise half the summed squared error ‖S V − Y‖² / 2 by gradient descent.

    Parameters
    ----------
    images, captions : Tensor (n, d1), (n, d2)
        X and Y.
    weights, output : Tensor (m, d1), (m, d2)
        W and V at the start.
    activate : callable
        Returns S (n, m) for X Wᵀ (n, m) and the number of the step. It works element by element,
        and has slope one where it is not zero.
    rate : float
        Step size.

    Returns
    -------
    weights, output : Tensor
        W and V at the end.

    Raises
    ------
    Diverged
        If a coefficient is not finite after a step, naming the step.
    """
    start = times(images, weights.T)
    D, N = torch.zeros_like(start), torch.zeros_like(start)
    M = torch.eye(len(weights), dtype=start.dtype)
    of_images, of_captions = times(images, images.T), times(captions, captions.T)
    with_output, of_output = times(captions, output.T), output @ output.T
    for step in range(steps):
        S = activate(start - times(of_images, D), step)
        YV = times(with_output, M.T).add_(times(of_captions, N))
        VV = M @ (of_output @ M.T + times(with_output.T, N)) + times(N.T, YV)
        D.add_((times(S, VV) - YV).mul_(S != 0), alpha=rate)
        SS = times(S.T, S)
        M.sub_(SS @ M, alpha=rate)
        N.sub_(times(N, SS).sub_(S), alpha=rate)
        refuse_infinite(step, D, M, N)
    return weights - times(D.T, images), M @ output + times(N.T, captions)


Kind = Literal["relu", "symmetric-relu"]
Pairs = Callable[[int], tuple[Inputs, Tensor]]


@dataclass(frozen=True)
class Decoder:
    """y = U s(W x) + c.

    Attributes
    ----------
    kind : str
        ``relu``: s(a) = ReLU(a + b) with learned biases; ``symmetric-relu``:
        s(a) = ReLU(a - b) - ReLU(-a - b) with thresholds b >= 0 that are not learned, as appendix G
        presupposes.
    input_weights, input_bias : Tensor (m, d1), (m,)
        W and b.
    output_rows, output_bias : Tensor (m, d1), (d1,)
        U transposed (V in Eq. 6), which each hidden neuron adds to the caption, and c; c is zero
        except in a relu decoder.
    """

    kind: Kind
    input_weights: Tensor
    input_bias: Tensor
    output_rows: Tensor
    output_bias: Tensor

    def hidden(self, images: Inputs) -> Tensor:
        """Return the hidden activations (n, m) of images."""
        return activated(images.product(self.input_weights), self.input_bias, self.kind)

    def captions(self, hidden: Tensor) -> Tensor:
        """Return the captions (n, d1) of hidden activations (n, m)."""
        return times(hidden, self.output_rows).add_(self.output_bias)


def activated(values: Tensor, bias: Tensor, kind: Kind) -> Tensor:
    """Apply s: values W x (n, m) become activations (n, m); ``bias`` (m,) is b."""
    if kind != "symmetric-relu":
        return (values + bias).relu()
    return (values - bias).relu() - (-values - bias).relu()


def start_decoder(
    draws: TrialDraws, encoders: Encoders | None, study: Study, phases: Phases | None = None
) -> Decoder:
    """Take the decoder's weights from the encoders of S1, or draw them (Xavier) without encoders.

    Its first layer becomes W̄ and its second V̄. Biases of a ReLU are zero; thresholds of a
    symmetric one are as in `start_thresholds`, for which `phases` are those of S1.
    """
    bias = torch.zeros(study.m, dtype=draws.dtype)
    output_bias = torch.zeros(study.d1, dtype=draws.dtype)
    if encoders is not None:
        if study.decoder == "symmetric-relu":
            bias = start_thresholds(encoders, study, phases)
        weights = encoders.weights
    else:
        bound = (6 / (study.m + study.d1)) ** 0.5
        weights = torch.empty(2, study.m, study.d1, dtype=draws.dtype)
        weights.uniform_(-bound, bound, generator=draws.generator("decoder", "start"))
    return Decoder(study.decoder, weights[0].clone(), bias, weights[1].clone(), output_bias)


def start_thresholds(encoders: Encoders, study: Study, phases: Phases | None) -> Tensor:
    """Return the thresholds b (m,) that a symmetric decoder takes over from the image encoder.

    They are the encoder's at the end of S1; a relu encoder adds its bias b, so they are max(-b, 0)
    for it. With the theory's schedule b² = (|w(T2)|² - |w(T1)|²) / 2 (Eq. 115), where phases I and
    II ended at steps T1 and T2, if they did.
    """
    bias = encoders.biases[0]
    if encoders.kind != "symmetric-relu":
        return (-bias).clamp(min=0)
    if not _follows_theory(study) or phases is None or None in (phases.second, phases.third):
        return bias.clone()
    grown = phases.norms_second[0] - phases.norms_first[0]
    return (grown.clamp(min=0) / 2).sqrt().to(bias)


def fit_decoder(
    draws: TrialDraws,
    start: Decoder,
    dictionaries: Dictionaries,
    high_quality: FixedSample,
    study: Study,
) -> tuple[Decoder, float]:
    """Fit the decoder to high-quality pairs; every step uses all of them.

    Gradient descent of a symmetric ReLU on a fixed sample is carried out in the span of its
    pairs (`descend`). S_h is the sample unless `decoder_data` is one-hot; `start` is not changed.

    Returns
    -------
    decoder : Decoder
        After `study.decoder_steps` steps.
    loss : float
        L_C = |y - ŷ|² / 2, mean over pairs (Eq. 112); one-hot pairs have fresh noise.

    Raises
    ------
    Diverged
        If the loss or a weight is not finite, naming the step.
    """
    pairs: Pairs
    if study.decoder_data == "one-hot":
        n, pairs = study.d, _one_hot_pairs(draws, dictionaries, study)
    else:
        fixed = high_quality.image, high_quality.text.dense()
        n, pairs = len(high_quality.image), lambda step: fixed
    sgd_on_fixed = study.decoder_optimiser == "sgd" and study.decoder_data == "high-quality"
    # With more pairs than coordinates the kernels of the span would be the larger matrices.
    in_span = sgd_on_fixed and start.kind == "symmetric-relu" and n < study.d1
    decoder = (_fit_in_span if in_span else _fit_stepwise)(start, pairs, n, study)
    images, captions = pairs(study.decoder_steps)
    error = decoder.captions(decoder.hidden(images)) - captions
    loss = float(error.square().sum()) / (2 * n)
    weights = decoder.input_weights, decoder.output_rows
    if not math.isfinite(loss) or not all(bool(torch.isfinite(w).all()) for w in weights):
        raise Diverged(study.decoder_steps)
    return decoder, loss


def _one_hot_pairs(draws: TrialDraws, dictionaries: Dictionaries, study: Study) -> Pairs:
    """Return pairs with one active feature each; caption noise is drawn afresh at every step."""
    images = Coded(torch.eye(study.d, dtype=draws.dtype), dictionaries.image)
    std = study.std("high_quality_noise")

    def pairs(step: int) -> tuple[Inputs, Tensor]:
        noise = draws.normal(draws.generator("decoder", step), study.d, study.d1)
        return images, dictionaries.text + std * noise

    return pairs


def _follows_theory(study: Study) -> bool:
    kinds = (study.encoder, study.decoder)
    return study.bias_schedule == "theory" and kinds == ("symmetric-relu", "symmetric-relu")


def _scale(study: Study, n: int) -> float:
    """Return the factor of half the summed squared error in the loss."""
    return 1.0 if study.decoder_loss_reduction == "sum" else 2 / (n * study.d1)


def _growth(study: Study, n: int) -> float:
    """Return the factor on the thresholds after each step (Eq. 116): 1 + eta/d.

    Its eta is the step size for the mean of |y - ŷ|² / 2 over the pairs; the loss is a multiple of
    this mean.
    """
    if not _follows_theory(study):
        return 1.0
    return 1 + study.decoder_lr * _scale(study, n) * n / study.d


def _fit_in_span(start: Decoder, pairs: Pairs, n: int, study: Study) -> Decoder:
    """Descend by `descend`, with thresholds that are not learned."""
    images, captions = pairs(0)
    growth = _growth(study, n)

    def thresholds(step: int) -> Tensor:
        # The exponent is limited against overflow: at the limit every neuron is silent anyway.
        return start.input_bias * math.exp(min(step * math.log(growth), 80))

    weights, output = descend(
        images.dense(),
        captions,
        start.input_weights,
        start.output_rows,
        lambda products, step: activated(products, thresholds(step), start.kind),
        study.decoder_lr * _scale(study, n),
        study.decoder_steps,
    )
    bias = thresholds(study.decoder_steps)
    return Decoder(start.kind, weights, bias, output, start.output_bias)


def _fit_stepwise(start: Decoder, pairs: Pairs, n: int, study: Study) -> Decoder:
    """Descend by hand-derived gradients, in the space of images and captions itself."""
    W, b, U, c = (
        value.clone()
        for value in (start.input_weights, start.input_bias, start.output_rows, start.output_bias)
    )
    decoder = Decoder(start.kind, W, b, U, c)
    learns_biases = start.kind == "relu"
    trained = [U, c, W, b] if learns_biases else [U, W]
    adam = AdamW(trained, decay=0.0) if study.decoder_optimiser == "adam" else None
    scale, growth = _scale(study, n), _growth(study, n)
    for step in range(study.decoder_steps):
        images, captions = pairs(step)
        hidden = decoder.hidden(images)
        error = decoder.captions(hidden).sub_(captions)
        refuse_infinite(step, error.square().sum())
        error.mul_(scale)
        gradients = [times(hidden.T, error)]
        if learns_biases:
            gradients.append(error.sum(dim=0))
        of_hidden = times(error, U.T).mul_(hidden != 0)
        gradients.append(torch.zeros_like(W))
        images.accumulate(of_hidden, W, gradients[-1])
        if learns_biases:
            gradients.append(of_hidden.sum(dim=0))
        if adam:
            adam.step(gradients, study.decoder_lr)
        else:
            for values, gradient in zip(trained, gradients, strict=True):
                values.sub_(gradient, alpha=study.decoder_lr)
        if not learns_biases:
            b.mul_(growth)
    return decoder


# Generated captions in place of those that fit their image less well (S3).


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
    kept = text.noise_row.masked_fill(replaced, -1)
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
    codes, noise_row = inputs.codes[chosen], inputs.noise_row[chosen]
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
