"""The jobs of the study of towers trained from scratch on wrong captions."""

from itertools import product
from typing import Any

from mispair.core.files import UserError
from mispair.core.paths import every, fill
from mispair.core.settings import command_line
from mispair.evaluation.dag import set_sources
from mispair.pairs.paths import GENERATED_SET
from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS, files_of_generated
from mispair.pretraining.paths import MIXING


class Pretraining:
    """The trainings of a checked configuration.

    `wanted` is whether a study trains small towers, `generated` whether the corpus is the generated
    one.

    Raises
    ------
    UserError
        If the corpus has no true features, no evaluation set can be used, or sizes do not fit.
    """

    def __init__(self, config: Any, wanted: bool, generated: bool) -> None:
        self._config, self._towers = config, config.train_small_towers
        self._sets = [
            name
            for name in set_sources(config.evaluation_sets)
            if name in EVALUATION_SETS and EVALUATION_SETS[name].kind == "classification"
        ]
        if not wanted:
            return
        if not generated:
            raise UserError(
                "train_small_towers: small towers need the true features of pictures. Set "
                "`shards: generated`, or leave out the study pretraining and towers in "
                "filter_captions.trains."
            )
        if not self._sets:
            raise UserError(
                "evaluation_sets: small towers need a generated set for classification; name "
                f"one of {', '.join(n for n, s in EVALUATION_SETS.items() if s.classnames)}."
            )
        if config.decode_pictures.side < self._towers.crop:
            raise UserError(
                f"train_small_towers.crop: crops of {self._towers.crop} pixels need pictures of "
                f"that side at least; decode_pictures.side is {config.decode_pictures.side}."
            )
        pairs = config.make_scenes.shards * config.make_scenes.pairs_per_shard
        if pairs - self._towers.held_out < self._towers.batch_size:
            raise UserError(
                f"train_small_towers: {pairs} pairs less {self._towers.held_out} (held_out) are "
                f"fewer than a batch of {self._towers.batch_size} (batch_size)."
            )
        if self._towers.embedding < config.measure_mixing.components:
            raise UserError(
                f"measure_mixing.components: {config.measure_mixing.components} components of "
                f"{self._towers.embedding} neurons (train_small_towers.embedding)."
            )

    @property
    def corruptions(self) -> list[tuple[str, float]]:
        """Schemes with their rates; clean captions are the first scheme at rate 0."""
        schemes, rates = self._towers.schemes, self._towers.rates
        return [(schemes[0], 0.0), *product(schemes, rates)]

    def results(self) -> list[str]:
        """Return what is measured of every training of the study pretraining."""
        corruptions = [(scheme, f"{rate:g}") for scheme, rate in self.corruptions]
        tables = {"scheme rate": corruptions, "draw": range(self._towers.seeds)}
        return every(MIXING, {"corpus": [self._config.corpus], **tables})

    def evaluation_sets(self) -> list[str]:
        """Return the files of the test splits of the sets for classification."""
        return [
            f"{fill(GENERATED_SET, evaluation_set=name)}/{file}"
            for name in self._sets
            for file in files_of_generated(name, ["test"])
        ]

    def corruption_flags(self, wildcards: Any) -> str:
        """Return the flags of corrupt_captions for one draw: each draw has another seed."""
        settings = self._config.corrupt_captions
        seed = settings.seed + int(wildcards.draw)
        return command_line(settings.model_copy(update={"seed": seed}))


def results(dag: Any) -> list[str]:
    """Return all files of results for the report, from the DAG of a checked configuration."""
    paths: list[str] = dag.pretraining.results() if dag.runs("pretraining") else []
    return paths
