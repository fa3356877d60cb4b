"""open_clip and torchvision without transformers and torch's compiler, which cost each job seconds.

open_clip imports transformers for text towers of the hub, which `mispair.towers.loading` refuses,
and for ``CoCa.generate``, which mispair does not call. Its tokenizers of the hub import
transformers themselves when one is made. torchvision imports torch's compiler to ask whether it
supports a device, for an operation that mispair does not call; timm, to mark functions of NaFlex
models that are not to be compiled. The compiler itself is imported when something is compiled.
"""

import sys
from types import ModuleType

import torch

HIDDEN = "transformers"
COMPILER = "torch._dynamo"


def _unmarked(function, *_, **__):  # type: ignore[no-untyped-def]
    return function


def _supported(device: object) -> bool:
    return True


_hides = not {HIDDEN, "open_clip"} & sys.modules.keys()
if _hides:
    sys.modules[HIDDEN] = None  # type: ignore[assignment]  # an import of it raises ImportError
_replaces = COMPILER not in sys.modules
if _replaces:
    _utils = ModuleType(f"{COMPILER}.utils")
    _compiler = ModuleType(COMPILER)
    vars(_utils).update(is_compile_supported=_supported)
    vars(_compiler).update(utils=_utils, disable=_unmarked, __path__=[])
    sys.modules |= {COMPILER: _compiler, _utils.__name__: _utils}
    torch._dynamo = _compiler
try:
    import open_clip
    from torchvision import transforms
finally:
    if _hides:
        del sys.modules[HIDDEN]
    if _replaces:
        del sys.modules[COMPILER], sys.modules[_utils.__name__], torch._dynamo

__all__ = ["open_clip", "transforms"]
