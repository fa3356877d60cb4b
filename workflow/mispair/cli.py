"""``mispair VERB``: what people run; ``mispair STEP``: a step, as Snakemake runs it.

``mispair STEP + STEP`` runs several in one process, which imports libraries once.
"""

import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mispair import __version__
from mispair.command import run_step, use_one_thread
from mispair.core.commands import TOOK, commands, step_module, step_names
from mispair.core.cost import write_benchmark
from mispair.core.devices import is_out_of_memory, peak_memory
from mispair.core.files import UserError
from mispair.pairs.shards.stores import redacted
from mispair.verbs import own_data, program, results, sets_and_models  # noqa: F401, they declare
from mispair.verbs.verb import GROUPS, VERBS

INTERRUPTED, CLOSED_PIPE = 130, 141
"""Exit codes after Ctrl-C and for a closed output pipe, as in shells."""


def usage() -> str:
    """Return the list of all verbs with one line each, by group."""
    lines = [f"mispair {__version__}", "", "usage: mispair VERB [options]"]
    for group in GROUPS:
        lines += ["", f"{group}:"]
        lines += [
            f"  {verb.name:<15} {verb.line}" for verb in VERBS.values() if verb.group == group
        ]
    return "\n".join([*lines, "", "`mispair VERB --help` has its options and an example."])


def main(arguments: Sequence[str] | None = None, began: float | None = None) -> int:
    """Run ``mispair``; return the exit code: 1 differences, 2 user fault, 130 Ctrl-C.

    With ``--took FILE`` at the end, the file gets what the process took since `began`, a time of
    ``time.perf_counter()``, or else since now.
    """
    began = time.perf_counter() if began is None else began
    words = list(sys.argv[1:] if arguments is None else arguments)
    took = words[-1] if words[-2:-1] == [TOOK] else None
    try:
        code = _run(words[:-2] if took else words)
        sys.stdout.flush()
        if took and not code:
            write_benchmark(Path(took), time.perf_counter() - began)
    except BrokenPipeError:  # `mispair plan | head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    return code


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    if arguments[0] == "--version":
        print(__version__)
        return 0
    codes = (_run_one(*words) for words in commands(arguments))
    return next(filter(None, codes), 0)


def _run_one(verb: str = "", *arguments: str) -> int:
    name = verb.replace("-", "_")
    try:
        if verb in VERBS:
            if not VERBS[verb].of_snakemake:  # Snakemake prints its messages itself
                _print_log()
            return VERBS[verb](arguments)
        if name in step_names():
            _print_log()
            use_one_thread()
            started = time.perf_counter()
            run_step(name, arguments)
            logging.getLogger(__name__).info(
                "%s took %.1f s; its peak memory was %d MB",
                verb, time.perf_counter() - started, peak_memory("cpu") // 10**6,
            )  # fmt: skip
        else:
            from mispair.core.words import nearest

            names = [step.replace("_", "-") for step in step_names()] + list(VERBS)
            raise UserError(
                f"there is no verb or step {verb!r}.{nearest(verb, names)}\n\n{usage()}"
            )
    except UserError as error:
        print(f"\nmispair {verb}: {redacted(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nmispair {verb}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        print(f"\nmispair {verb}: memory ran out ({reason}). {_less_memory(name)}", file=sys.stderr)
        return 2
    return 0


def _print_log() -> None:
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )


def _less_memory(name: str) -> str:
    """Return advice to lower the memory of a step, by the settings that it has."""
    fields = step_module(name).Settings.model_fields if name in step_names() else {}
    ways = {"batch_size": "a smaller batch_size", "device": "device: cpu"}
    remedies = " or ".join(way for key, way in ways.items() if key in fields)
    take = f"Set {remedies} in {name}, or take" if remedies else "Take"
    return f"{take} a machine with more memory."
