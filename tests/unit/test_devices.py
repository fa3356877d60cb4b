"""Where a step computes."""

from __future__ import annotations

import pytest
import torch

from mispair.devices import choose_device
from mispair.files import UserError


@pytest.mark.parametrize("available", [True, False])
def test_auto_takes_a_gpu_where_there_is_one(monkeypatch, available: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert choose_device("auto") == ("cuda" if available else "cpu")
    assert choose_device("cpu") == "cpu"


def test_cuda_without_a_device_is_never_a_silent_cpu_run(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="cuda is not available"):
        choose_device("cuda")
