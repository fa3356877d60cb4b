"""The caption decoder (S2): from an image to a caption, through m ReLU neurons."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mispair.simulation.data import Dictionaries, Draws
from mispair.simulation.encoder import Encoders
from mispair.simulation.study import Study


@dataclass(frozen=True)
class Decoder:
    """y = U ReLU(W x + b) + c.

    Attributes
    ----------
    input_weights : Tensor (m, d1)
        W.
    input_bias : Tensor (m,)
        b.
    output_rows : Tensor (m, d1)
        U transposed: what each hidden neuron adds to the caption.
    output_bias : Tensor (d1,)
        c.
    """

    input_weights: Tensor
    input_bias: Tensor
    output_rows: Tensor
    output_bias: Tensor

    def hidden(self, codes: Tensor, rows: Tensor) -> Tensor:
        """Return the hidden activations (n, m) of the images ``codes @ rows``."""
        return torch.addmm(self.input_bias, codes, rows @ self.input_weights.T).relu()

    def captions(self, hidden: Tensor) -> Tensor:
        """Return the captions (n, d1) of hidden activations (n, m)."""
        return torch.addmm(self.output_bias, hidden, self.output_rows)


def start_decoder(draws: Draws, encoders: Encoders | None, study: Study) -> Decoder:
    """Take the decoder's weights from the encoders, or draw them (Xavier) if there are none.

    Its first layer becomes W̄ and its second V̄ᵀ; biases are zero.
    """
    bias = torch.zeros(study.m, dtype=draws.dtype, device=draws.device)
    output_bias = torch.zeros(study.d1, dtype=draws.dtype, device=draws.device)
    if encoders is not None:
        return Decoder(encoders.weights[0].clone(), bias, encoders.weights[1].clone(), output_bias)
    bound = (6 / (study.m + study.d1)) ** 0.5
    weights = torch.empty(2, study.m, study.d1, dtype=draws.dtype, device=draws.device)
    weights.uniform_(-bound, bound, generator=draws.generator("decoder", "start"))
    return Decoder(weights[0].clone(), bias, weights[1].clone(), output_bias)


def train_decoder(
    draws: Draws, start: Decoder, dictionaries: Dictionaries, study: Study
) -> Decoder:
    """Fit the decoder to the d high-quality pairs, one active feature each.

    Every step sees all d noiseless images and their captions with noise drawn afresh, under the
    mean squared error over all coordinates and Adam.
    """
    parameters = [
        value.clone().requires_grad_()
        for value in (start.input_weights, start.input_bias, start.output_rows, start.output_bias)
    ]
    decoder = Decoder(*parameters)
    codes = torch.eye(study.d, dtype=draws.dtype, device=draws.device)
    adam = torch.optim.Adam(parameters, lr=study.decoder_lr, fused=True)
    for step in range(study.decoder_epochs):
        noise = draws.normal(draws.generator("decoder", step), study.d, study.d1)
        target = dictionaries.text + study.decoder_text_noise * noise
        output = decoder.captions(decoder.hidden(codes, dictionaries.image))
        adam.zero_grad()
        torch.nn.functional.mse_loss(output, target).backward()
        adam.step()
    return Decoder(*(parameter.detach() for parameter in parameters))
