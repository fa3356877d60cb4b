"""Training of small networks: optimiser, loop, and a job with resume state and messages."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mispair.core.devices import is_by_intel
from mispair.core.files import UserError
from mispair.core.progress import Progress
from mispair.core.provenance import code_version, fingerprint
from mispair.core.resume import Keeper, checkpoints

# Floating-point helpers for training: fast products, no denormal numbers.

_ONEDNN = (
    torch.backends.mkldnn.is_available()
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
    and not is_by_intel()
)
_WORTHWHILE = 2**20
_KEPT_BYTES = 31 << 20


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Treat numbers below the normal range as zero on the CPU.

    The softmax of a trained model is full of them (a trailing pair's share is easily 1e-40), and
    arithmetic on them makes a step four times slower. Processors without this give the same
    results up to rounding, but more slowly.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def times(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """Return ``left @ right``, by the faster of two libraries.

    PyTorch multiplies float32 matrices on a CPU by MKL, which uses AVX-512 on Intel's processors
    only. oneDNN, a part of PyTorch too, uses it on all: 230 against 100 GFLOP/s on one thread of an
    AMD EPYC with AVX-512. On one without, MKL is faster (76 against 67 GFLOP/s for large matrices,
    77 against 56 for those of a fine-tuning step). On Intel's it is as well: at the sizes of a step
    of the simulation by 1.1 to 1.4 times, and by 3 to 5 times where a factor is small or
    transposed. Both compute in float32; their results differ by rounding.

    Parameters
    ----------
    left, right : Tensor (n, k), (k, m) or (runs, n, k), (runs, k, m)
        Factors, contiguous or transposed.
    out : Tensor (n, m) or (runs, n, m), optional
        Takes the product, and is returned; else a new tensor.
    """
    if _suits_onednn(left, right):
        product = torch.ops.mkldnn._linear_pointwise(left, right.mT, None, "none", [], "")
        return product if out is None else out.copy_(product)
    return torch.matmul(left, right, out=out)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Add `times(left, right)` to `total` in place, and return it.

    MKL adds matrices while it multiplies, without a tensor for the product. The sums are the same
    if rows of `left` are so short (a hundred numbers) that MKL does not split them.
    """
    if total.dim() != 2 or _suits_onednn(left, right):
        return total.add_(times(left, right))
    return total.addmm_(left, right)


def _suits_onednn(left: Tensor, right: Tensor) -> bool:
    return (
        _ONEDNN
        and left.dim() == right.dim() == 2
        and not (left.requires_grad or right.requires_grad)  # it has no derivative
        and left.dtype == right.dtype == torch.float32
        and left.device.type == right.device.type == "cpu"
        and left.shape[0] * left.shape[1] * right.shape[1] >= _WORTHWHILE
    )


def keep_freed_memory() -> None:
    """Have the C library keep the memory of one step for the next.

    glibc returns freed blocks as large as a batch to the system, which maps new ones page by page:
    4 ms a step. It keeps twice the largest block of up to 32 MB that was freed, so such a block is
    freed here; it is never written to, so it takes no memory. No effect with other C libraries.
    """
    torch.empty(_KEPT_BYTES, dtype=torch.uint8)


# AdamW on gradients that are derived by hand.


class AdamW:
    """AdamW of some tensors (Loshchilov and Hutter 2019, algorithm 2); without decay it is Adam.

    It calls the kernel of ``torch.optim.AdamW(fused=True)`` and not that class, whose first use
    imports torch's compiler: two seconds, more than a small job takes.

    Each step changes `tensors` in place; `betas` are the decay rates of the two moments.
    """

    def __init__(
        self, tensors: Sequence[Tensor], decay: float, betas: tuple[float, float] = (0.9, 0.999)
    ) -> None:
        self.tensors, self.decay, self.betas = list(tensors), decay, betas
        self.means = [torch.zeros_like(values) for values in self.tensors]
        self.squares = [torch.zeros_like(values) for values in self.tensors]
        device = self.tensors[0].device if self.tensors else None
        self.steps = torch.zeros((), device=device)

    def step(self, gradients: Iterable[Tensor], lr: float) -> None:
        """Do one step with the gradient of each tensor."""
        self.steps += 1
        torch._fused_adamw_(
            self.tensors, list(gradients), self.means, self.squares,
            [], [self.steps] * len(self.tensors), lr=lr, beta1=self.betas[0], beta2=self.betas[1],
            weight_decay=self.decay, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip

    def state(self, name: str = "optimiser") -> dict[str, Tensor]:
        """Return its tensors, by names that begin with `name`; each step changes them."""
        return {
            f"{name}.steps": self.steps,
            **{f"{name}.mean.{number}": values for number, values in enumerate(self.means)},
            **{f"{name}.square.{number}": values for number, values in enumerate(self.squares)},
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state, which may hold other tensors as well."""
        for name, values in self.state().items():
            values.copy_(state[name])


# The training loop of small networks: AdamW, a cosine of step sizes, clipped gradients.


@dataclass(frozen=True)
class TrainingPlan:
    """Length, step sizes, decay and clipping of a training.

    Attributes
    ----------
    steps : int
        Number of batches.
    lr, last_lr : float
        Largest step size, and its limit along a cosine.
    weight_decay, clip : float
        Decay of all parameters, and largest norm of a gradient.
    warm_up : int
        Steps in which the step size grows to that of the cosine; 0 for none.
    betas : (float, float)
        Decay rates of AdamW's two moments.
    """

    steps: int
    lr: float
    last_lr: float
    weight_decay: float
    clip: float
    warm_up: int = 0
    betas: tuple[float, float] = (0.9, 0.999)

    @classmethod
    def of(cls, settings: Any, lr: float, steps: int) -> TrainingPlan:
        """Return the plan of a step's settings, with its first step size and its length."""
        last_lr = lr * settings.last_lr_share
        return cls(steps, lr, last_lr, settings.weight_decay, settings.clip)

    def lr_at(self, step: int) -> float:
        """Return the step size of a step, counted from 0."""
        share = (1 + math.cos(math.pi * step / self.steps)) / 2
        falling = self.last_lr + (self.lr - self.last_lr) * share
        return falling * min(1.0, (step + 1) / self.warm_up) if self.warm_up else falling


LossOfStep = Callable[[int], Tensor]
"""Draws the batch of a step, counted from 0, and returns its loss. The batch depends on the step
only, so a resumed training gets the same batches."""


def train(
    model: nn.Module,
    loss_of: LossOfStep,
    plan: TrainingPlan,
    keeper: Keeper[Tensor] | None = None,
    progress: Callable[[int], None] = lambda step: None,
) -> Tensor:
    """Train a model in place; return the loss of each step.

    Parameters
    ----------
    model : Module
        All its parameters are trained.
    loss_of : callable
        Loss of a step.
    keeper : Keeper, optional
        Saves the state whenever it is due, and after the last step, as what follows in a job may
        take long. If it has one, training continues from there, to the same bytes.
    progress : callable, optional
        Receives the number of steps: before the first step of this call, and after each.

    Raises
    ------
    FloatingPointError
        If a loss is not finite, naming the step.
    """
    parameters = dict(model.named_parameters())
    device = next(iter(parameters.values())).device
    optimiser = AdamW(list(parameters.values()), plan.weight_decay, plan.betas)
    losses = torch.zeros(plan.steps, device=device)
    begin = 0
    if keeper is not None and (saved := keeper.load()) is not None:
        begin = int(saved["step"])
        losses.copy_(saved["losses"])
        with torch.no_grad():
            for name, values in parameters.items():
                values.copy_(saved[f"model.{name}"])
        optimiser.restore(saved)
    progress(begin)
    keep_freed_memory()
    # Reading a loss synchronises the GPU.
    check_every = 1 if device.type == "cpu" else 100
    with denormals_flushed():
        for step in range(begin, plan.steps):
            loss = loss_of(step)
            gradients = torch.autograd.grad(loss, list(parameters.values()))
            norm = torch.stack(torch._foreach_norm(gradients)).norm()
            shrunk = (plan.clip / (norm + 1e-6)).clamp(max=1.0)
            with torch.no_grad():
                optimiser.step(torch._foreach_mul(gradients, shrunk), plan.lr_at(step))
            losses[step] = loss.detach()
            progress(step + 1)
            last = step + 1 == plan.steps
            saves = keeper is not None and (last or keeper.due())
            if last or saves or (step + 1) % check_every == 0:
                _refuse_divergence(losses[: step + 1])
            if keeper is not None and saves:
                state = {f"model.{name}": values.detach() for name, values in parameters.items()}
                state |= optimiser.state()
                state |= {"losses": losses, "step": torch.tensor(step + 1)}
                keeper.save({name: values.clone() for name, values in state.items()})
    return losses


def _refuse_divergence(losses: Tensor) -> None:
    if not bool(losses[-1].isfinite()):
        step = int((~losses.isfinite()).nonzero()[0])
        raise FloatingPointError(f"the loss of step {step} is not finite: a smaller lr may help")


log = logging.getLogger(__name__)

Train = Callable[[nn.Module, LossOfStep, TrainingPlan], Tensor]
"""Trains a model in place and returns the loss of each step."""


@contextmanager
def training_job(step: str, label: str, job: Iterable[str], folder: Path) -> Iterator[Train]:
    """Yield the function that trains a model, from the last state of the same job if there is one.

    The states are removed when the block ends without an exception, so write results inside it.

    Parameters
    ----------
    step, label : str
        Name of the step, and of the training in log lines and errors.
    job : iterable of str
        Everything that the training depends on besides the code of the step.
    folder : Path
        Folder of the states.

    Raises
    ------
    UserError
        If the block raises a ValueError, or a loss is not finite.
    """
    with checkpoints(folder, fingerprint([*job, *code_version(step)])) as states:

        def run(model: nn.Module, loss_of: LossOfStep, plan: TrainingPlan) -> Tensor:
            with Progress(label, plan.steps, "steps") as progress:
                losses = train(model, loss_of, plan, states.keeper("training"), progress.reach)
            log.info("%s: mean of the last losses %.4f", label, losses[-100:].mean().item())
            return losses

        try:
            yield run
        except (ValueError, FloatingPointError) as error:
            raise UserError(f"{step} ({label}): {error}.") from error
