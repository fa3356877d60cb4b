"""Compare every arm with the untouched projections and with fine-tuning at rate 0, in pairs.

Arms of weighted pairs are compared with the same fine-tuning without weights, too.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core import settings
from mispair.towers.arms import PRETRAINED, WEIGHTED

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)


OF_ONE_SET, OF_ALL_SETS = "acc1_difference", "acc1_difference_of_all_sets"
"""Metrics of the rows: on one evaluation set, and averaged over all of a protocol."""

SELECTION_OF_ONE_SET = "selection_difference"
SELECTION_OF_ALL_SETS = "selection_difference_of_all_sets"
"""The same where one of an image's captions is chosen."""

BEYOND_ACCURACY = "selection_difference_beyond_accuracy"
"""The difference in selection less that in accuracy, both as shares of the way from chance to 1."""


class Settings(settings.Settings):
    """`compare_arms` has no settings: every arm is compared with its references."""


@dataclass(frozen=True)
class Arm:
    """The answers of one arm: by set and protocol, and by seed, the credit for each image (n,).

    Fingerprints are of the images by set, and of the prompts by set and protocol. Chances are by
    set and protocol. Pictures (n,) are there for the sets whose captions are chosen; images with
    the same number are the same picture.
    """

    path: Path
    start: str | None
    scheme: str | None
    rate: float | None
    fingerprints: dict[str, str]
    correct: dict[tuple[str, str], dict[str, np.ndarray]]
    chances: dict[tuple[str, str], float]
    pictures: dict[str, np.ndarray]


def run(settings: Settings, *, zeroshot_answers: list[Path], comparison: Path) -> None:
    """Write differences in accuracy with intervals for every arm, set, protocol and reference."""
    from mispair.core import files, metrics
    from mispair.core.progress import Progress

    arms = [_read(path) for path in zeroshot_answers]
    for arm in arms[1:]:
        _refuse_other_questions(arms[0], arm)
    untouched = [arm for arm in arms if arm.start == "untouched"]
    if len(untouched) != 1:
        raise files.UserError(
            f"compare_arms: {len(untouched)} of the {len(arms)} files of answers are of the "
            "untouched projections; give exactly one."
        )
    # At rate 0 all schemes are the same, so there is one such arm of each start.
    controls = {arm.start: arm for arm in arms if arm.rate == 0}
    pretrained = {(arm.scheme, arm.rate): arm for arm in arms if arm.start == PRETRAINED}
    rows: list[metrics.Row] = []
    progress = Progress("comparing", len(arms), "arms")
    progress.reach(0)
    for arm in arms:
        references = {"untouched": untouched[0], "rate 0": controls.get(arm.start)}
        if arm.start == WEIGHTED:
            references["not weighted"] = pretrained.get((arm.scheme, arm.rate))
        for name, reference in references.items():
            if reference is None or reference is arm or arm is untouched[0]:
                continue
            keys = {"start": arm.start, "scheme": arm.scheme, "rate": arm.rate}
            rows += [{**keys, "reference": name, **row} for row in _rows(arm, reference)]
        progress.advance()
    progress.close()
    log.info("%d arms, %d differences", len(arms), len(rows))
    origins = {"fingerprints": arms[0].fingerprints, "settings": settings.model_dump()}
    metrics.write_metrics(comparison, rows, origins)


def _rows(arm: Arm, reference: Arm) -> list[dict[str, Any]]:
    """Return the differences of an arm on every set, on all sets of each protocol, and between."""
    pairs = {key: _paired(correct, reference.correct[key]) for key, correct in arm.correct.items()}

    def row(weights: dict[tuple[str, str], float], **keys: str) -> dict[str, Any]:
        from mispair.evaluation.paired_differences import difference

        one, second = zip(*(pairs[key] for key in weights), strict=True)
        pictures = [arm.pictures.get(name) for name, _ in weights]
        return {**keys, **vars(difference(one, second, [*weights.values()], pictures))}

    rows = []
    for name, protocol in pairs:
        metric = SELECTION_OF_ONE_SET if name in arm.pictures else OF_ONE_SET
        key = (name, protocol)
        rows.append(row({key: 1.0}, evaluation_set=name, protocol=protocol, metric=metric))
    chosen = [key for key in pairs if key[0] in arm.pictures]
    for protocol in dict.fromkeys(protocol for _, protocol in pairs):
        of_protocol = [key for key in pairs if key[1] == protocol]
        metric = SELECTION_OF_ALL_SETS if of_protocol[0] in chosen else OF_ALL_SETS
        mean = dict.fromkeys(of_protocol, 1 / len(of_protocol))
        rows.append(row(mean, protocol=protocol, metric=metric))
        if chosen and of_protocol[0] not in chosen:
            weights = {key: 1 / len(chosen) / (1 - arm.chances[key]) for key in chosen}
            weights |= {key: -1 / len(of_protocol) / (1 - arm.chances[key]) for key in of_protocol}
            rows.append(row(weights, protocol=protocol, metric=BEYOND_ACCURACY))
    return rows


def _paired(
    one: dict[str, np.ndarray], reference: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the answers of the seeds that both have; a single one is compared with all."""
    import numpy as np

    if len(reference) == 1:
        return np.stack([*one.values()]), np.stack([*reference.values()])
    common = [seed for seed in one if seed in reference]
    return np.stack([one[seed] for seed in common]), np.stack([reference[seed] for seed in common])


def _read(path: Path) -> Arm:
    from mispair.core.files import read_tensors

    tensors, metadata = read_tensors(path)
    origin = json.loads(metadata["projection"])
    correct: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    pictures = {}
    for key, answers in tensors.items():
        if key.endswith("|pictures"):
            pictures[key.removesuffix("|pictures")] = answers
        elif not key.endswith("|labels"):
            name, protocol, seed = key.rsplit("|", 2)
            labels = tensors.get(f"{name}|labels")
            credit = answers if labels is None else answers == labels
            correct.setdefault((name, protocol), {})[seed] = credit
    chances = json.loads(metadata["chances"])
    rate = origin.get("rate")
    return Arm(
        path=path,
        start=origin.get("start"),
        scheme=origin.get("scheme"),
        rate=None if rate is None else float(rate),
        fingerprints=json.loads(metadata["sets"]) | json.loads(metadata["protocols"]),
        correct=correct,
        chances={key: chances["|".join(key)] for key in correct},
        pictures=pictures,
    )


def _refuse_other_questions(one: Arm, reference: Arm) -> None:
    from mispair.core.files import UserError

    ours, base = one.fingerprints, reference.fingerprints
    differing = [key for key in ours | base if ours.get(key) != base.get(key)]
    if differing:
        raise UserError(
            f"compare_arms: {one.path} and {reference.path} do not answer for the same images and "
            f"prompts ({', '.join(differing)}), so they cannot be compared in pairs. Evaluate "
            "both arms again."
        )
