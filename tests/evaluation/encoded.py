"""Encoded evaluation sets of made-up features, and the steps that read their files."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mispair.cli import main
from mispair.core import files
from mispair.evaluation.inputs import Encoded, EncodedSet


def step(name: str, **given: object) -> int:
    """Run a step by its command, with lists of files as words."""
    words = [name]
    for option, value in given.items():
        words.append("--" + option.replace("_", "-"))
        words += [str(one) for one in value] if isinstance(value, list) else [str(value)]
    return main(words)


def write_projection(path: Path, image: np.ndarray, text: np.ndarray, **metadata: str) -> None:
    """Write stacks of projections, one of each seed."""
    tensors = {"image_projection": image, "text_projection": text,
               "logit_scale": np.zeros(len(image), np.float32)}  # fmt: skip
    files.write_tensors(path, tensors, metadata)


def encoded_set(
    images: np.ndarray, labels: np.ndarray, prompts: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> EncodedSet:
    """Return the set ``one``, from the features and classes of the prompts of each protocol."""
    tensors = {"image_features": images, "labels": labels}
    return EncodedSet(
        Encoded(Path("one"), tensors, {"name": "one"}),
        [
            Encoded(
                Path(protocol),
                {"prompt_features": features, "prompt_classes": classes},
                {"protocol": protocol, "fingerprint": f"hash of {protocol}"},
            )
            for protocol, (features, classes) in prompts.items()
        ],
    )
