"""Run the frozen image tower once over every image."""

from pathlib import Path

from pydantic import Field

from mispair.core import settings
from mispair.towers.encoding_record import EncodingSettings


class Settings(EncodingSettings):
    """Settings of `encode_features`."""

    crops: int = Field(
        1, ge=1, description="Views of an image: 1 is the model's own, more are random crops."
    )
    crop_scale_min: float = Field(
        0.5, gt=0, le=1, description="Smallest share of an image's area in a random crop."
    )
    seed: int = Field(0, ge=0, description="Seed of the random crops.")
    workers: int = settings.sweep(
        0,
        ge=0,
        description="Processes of a job that decode and resize for the tower; 0 suits CPUs, where "
        "other jobs fill the cores. Changes no result.",
    )


def run(
    settings: Settings,
    *,
    shards: list[Path],
    sources: list[str],
    images: Path,
    towers: list[Path],
    workers: int,
    features: Path,
    rows: Path,
    record: Path,
) -> None:
    """Write pre-projection features of a group of shards, the table of rows, and the times."""
    from mispair.core import files
    from mispair.core.progress import Progress
    from mispair.core.provenance import fingerprint
    from mispair.core.reuse import Parts
    from mispair.pairs.index.image_list import by_name
    from mispair.towers.corpus_features import ShardImages, encode_shards, feature_rows
    from mispair.towers.encoding import encoding_job
    from mispair.towers.preparation import preparation

    table, _ = files.read_parquet(images)
    job = encoding_job("encode_features", settings, towers, features)
    with job as (encoder, times, parts):
        frozen = encoder.towers
        prepare = preparation(frozen, settings.crops, settings.crop_scale_min, settings.seed)
        pictures = ShardImages(by_name(shards, sources), table, prepare, encoder.form)
        kept = Parts(features, [parts.job])
        with Progress("encoding", len(table), "images") as progress:
            image_features = encode_shards(
                encoder, pictures, parts, times, workers, progress.reach, kept
            )
        metadata = {"towers": frozen.fingerprint, "precision": settings.precision}
        metadata |= {"crops": str(settings.crops), "pairs": fingerprint(sorted(table["key"]))}
        files.write_parquet(rows, feature_rows("image", [*table["key"]], settings.crops), metadata)
        files.write_tensors(features, {"image_features": image_features.numpy()}, metadata)
        kept.keep_rows(pictures.rows_by_content())
        kept.finish()
        used = {"precision": settings.precision, "batch_size": encoder.image.smallest}
        files.write_json(record, times.finish(**used))
