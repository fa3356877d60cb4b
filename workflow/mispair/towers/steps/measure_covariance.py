"""Measure how the features before the projections vary over the images and captions of a corpus."""

import logging
from pathlib import Path

from mispair.core.settings import Settings

log = logging.getLogger(__name__)

BLOCK = 4096
"""Rows of features that are held at a time."""


def run(settings: Settings, *, features: list[Path], covariance: Path) -> None:
    """Write the covariance of the image and caption features of one model.

    ``image_covariance`` and ``text_covariance`` are (d, d); metadata are ``towers`` and the numbers
    of rows.
    """
    import numpy as np
    import safetensors

    from mispair.core import files
    from mispair.towers.projection_measures import Covariance

    covariances: dict[str, Covariance] = {}
    towers: dict[str, Path] = {}
    for path in sorted(features, key=lambda path: path.name):
        _, metadata = files.read_tensors(path, only=())
        towers.setdefault(metadata.get("towers", ""), path)
        try:
            with safetensors.safe_open(path, framework="numpy") as opened:
                for name in opened.keys():  # noqa: SIM118 (it is no mapping)
                    kind = name.removesuffix("_features")
                    stored = opened.get_slice(name)
                    rows, width = stored.get_shape()
                    for start in range(0, rows, BLOCK):
                        block = np.asarray(stored[start : min(start + BLOCK, rows)])
                        covariances.setdefault(kind, Covariance(width)).add(block)
        except (OSError, safetensors.SafetensorError) as error:
            raise files.UserError(
                f"{path}: cannot be read as safetensors ({error}). Delete it and run again."
            ) from error
    if len(towers) > 1:
        raise files.UserError(
            f"measure_covariance: {' and '.join(map(str, towers.values()))} differ in towers. "
            "Delete the one that is out of date, and run again."
        )
    try:
        arrays = {f"{kind}_covariance": sample.matrix() for kind, sample in covariances.items()}
    except ValueError as error:
        raise files.UserError(f"measure_covariance: {error}.") from error
    counts = {f"{kind}_rows": str(sample.size) for kind, sample in covariances.items()}
    files.write_tensors(covariance, arrays, {"towers": next(iter(towers), ""), **counts})
    log.info("%s", ", ".join(f"{name} {number}" for name, number in counts.items()))
