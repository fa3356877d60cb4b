"""Where a step computes, and what it is called."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mispair import cli
from mispair.core import devices
from mispair.core.devices import choose_device, device_in_use, device_name, peak_memory
from mispair.core.files import UserError


@pytest.mark.parametrize("available", [True, False])
def test_auto_takes_a_gpu_where_there_is_one(monkeypatch, available: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert choose_device("auto") == ("cuda" if available else "cpu")
    assert choose_device("cpu") == "cpu"


def test_cuda_without_a_device_is_never_a_silent_cpu_run(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="cuda is not available"):
        choose_device("cuda")


def test_a_processor_has_the_kernels_of_torch_in_its_name(monkeypatch) -> None:
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    native = device_name("cpu")
    kernels = torch.backends.cpu.get_cpu_capability().lower()
    if platform.machine() == "x86_64":
        assert native.endswith(f", {kernels})") or kernels == "default"
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert device_name("cpu").endswith(", default)")
    assert device_name("cpu") != native


def test_memory_is_counted_in_bytes_at_its_peak() -> None:
    code = (
        "from mispair.core.devices import peak_memory\n"
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


@pytest.fixture
def one_gpu(monkeypatch, tmp_path):
    """Make torch and the allocator believe in a GPU, so far without CUDA's consent."""
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(devices, "on_this_machine", lambda: [devices.Gpu("GPU-1", "GPU-1", "Card")])
    monkeypatch.setattr(devices, "LOCKS", tmp_path / "locks")
    for name in (devices.VISIBLE, devices.RESERVED):
        monkeypatch.delenv(name, raising=False)
    yield
    devices.release()


def test_a_gpu_is_reserved_before_torch_looks_for_it(monkeypatch, one_gpu) -> None:
    seen = []
    monkeypatch.setattr(
        torch.cuda,
        "is_available",
        lambda: bool(seen.append(os.environ.get(devices.VISIBLE)) or True),
    )
    assert choose_device("auto") == "cuda"
    assert seen == ["GPU-1"]
    assert device_in_use() == "Card"


def test_a_gpu_that_torch_cannot_use_is_given_back(monkeypatch, one_gpu) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == "cpu"
    assert devices.held() is None
    assert devices.VISIBLE not in os.environ
    assert device_in_use() == device_name("cpu")


def test_a_torch_without_cuda_waits_for_no_gpu(monkeypatch, one_gpu) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(devices, "reserve", lambda: pytest.fail("a GPU was reserved"))
    assert choose_device("auto") == "cpu"


def test_the_cpu_needs_no_torch() -> None:
    code = (
        "import sys; from mispair.core.devices import choose_device, device_in_use;"
        "print(choose_device('cpu'), device_in_use()); assert 'torch' not in sys.modules"
    )
    given = os.environ | {"PYTHONPATH": str(Path(devices.__file__).parents[2])}
    printed = subprocess.check_output([sys.executable, "-c", code], text=True, env=given)
    assert printed.startswith("cpu cpu (")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")])
def test_a_step_without_memory_names_the_settings_that_need_less(error, monkeypatch, capsys):
    def run_step(*_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "run_step", run_step)
    assert cli.main(["train-encoders"]) == 2
    message = capsys.readouterr().err
    assert "batch_size" in message
    assert "train_encoders" in message
    assert "Traceback" not in message
    monkeypatch.setattr(cli, "run_step", lambda *_: [][0])
    with pytest.raises(IndexError):
        cli.main(["train-encoders"])
