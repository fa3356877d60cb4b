"""The declaration of a verb: a function with a group, an example and options.

The list of verbs, the help of each and the completion of a shell follow from the declarations.
"""

import argparse
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import cleandoc

OWN_DATA = "Your own data"
AFTER_A_RUN = "After a run"
SETS_AND_MODELS = "Evaluation sets, models and pictures"
PROGRAM = "mispair itself"

GROUPS = (OWN_DATA, AFTER_A_RUN, SETS_AND_MODELS, PROGRAM)
"""The groups of verbs, in the order of the help."""

Run = Callable[[argparse.Namespace], int]
"""Runs a verb with its options and returns the exit code."""


@dataclass(frozen=True)
class Verb:
    """A verb of the command line.

    Attributes
    ----------
    name : str
        Its name on the command line.
    group : str
        One of `GROUPS`.
    line, description : str
        One line for the list of all verbs, and paragraphs for its own help, which begin with it.
    example : str
        A command that uses it.
    run : callable
        What it does. `rest` of its options has the words for Snakemake.
    add_options : callable, optional
        Adds its options to a parser.
    of_snakemake : bool
        Whether words that it does not know are options of Snakemake, which it runs.
    """

    name: str
    group: str
    line: str
    description: str
    example: str
    run: Run
    add_options: Callable[[argparse.ArgumentParser], None] | None = None
    of_snakemake: bool = False

    def parser(self) -> argparse.ArgumentParser:
        """Return the parser of its options."""
        parser = argparse.ArgumentParser(
            prog=f"mispair {self.name}",
            description=self.description,
            epilog=f"example:\n  {self.example}",
            formatter_class=_Help,
            allow_abbrev=False,
        )
        if self.add_options is not None:
            self.add_options(parser)
        return parser

    def __call__(self, arguments: Sequence[str]) -> int:
        """Parse the options and run; return the exit code."""
        if not self.of_snakemake:
            return self.run(self.parser().parse_args(arguments))
        options, rest = self.parser().parse_known_args(arguments)
        options.rest = rest
        return self.run(options)


VERBS: dict[str, Verb] = {}
"""All verbs by name, in the order of their declarations."""


def verb(
    group: str,
    example: str,
    options: Callable[[argparse.ArgumentParser], None] | None = None,
    *,
    of_snakemake: bool = False,
) -> Callable[[Run], Run]:
    """Declare a function as the verb of its name.

    Its docstring is the description in its help; the list of verbs has the first line of it.
    """

    def declare(run: Run) -> Run:
        name = run.__name__.rstrip("_").replace("_", "-")
        text = cleandoc(run.__doc__ or "")
        line = text.partition("\n")[0]
        VERBS[name] = Verb(name, group, line, text, example, run, options, of_snakemake)
        return run

    return declare


class _Help(argparse.RawDescriptionHelpFormatter):
    """Fills the paragraphs of a text; lines of an example stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example:"):
            return super()._fill_text(text, width, indent)
        paragraphs = text.split("\n\n")
        return "\n\n".join(
            textwrap.fill(" ".join(part.split()), width, break_on_hyphens=False)
            for part in paragraphs
        )
