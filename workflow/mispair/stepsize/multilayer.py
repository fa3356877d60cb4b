"""Gradient descent on a perceptron of four layers with GELU, all stepsizes stacked, in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mispair.stepsize.data_sets import DataSet
from mispair.stepsize.descent import RISK_STOP, STEPS_BETWEEN_LOOKS, Keeper
from mispair.stepsize.phases import phases
from mispair.stepsize.thinning import kept_steps

Row = dict[str, Any]
Array = NDArray[np.float64]

LAYERS = 4
"""Trainable layers: the normalised margin divides by the fourth power of the weights' norm."""


def train(
    data: DataSet,
    width: int,
    stepsizes: Sequence[float],
    steps: int,
    seed: int,
    points: int,
    keeper: Keeper | None = None,
    progress: Callable[[int], None] = lambda step: None,
) -> list[Row]:
    """Train one network for each stepsize from the same first weights.

    Parameters
    ----------
    data : DataSet
        What is learned, with a test set.
    width : int
        Neurons of each of the three hidden layers.
    stepsizes : sequence of float
        Steps on the weights, as they are: widths do not enter.
    steps, points : int
        T, and points of a curve that are kept.
    seed : int
        Of the first weights, which are torch's own for linear layers. There are no biases.
    keeper : Keeper, optional
        Keeps the state now and then.
    progress : callable, optional
        Told which step comes next.

    Returns
    -------
    list of dict
        Rows of ``kind`` run and curve.
    """
    inputs, labels = torch.from_numpy(data.points), torch.from_numpy(data.labels)
    tests = torch.from_numpy(data.test_points), torch.from_numpy(data.test_labels)
    kept = kept_steps(steps, points)
    shape = (steps + 1, len(stepsizes))
    state: dict[str, NDArray[Any]] = {
        name: np.array(array) for name, array in ((keeper and keeper.load()) or {}).items()
    } or {
        "risk": np.full(shape, np.nan), "margin": np.full(shape, np.nan),
        "norm": np.full(shape, np.nan), "accuracy": np.full((len(kept), shape[1]), np.nan),
        "rates": np.array(stepsizes, dtype=np.float64), "step": np.zeros((), dtype=np.int64),
        "diverged": np.full(shape[1], -1),
        **{f"layer{k}": w for k, w in enumerate(_start(data, width, shape[1], seed))},
    }  # fmt: skip
    layers = [torch.from_numpy(state[f"layer{k}"]).requires_grad_() for k in range(LAYERS)]
    begin = int(state["step"])
    for t in range(begin, steps + 1):
        progress(t)
        if keeper is not None and t > begin and t % STEPS_BETWEEN_LOOKS == 0 and keeper.due():
            state["step"][...] = t
            keeper.save(state)
        q = _outputs(layers, inputs) * labels
        risks = torch.nn.functional.softplus(-q).mean(dim=1)
        gradients = torch.autograd.grad(risks.sum(), layers)
        with torch.no_grad():
            size = sum(w.square().sum(dim=(1, 2)) for w in layers)
            norm = torch.as_tensor(size).sqrt()
            state["risk"][t] = risks.numpy()
            state["margin"][t] = (q.amin(dim=1) / norm**LAYERS).numpy()
            state["norm"][t] = norm.numpy()
            if t in kept:
                right = (_outputs(layers, tests[0]) > 0) == (tests[1] > 0)
                state["accuracy"][np.searchsorted(kept, t)] = right.double().mean(dim=1).numpy()
            lost = ~(state["risk"][t] <= RISK_STOP) & (state["diverged"] < 0)
            state["diverged"][lost] = t
            stopped = state["diverged"] >= 0
            for name in ("risk", "margin", "norm"):
                state[name][t, stopped & ~lost] = np.nan
            state["rates"][stopped] = 0
            if t < steps:
                rates = torch.from_numpy(state["rates"])[:, None, None]
                for weights, gradient in zip(layers, gradients, strict=True):
                    weights -= rates * gradient
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
        hidden = torch.nn.functional.gelu(hidden @ weights.mT)
    return (hidden @ layers[-1].mT)[:, :, 0]


def _rows(
    state: dict[str, NDArray[Any]], stepsizes: Sequence[float], width: int,
    kept: NDArray[np.int64], seed: int,
) -> list[Row]:  # fmt: skip
    rows: list[Row] = []
    for r, stepsize in enumerate(stepsizes):
        keys = {
            "part": "multilayer", "activation": "gelu", "width": width, "seed": seed,
            "stepsize": stepsize,
        }  # fmt: skip
        phase = phases(state["risk"][:, r])
        rows.append({
            "kind": "run", **keys, "step_on_weights": stepsize, "steps": len(state["risk"]) - 1,
            "rises": phase.rises, "transition": phase.transition,
            "settled": int(phase.settled), "diverged": int(state["diverged"][r]),
            "peak": phase.peak, "lowest_rise": phase.lowest_rise,
            "final_risk": float(state["risk"][-1, r]),
            "margin_final": float(state["margin"][-1, r]),
            "margin_transition": float(state["margin"][phase.transition, r]),
            "accuracy": float(state["accuracy"][-1, r]),
        })  # fmt: skip
        rows += [
            {"kind": "curve", **keys, "t": int(t), "risk": float(state["risk"][t, r]),
             "margin": float(state["margin"][t, r]), "norm": float(state["norm"][t, r]),
             "accuracy": float(state["accuracy"][k, r])}
            for k, t in enumerate(kept)
        ]  # fmt: skip
    return rows
