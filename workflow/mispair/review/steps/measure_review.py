"""Measure the share of wrong captions, the model and its lists by a person's labels."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    half_width: float = Field(
        0.02, gt=0, lt=0.5,
        description="Wanted half of the interval's width: the report has the number of further "
        "labels.",
    )  # fmt: skip
    precision: float = Field(
        0.9, gt=0, lt=1,
        description="Wanted share of wrong captions among pairs that are left out: the report has "
        "the cut.",
    )  # fmt: skip


def run(
    settings: Settings, *, sample: Path, reviewed: list[Path], truth: list[Path],
    audit: list[Path], cut: float, review: Path, pairs: Path,
) -> None:  # fmt: skip
    """Write what the labels measure, and recalibrated probabilities of all pairs.

    `reviewed` is the file of labels, or none: then the known features of generated pictures
    (`truth`) answer as the person, which the provenance states (``person``: truth). `cut` is that
    of select_pairs. `pairs` has ``key``, ``caption_id`` and ``probability``, with no row where
    there are no probabilities or no labels of both kinds.
    """
    import pandas as pd
    import pyarrow.parquet as pq

    from mispair.core import files, metrics
    from mispair.review import measure
    from mispair.review.draw import read_kept
    from mispair.review.labels import FEW, LABELS, by_truth, of_sample, read_labels

    drawn, design = read_kept(sample)
    labels = read_labels(reviewed[0]) if reviewed else by_truth(drawn, truth)
    labelled, counts = of_sample(labels, drawn)
    strata, number = design["strata"], int((labelled["label"] != "").sum())
    rows = [{"metric": "checked_labels", "value": number, "n": len(drawn)}]
    rows += [{"metric": f"checked_{name}", "value": value} for name, value in counts.items()]
    rows += [{"metric": f"checked_{name}", "value": int((labelled["label"] == name).sum())}
             for name in LABELS]  # fmt: skip
    if counts["not_drawn"]:
        log.warning(
            "reviewed: %d labels of %s are of pairs that this sample does not have, so they count "
            "as chosen. The model or the corpus has changed: name a copy of the earlier "
            "sample.parquet (draw_review.kept).", counts["not_drawn"], reviewed[0],
        )  # fmt: skip
    if number < FEW:
        log.warning(
            "reviewed: %d labels are of pairs of %s, which are few. Label %d of them at least.",
            number, sample, FEW,
        )  # fmt: skip
    table = pd.DataFrame({"key": [], "caption_id": [], "probability": []})
    if number:
        rows += measure.share_rows(labelled, strata)
        more = measure.further_labels(labelled, strata, settings.half_width)
        rows.append({"metric": "checked_further", "at": settings.half_width, "value": more})
        of = measure.weighed(labelled, strata)
        about_model = measure.model_rows(of)
        rows += about_model + measure.reliability_rows(labelled, strata)
        rows += measure.cut_rows(labelled, strata, cut, settings.precision)
        if about_model and audit:
            line = measure.recalibration(of)
            columns = ["key", "caption_id", "probability"]
            table = pq.read_table(audit[0], columns=columns).to_pandas()
            table["probability"] = measure.recalibrated(table["probability"], line)
    person = "labels" if reviewed else "truth"
    origin = {"person": person, "digest": design["digest"], "seed": design["seed"]}
    files.write_parquet(pairs, table, {key: str(value) for key, value in origin.items()})
    metrics.write_metrics(review, rows, origin)
    shares = [(row["value"], row["low"], row["high"]) for row in rows
              if row["metric"] == "checked_share"]  # fmt: skip
    log.info("%d labels, wrong: %s", number, shares)
