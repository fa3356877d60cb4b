"""Models with some of their neurons, as local open_clip folders, and the savings.

A neuron is a column of both final projections. Without it the matrices are narrower, so a pruned
model is an ordinary one with a smaller ``embed_dim``.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from mispair.core import files
from mispair.core.intervals import Row
from mispair.evaluation.set_files import EncodedSet
from mispair.evaluation.zeroshot import classifier, classify, embed
from mispair.towers.loading import (
    CONFIG_NAME,
    WEIGHTS_NAME,
    Towers,
    load_towers,
    write_configuration,
)
from mispair.towers.taking_apart import take_apart

COPIED = (".gz", ".json", ".model", ".txt")
"""Endings of vocabularies, and of the files from which timm builds an image tower."""

OF_THE_WHOLE = (CONFIG_NAME, "training.json")
"""Files that are not true of a pruned model."""


QUERIES, REPEATS = 256, 5
"""Number of queries of a timed nearest-neighbour search, and of its runs."""


def replace_projections(
    model: nn.Module, image: np.ndarray, text: np.ndarray, logit_scale: float
) -> None:
    """Replace the final projections of an open_clip model, at any common width, and its scale.

    Parameters
    ----------
    model : nn.Module
        A model that `mispair.towers.taking_apart.take_apart` supports; changed in place.
    image, text : (d_image, k) and (d_text, k) arrays
        Projections; columns are the neurons.
    logit_scale : float
        Logarithm of the factor of the similarities.
    """
    visual: Any = model.visual
    _replace(visual.head if hasattr(visual, "trunk") else visual, "proj", image)
    # CLIP holds the parts of its text transformer itself; other models keep it as one module.
    _replace(getattr(model, "text", model), "text_projection", text)
    scale: Any = model.logit_scale
    scale.data.fill_(logit_scale)


def _width(model: nn.Module) -> int:
    """Return the number of neurons of a model."""
    return int(take_apart(model).image_projection.shape[1])


def _replace(owner: Any, name: str, projection: np.ndarray) -> None:
    held = getattr(owner, name)
    if isinstance(held, nn.Linear):
        held.out_features = projection.shape[1]
        held.weight = nn.Parameter(torch.tensor(projection.T), requires_grad=False)
    else:
        setattr(owner, name, nn.Parameter(torch.tensor(projection), requires_grad=False))


def write_pruned(folder: Path, source: Path, model: nn.Module, final: Path | None = None) -> Towers:
    """Write a model with replaced projections into a folder, and load it from there.

    Weights keep the number format that they have in `source` unless that changes a value.

    Parameters
    ----------
    folder : Path
        An existing folder to write to.
    source : Path
        The local open_clip folder of the model. Vocabularies and similar files are copied.
    model : nn.Module
        A model that `replace_projections` has changed.
    final : Path or None
        The later name of the folder; None if it is not renamed.

    Returns
    -------
    Towers
        The new folder as `load_towers` loads it.

    Raises
    ------
    UserError
        If open_clip cannot express the model.
    """
    for path in sorted(source.iterdir()):
        if path.is_file() and path.suffix in COPIED and path.name not in OF_THE_WHOLE:
            shutil.copyfile(path, folder / path.name)
    config = files.read_json(source / CONFIG_NAME)
    config["model_cfg"]["embed_dim"] = _width(model)
    write_configuration(folder, config, final or folder)
    with (
        safe_open(source / WEIGHTS_NAME, framework="pt") as stored,
        files.replacing(folder / WEIGHTS_NAME) as temporary,
    ):
        names = set(stored.keys())
        weights = {
            name: _narrowed(value, stored.get_tensor(name).dtype if name in names else value.dtype)
            for name, value in sorted(model.state_dict().items())
        }
        save_file(weights, temporary)
    try:
        return load_towers(folder)
    except files.UserError as error:
        raise files.UserError(
            f"{source}: cannot be pruned to {_width(model)} neurons, because another part of the "
            "model, such as an attention pooler, is as wide as its embedding, and open_clip has "
            f"one number for both ({error})"
        ) from error


def _narrowed(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a copy in another number format, or in its own if a value would change."""
    copied = value.detach().clone(memory_format=torch.contiguous_format)
    narrow = copied.to(dtype)
    return narrow if torch.equal(narrow.to(value.dtype), copied) else copied


def sizes(folder: Path, towers: Towers) -> Iterator[Row]:
    """Yield the size of the model in a folder: ``metric`` and ``value``."""
    parameters = sum(parameter.numel() for parameter in towers.model.parameters())
    yield {"metric": "parameters", "value": parameters}
    yield {"metric": "bytes", "value": (folder / WEIGHTS_NAME).stat().st_size}
    width = towers.image_projection.shape[1]
    yield {"metric": "embedding_bytes_per_image", "value": 4 * width}


def scores(sets: Iterable[EncodedSet], image: np.ndarray, text: np.ndarray) -> Iterator[Row]:
    """Yield the scores of projections on evaluation sets, and the times of searches in these.

    Parameters
    ----------
    sets : iterable of EncodedSet
        With classes.
    image, text : (d_image, k) and (d_text, k) arrays
        Projections.

    Yields
    ------
    dict
        ``metric``, ``value``, ``evaluation_set`` and, where it has one, ``protocol`` and its
        ``fingerprint``. Metrics are acc1, ``seconds_to_classify`` all images of the set, and
        ``seconds_to_search`` it for the nearest neighbour of each of at most 256 images. Times are
        in single precision, of the fastest of five runs.
    """
    for data in sets:
        keys = {"evaluation_set": data.name}
        labels = data.images.tensors["labels"]
        embeddings = embed(data.images.tensors["image_features"], image)
        single = embeddings.astype(np.float32)
        for _, prompts, metadata in data.prompts:
            of_protocol = {**keys, **{key: metadata[key] for key in ("protocol", "fingerprint")}}
            classes = classifier(prompts["prompt_features"], prompts["prompt_classes"], text)
            answers, _ = classify(embeddings, classes, labels)
            yield {"metric": "acc1", "value": (answers == labels).mean(), **of_protocol}
            seconds = _seconds(single, classes.astype(np.float32))
            yield {"metric": "seconds_to_classify", "value": seconds, **of_protocol}
        seconds = _seconds(single[:QUERIES], single)
        yield {"metric": "seconds_to_search", "value": seconds, **keys}


def _seconds(queries: np.ndarray, arguments: np.ndarray) -> float:
    """Return the seconds to find the nearest of `arguments` for every query."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        (queries @ arguments.T).argmax(axis=1)
        times.append(time.perf_counter() - started)
    return min(times)
