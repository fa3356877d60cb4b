"""A CUDA device that is none: it computes on the CPU and refuses what CUDA would refuse.

Under `FakeCuda`, a tensor on ``cuda`` holds a tensor of the CPU. Each operation is carried out on
the held tensors, so that values and control flow are real, after a check of the devices. Refused
are operands of two devices, an index on the device for a tensor of the CPU, a generator of another
device, a conversion to NumPy, and fused AdamW on parameters and gradients of unlike layout.
Counted is what makes the CPU wait for a GPU, by operator. Not covered are the numerics of cuBLAS
and cuDNN, `DataLoader` with pinned memory, and NCCL.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

CUDA = torch.device("cuda", 0)
META = torch.device("meta")
"""What C++ takes the device for."""

aten = torch.ops.aten
_COPIES = (aten._to_copy.default, aten.copy_.default)
_WAITING = {
    aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.is_nonzero, aten.equal,
    aten._unique2, aten.unique_dim, aten.unique_consecutive, aten.linalg_eigh, aten._linalg_eigh,
    aten.repeat_interleave, aten.bincount,
}  # fmt: skip
"""Operators whose result depends in shape or value on what the device has computed by then."""


class CudaTensor(torch.Tensor):
    """A tensor on the device; `held` has its values."""

    held: torch.Tensor
    device = CUDA
    is_cuda = True
    is_cpu = False

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> CudaTensor:
        # For C++ it is a meta tensor: autograd would want a stream of a CUDA tensor.
        tensor = torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(),
            dtype=held.dtype, device=torch.device("meta"),
        )  # fmt: skip
        tensor.held = held
        return tensor

    def __init__(self, held: torch.Tensor) -> None: ...

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"CudaTensor({self.held})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch declares it without `func`
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError(f"{func} of a tensor on the device outside of FakeCuda")


class FakeCuda(TorchDispatchMode):
    """Provides the device within a ``with`` block.

    Attributes
    ----------
    waits : Counter
        How often the CPU waited for the device, by operator.
    launches : int
        Number of operations on the device.
    doubles : int
        How many of them gave float64, in which most GPUs are slow.
    allocated, peak : int
        Bytes of the tensors on the device, now and at most.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        self.launches = self.doubles = self.allocated = self.peak = 0
        self._tensors: Counter[int] = Counter()

    @contextlib.contextmanager
    def installed(self) -> Iterator[FakeCuda]:
        """Provide the device, and say so to those who ask torch for one."""
        none = mock.Mock(return_value=None)
        with (
            mock.patch("torch.cuda.is_available", return_value=True),
            mock.patch("torch.cuda.get_device_name", return_value="fake"),
            mock.patch("torch.cuda.mem_get_info", return_value=(64 << 30, 80 << 30)),
            mock.patch("torch.cuda.empty_cache", none),
            mock.patch("torch.cuda.synchronize", none),
            _Methods(self),
            self,
        ):
            yield self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        on_device = [tensor for tensor in tensors if isinstance(tensor, CudaTensor)]
        wanted = kwargs.get("device")
        target = torch.device(wanted).type if wanted is not None else None
        if not on_device and target != "meta":
            return func(*args, **kwargs)
        if func in _COPIES:
            self._count_copy(func, args, kwargs, target)
        else:
            _refuse_mixture(func, tensors, on_device)
        _refuse_generator(func, kwargs.get("generator"))
        if func is aten._fused_adamw_.default:
            _refuse_unlike(*args[:4])
        if func.overloadpacket in _WAITING:
            self.waits[str(func)] += 1
        if func.overloadpacket in (aten.index, aten.index_put, aten.index_put_):
            self.waits[str(func)] += sum(
                index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
            )
        self.launches += 1
        if wanted is not None:
            kwargs["device"] = "cpu"
        if kwargs.get("pin_memory"):
            raise RuntimeError("only tensors of the CPU can be pinned")
        kwargs.pop("pin_memory", None)
        held = _held((args, kwargs))
        result = func(*held[0], **held[1])
        if target == "cpu" or func is aten._local_scalar_dense.default:
            return result
        if func is aten.copy_.default and not isinstance(args[0], CudaTensor):
            return args[0]
        return self._wrapped(func, args, kwargs, result)

    def _wrapped(self, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        """Return the tensors that were changed in place as they are, and others wrapped."""
        inputs = [one for one in tree_leaves((args, kwargs)) if isinstance(one, CudaTensor)]
        changed = {id(one.held): one for one in inputs} if func._schema.is_mutable else {}

        def wrap(value: torch.Tensor) -> torch.Tensor:
            self.doubles += value.dtype == torch.float64
            return changed[id(value)] if id(value) in changed else self._allocated(value)

        return tree_map_only(torch.Tensor, wrap, result)

    def _allocated(self, value: torch.Tensor) -> CudaTensor:
        """Wrap a tensor, and count its memory as long as any view of it exists."""
        tensor, storage = CudaTensor(value), value.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if not self._tensors[address]:
            self.allocated += size
            self.peak = max(self.peak, self.allocated)
        self._tensors[address] += 1
        weakref.finalize(tensor, self._freed, address, size)
        return tensor

    def _freed(self, address: int, size: int) -> None:
        self._tensors[address] -= 1
        if not self._tensors[address]:
            self.allocated -= size

    def _count_copy(self, func: Any, args: Any, kwargs: Any, target: str | None) -> None:
        """A copy between the devices waits, unless it comes from pinned memory and need not."""
        if func is aten.copy_.default:
            source, onto = args[1], isinstance(args[0], CudaTensor)
            asynchronous = len(args) > 2 and args[2]
        else:
            source, onto = args[0], target in ("meta", None)
            asynchronous = kwargs.get("non_blocking")
        if isinstance(source, CudaTensor) == onto:
            return
        if not (onto and asynchronous and getattr(source, "pinned", False)):
            self.waits["to the device" if onto else "from the device"] += 1


class _Methods(TorchFunctionMode):
    """What C++ answers before an operator is dispatched."""

    def __init__(self, cuda: FakeCuda) -> None:
        super().__init__()
        self.cuda = cuda

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        on_device = bool(args) and isinstance(args[0], CudaTensor)
        if func is torch.device:
            return func(*args, **kwargs)
        if func is torch.Tensor.pin_memory:
            if on_device:
                raise RuntimeError("cannot pin 'torch.cuda.FloatTensor'")
            pinned = args[0].clone()
            pinned.pinned = True
            return pinned
        if on_device and func in (torch.Tensor.numpy, torch.Tensor.__array__):
            raise TypeError("can't convert cuda:0 device type tensor to numpy; use Tensor.cpu()")
        if on_device and func is torch.Tensor.tolist:
            self.cuda.waits["tolist"] += 1
            return args[0].held.tolist()
        if func in (torch.tensor, torch.as_tensor) and _renamed(kwargs.get("device")) == META:
            return func(*args, **{**kwargs, "device": None}).to(META)
        if on_device and func is torch.Tensor.new_tensor:
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype} | kwargs).to(META)
        return func(*_renamed(args), **_renamed(kwargs))


def _renamed(tree: Any) -> Any:
    """Name the device as C++ knows it, which would look for a driver otherwise."""
    if isinstance(tree, torch.device | str) and str(tree) in ("cuda", "cuda:0"):
        return META
    if isinstance(tree, tuple):
        return tuple(map(_renamed, tree))
    return {key: _renamed(value) for key, value in tree.items()} if type(tree) is dict else tree


def _held(tree: Any) -> Any:
    return tree_map_only(CudaTensor, lambda tensor: tensor.held, tree)


def _refuse_mixture(func: Any, tensors: Any, on_device: Any) -> None:
    """Raise for operands of two devices; CUDA takes numbers (0 dimensions) and indices."""
    others = [one for one in tensors if not isinstance(one, CudaTensor) and one.dim() > 0]
    takes_indices = func.overloadpacket in (aten.index, aten.index_put, aten.index_put_)
    if on_device and others and not (takes_indices and isinstance(tensors[0], CudaTensor)):
        raise RuntimeError(
            f"{func}: Expected all tensors to be on the same device, but found at least two "
            "devices, cuda:0 and cpu!"
        )
    if on_device and tensors and not isinstance(tensors[0], CudaTensor):
        writes = func._schema.is_mutable or takes_indices
        if writes or tensors[0].dim() > 0:
            raise RuntimeError(f"{func}: tensors on cuda:0 for a tensor on cpu")


def _refuse_generator(func: Any, generator: torch.Generator | None) -> None:
    if generator is not None:
        raise RuntimeError(f"{func}: Expected a 'cuda' device type for generator but found 'cpu'")


def _refuse_unlike(parameters: Any, gradients: Any, means: Any, squares: Any) -> None:
    for group in zip(parameters, gradients, means, squares, strict=True):
        if len({(one.dtype, one.stride()) for one in group}) > 1:
            raise RuntimeError("params, grads and moments must have same dtype, device, and layout")
