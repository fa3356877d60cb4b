"""What the fine-tuning of one arm starts from, read from its files, and a digest of it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from mispair.core import files, provenance
from mispair.pairs.corruption.draws import column
from mispair.towers.features import (
    CaptionChoices,
    PairedFeatures,
    gather,
    parts_of_towers,
    read_choices,
)
from mispair.towers.finetuning.batches import fewest_kept, subset
from mispair.towers.finetuning.finetuning_settings import (
    FinetuningLength,
    Settings,
    arm,
    for_kept,
    refuse,
    resolve,
)
from mispair.towers.finetuning.projection import Projections, starting_point


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs that each of s seeds is trained on.

    Attributes
    ----------
    table : DataFrame
        The pairing.
    chosen : list of s (n,) int arrays
        Positions of the pairs in the pairing, ascending.
    scheduled : int
        Pairs that the number of steps is taken from: those before a repair dropped some.
    """

    table: pd.DataFrame
    chosen: list[np.ndarray]
    scheduled: int

    def shares(self, name: str) -> list[float]:
        """Return for each seed the share of its pairs for which a column of the pairing is true."""
        return [
            float(self.table[column(name, draw)].iloc[rows].mean())
            for draw, rows in enumerate(self.chosen)
        ]


@dataclass(frozen=True)
class ArmInputs:
    """What the fine-tuning of one arm starts from.

    Attributes
    ----------
    pairs : TrainingPairs
        The pairs of each seed.
    data : PairedFeatures
        Features of these pairs, and their weights where the arm has any.
    initial : Projections
        Where each seed starts.
    training : FinetuningLength
        Complete.
    """

    pairs: TrainingPairs
    data: PairedFeatures
    initial: Projections
    training: FinetuningLength

    def metadata(self, settings: Settings) -> dict[str, str]:
        """Return seeds, training and pairs, for the file of the fine-tuned projections.

        Shares of pairs are the means over seeds; each seed has its own pairs and swaps.
        """
        names = "swapped", "text_changed"
        shares = {f"pairs_{name}_share": self.pairs.shares(name) for name in names}
        training = asdict(self.training)
        if self.data.choices is not None:
            training["draw_captions"] = settings.draw_captions
        return {
            "seeds": json.dumps([*range(settings.seeds)]),
            "preset": settings.preset,
            "training": json.dumps(training),
            "pairs": str(self.data.pairs),
            "crops": str(self.data.crops),
            **{name: repr(float(np.mean(values))) for name, values in shares.items()},
            **{f"{name}_by_seed": json.dumps(values) for name, values in shares.items()},
        }


def read_pairing(path: Path, seeds: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """Read a pairing, which must have a draw for each seed, and its metadata.

    Raises
    ------
    UserError
        If it has fewer draws than there are seeds.
    """
    table, metadata = files.read_parquet(path)
    if column("caption_id", seeds - 1) not in table:
        raise files.UserError(
            f"finetune_projection: {path} has fewer draws of swaps than {seeds} seeds need. "
            "Delete it and run again."
        )
    return table, metadata


def read_arm(
    settings: Settings,
    start: str,
    table: pd.DataFrame,
    streams: Sequence[int],
    *,
    features: Sequence[Path],
    feature_rows: Sequence[Path],
    untouched: Path,
    weights: Sequence[Path],
    corpus: Sequence[Path],
    scratch: Path,
) -> tuple[ArmInputs, dict[str, str]]:
    """Read what an arm starts from, and the metadata of the model.

    Parameters
    ----------
    settings : Settings
        Of `finetune_projection`.
    start : str
        Start of the arm.
    table : DataFrame
        Its pairing.
    streams : sequence of int
        Seeds of new weights, one for each run.
    features, feature_rows, untouched, weights, corpus
        Files of the step.
    scratch : Path
        Folder for what does not fit into memory.

    Raises
    ------
    ValueError
        If there is no such arm, the training is impossible, or the files are of other pairs.
    """
    tensors, model = files.read_tensors(untouched)
    pairs = _training_pairs(table, settings)
    kept = len(pairs.chosen[0])
    trained = arm(start, for_kept(settings, resolve(settings, pairs.scheduled), kept))
    refuse(trained.training, kept)
    choices = _read_choices(settings, corpus, table, pairs.chosen)
    parts = parts_of_towers(features, feature_rows, model.get("towers"))
    data = gather(parts, table, pairs.chosen, choices, scratch)
    if weights:
        data = replace(data, weights=_read_weights(weights[0], pairs.chosen))
    stack = Projections.from_tensors(tensors)
    initial = starting_point(stack, streams, trained.random_norm, trained.fixed_scale)
    return ArmInputs(pairs, data, initial, trained.training), model


def _training_pairs(table: pd.DataFrame, settings: Settings) -> TrainingPairs:
    """Choose the pairs of each seed: a subset of all, without those that a repair dropped.

    Raises
    ------
    ValueError
        If the repair keeps none of the pairs of a seed.
    """
    draws = range(settings.seeds)
    chosen = [subset(len(table), settings.pairs, settings.seed, draw) for draw in draws]
    scheduled = len(chosen[0])
    if column("kept", 0) in table:
        masks = [table[column("kept", draw)].to_numpy(bool) for draw in draws]
        chosen = fewest_kept(chosen, masks, settings.seed)
    return TrainingPairs(table, chosen, scheduled)


def _read_choices(
    settings: Settings, corpus: Sequence[Path], table: pd.DataFrame, chosen: Sequence[np.ndarray]
) -> CaptionChoices | None:
    """Return the captions that pairs may have, if they are drawn at each step."""
    if settings.draw_captions == "once":
        return None
    if len(corpus) != 1:
        raise ValueError("draw_captions: each-step needs the corpus; name one file with --corpus")
    return read_choices(corpus[0], table, chosen)


def _read_weights(path: Path, chosen: Sequence[np.ndarray]) -> np.ndarray:
    """Return the weights (s, n) of the pairs of each seed; ValueError if of other pairs."""
    tensors, _ = files.read_tensors(path)
    if not np.array_equal(tensors["rows"], np.stack(chosen)):
        raise ValueError(f"{path} has the weights of other pairs; delete it and run again")
    return tensors["weights"]


ROWS_OF_MARKS = 4096
"""Rows that are summed at a time, in the processor's cache."""


def fingerprints(
    features: PairedFeatures, initial: Projections, training: FinetuningLength, seeds: Sequence[int]
) -> list[str]:
    """Return for each seed 16 hexadecimal digits that change with all that its run depends on.

    They do not depend on the other seeds, nor on the captions that only others use.
    """
    images = _marks(features.image_features).reshape(-1, features.crops)
    texts = _marks(features.text_features)
    prints = []
    for draw, seed in enumerate(seeds):
        of_seed = features.of_draws(slice(draw, draw + 1))
        image_marks = images if of_seed.image_rows is None else images[of_seed.image_rows[0]]
        arrays = [image_marks, texts[of_seed.text_rows[0]]]
        optional = of_seed.weights, of_seed.keeps_caption
        arrays += [array for array in optional if array is not None]
        if of_seed.choices is not None:
            starts, counts = of_seed.choices.starts[0], of_seed.choices.counts[0]
            offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            places = np.repeat(starts, counts) + offsets
            arrays += [counts, texts[of_seed.choices.captions[places]]]
        arrays += [initial.image[draw], initial.text[draw], initial.logit_scale[draw : draw + 1]]
        parts = [str(training), str(seed), str(features.crops)]
        for array in arrays:
            content = np.ascontiguousarray(array)
            parts += [f"{array.dtype} {array.shape}", hashlib.sha256(content.data).hexdigest()]
        prints.append(provenance.fingerprint(parts))
    return prints


def _marks(rows: np.ndarray) -> np.ndarray:
    """Return a 64-bit sum of each row, (n,) uint64, which differs where rows do.

    A digest of each draw's features would read them once a seed.
    """
    word = np.uint32 if rows.shape[1] * rows.itemsize % 4 == 0 else np.uint16
    words = np.ascontiguousarray(rows).view(word)
    factors = np.random.default_rng(0).integers(1 << 63, size=words.shape[1], dtype=np.uint64)
    marks = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), ROWS_OF_MARKS):
        block = slice(start, start + ROWS_OF_MARKS)
        marks[block] = words[block].astype(np.uint64) @ (2 * factors + 1)
    return marks
