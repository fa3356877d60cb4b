"""Where a step computes, and what it is called."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from mispair.devices import choose_device, device_name, peak_memory
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


def test_a_processor_is_told_from_a_gpu() -> None:
    assert device_name("cpu").startswith("cpu (")
    assert len(device_name("cpu")) > len("cpu ()")


def test_memory_is_counted_in_bytes_at_its_peak() -> None:
    code = (
        "from mispair.devices import peak_memory\n"
        "before = peak_memory('cpu')\n"
        "block = b'x' * 200_000_000\n"
        "del block\n"
        "print(before, peak_memory('cpu'))"
    )
    before, after = map(int, subprocess.check_output([sys.executable, "-c", code]).split())
    assert 2_000_000 < before < 150_000_000
    assert 150_000_000 < after - before < 250_000_000
    assert peak_memory("cpu") > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_memory_of_a_gpu() -> None:
    torch.cuda.reset_peak_memory_stats()
    block = torch.zeros(10_000_000, dtype=torch.uint8, device="cuda")
    assert peak_memory("cuda") >= block.numel()
    assert not device_name("cuda").startswith("cpu")
