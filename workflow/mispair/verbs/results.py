"""The verbs that are used after a run: its failures, and the comparison of results."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from mispair.command import use_one_thread
from mispair.core.files import UserError
from mispair.verbs.verb import AFTER_A_RUN, verb


@verb(AFTER_A_RUN, "mispair failures")
def failures(options: Namespace) -> int:
    """Print which jobs of the last run failed, and why.

    The last lines of their logs are printed, too. A run in the same folder that succeeds removes
    them.
    """
    from mispair.core import failures as failed

    print(failed.last())
    return 0


def _of_retry(parser: ArgumentParser) -> None:
    from mispair.pairs.index.faults import REASONS

    parser.add_argument("reasons", nargs="+", metavar="REASON", help=", ".join(sorted(REASONS)))


@verb(AFTER_A_RUN, "snakemake --cores 4 --forcerun $(mispair retry lost-worker)", _of_retry)
def retry(options: Namespace) -> int:
    """Print the files of shard groups that have rejections of given reasons, for --forcerun.

    For reasons of images it is the list of images, on which index and features depend. For others
    it is the index, so that no image is encoded again. What was read of these groups is forgotten.
    """
    from mispair.core.reuse import forget
    from mispair.pairs.index.faults import OF_IMAGES
    from mispair.pairs.index.index_parts import groups_rejected_for

    tables = sorted(Path("results").glob("pairs/*/index/*.rejected.parquet"))
    reasons = set(options.reasons)
    # Which step found a fault is known from the table of `list_images` alone.
    unusable = {
        table: table.with_name(table.name.replace(".rejected", ".unusable")) for table in tables
    }
    known = [path for path in unusable.values() if path.is_file()]
    found = set(groups_rejected_for(reasons & OF_IMAGES, known))
    of_images = {table for table, path in unusable.items() if path in found}
    for table in groups_rejected_for(reasons, tables):
        images, index = (table.with_name(table.name.replace(".rejected", kind))
                         for kind in (".images", ""))  # fmt: skip
        forget(index)
        if table in of_images:
            forget(images)
        print(images if table in of_images else index)
    return 0


def _of_rerun(parser: ArgumentParser) -> None:
    parser.add_argument("records", nargs="+", type=Path, metavar="RESULT.run.json")


@verb(AFTER_A_RUN, "mispair rerun results/arms/mine/clip/untouched/purity.run.json", _of_rerun)
def rerun(options: Namespace) -> int:
    """Run the step of a result again, from its .run.json, and compare the bytes.

    It runs in a temporary folder. Start it in the folder of the run. Exit code 1: the bytes differ.
    """
    from mispair.comparing import rerun as reruns
    from mispair.core import commands, run_record

    use_one_thread()
    code = 0
    for path in options.records:
        record = run_record.read(path)
        if record["step"] not in commands.step_names():
            raise UserError(f"{path}: this version of mispair has no step {record['step']}.")
        module = commands.step_module(record["step"])
        faults = reruns.again(path, module, commands.job_parameters(module.run))
        code = _say(path, "the same bytes", faults, reruns.reasons(record)) or code
    return code


def _of_verify(parser: ArgumentParser) -> None:
    parser.add_argument("record", type=Path, metavar="run.json")


@verb(AFTER_A_RUN, "mispair verify reports/run.json", _of_verify)
def verify(options: Namespace) -> int:
    """Compare the results here with those in the run.json of a run.

    The run may have been made elsewhere. On another type of CPU other bytes are expected, which is
    stated. Exit code 1: some differ or are missing.
    """
    from mispair.comparing import rerun as reruns

    path = options.record
    return _say(path, "all results are as recorded", *reruns.differences(path))


def _of_compare(parser: ArgumentParser) -> None:
    parser.add_argument("a", type=Path, metavar="A")
    parser.add_argument("b", type=Path, metavar="B")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write all that as a page, too")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every number, too")


@verb(AFTER_A_RUN, "mispair compare runs/before runs/after --html changes.html", _of_compare)
def compare(options: Namespace) -> int:
    """Print what changed between two runs, from data and code to verdicts and numbers.

    That is data, configuration, code, versions, type of CPU or GPU, verdicts, and the numbers, with
    their difference from run A to run B and whether it is beyond the intervals.

    Each run is given by its folder, the folder of its report, or the run.json there, with its
    tables. Exit code 1: a number differs beyond the intervals, or exists in one run only.
    """
    from mispair.comparing.changes import changes, html_of, read, text_of
    from mispair.comparing.numbers import BEYOND, ONLY_A, ONLY_B, differences, printed
    from mispair.core import files

    a, b = read(options.a), read(options.b)
    changed, numbers = changes(a, b), differences(a.tables, b.tables)
    if options.html:
        page = html_of([*changed, *printed(numbers, 2000)], f"{a.name} and {b.name}")
        files.write_text(options.html, page)
    if options.csv:
        files.write_csv(options.csv, numbers)
    print(text_of([*changed, *printed(numbers, 30)]))
    return int(numbers["finding"].isin([BEYOND, ONLY_A, ONLY_B]).any())


def _of_review(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", type=Path, default=Path(), metavar="PATH",
        help="the folder of a run, or its reports/review.html. Default: this folder",
    )  # fmt: skip
    parser.add_argument(
        "--labels", type=Path, metavar="FILE", help="the CSV of labels, which is continued. "
        "Default: review.csv in the folder of the run",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="of the address. Default: a free one"
    )


@verb(AFTER_A_RUN, "mispair review mispair-photos --labels review.csv", _of_review)
def review(options: Namespace) -> int:
    """Show the page on which you label drawn pairs, and write each label into a CSV.

    It prints the address of the page, which opens on this machine alone, and runs until Ctrl-C. The
    CSV is written with each answer; its other rows and columns stay. Answers about repaired
    captions are in a second file, review-repairs.csv next to review.csv.
    """
    from mispair.review.labels import LABELS, OF_REPAIRS
    from mispair.review.server import LabelFile, page_in, serve

    page, folder = page_in(options.path)
    path = options.labels or folder / "review.csv"
    labels = {
        "captions": LabelFile(path, LABELS),
        "repairs": LabelFile(path.with_name(f"{path.stem}-repairs{path.suffix}"), OF_REPAIRS),
    }
    serve(page, labels, options.port)
    return 0


def _say(path: Path, praise: str, faults: Sequence[str], reasons: Sequence[str]) -> int:
    print(f"{path}: {'they differ' if faults else praise}")
    for fault in faults:
        print(f"  {fault}")
    for reason in reasons:
        print(f"  not as it was: {reason}")
    return int(bool(faults))
