"""Write a model with some of its neurons as a folder that plain open_clip loads."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mispair.core import settings
from mispair.towers.arms import AnyStart

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    starts: list[AnyStart] = settings.sweep(
        ["untouched"], description="Arms that are exported; their first seed is."
    )
    ks: list[Annotated[int, Field(ge=1)]] | None = settings.sweep(
        None,
        description="Numbers of neurons that exported models keep; [] exports nothing, null keeps "
        "half of the neurons.",
    )
    strategies: list[
        Literal[
            "high-purity",
            "low-purity",
            "random",
            "high-variance",
            "low-variance",
            "high-norm",
            "low-norm",
        ]
    ] = settings.sweep(["high-purity"], description="Which neurons are kept.")
    rankings: list[Literal["text", "image", "both"]] = settings.sweep(
        ["both"], description="Towers by which neurons are ranked; random has no ranking."
    )
    seed: int = Field(
        0, ge=0, description="Seed of the strategy random; prune_neurons' gives its first draw."
    )


def run(
    settings: Settings,
    *,
    towers: list[Path],
    projection: Path,
    images: list[Path],
    prompts: list[Path],
    strategy: str,
    ranked_by: str,
    k: int,
    pruned: Path,
    record: Path,
) -> None:
    """Write the folder, and a record of what it costs and scores next to the whole model.

    A ranking by variance takes the mean over the evaluation sets, so that a model keeps the same
    neurons for all. Accuracies are those of the projections that were read from the new folder.
    """
    import numpy as np

    from mispair.core import files, metrics, seeds
    from mispair.core.folders import replacing_folder
    from mispair.evaluation.pruned_model import replace_projections, scores, sizes, write_pruned
    from mispair.evaluation.pruning import (
        RANKED,
        TOWERS,
        PrunableModel,
        order_by,
        origins,
        read_sets,
    )
    from mispair.towers.loading import load_towers

    tensors, origin = files.read_tensors(projection)
    image, text = tensors["image_projection"][0], tensors["text_projection"][0]
    neurons = image.shape[1]
    if not 1 <= k <= neurons:
        raise files.UserError(
            f"export_pruned: ks: {k} is not one of 1 to {neurons}, the neurons of {projection}."
        )
    sets = list(read_sets(images, prompts, origin.get("towers")))
    if strategy == "random":
        order = seeds.generator(settings.seed, "prune-neurons", "original", 0).permutation(neurons)
    elif strategy not in RANKED or ranked_by not in TOWERS:
        choices = f"{', '.join(RANKED)} by {', '.join(TOWERS)}; or random"
        raise files.UserError(f"export_pruned: no {strategy} by {ranked_by}; there are {choices}.")
    elif not sets:
        raise files.UserError("export_pruned: evaluation_sets: has no set with classes. Add one.")
    else:
        try:
            models = [PrunableModel(one, image, text) for one in sets]
        except ValueError as error:
            raise files.UserError(f"evaluation sets with {projection}: {error}.") from error
        what = strategy.split("-")[1]
        order = order_by(strategy, np.sum([one.values(what, ranked_by) for one in models], axis=0))
    kept = np.sort(order[:k])

    source = towers[0].parent
    frozen = load_towers(source)
    if frozen.fingerprint != origin.get("towers"):
        raise files.UserError(f"{projection}: comes from other towers than {source}.")
    scores_by_prefix = {"reference_": [*sizes(source, frozen), *scores(sets, image, text)]}
    scale = float(tensors["logit_scale"][0])
    replace_projections(frozen.model, image[:, kept], text[:, kept], scale)
    keys = {"strategy": strategy, "ranked_by": ranked_by, "k": k}
    with replacing_folder(pruned) as folder:
        new = write_pruned(folder, source, frozen.model, pruned)
        of_sets = scores(sets, new.image_projection.numpy(), new.text_projection.numpy())
        scores_by_prefix[""] = [*sizes(folder, new), *of_sets]
        note = {**keys, "neurons": kept.tolist(), "towers": frozen.fingerprint}
        files.write_json(folder / "pruned.json", {**note, "projection": origin})
    rows = [
        {**keys, "metric": prefix + row.pop("metric"), **row}
        for prefix, measured in scores_by_prefix.items()
        for row in measured
    ]
    for row in rows:
        log.info("%s", ", ".join(f"{key} {value}" for key, value in row.items()))
    metrics.write_metrics(record, rows, {"projection": origin, **origins(sets)})
