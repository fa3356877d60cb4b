"""Write a model with some of its neurons as a folder that plain open_clip loads."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from pydantic import Field

from mispair.core import settings
from mispair.evaluation.numbers_kept import Number
from mispair.towers.arms import AnyStart

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    starts: list[AnyStart] = settings.sweep(
        ["untouched"], description="Arms that are exported, each with its first seed."
    )
    ks: list[Number] | None = settings.sweep(
        None, description="Numbers of neurons that are kept; [] exports nothing, null keeps half."
    )
    strategies: list[
        Literal["high-purity", "low-purity", "random", "high-variance", "low-variance",
                "high-norm", "low-norm"]
    ] = settings.sweep(["high-purity"], description="Which neurons are kept.")  # fmt: skip
    rankings: list[Literal["text", "image", "both"]] = settings.sweep(
        ["both"], description="Towers by which neurons are ranked; random has no ranking."
    )
    seed: int = Field(
        0, ge=0, description="Seed of the strategy random; that of prune_neurons gives its draw 0."
    )
    licence: str = Field(
        "unknown", min_length=1, description="Licence of the weights, for the card."
    )


def run(
    settings: Settings, *, towers: list[Path], projection: Path, images: list[Path],
    prompts: list[Path], strategy: str, ranked_by: str, k: int, pruned: Path, record: Path,
) -> None:  # fmt: skip
    """Write the folder, and a record of its size, times and scores next to the whole model's."""
    from mispair.core import files, metrics
    from mispair.core.files import replacing_folder
    from mispair.evaluation.projections import naming, read_projections
    from mispair.evaluation.pruned_model import replace_projections, scores, sizes, write_pruned
    from mispair.evaluation.pruning import PrunableModel, kept_neurons
    from mispair.evaluation.set_files import origins, read_sets
    from mispair.towers.loading import load_towers
    from mispair.towers.model_cards import pruned_card

    arm = read_projections(projection)
    ((_, image, text),) = arm.of_seeds(1)
    sets = [one for one in read_sets(images, sorted(prompts), arm.towers) if one.labels is not None]
    with naming(f"evaluation sets with {projection}"):
        models = [PrunableModel(one, image, text) for one in sets if strategy != "random"]
    with naming("export_pruned"):
        kept = kept_neurons(models, strategy, ranked_by, k, arm.neurons, settings.seed)
    source = towers[0].parent
    frozen = load_towers(source)
    if frozen.fingerprint != arm.towers:
        raise files.UserError(f"{projection}: comes from other towers than {source}.")
    whole = [*sizes(source, frozen), *scores(sets, image, text)]
    scale = arm.tensors["logit_scale"][0]
    replace_projections(frozen.model, image[:, kept], text[:, kept], float(scale))
    keys = {"strategy": strategy, "ranked_by": ranked_by, "k": k}
    with replacing_folder(pruned) as folder:
        new = write_pruned(folder, source, frozen.model, pruned)
        both = new.image_projection.numpy(), new.text_projection.numpy()  # as the folder has them
        rest = [*sizes(folder, new), *scores(sets, *both)]
        note = {**keys, "neurons": kept.tolist(), "towers": frozen.fingerprint}
        files.write_json(folder / "pruned.json", {**note, "projection": arm.origin})
        rows = [{**keys, **row, "metric": f"reference_{row['metric']}"} for row in whole]
        rows += [{**keys, **row} for row in rest]
        card = pruned_card(source.name, note, arm.origin, rows, settings.licence)
        files.write_text(folder / "README.md", card)
    log.info("%s", card)
    metrics.write_metrics(record, rows, {"projection": arm.origin, **origins(sets)})
