"""Floating-point helpers for training: fast products, no denormal numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_ONEDNN = (
    torch.backends.mkldnn.is_available()
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
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


def times(left: Tensor, right: Tensor) -> Tensor:
    """Return ``left @ right``, by the faster of two libraries.

    PyTorch multiplies float32 matrices on a CPU by MKL, which uses AVX-512 on Intel's processors
    only. oneDNN, a part of PyTorch too, uses it on all: 230 against 100 GFLOP/s on one thread of an
    AMD EPYC with AVX-512. On one without, MKL is faster (76 against 67 GFLOP/s for large matrices,
    77 against 56 for those of a fine-tuning step). Both compute in float32; their results differ by
    rounding.

    Parameters
    ----------
    left, right : Tensor (n, k), (k, m) or (runs, n, k), (runs, k, m)
        Factors, contiguous or transposed.

    Returns
    -------
    Tensor (n, m) or (runs, n, m)
        A new tensor.
    """
    if (
        _ONEDNN
        and left.dim() == right.dim() == 2
        and not (left.requires_grad or right.requires_grad)  # it has no derivative
        and left.dtype == right.dtype == torch.float32
        and left.device.type == right.device.type == "cpu"
        and left.shape[0] * left.shape[1] * right.shape[1] >= _WORTHWHILE
    ):
        return torch.ops.mkldnn._linear_pointwise(left, right.mT, None, "none", [], "")
    return left @ right


def keep_freed_memory() -> None:
    """Have the C library keep the memory of one step for the next.

    glibc returns freed blocks as large as a batch to the system, which maps new ones page by page:
    4 ms a step. It keeps twice the largest block of up to 32 MB that was freed, so such a block is
    freed here; it is never written to, so it takes no memory. No effect with other C libraries.
    """
    torch.empty(_KEPT_BYTES, dtype=torch.uint8)
