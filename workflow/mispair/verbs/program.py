"""The verbs on mispair itself: its steps, settings, and the completion of a shell."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mispair.verbs.verb import PROGRAM, verb


def step_list() -> str:
    """Return the steps of the workflow, with one line each."""
    from mispair.core.commands import step_module, step_names

    lines = []
    for name in step_names():
        summary = (step_module(name).__doc__ or "").strip().splitlines()[0]
        lines.append(f"  {name.replace('_', '-'):<22} {summary}")
    return "\n".join(lines)


@verb(PROGRAM, "mispair steps")
def steps(options: Namespace) -> int:
    """Print the steps of the workflow, which Snakemake runs.

    `mispair STEP --help` lists the options of a step. `mispair STEP ... + STEP ...` runs one after
    the other.
    """
    print(step_list())
    return 0


def _of_completion(parser: ArgumentParser) -> None:
    from mispair.verbs.completion import SCRIPTS

    parser.add_argument("shell", choices=SCRIPTS)


@verb(PROGRAM, 'eval "$(mispair completion bash)"', _of_completion)
def completion(options: Namespace) -> int:
    """Print a script by which bash or zsh completes verbs, steps and options.

    Write its output into a file that your shell reads at its start, or evaluate it there.
    """
    from mispair.verbs.completion import SCRIPTS

    print(SCRIPTS[options.shell](), end="")
    return 0


@verb(PROGRAM, "mispair schema > config.schema.yaml")
def schema(options: Namespace) -> int:
    """Print the JSON schema of config.yaml, as YAML."""
    from mispair import config

    print(config.schema_text(), end="")
    return 0


@verb(PROGRAM, "mispair reference | less")
def reference(options: Namespace) -> int:
    """Print the reference page of config.yaml (Markdown)."""
    from mispair import config

    print(config.reference_text(), end="")
    return 0
