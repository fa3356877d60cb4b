"""Run the frozen text tower once over every distinct caption of the corpus or of a corruption."""

from pathlib import Path

from mispair.towers.encoding_record import EncodingSettings


class Settings(EncodingSettings):
    """Settings of `encode_captions`."""


def run(
    settings: Settings,
    *,
    captions: Path,
    towers: list[Path],
    features: Path,
    rows: Path,
    record: Path,
) -> None:
    """Write pre-projection features of texts, the table of their rows, and the times."""
    from mispair.core import files
    from mispair.core.progress import Progress
    from mispair.core.reuse import Parts
    from mispair.towers.corpus_features import encode_new, feature_rows
    from mispair.towers.encoding import encoding_job

    table, _ = files.read_parquet(captions)
    texts = dict(sorted(zip(table["caption_id"], table["caption"], strict=True)))
    with encoding_job("encode_captions", settings, towers, features) as (encoder, times, parts):
        kept = Parts(features, [parts.job])
        with Progress("encoding", len(texts), "captions") as progress:
            text_features = encode_new(encoder, texts, kept, times, parts, progress.reach)
        metadata = {"towers": encoder.towers.fingerprint, "precision": settings.precision}
        files.write_parquet(rows, feature_rows("text", [*texts]), metadata)
        files.write_tensors(features, {"text_features": text_features}, metadata)
        kept.keep_named(rows)
        # Captions of the corpus may be in another part now.
        kept.finish() if captions.stem.startswith("captions-") else kept.replace()
        used = {"precision": settings.precision, "batch_size": encoder.text.smallest}
        files.write_json(record, times.finish(**used))
