"""The verbs of ``mispair`` that are not steps of the workflow, one function for each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from mispair.command import command_parser, use_one_thread
from mispair.core.files import UserError
from mispair.verbs_emoji import fetch_emoji, join_towers, measure_regimes, pack_emoji


def plan(arguments: Sequence[str]) -> int:
    """Estimate the cost of a run before it starts; takes the options of snakemake."""
    from mispair.planning.plan import plan as planned
    from mispair.planning.rates import RATES
    from mispair.planning.table import text_of

    parser = command_parser(
        "plan",
        "Print the jobs that `snakemake` would run with the same options, and their estimated "
        "cost: time of cores and GPUs, wall time, memory and disk, from recorded benchmarks. "
        "Nothing is run. All other options and targets are Snakemake's, such as --cores 8, "
        "--configfile mine.yaml (after the targets), --workflow-profile slurm.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser.add_argument("--rates", type=Path, default=RATES, help="a file of rates of your own")
    options, of_snakemake = parser.parse_known_args(arguments)
    result = planned(of_snakemake, options.rates)
    print(json.dumps(asdict(result), indent=1) if options.json else text_of(result))
    return 0


def failures(arguments: Sequence[str]) -> int:
    """Print which jobs of the last run failed, and why."""
    from mispair.core import failures as failed

    command_parser(
        "failures",
        "Print which jobs of the last run in this folder failed, with the last lines "
        "of their logs. A run that succeeds removes them.",
    ).parse_args(arguments)
    print(failed.last())
    return 0


def retry(arguments: Sequence[str]) -> int:
    """Print the files of shard groups that have rejections of given reasons, for --forcerun.

    For reasons of images it is the list of images, on which index and features depend; for others
    it is the index, so that no image is encoded again.
    """
    from mispair.pairs.index.faults import OF_IMAGES, REASONS
    from mispair.pairs.index.index_parts import groups_rejected_for

    parser = command_parser(
        "retry",
        "Print the index files of shard groups that have rejected samples for one of "
        "the given reasons: snakemake --forcerun $(mispair retry lost-worker) reads them again.",
    )
    parser.add_argument("reasons", nargs="+", metavar="REASON", help=", ".join(sorted(REASONS)))
    tables = sorted(Path("results").glob("pairs/*/index/*.rejected.parquet"))
    reasons = set(parser.parse_args(arguments).reasons)
    # Which step found a fault is known from the table of `list_images` alone.
    unusable = {
        table: table.with_name(table.name.replace(".rejected", ".unusable")) for table in tables
    }
    known = [path for path in unusable.values() if path.is_file()]
    found = set(groups_rejected_for(reasons & OF_IMAGES, known))
    of_images = {table for table, path in unusable.items() if path in found}
    for table in groups_rejected_for(reasons, tables):
        print(table.with_name(table.name.replace(".rejected", ".images" * (table in of_images))))
    return 0


def rerun(arguments: Sequence[str]) -> int:
    """Run the step of a result again, from its .run.json, and compare the bytes."""
    from mispair.comparing import rerun as reruns
    from mispair.core import origins, registry

    parser = command_parser(
        "rerun",
        "Run the step of a result again, in a temporary folder, and compare the "
        "bytes. Start it in the folder of the run. Exit code 1: they differ.",
    )
    parser.add_argument("records", nargs="+", type=Path, metavar="RESULT.run.json")
    use_one_thread()
    code = 0
    for path in parser.parse_args(arguments).records:
        record = origins.read(path)
        if record["step"] not in registry.step_names():
            raise UserError(f"{path}: this version of mispair has no step {record['step']}.")
        module = registry.step_module(record["step"])
        faults = reruns.again(path, module, registry.job_parameters(module.run))
        code = _say(path, "the same bytes", faults, reruns.reasons(record)) or code
    return code


def verify(arguments: Sequence[str]) -> int:
    """Compare the results here with those in the run.json of a run."""
    from mispair.comparing import rerun as reruns

    parser = command_parser(
        "verify",
        "Compare the results here with those that the run.json of a run lists, "
        "such as one made elsewhere. On another type of CPU other bytes are expected, which it "
        "says. Exit code 1: some differ or are missing.",
    )
    parser.add_argument("record", type=Path, metavar="run.json")
    path = parser.parse_args(arguments).record
    return _say(path, "all results are as recorded", *reruns.differences(path))


def compare(arguments: Sequence[str]) -> int:
    """Print what changed between two runs, from data and code to verdicts and numbers."""
    from mispair.comparing.changes import changes
    from mispair.comparing.numbers import BEYOND, ONLY_A, ONLY_B, differences, printed
    from mispair.comparing.pages import html_of, text_of
    from mispair.comparing.runs import read
    from mispair.core import files

    parser = command_parser(
        "compare",
        "Print what changed from run A to run B: data, configuration, code, versions, type of CPU "
        "or GPU, verdicts, "
        "and the numbers, with their difference and whether it is beyond the intervals. Each run "
        "is given by its folder, the folder of its report, or the run.json there, with its tables. "
        "Exit code 1: a number differs beyond the intervals, or exists in one run only.",
    )
    parser.add_argument("a", type=Path, metavar="A")
    parser.add_argument("b", type=Path, metavar="B")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write all that as a page, too")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every number, too")
    options = parser.parse_args(arguments)
    a, b = read(options.a), read(options.b)
    changed, numbers = changes(a, b), differences(a.tables, b.tables)
    if options.html:
        page = html_of([*changed, *printed(numbers, 2000)], f"{a.name} and {b.name}")
        files.write_text(options.html, page)
    if options.csv:
        files.write_csv(options.csv, numbers)
    print(text_of([*changed, *printed(numbers, 30)]))
    return int(numbers["finding"].isin([BEYOND, ONLY_A, ONLY_B]).any())


def schema(arguments: Sequence[str]) -> int:
    """Print the JSON schema of config.yaml, as YAML."""
    from mispair import config

    command_parser("schema", "Print the JSON schema of config.yaml, as YAML.").parse_args(arguments)
    print(config.schema_text(), end="")
    return 0


def reference(arguments: Sequence[str]) -> int:
    """Print the reference page of config.yaml (Markdown)."""
    from mispair import config

    command_parser("reference", "Print the reference page of config.yaml.").parse_args(arguments)
    print(config.reference_text(), end="")
    return 0


def convert(arguments: Sequence[str]) -> int:
    """Write a public compositional set as an evaluation set, from local files."""
    from mispair.evaluation.converters.entries import checked
    from mispair.evaluation.converters.public_sets import SETS
    from mispair.evaluation.converters.writing import write_questions

    parser = command_parser(
        "convert",
        "Write a public compositional set as a folder in CLIP_benchmark's webdataset layout, which "
        "`evaluation_sets` takes: each picture with its true caption first. Nothing is fetched.",
    )
    parser.add_argument("name", choices=SETS, help="; ".join(
        f"{name}: {about}" for name, (_, about) in SETS.items()
    ))  # fmt: skip
    parser.add_argument("--annotations", type=Path, required=True, help="file or folder, as above")
    parser.add_argument("--images", type=Path, help="folder of the pictures")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="a new folder")
    options = parser.parse_args(arguments)
    if options.images is None and options.annotations.suffix != ".parquet":
        raise UserError("Name the folder of the pictures with --images.")
    entries = checked(SETS[options.name][0](options.annotations, options.images))
    write_questions(options.to, entries)
    often = Counter(entry.category for entry in entries)
    print(f"{options.to}: {len(entries):,} questions")
    for category, number in sorted(often.items()):
        print(f"  {category or 'without a category'}: {number:,}")
    return 0


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    verb.__name__.replace("_", "-"): verb
    for verb in (
        *(plan, failures, retry, rerun, verify, compare, convert),
        *(fetch_emoji, pack_emoji, join_towers, measure_regimes),
        *(schema, reference),
    )
}


def _say(path: Path, praise: str, faults: Sequence[str], reasons: Sequence[str]) -> int:
    print(f"{path}: {'they differ' if faults else praise}")
    for fault in faults:
        print(f"  {fault}")
    for reason in reasons:
        print(f"  not as it was: {reason}")
    return int(bool(faults))
