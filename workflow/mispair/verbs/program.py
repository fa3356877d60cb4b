"""The verbs on mispair itself: its steps, settings, and the completion of a shell."""

from __future__ import annotations

import argparse
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping

from mispair.command import step_parser
from mispair.core.commands import step_names
from mispair.verbs.verb import PROGRAM, VERBS, verb


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
    parser.add_argument("shell", choices=SCRIPTS)


@verb(PROGRAM, 'eval "$(mispair completion bash)"', _of_completion)
def completion(options: Namespace) -> int:
    """Print a script by which bash or zsh completes verbs, steps and options.

    Write its output into a file that your shell reads at its start, or evaluate it there.
    """
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


# Scripts by which shells complete the command line, from the declarations of verbs and steps.


BASH = """\
# Completion of mispair for bash, printed by `mispair completion bash`.
_mispair() {
  local word=${COMP_WORDS[COMP_CWORD]} words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=%(names)s
  else
    case ${COMP_WORDS[1]} in
%(cases)s
      *) words= ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _mispair mispair
"""

ZSH = """\
#compdef mispair
# Completion of mispair for zsh, printed by `mispair completion zsh`.
_mispair() {
  local found
  if (( CURRENT == 2 )); then
    found=%(names)s
  else
    case $words[2] in
%(cases)s
      *) found= ;;
    esac
    _files
  fi
  compadd -- ${=found}
}
compdef _mispair mispair
"""


def bash() -> str:
    """Return the script for bash; file names are completed where no option is."""
    return _script(BASH, "words")


def zsh() -> str:
    """Return the script for zsh, which completes file names, too."""
    return _script(ZSH, "found")


SCRIPTS: Mapping[str, Callable[[], str]] = {"bash": bash, "zsh": zsh}


def words() -> dict[str, list[str]]:
    """Return the options, and the values of positional arguments, of each verb and step."""
    parsers = {name: verb.parser() for name, verb in VERBS.items()}
    parsers |= {name.replace("_", "-"): step_parser(name) for name in step_names()}
    return {name: _words_of(parser) for name, parser in parsers.items()}


def _words_of(parser: argparse.ArgumentParser) -> list[str]:
    found: list[str] = []
    for action in parser._actions:
        found += action.option_strings or [str(choice) for choice in action.choices or ()]
    return [word for word in found if not word.startswith("-") or word.startswith("--")]


def _script(template: str, variable: str) -> str:
    completed = words()
    cases = [
        f"      {name}) {variable}={shlex.quote(' '.join(options))} ;;"
        for name, options in completed.items()
    ]
    return template % {"names": shlex.quote(" ".join(completed)), "cases": "\n".join(cases)}
