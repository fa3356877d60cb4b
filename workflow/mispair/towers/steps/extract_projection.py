"""Copy the final projections out of the towers: the untouched arm, and where fine-tuning starts."""

from __future__ import annotations

from pathlib import Path

from mispair.core import settings


class Settings(settings.Settings):
    """`extract_projection` has no settings."""


def run(settings: Settings, *, towers: list[Path], projection: Path) -> None:
    """Write the projections as a stack of one seed."""
    import numpy as np

    from mispair.core import files
    from mispair.towers.loading import load_towers

    frozen = load_towers(towers[0].parent, "cpu")
    tensors = {
        "image_projection": frozen.image_projection.detach().float().numpy()[None],
        "text_projection": frozen.text_projection.detach().float().numpy()[None],
        "logit_scale": np.array([float(frozen.logit_scale)], np.float32),
    }
    metadata = {"start": "untouched", "towers": frozen.fingerprint}
    files.write_tensors(projection, tensors, metadata)
