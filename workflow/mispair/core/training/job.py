"""The job of one training: its resume state, its progress, and its error messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor, nn

from mispair.core.files import UserError
from mispair.core.progress import Progress
from mispair.core.provenance import code_version, fingerprint
from mispair.core.resume import checkpoints
from mispair.core.training.loop import LossOfStep, Plan, train

log = logging.getLogger(__name__)

Train = Callable[[nn.Module, LossOfStep, Plan], Tensor]
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

        def run(model: nn.Module, loss_of: LossOfStep, plan: Plan) -> Tensor:
            with Progress(label, plan.steps, "steps") as progress:
                losses = train(model, loss_of, plan, states.keeper("training"), progress.reach)
            log.info("%s: mean of the last losses %.4f", label, losses[-100:].mean().item())
            return losses

        try:
            yield run
        except (ValueError, FloatingPointError) as error:
            raise UserError(f"{step} ({label}): {error}.") from error
