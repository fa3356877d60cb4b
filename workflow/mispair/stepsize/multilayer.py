"""Gradient descent on a perceptron of four layers with GELU, all stepsizes stacked, in torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mispair.core.resume import Keeper
from mispair.stepsize.data_sets import DataSet
from mispair.stepsize.descent import (
    Report,
    State,
    first_state,
    kept_steps,
    loaded,
    phase_columns,
    phases,
    steps_from,
    stop_diverged,
)

Row = dict[str, Any]
Array = NDArray[np.float64]

LOGGED = ("risk", "margin", "norm")
LAYERS = 4
"""Trainable layers: the normalised margin divides by the fourth power of the weights' norm."""


def train(
    data: DataSet,
    width: int,
    stepsizes: Sequence[float],
    steps: int,
    seed: int,
    points: int,
    keeper: Keeper[np.ndarray] | None = None,
    progress: Report = lambda step: None,
) -> list[Row]:
    """Train one network for each stepsize from the same first weights.

    Parameters
    ----------
    data : DataSet
        With a test set.
    width : int
        Neurons of each of the three hidden layers.
    stepsizes : sequence of float
        Steps on the weights; they do not depend on the width.
    steps, points : int
        T, and points of a curve that are kept.
    seed : int
        Seed of the first weights, which torch draws for linear layers. There are no biases.
    keeper : Keeper, optional
        Keeps the state now and then.
    progress : callable, optional
        Receives the next step.

    Returns
    -------
    list of dict
        Rows of ``kind`` run and curve.
    """
    inputs, labels = torch.from_numpy(data.points), torch.from_numpy(data.labels)
    test_points, test_labels = (torch.from_numpy(data.test_points),
                                torch.from_numpy(data.test_labels))  # fmt: skip
    kept = kept_steps(steps, points)
    number = {step: position for position, step in enumerate(kept.tolist())}
    state = loaded(keeper, lambda: {
        **first_state(stepsizes, steps, LOGGED),
        "accuracy": np.full((len(kept), len(stepsizes)), np.nan),
        **{f"layer{k}": w for k, w in enumerate(_start(data, width, len(stepsizes), seed))},
    })  # fmt: skip
    layers = [torch.from_numpy(state[f"layer{k}"]).requires_grad_() for k in range(LAYERS)]
    for t in steps_from(state, steps, keeper, progress):
        q = _outputs(layers, inputs) * labels
        risks = functional.softplus(-q).mean(dim=1)
        gradients = torch.autograd.grad(risks.sum(), layers)
        with torch.no_grad():
            norm = torch.as_tensor(sum(w.square().sum(dim=(1, 2)) for w in layers)).sqrt()
            state["risk"][t] = risks.numpy()
            state["margin"][t] = (q.amin(dim=1) / norm**LAYERS).numpy()
            state["norm"][t] = norm.numpy()
            if t in number:
                right = (_outputs(layers, test_points) > 0) == (test_labels > 0)
                state["accuracy"][number[t]] = right.double().mean(dim=1).numpy()
            stopped = stop_diverged(state, t, LOGGED)
            if t < steps:
                rates = torch.from_numpy(state["rates"])[:, None, None]
                for weights, gradient in zip(layers, gradients, strict=True):
                    weights -= rates * gradient
                    if stopped is not None:
                        weights[torch.from_numpy(stopped)] = 0
    return _rows(state, stepsizes, width, kept, seed)


def _start(data: DataSet, width: int, runs: int, seed: int) -> list[Array]:
    sizes = [data.points.shape[1], *[width] * (LAYERS - 1), 1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        weights = [
            torch.nn.Linear(sizes[k], sizes[k + 1], bias=False, dtype=torch.float64).weight
            for k in range(LAYERS)
        ]
    return [np.repeat(w.detach().numpy()[None], runs, axis=0) for w in weights]


def _outputs(layers: Sequence[Tensor], inputs: Tensor) -> Tensor:
    """Return the outputs (R, n) of networks with layers (R, out, in) on inputs (n, d)."""
    hidden = inputs.expand(len(layers[0]), -1, -1)
    for weights in layers[:-1]:
        hidden = functional.gelu(hidden @ weights.mT)
    return (hidden @ layers[-1].mT)[:, :, 0]


def _rows(
    state: State, stepsizes: Sequence[float], width: int, kept: NDArray[np.int64], seed: int
) -> list[Row]:
    rows: list[Row] = []
    for r, stepsize in enumerate(stepsizes):
        keys = {
            "part": "multilayer", "activation": "gelu", "width": width, "seed": seed,
            "stepsize": stepsize,
        }  # fmt: skip
        risk, margin, norm, accuracy = (
            state[name][:, r] for name in ("risk", "margin", "norm", "accuracy")
        )
        phase = phases(risk)
        rows.append({
            "kind": "run", **keys, "step_on_weights": stepsize, "steps": len(risk) - 1,
            **phase_columns(phase, int(state["diverged"][r])),
            "final_risk": float(risk[-1]), "margin_final": float(margin[-1]),
            "margin_transition": float(margin[phase.transition]), "accuracy": float(accuracy[-1]),
        })  # fmt: skip
        rows += [
            {"kind": "curve", **keys, "t": int(t), "risk": float(risk[t]),
             "margin": float(margin[t]), "norm": float(norm[t]), "accuracy": float(accuracy[k])}
            for k, t in enumerate(kept)
        ]  # fmt: skip
    return rows
