"""Classify the evaluation sets zero-shot with one pair of projections."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path

from mispair import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`evaluate_zeroshot` has no settings: a protocol belongs to the evaluation features."""


def run(
    settings: Settings, *, projection: Path, evaluation_features: list[Path], zeroshot: Path
) -> None:
    """Write acc1, acc5, mean per-class recall, recalls and silhouette of every set and seed."""
    from mispair import files, metrics
    from mispair.evaluation.zeroshot import classifier, embed, scores

    tensors, origin = files.read_tensors(projection)
    names = json.loads(origin.get("seeds", "null")) or range(len(tensors["image_projection"]))
    rows: list[metrics.Row] = []
    sets = {}
    for path in evaluation_features:
        data, about = files.read_tensors(path)
        classnames = json.loads(about["classnames"])
        sets[about["name"]] = about
        both = zip(names, tensors["image_projection"], tensors["text_projection"], strict=True)
        for seed, image, text in both:
            try:
                embeddings = embed(data["image_features"], image)
                classes = classifier(data["prompt_features"], text)
                found = scores(embeddings, classes, data["labels"])
            except ValueError as error:
                raise files.UserError(f"{path} with {projection}: {error}.") from error
            here = {
                "evaluation_set": about["name"],
                "seed": seed,
                "fingerprint": about["fingerprint"],
            }
            for row in found:
                if row["metric"] == "class_recall":
                    row["classname"] = classnames[row.pop("class")]
                rows.append({**here, **row})
                if row["metric"] == "silhouette" and math.isnan(row["value"]):
                    log.warning("%s: no silhouette (one class, or one image a class)", path)
                if "classname" not in row:
                    log.info("%s, seed %s: %s %.4f", path.name, seed, row["metric"], row["value"])
    metrics.write_metrics(zeroshot, rows, {"projection": origin, "evaluation_sets": sets})
