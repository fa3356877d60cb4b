"""Measure by a person's labels how many captions a repair improved, and how many it harmed."""

import logging
from pathlib import Path

from mispair.core.settings import Settings

log = logging.getLogger(__name__)


def run(settings: Settings, *, sample: Path, reviewed: Path, replaced: Path) -> None:
    """Write the shares that improved (``new`` alone fits), were harmed (``old``), and neither.

    `sample` is that of draw_replaced; the labels of its pairs in their order, up to the last one,
    are a smaller sample. A pair before it without a label counts for no side.
    """
    from mispair.core import files, metrics
    from mispair.review.labels import OF_REPAIRS, read_labels
    from mispair.review.measure import interval

    table, metadata = files.read_parquet(sample)
    labels = read_labels(reviewed, "reviewed_repairs", OF_REPAIRS)
    label = [labels.get(key, ("", ""))[0] for key in table.sort_values("order")["key"]]
    shown = max((nth for nth, of in enumerate(label, 1) if of), default=0)
    rows = [{"metric": "compared_labels", "value": sum(map(bool, label)), "n": len(label)}]
    names = {"improved": "new", "harmed": "old", "both_fit": "both", "neither_fits": "neither"}
    for name, answer in names.items():
        share = interval([int(metadata["replaced"])], [shown], [label.count(answer)])
        rows.append({"metric": f"compared_{name}", "value": share.estimate, "n": shown,
                     "low": share.low, "high": share.high})  # fmt: skip
    if not shown:
        log.warning("reviewed_repairs: %s has no label of a pair of %s.", reviewed, sample)
    metrics.write_metrics(replaced, rows, {"replaced": int(metadata["replaced"])})
    log.info("%d labels of %d replaced captions", rows[0]["value"], len(label))
