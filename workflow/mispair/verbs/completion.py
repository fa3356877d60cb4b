"""Scripts by which shells complete the command line, from the declarations of verbs and steps."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping

from mispair.command import step_parser
from mispair.core.commands import step_names
from mispair.verbs.verb import VERBS

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
