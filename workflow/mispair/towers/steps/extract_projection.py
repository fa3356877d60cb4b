"""Copy the final projections out of the towers: the untouched arm, and where fine-tuning starts."""

from pathlib import Path

from mispair.core.settings import Settings


def run(settings: Settings, *, towers: list[Path], projection: Path) -> None:
    """Write the projections as a stack of one seed."""
    import numpy as np

    from mispair.core import files
    from mispair.towers.loading import fingerprint, projections

    folder = towers[0].parent
    image, text, scale = projections(folder)
    tensors = {
        "image_projection": image[None],
        "text_projection": text[None],
        "logit_scale": np.array([scale], np.float32),
    }
    files.write_tensors(projection, tensors, {"start": "untouched", "towers": fingerprint(folder)})
