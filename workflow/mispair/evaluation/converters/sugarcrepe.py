"""SugarCrepe: pictures of COCO's validation set of 2017, each with a true and a false caption.

References
----------
.. [1] C.-Y. Hsieh, J. Zhang, Z. Ma, A. Kembhavi and R. Krishna (2023), SugarCrepe: Fixing hackable
   benchmarks for vision-language compositionality, NeurIPS.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mispair.core.files import UserError
from mispair.evaluation.converters.entries import Entry, field, picture_in, read_json

CATEGORIES = (
    "replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att",
)  # fmt: skip
"""Its seven files, each ``{id: {filename, caption, negative_caption}}``."""


def entries(annotations: Path, images: Path) -> Iterator[Entry]:
    """Yield the questions of every file in the folder `annotations`, by category.

    Raises
    ------
    UserError
        If one of the seven files is missing or has another layout.
    """
    missing = [name for name in CATEGORIES if not (annotations / f"{name}.json").is_file()]
    if missing:
        raise UserError(
            f"{annotations}: has no {', '.join(f'{name}.json' for name in missing)}. SugarCrepe "
            "has seven files; a score of fewer is not comparable."
        )
    for name in CATEGORIES:
        path = annotations / f"{name}.json"
        content = read_json(path)
        if not isinstance(content, dict):
            raise UserError(f"{path}: must hold {{id: {{filename, caption, negative_caption}}}}.")
        for key, item in content.items():
            source = f"{path}: {key}"
            yield Entry(
                source,
                picture_in(images, field(item, "filename", str, source), source),
                tuple(field(item, part, str, source) for part in ("caption", "negative_caption")),
                name.replace("_", "-"),
            )
