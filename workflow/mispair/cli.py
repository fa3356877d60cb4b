"""``mispair <step>``: run one step of the workflow by hand, as Snakemake does.

The options of a step come from two places only: its settings, and the files and wildcards that
its ``run`` function names as keyword-only parameters.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import os
import pkgutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import ValidationError

from mispair import __version__, steps
from mispair.devices import peak_memory
from mispair.files import UserError
from mispair.origins import recorded
from mispair.settings import NONE, is_list, is_optional, is_sweep, option, takes

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

VERBS_OF_THEIR_OWN = {
    "schema": "print the JSON schema of config.yaml",
    "reference": "print the reference page of config.yaml (Markdown)",
    "failures": "print which jobs of the last run failed, and why",
    "retry": "print the index files that have rejections of given reasons, for --forcerun",
    "rerun": "run the step of a result again, from its .run.json, and compare the bytes",
    "verify": "compare the results here with those in the run.json of a run",
}


def step_names() -> list[str]:
    """Return the names of all steps, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(steps.__path__))


def step_module(name: str) -> ModuleType:
    """Import the module of a step; it defines ``Settings`` and ``run``."""
    return importlib.import_module(f"mispair.steps.{name}")


def job_parameters(run: Any) -> dict[str, Any]:
    """Return the keyword-only parameters of a step's ``run`` with their types, in order."""
    hints = get_type_hints(run)
    parameters = inspect.signature(run).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}


def step_parser(name: str) -> argparse.ArgumentParser:
    """Build the command-line parser of a step."""
    module = step_module(name)
    parser = argparse.ArgumentParser(
        prog=f"mispair {name.replace('_', '-')}",
        description=(module.__doc__ or "").strip(),
        allow_abbrev=False,
    )
    job = parser.add_argument_group("files and wildcards of the job")
    for parameter, annotation in job_parameters(module.run).items():
        if get_origin(annotation) is list:
            kind, nargs = get_args(annotation)[0], "*"
        else:
            kind, nargs = get_args(annotation)[0] if is_optional(annotation) else annotation, None
        needed = not is_optional(annotation)
        job.add_argument(option(parameter), type=kind, nargs=nargs, required=needed)
    group = parser.add_argument_group("settings, as in config.yaml")
    for key, field in sorted(module.Settings.model_fields.items()):
        if is_sweep(field):
            continue
        details: dict[str, Any] = {
            "default": argparse.SUPPRESS,
            "help": f"{field.description} Default: {field.default}.".replace("%", "%%"),
        }
        if takes(field.annotation, bool):
            group.add_argument(option(key), action=argparse.BooleanOptionalAction, **details)
        elif is_list(field.annotation):
            group.add_argument(option(key), nargs="*", **details)
        else:
            group.add_argument(option(key), **details)
    return parser


def run_step(name: str, arguments: Sequence[str]) -> None:
    """Parse the options of a step, validate its settings and run it."""
    module = step_module(name)
    values = vars(step_parser(name).parse_args(arguments))
    files_and_wildcards = {key: values.pop(key) for key in job_parameters(module.run)}
    for key, value in values.items():
        if value == NONE and is_optional(module.Settings.model_fields[key].annotation):
            values[key] = None
    try:
        settings = module.Settings.model_validate(values)
    except ValidationError as error:
        from mispair.config import explain

        raise UserError(explain(error, module.Settings, "the command line")) from error
    with recorded(name, settings, files_and_wildcards):
        module.run(settings, **files_and_wildcards)


def use_one_thread() -> None:
    """Give every numerical library one thread, so that results do not depend on the core count.

    Parallel sums are added in another order on another number of threads; mispair parallelises
    over jobs instead, which is also faster for matrices of this size.
    """
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"


def usage() -> str:
    """Return the list of all verbs with one line each."""
    lines = [f"mispair {__version__}", "", "usage: mispair STEP [options]", ""]
    for name in step_names():
        summary = (step_module(name).__doc__ or "").strip().splitlines()[0]
        lines.append(f"  {name.replace('_', '-'):<22} {summary}")
    lines += [f"  {verb:<22} {summary}" for verb, summary in VERBS_OF_THEIR_OWN.items()]
    return "\n".join([*lines, "", "`mispair STEP --help` lists the options of a step."])


def print_groups_to_retry(arguments: Sequence[str]) -> None:
    """Print the index files, below ``results``, of groups with rejections of given reasons."""
    from mispair.pairs.index import REASONS
    from mispair.pairs.index_parts import groups_rejected_for

    parser = argparse.ArgumentParser(
        prog="mispair retry",
        description="Print the index files of shard groups that have rejected samples for one of "
        "the given reasons: snakemake --forcerun $(mispair retry lost-worker) reads them again.",
    )
    parser.add_argument("reasons", nargs="+", metavar="REASON", help=", ".join(sorted(REASONS)))
    tables = sorted(Path("results").glob("pairs/*/index/*.rejected.parquet"))
    for table in groups_rejected_for(parser.parse_args(arguments).reasons, tables):
        print(table.with_name(table.name.replace(".rejected", "")))


def print_failures(arguments: Sequence[str]) -> None:
    """Print what the last run told at its end, or what has failed so far in the one that runs."""
    from mispair import failures

    parser = argparse.ArgumentParser(
        prog="mispair failures",
        description="Print which jobs of the last run in this folder failed, with the last lines "
        "of their logs. A run that succeeds forgets them.",
    )
    parser.parse_args(arguments)
    print(failures.last())


def rerun(arguments: Sequence[str]) -> int:
    """Run steps again from their records, elsewhere; return 1 if any result differs."""
    from mispair import origins
    from mispair import rerun as reruns

    parser = argparse.ArgumentParser(
        prog="mispair rerun",
        description="Run the step of a result again, in a temporary folder, and compare the "
        "bytes. Start it in the folder of the run. Exit code 1: they differ.",
    )
    parser.add_argument("records", nargs="+", type=Path, metavar="RESULT.run.json")
    use_one_thread()
    code = 0
    for path in parser.parse_args(arguments).records:
        record = origins.read(path)
        if record["step"] not in step_names():
            raise UserError(f"{path}: this version of mispair has no step {record['step']}.")
        module = step_module(record["step"])
        faults = reruns.again(path, module, job_parameters(module.run))
        code = _say(path, "the same bytes", faults, reruns.reasons(record)) or code
    return code


def verify(arguments: Sequence[str]) -> int:
    """Compare the results below this folder with the record of a run; return 1 if any differs."""
    from mispair import rerun as reruns

    parser = argparse.ArgumentParser(
        prog="mispair verify",
        description="Compare the results here with those that the run.json of a run tells of, "
        "such as one made elsewhere. Exit code 1: some differ or are not there.",
    )
    parser.add_argument("record", type=Path, metavar="run.json")
    path = parser.parse_args(arguments).record
    return _say(path, "all results are as recorded", reruns.differences(path), [])


def _say(path: Path, praise: str, faults: Sequence[str], reasons: Sequence[str]) -> int:
    print(f"{path}: {'they differ' if faults else praise}")
    for fault in faults:
        print(f"  {fault}")
    for reason in reasons:
        print(f"  not as it was: {reason}")
    return int(bool(faults))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``mispair``; return the exit code: 1 for differences, 2 for user faults."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    if arguments[0] == "--version":
        print(__version__)
        return 0
    verb, name = arguments[0], arguments[0].replace("-", "_")
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        if verb == "failures":
            print_failures(arguments[1:])
        elif verb == "retry":
            print_groups_to_retry(arguments[1:])
        elif verb in ("rerun", "verify"):
            return {"rerun": rerun, "verify": verify}[verb](arguments[1:])
        elif verb in VERBS_OF_THEIR_OWN:
            from mispair import config

            print(config.schema_text() if verb == "schema" else config.reference_text(), end="")
        elif name in step_names():
            use_one_thread()
            started = time.perf_counter()
            run_step(name, arguments[1:])
            logging.getLogger(__name__).info(
                "%s took %.1f s; its peak memory was %d MB",
                verb, time.perf_counter() - started, peak_memory("cpu") // 10**6,
            )  # fmt: skip
        else:
            from mispair.config import nearest

            known = [step.replace("_", "-") for step in step_names()] + list(VERBS_OF_THEIR_OWN)
            raise UserError(f"there is no step {verb!r}.{nearest(verb, known)}\n\n{usage()}")
    except UserError as error:
        print(f"\nmispair {verb}: {error}", file=sys.stderr)
        return 2
    return 0
