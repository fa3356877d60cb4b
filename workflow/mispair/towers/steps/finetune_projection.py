"""Fine-tune both final projections on one pairing, all seeds at once, towers frozen."""

import logging
from pathlib import Path

from mispair.towers.finetuning.finetuning_settings import Settings

log = logging.getLogger(__name__)


def run(
    settings: Settings,
    *,
    start: str,
    rate: float,
    pairing: Path,
    features: list[Path],
    feature_rows: list[Path],
    untouched: Path,
    weights: list[Path],
    corpus: list[Path],
    projection: Path,
) -> None:
    """Write the fine-tuned projections of one arm, with the loss of every step.

    The file also has, for each seed, the log of the logit scale after each epoch, whether it
    converged, and the mean cosine gap of the pairs. `corpus` is read only if captions are drawn at
    each step. The first seeds that a former job ran on the same pairs are taken from it. A job that
    is killed continues from the last state in the folder next to the result,
    named as the result with ``.parts``; that folder is removed at the end.
    """
    import numpy as np

    from mispair.core import files, provenance, seeds
    from mispair.core.devices import choose_device
    from mispair.core.progress import Progress
    from mispair.core.resume import checkpoints
    from mispair.core.reuse import Parts
    from mispair.towers.finetuning import projection as towers
    from mispair.towers.finetuning.arm_inputs import fingerprints, read_arm, read_pairing
    from mispair.towers.projection_measures import converged

    table, origin = read_pairing(pairing, settings.seeds)
    described = f"{start}, {origin['scheme']}, C_m {rate:g}"
    draws = range(settings.seeds)
    streams = [seeds.integer(settings.seed, "finetune-projection", draw) for draw in draws]
    device = choose_device(settings.device)
    try:
        arm, model = read_arm(
            settings, start, table, streams,
            features=features, feature_rows=feature_rows, untouched=untouched, weights=weights,
            corpus=corpus, scratch=projection.parent,
        )  # fmt: skip
    except ValueError as error:
        raise files.UserError(f"finetune_projection ({described}): {error}.") from error
    scheduled = arm.pairs.scheduled
    prints = fingerprints(arm.data, arm.initial, arm.training, streams)
    job = [device, str(scheduled), *provenance.code_version("finetune_projection")]
    kept = Parts(projection, [projection.name, *job])
    runs: list[dict[str, np.ndarray]] = []
    for one in prints:
        if (former := kept.rows(one)) is None:
            break
        runs.append(former)
    new = slice(len(runs), settings.seeds)
    if runs:
        log.info("%s: %d of %d seeds were run before", described, len(runs), settings.seeds)
    parts_folder = projection.with_name(f"{projection.name}.parts")
    with checkpoints(parts_folder, provenance.fingerprint([*job, *prints[new]])) as parts:
        steps = towers.updates(arm.training, scheduled)
        try:
            with Progress(f"fine-tuning {described}", steps, "steps") as progress:
                if streams[new]:
                    trained = towers.finetune_in_portions(
                        arm.data.of_draws(new), arm.initial.of_seeds(new), arm.training,
                        streams[new], device, parts.keeper, progress.reach, scheduled,
                    )  # fmt: skip
                    runs.append(trained.tensors())
        except (ValueError, FloatingPointError) as error:
            raise files.UserError(f"finetune_projection ({described}): {error}.") from error
        tuned = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
        names = {"start": start, "rate": repr(rate)}
        metadata = {**model, **origin, **names, **arm.metadata(settings)}
        files.write_tensors(projection, tuned, metadata)
        kept.keep_rows({key: (seed, seed + 1) for seed, key in enumerate(prints)})
        kept.replace()
    log.info(
        "%s: loss of the first step %s, of the last %s; logit scale %s, converged %s",
        described, tuned["loss"][:, 0], tuned["loss"][:, -1], np.exp(tuned["logit_scale"]),
        converged(tuned["logit_scale_drift"], tuned["logit_scale_newton_step"]),
    )  # fmt: skip
