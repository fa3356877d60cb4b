"""The jobs of the stepsize study: one for each data set and activation of a part."""

from typing import Any

from mispair.core.files import UserError
from mispair.core.paths import fill
from mispair.stepsize.paths import CIFAR, MULTILAYER, TWO_LAYER, cifar_files, refuse_other_files
from mispair.stepsize.settings import Part


class Stepsize:
    """The jobs of a checked configuration."""

    def __init__(self, config: Any) -> None:
        self._two_layer, self._multilayer = config.train_two_layer, config.train_multilayer
        self._cifar_dir = self._two_layer.cifar_dir

    def _has_files(self, data_set: str) -> bool:
        return data_set != CIFAR or self._cifar_dir is not None

    @property
    def _parts(self) -> dict[str, Part]:
        """The parts of the study by the file of their results."""
        return {
            fill(TWO_LAYER, part=part.part, data_set=part.data_set, activation=activation): part
            for part in self._two_layer.grid
            for activation in part.activations
            if self._has_files(part.data_set)
        }

    def results(self) -> list[str]:
        """Return all files of results.

        Raises
        ------
        UserError
            If the folder for CIFAR-10 does not contain its binary release.
        """
        if self._cifar_dir is not None:
            refuse_other_files(self._cifar_dir)
        deep = [
            fill(MULTILAYER, data_set=name)
            for name in self._multilayer.data_sets
            if self._multilayer.stepsizes and self._has_files(name)
        ]
        return [*self._parts, *deep]

    def part_flags(self, wildcards: Any) -> str:
        """Return what a job trains as one string of flags; empty for a file of no part."""
        part = self._parts.get(fill(TWO_LAYER, **dict(wildcards.items())))
        if part is None:
            return ""
        flags = {
            "--widths": map(str, part.widths), "--stepsizes": map(repr, part.ladder),
            "--seeds": [str(part.seeds)], "--steps": [str(part.steps)],
        }  # fmt: skip
        return " ".join(f"{flag} {' '.join(values)}" for flag, values in flags.items())

    def cifar(self, wildcards: Any) -> list[str]:
        """Return the files of CIFAR-10 for the jobs that read them."""
        if wildcards.data_set != CIFAR:
            return []
        if self._cifar_dir is None:
            raise UserError(
                "cifar2 is configured, but train_two_layer.cifar_dir names no folder with "
                "CIFAR-10's binary release. Name it, or take cifar2 out of the settings."
            )
        return cifar_files(self._cifar_dir)


def results(dag: Any) -> list[str]:
    """Return all files of results for the report, from the DAG of a checked configuration."""
    paths: list[str] = dag.stepsize.results()
    return paths
