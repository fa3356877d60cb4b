"""Number formats in which towers run, and in which their features are kept."""

from __future__ import annotations

import torch

from mispair.core.devices import Precision

COMPUTED: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
"""Format of the products inside the towers."""

STORED: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    # NumPy has no bfloat16; half precision keeps all of its digits in the range of features.
    "bf16": torch.float16,
    "fp16": torch.float16,
}
"""Format of the features on disk."""


def autocast(precision: Precision, device: str) -> torch.autocast:
    """Return the context in which towers compute in a precision.

    Norms and sums stay in single precision, as torch decides for each operation. In ``fp32``
    nothing is cast, and TF32, which keeps 10 bits of a factor's 23, is off.
    """
    if precision == "fp32":
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
    return torch.autocast(device, COMPUTED[precision], enabled=precision != "fp32")
