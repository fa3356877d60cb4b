"""open_clip without transformers, whose import costs each job a second.

open_clip imports transformers for text towers of the hub, which `mispair.towers.loading` refuses,
and for ``CoCa.generate``, which mispair does not call. Its tokenizers of the hub import
transformers themselves when one is made.
"""

from __future__ import annotations

import sys

HIDDEN = "transformers"

_hides = not {HIDDEN, "open_clip"} & sys.modules.keys()
if _hides:
    sys.modules[HIDDEN] = None  # type: ignore[assignment]  # an import of it raises ImportError
try:
    import open_clip
finally:
    if _hides:
        del sys.modules[HIDDEN]

__all__ = ["open_clip"]
