"""Run small towers over the pictures of a corpus and over captions, as cached features."""

import json
from pathlib import Path

from mispair.core.settings import Settings


def run(
    settings: Settings,
    *,
    towers: Path,
    pictures: list[Path],
    corpus: list[Path],
    captions: list[Path],
    image_features: list[Path],
    image_rows: list[Path],
    text_features: Path,
    text_rows: Path,
    projection: list[Path],
) -> None:
    """Write features before the projections in the form of encode_features and encode_captions.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    towers : Path
        Small towers.
    pictures, corpus : list of Path
        The pictures of all pairs, and the kept pairs; none to encode captions alone.
    captions : list of Path
        Tables of ``caption_id`` and ``caption``.
    image_features, image_rows : list of Path
        Written for each group of shards: features, and the table of their rows.
    text_features, text_rows : Path
        Written: each distinct caption once.
    projection : list of Path
        Written, if named: both projections, as a stack of one seed.
    """
    import pandas as pd
    import torch

    from mispair.core import files, provenance
    from mispair.pretraining.data import bags, in_rows, pictures_of
    from mispair.pretraining.towers import features_of_pictures, features_of_texts, read_towers
    from mispair.towers.corpus_features import feature_rows

    torch.set_num_threads(1)
    model, _, trained = read_towers(towers)
    metadata = {"towers": provenance.file_digest(towers), "precision": "fp32"}
    if pictures:
        pairs, _ = files.read_parquet(corpus[0])
        stored = pictures_of(pictures[0], provenance.fingerprint(pairs["key"]))
        encoded = features_of_pictures(model, stored)
        groups = pairs.groupby("group").indices
        for features, rows in zip(image_features, image_rows, strict=True):
            some = groups.get(features.stem, [])
            keys, of_group = in_rows(pairs.iloc[some], encoded[some])
            files.write_parquet(rows, feature_rows("image", keys), metadata)
            files.write_tensors(features, {"image_features": of_group}, {**metadata, "crops": "1"})
    tables = [files.read_parquet(path)[0][["caption_id", "caption"]] for path in captions]
    texts = pd.concat(tables).drop_duplicates("caption_id").sort_values("caption_id")
    named = bags(texts["caption"].tolist(), json.loads(trained["words"]))
    files.write_parquet(text_rows, feature_rows("text", [*texts["caption_id"]]), metadata)
    files.write_tensors(text_features, {"text_features": features_of_texts(model, named)}, metadata)
    for path in projection:
        tensors = {
            "image_projection": model.image_projection.numpy()[None],
            "text_projection": model.text_projection.numpy()[None],
            "logit_scale": model.log_scale.reshape(1).numpy(),
        }
        files.write_tensors(path, tensors, {"start": "untouched", "towers": metadata["towers"]})
