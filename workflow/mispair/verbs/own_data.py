"""The verbs that run the workflow on your own data, or plan such a run."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mispair.core.files import UserError, if_of_hub
from mispair.verbs.verb import OWN_DATA, verb

COLUMNS = {
    "image_column": "the column of a table with the paths of pictures, or their bytes",
    "caption_column": "the column of a table with the captions, or a field of JSON",
    "key_column": "the column of a table with a key of each pair. Default: the path of the picture",
}
"""Settings of pairs that are names of columns, and the help of their options."""
FIXED = ("--configfile", "--directory", "-d", "--snakefile", "-s")
"""Options of Snakemake that `mispair audit` and its relatives set."""


def _of_settings(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--captions",
        metavar="TABLE",
        help="the captions of a folder of pictures, if they are elsewhere or it has several; those "
        "of tar shards are replaced",
    )
    for name, words in COLUMNS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="COLUMN", help=words)
    parser.add_argument(
        "--towers",
        metavar="NAME",
        help="the model that judges the captions: MODEL:TAG by open_clip's names, a local "
        "open_clip folder, or `shipped`. Default: ViT-B-32:laion2b_s34b_b79k",
    )
    parser.add_argument(
        "--checked",
        metavar="FILE",
        help="labels that reports/review.html saved, or keys of pairs "
        "whose captions are known to be right",
    )
    parser.add_argument(
        "--evaluate", metavar="FOLDER", nargs="+", help="sets in CLIP_benchmark's layout, for "
        "`repair` and `study`. Default: handwritten-digits",
    )  # fmt: skip


def _of_one_command(parser: ArgumentParser) -> None:
    parser.add_argument(
        "pairs",
        metavar="PATH",
        nargs="*",
        help="the pairs: a folder, files, a pattern of names, or addresses of tar shards",
    )
    _of_settings(parser)
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, help="for settings, results and the report. Default: "
        "mispair-NAME in this folder, with the name of the pairs",
    )  # fmt: skip
    parser.add_argument("--cores", metavar="N", help="processor cores. Default: all")


@verb(OWN_DATA, "mispair audit photos/ --checked checked.txt", _of_one_command, of_snakemake=True)
def audit(options: Namespace) -> int:
    """Measure how many captions of your pairs are wrong, and which.

    It writes a short configuration, mispair.yaml, into the folder of the results, runs the
    workflow there, and prints the share of wrong captions, what limits it, and the address of the
    report. The same command continues a run that was interrupted, and runs again what an edit of
    mispair.yaml or of the data changes. The data are never modified.

    Further options, after PATH, are Snakemake's, such as --dry-run.
    """
    return _one_command("audit", options)


@verb(OWN_DATA, "mispair repair photos/ --checked checked.txt", _of_one_command, of_snakemake=True)
def repair(options: Namespace) -> int:
    """Audit your pairs, and write new captions where the old ones fit badly.

    It goes on in the folder of `mispair audit` with the same PATH. results/repair has the new
    captions with a ledger, and the report what they give back.

    Further options, after PATH, are Snakemake's, such as --dry-run.
    """
    return _one_command("repair", options)


@verb(OWN_DATA, "mispair study photos/ --evaluate sets/food101", _of_one_command, of_snakemake=True)
def study(options: Namespace) -> int:
    """Measure what shuffled captions do to CLIP on your pairs, as the paper does.

    Projections are fine-tuned on your pairs with several shares of shuffled captions; the report
    has the overlap of neurons and the accuracy on evaluation sets.

    Further options, after PATH, are Snakemake's, such as --dry-run.
    """
    return _one_command("study", options)


def _of_init(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="for settings and results")
    parser.add_argument("--pairs", metavar="PATH", nargs="+", help="as of `mispair audit`")
    _of_settings(parser)


@verb(OWN_DATA, "mispair init runs/photos --pairs photos/ --towers models/clip", _of_init)
def init(options: Namespace) -> int:
    """Write a commented mispair.yaml into a folder, and run nothing.

    Without --pairs it is for generated pictures and the shipped towers, to be edited. Then
    `mispair run` in the folder runs it.
    """
    from mispair.verbs.running import SETTINGS
    from mispair.verbs.settings_file import written

    _expand(options)
    if os.path.exists(options.folder / SETTINGS):
        raise UserError(f"{options.folder / SETTINGS} exists; it is not replaced.")
    if options.pairs is None and options.towers is None:
        options.towers = "shipped"
    print(written(options.folder, "audit", _given(options)))
    return 0


@verb(OWN_DATA, "mispair run --cores 4 --dry-run", of_snakemake=True)
def run(options: Namespace) -> int:
    """Run the workflow in this folder; takes the options of snakemake.

    The workflow is that of the installed package, and the configuration mispair.yaml in this
    folder, unless --configfile names another. All cores are used, unless --cores is given. All
    options and targets are Snakemake's.
    """
    from mispair.verbs.running import SETTINGS, defaults, has_settings, run_snakemake

    if not has_settings(options.rest):
        _say(
            f"There is no {SETTINGS} in this folder and no --configfile: this is the demo, on "
            "generated pictures. `mispair init .` writes settings for your own pairs."
        )
    return run_snakemake(defaults(options.rest), options.rest)


def _of_plan(parser: ArgumentParser) -> None:
    from mispair.planning.estimates import RATES

    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser.add_argument("--rates", type=Path, default=RATES, help="a file of rates of your own")


@verb(OWN_DATA, "mispair plan --cores 8 --configfile mine.yaml", _of_plan, of_snakemake=True)
def plan(options: Namespace) -> int:
    """Estimate the cost of a run before it starts; takes the options of snakemake.

    It prints the jobs that `snakemake` would run with the same options, and their estimated cost:
    time of cores and GPUs, wall time, memory and disk, from recorded benchmarks. Nothing is run.
    All other options and targets are Snakemake's, such as --cores 8, --configfile mine.yaml (after
    the targets), --workflow-profile slurm.
    """
    from mispair.planning.plan import plan as planned
    from mispair.planning.plan import text_of
    from mispair.verbs.running import defaults

    words = options.rest
    if not any(Path(name).is_file() for name in ("Snakefile", "workflow/Snakefile")):
        words = [*defaults(words), *words]
    result = planned(words, options.rates)
    print(json.dumps(asdict(result), indent=1) if options.json else text_of(result))
    return 0


def _one_command(name: str, options: Namespace) -> int:
    """Write or continue the settings of a folder, run Snakemake there, and print the answer."""
    from mispair.planning.failed_run import report_of_this_process
    from mispair.verbs.running import SETTINGS, run_snakemake, snakefile
    from mispair.verbs.settings_file import name_of, remove_refused, written

    _expand(options)
    _refuse_fixed(name, options.rest)
    _refuse_cores(options.cores)
    if options.out is None and not options.pairs:
        raise UserError("Name the pairs: a folder, files or a pattern of names.")
    pairs = [*map(_whole, options.pairs)]
    folder = options.out or Path(f"mispair-{name_of(pairs)}")
    is_new = not os.path.exists(folder / SETTINGS)
    new_folders = [one for one in (folder, *folder.parents) if not one.exists()]
    before = os.listdir(folder) if folder.is_dir() else []
    if is_new and not options.pairs:
        raise UserError(f"{folder} has no {SETTINGS} to continue with. Name the pairs as PATH.")
    print(written(folder, name, _given(options, is_new=is_new)), file=sys.stderr)
    words = [
        f"--snakefile={snakefile()}",
        f"--directory={folder}",
        f"--configfile={folder / SETTINGS}",
    ]
    given = [*options.rest, *([f"--cores={options.cores}"] if options.cores else [])]
    code = 1
    try:
        code = run_snakemake(words, given)
    finally:
        if code and is_new and remove_refused(folder, before, new_folders):
            _say(f"{folder / SETTINGS}: removed again, since no job has run")
    page = report_of_this_process()
    if code == 0 and page is not None:
        _print_answers(page.parent)
    return code


def _expand(options: Namespace) -> None:
    """Expand ``~`` and variables, which a shell leaves in ``--out=~/a`` and within quotes."""
    from mispair.config_paths import expanded

    for name in ("pairs", "captions", "towers", "checked", "evaluate", "out", "folder"):
        word = "PATH" if name == "pairs" else f"--{name}"
        if isinstance(value := vars(options).get(name), list):
            value = [expanded(Path(), one, word) for one in value]
        elif value is not None:
            value = type(value)(expanded(Path(), str(value), word))
        if name in vars(options):
            setattr(options, name, value)


def _names_remote_shards(path: str) -> bool:
    """Return whether a path is the address of tar shards, or of a folder of them."""
    from mispair.pairs.shards.stores import is_remote

    return is_remote(path) and Path(path).suffix in ("", ".tar")


def _whole(path: str) -> str:
    """Return a path from the root, or the address of remote shards as it is."""
    return path if _names_remote_shards(path) else os.path.abspath(path)


def _given(options: Namespace, is_new: bool = True) -> dict[str, Any]:
    """Return the settings that the command line gives; the model, too, if there is no file yet."""
    from mispair.config_paths import local
    from mispair.pairs.shards.remote import refuse_secrets
    from mispair.pairs.shards.stores import is_remote
    from mispair.pairs.sources.source import refuse_address
    from mispair.towers.dag import SHIPPED
    from mispair.verbs.settings_file import default_towers, towers_of

    given: dict[str, Any] = {}
    if options.pairs:
        options.pairs = [*map(local, options.pairs)]
        for path in options.pairs:
            if is_remote(path):
                refuse_secrets(path)
            if not _names_remote_shards(path):
                refuse_address("PATH", path)
        paths = tuple(map(_whole, options.pairs))
        here = [path for path in paths if not _names_remote_shards(path)]
        _refuse_missing("PATH", [path for path in here if not set("*?[{") & set(path)])
        if len(paths) > 1:
            _refuse_other_than_shards(paths)
        given["pairs"] = paths if len(paths) > 1 else paths[0]
    if options.captions is not None:
        given |= _with_captions(given.get("pairs"), options.captions)
    if columns := {name: vars(options)[name] for name in COLUMNS if vars(options).get(name)}:
        given["pairs"] = _with_columns(given.get("pairs"), columns)
    if options.checked is not None:
        _refuse_missing("--checked", [options.checked])
        from mispair.review.labels import has_labels

        key = "reviewed" if has_labels(Path(options.checked)) else "trusted"
        given[key] = os.path.abspath(options.checked)
    if options.evaluate:
        given["sets"] = tuple(_set(name) for name in options.evaluate)
    if options.towers is not None:
        given["towers"] = towers_of(options.towers)
        if options.towers in SHIPPED and options.pairs:
            _say(
                "Warning: the shipped towers know drawn scenes only. On photographs they show that "
                "the files are read, and not which captions are wrong."
            )
    elif is_new:
        given["towers"], origin = default_towers()
        _say(f"towers: {origin}. Another one: --towers")
    return given


def _with_captions(pairs: Any, captions: str) -> dict[str, Any]:
    """Return the settings for captions of their own: of tar shards a key, of others a part."""
    from mispair.pairs.sources.place import Place
    from mispair.pairs.sources.source import is_ending, named_of

    if pairs is None:
        raise UserError("--captions: name the pairs that they belong to, too, as PATH.")
    if not is_ending(captions):
        _refuse_missing("--captions", [captions])
        captions = os.path.abspath(captions)
    if isinstance(pairs, tuple) or not os.path.exists(pairs):  # several shards, or a pattern
        return {"captions": captions}
    if Place(named_of({"path": pairs, "captions": captions})).has_shards:
        return {"captions": captions}
    return {"pairs": {"path": pairs, "captions": captions}}


def _with_columns(pairs: Any, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of pairs with names of columns."""
    path = pairs["path"] if isinstance(pairs, Mapping) else pairs
    if not isinstance(path, str) or _names_remote_shards(path):
        raise UserError(
            f"--{next(iter(columns)).replace('_', '-')}: name the table that has this column as "
            "PATH, or its folder. Tar shards have none."
        )
    return {**(pairs if isinstance(pairs, Mapping) else {"path": path}), **columns}


def _set(name: str) -> str:
    """Return the path of an evaluation set, or the name of a generated one."""
    from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS

    return name if name in EVALUATION_SETS else os.path.abspath(name)


def _print_answers(reports: Path) -> None:
    """Print what the report answers on the studies of its run."""
    from mispair.core.files import read_json
    from mispair.report.pages.content import ending

    print("", *ending(reports, read_json(reports / "run.json")["studies"]), sep="\n")


def _refuse_missing(option: str, paths: list[str]) -> None:
    for path in paths:
        if not os.path.exists(path):
            hint = if_of_hub(path, "dataset") if option == "PATH" and not Path(path).suffix else ""
            raise UserError(f"{option}: there is no file or folder {path}.{hint}")


def _refuse_other_than_shards(paths: tuple[str, ...]) -> None:
    """Refuse several paths that are not all tar shards, such as `photos/*` from a shell."""
    from mispair.pairs.sources.place import Place
    from mispair.pairs.sources.source import named_of

    for path in paths:
        if os.path.exists(path) and not Place(named_of(path)).with_ending("tar"):
            raise UserError(
                f"PATH: of several paths each has tar shards, and {path} has none. Name one folder "
                "of pictures, or the folder that has them all, one table, or several tables by a "
                "quoted pattern ('lists/*.csv')."
            )


def _refuse_cores(cores: str | None) -> None:
    if cores is not None and cores != "all" and not (cores.isdecimal() and int(cores)):
        raise UserError(f"--cores {cores}: give a number from 1, or `all`.")


def _refuse_fixed(name: str, rest: list[str]) -> None:
    """Refuse options of Snakemake that this verb sets, and that would be overridden."""
    fixed = [word for word in rest if word.split("=")[0].startswith(FIXED)]
    if fixed:
        raise UserError(
            f"{fixed[0]}: `mispair {name}` sets this itself. `mispair run` takes all options of "
            "Snakemake."
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr)
