"""Run the frozen towers once over the images and prompts of an evaluation set."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from mispair import settings
from mispair.devices import Precision

if TYPE_CHECKING:
    from PIL import Image

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """Settings of `encode_evaluation`."""

    batch_size: int = Field(
        256, ge=1, description="Images or prompts per forward pass; halved where memory runs out."
    )
    precision: Precision = Field(
        "fp32", description="Number format in the towers; bf16 and fp16 are faster on GPUs."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where the towers run; auto takes a GPU when there is one."
    )


def run(
    settings: Settings, *, evaluation_set: list[Path], towers: list[Path], evaluation_features: Path
) -> None:
    """Write pre-projection features of images and prompts, labels, class names and templates."""
    import numpy as np

    from mispair import files
    from mispair.devices import choose_device
    from mispair.evaluation.sets import open_set
    from mispair.pairs.images import UndecodableImageError, decode_image
    from mispair.towers.encoding import encode_images, encode_texts
    from mispair.towers.encoding_record import EncodingRecord
    from mispair.towers.loading import load_towers

    opened = open_set(evaluation_set[0].parent)
    frozen = load_towers(towers[0].parent, choose_device(settings.device))
    precision, times = settings.precision, EncodingRecord(frozen.image_projection.device.type)
    labels: list[int] = []

    def images() -> Iterator[Image.Image]:
        for encoded, label in opened.samples():
            labels.append(label)
            yield decode_image(encoded)

    try:
        image_features = encode_images(frozen, images(), settings.batch_size, precision, times)
    except UndecodableImageError as error:
        raise files.UserError(
            f"{evaluation_set[0].parent}: image {len(labels) - 1} cannot be decoded ({error})."
        ) from error
    if not labels:
        raise files.UserError(f"{evaluation_set[0].parent}: holds no test image.")
    prompts = [prompt for prompts in opened.prompts for prompt in prompts]
    prompt_features = encode_texts(frozen, prompts, settings.batch_size, precision, times)
    shape = len(opened.classnames), len(opened.templates), -1
    log.info(
        "%s: %d classes, %d templates", opened.name, len(opened.classnames), len(opened.templates)
    )
    times.finish(precision=precision)
    files.write_tensors(
        evaluation_features,
        {
            "image_features": image_features,
            "labels": np.asarray(labels, np.int64),
            "prompt_features": prompt_features.reshape(shape),
        },
        {
            "name": opened.name,
            "classnames": json.dumps(opened.classnames, ensure_ascii=False),
            "templates": json.dumps(opened.templates, ensure_ascii=False),
            "fingerprint": opened.fingerprint,
            "towers": frozen.fingerprint,
            "precision": precision,
        },
    )
