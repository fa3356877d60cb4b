"""Compare every arm with the untouched projections and with fine-tuning at rate 0, in pairs."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from mispair import settings

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    resamples: int = Field(10_000, ge=100, description="Bootstrap resamples of the images.")
    seed: int = Field(0, ge=0, description="Seed of the resamples.")


@dataclass(frozen=True)
class Arm:
    """The answers of one arm: whether each seed (s, n) is right, by set and protocol.

    Fingerprints are of the images by set, and of the prompts by set and protocol.
    """

    path: Path
    start: str | None
    scheme: str | None
    rate: float | None
    fingerprints: dict[str, str]
    correct: dict[tuple[str, str], np.ndarray]


def run(settings: Settings, *, zeroshot_answers: list[Path], comparison: Path) -> None:
    """Write differences in acc1 with intervals for every arm, set, protocol and reference."""
    from mispair import files, metrics, seeds
    from mispair.evaluation.paired_bootstrap import difference
    from mispair.progress import Progress

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
    rows: list[metrics.Row] = []
    progress = Progress("comparing", len(arms), "arms")
    progress.reach(0)
    for arm in arms:
        references = {"untouched": untouched[0], "rate 0": controls.get(arm.start)}
        for name, reference in references.items():
            if reference is None or reference is arm or arm is untouched[0]:
                continue
            for (of_set, protocol), correct in arm.correct.items():
                about = {"start": arm.start, "scheme": arm.scheme, "rate": arm.rate}
                about |= {"evaluation_set": of_set, "protocol": protocol, "reference": name}
                draws = seeds.generator(settings.seed, "compare-arms", *about.values())
                other = reference.correct[of_set, protocol]
                found = difference(correct, other, draws, settings.resamples)
                rows.append({**about, "metric": "acc1_difference", **vars(found)})
        progress.advance()
    progress.close()
    log.info("%d arms, %d differences", len(arms), len(rows))
    origins = {"fingerprints": arms[0].fingerprints, "settings": settings.model_dump()}
    metrics.write_metrics(comparison, rows, origins)


def _read(path: Path) -> Arm:
    import numpy as np

    from mispair.files import read_tensors

    tensors, about = read_tensors(path)
    origin = json.loads(about["projection"])
    stacks: dict[tuple[str, str], list[np.ndarray]] = {}
    for key, answers in tensors.items():
        if not key.endswith("|labels"):
            name, protocol, _ = key.rsplit("|", 2)
            right = answers == tensors[f"{name}|labels"]
            stacks.setdefault((name, protocol), []).append(right)
    rate = origin.get("rate")
    return Arm(
        path=path,
        start=origin.get("start"),
        scheme=origin.get("scheme"),
        rate=None if rate is None else float(rate),
        fingerprints=json.loads(about["sets"]) | json.loads(about["protocols"]),
        correct={key: np.stack(seeds) for key, seeds in stacks.items()},
    )


def _refuse_other_questions(one: Arm, other: Arm) -> None:
    from mispair.files import UserError

    ours, theirs = one.fingerprints, other.fingerprints
    differing = [key for key in ours | theirs if ours.get(key) != theirs.get(key)]
    if differing:
        raise UserError(
            f"compare_arms: {one.path} and {other.path} do not answer for the same images and "
            f"prompts ({', '.join(differing)}), so they cannot be compared in pairs. Evaluate "
            "both arms again."
        )
