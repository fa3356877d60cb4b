"""Write a new caption for the picture of every pair."""

from pathlib import Path

from mispair.repair.captioners.recaption_settings import TRAINED, Settings


def run(
    settings: Settings,
    *,
    corpus: Path,
    features: list[Path],
    feature_rows: list[Path],
    trusted: list[Path],
    towers: list[Path],
    index: list[Path],
    shards: list[Path],
    sources: list[str],
    recaptions: Path,
    record: Path,
) -> None:
    """Write a caption for each pair of the corpus, or of a group of shards, and the times.

    The input files are those of `mispair.repair.captioners.runs.CaptionerFiles`. Only the captioner
    `trained` reads `features` and `trusted`. `recaptions` gets ``key``, ``caption`` (empty where
    there is a reason) and ``reason`` (null, or one of `mispair.repair.captioners.faults.REASONS`),
    sorted by key. `record` gets counts of reasons, and captions a second. A captioner of which no
    caption is usable stops the job.
    """
    from mispair.core import files
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.core.settings import command_line
    from mispair.repair.captioners import runs

    inputs = runs.CaptionerFiles(
        corpus, features, feature_rows, trusted, towers, index, shards, sources
    )
    job = [command_line(settings), *code_version("recaption_pairs"), *inputs.digests()]
    job += [] if settings.captioner == TRAINED else [runs.revision_of(settings)]
    with checkpoints(recaptions.with_name(f"{recaptions.name}.parts"), fingerprint(job)) as states:
        outcome = runs.run(settings, states, inputs)
        metadata = runs.origin(settings, outcome.revision, outcome.keys, outcome.held_out)
        files.write_parquet(recaptions, outcome.table(), metadata)
        content = runs.record(
            outcome.captions, outcome.resumed, outcome.seconds, outcome.device, **outcome.more
        )
        files.write_json(record, content)
