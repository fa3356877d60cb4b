"""The jobs that train towers from scratch: on the corpus, or as replicates on other scenes."""

from typing import Any

from mispair.core.files import UserError
from mispair.core.paths import from_here
from mispair.core.provenance import CHECKOUT
from mispair.core.settings import command_line
from mispair.pairs.shards.shards import CAPTION_EXTENSION
from mispair.towers.checkpoints.model_spec import open_clip_names
from mispair.towers.pretraining.pretraining import (
    DEFINITIONS,
    refuse_too_few_pairs,
    refuse_too_few_shards,
)


class TowerTrainings:
    """The trainings of a checked configuration."""

    def __init__(self, dag: Any) -> None:
        self._dag, self._config = dag, dag.config
        self._settings = dag.config.pretrain_towers

    @property
    def of_corpus(self) -> bool:
        """Whether the corpus trains the towers that encode it."""
        return bool(self._config.towers == "train")

    @property
    def seeds(self) -> list[int]:
        """Seeds of the towers that are trained to be compared."""
        towers = self._config.compare_towers.towers if self._dag.runs("image_text") else []
        return [seed for seed in towers if isinstance(seed, int)]

    def start(self) -> Any:
        """Return what the trainings start from, if there are any.

        It is the model under `models` that pretrain_towers.start names, or the name itself.
        """
        if not (self._dag.encodes and (self.of_corpus or self.seeds)):
            return None
        named = self._settings.start
        return next((spec for spec in self._config.models if spec.name == named), named)

    def refuse(self) -> None:
        """Raise an error if the training cannot begin, or would compare towers with themselves.

        Raises
        ------
        UserError
            If there are too few pairs, or no captions of the kind that the training reads.
        """
        if self._dag.encodes and self.of_corpus:
            self._refuse_captions()
            refuse_too_few_shards(self._settings, len(self._dag.pairs.shards()))
        if self.seeds:
            self._refuse_towers_of_this_corpus()

    def _refuse_captions(self) -> None:
        if self._config.captions is not None:
            raise UserError(
                "towers: `train` learns from the shards' own captions, not from `captions`. Write "
                "these into shards, or give towers that are trained already."
            )
        by_line = self._config.index_shards.captions_per_line
        if self._dag.pairs.captions_in != CAPTION_EXTENSION or by_line:
            raise UserError(
                "towers: `train` learns from KEY.txt as one caption, not by `index_shards: "
                "caption_from` or `captions_per_line`. Write the captions into KEY.txt of other "
                "shards, or give towers that are trained already."
            )

    def _refuse_towers_of_this_corpus(self) -> None:
        scenes = self._config.make_scenes
        is_generated = self._dag.pairs.is_generated
        if is_generated and scenes.seed == self._config.compare_towers.corpus_seed:
            raise UserError(
                f"compare_towers.corpus_seed: {scenes.seed} is make_scenes.seed, too, so the "
                "towers would be trained on the corpus that is fine-tuned. Give another seed."
            )
        refuse_too_few_shards(self._settings, scenes.shards)
        refuse_too_few_pairs(self._settings, [scenes.pairs_per_shard] * scenes.shards)

    def scenes(self) -> str:
        """Return the flags of make_scenes for the scenes on which towers of seeds are trained."""
        seed = self._config.compare_towers.corpus_seed
        return command_line(self._config.make_scenes.model_copy(update={"seed": seed}))

    def of_seed(self, wildcards: Any) -> str:
        """Return the flags of pretrain_towers for a seed of its own."""
        update = {"seed": int(wildcards.seed), "device": self._dag.device("pretrain_towers")}
        return command_line(self._settings.model_copy(update=update))

    @property
    def shards(self) -> list[str]:
        """The shards that pretrain_towers learns from: those of the corpus."""
        return self._dag.pairs.shards() or self._dag.pairs.generated_shards

    @property
    def definition(self) -> list[str]:
        """The file of the model definition that pretrain_towers reads, if it reads one."""
        named = [] if self._dag.models.start else [self.definition_file]
        return [path for path in named if path not in open_clip_names()]

    @property
    def definition_file(self) -> str:
        """The file of the model definition, or its name among open_clip's."""
        named: str = self._settings.definition
        shipped = DEFINITIONS / f"{named}.json"
        return from_here(shipped, CHECKOUT) if shipped.is_file() else named

    @property
    def cores(self) -> int:
        """Cores of pretrain_towers and its readers.

        With a GPU the readers need most cores; on a CPU with few cores they hardly count.
        """
        return max(self._settings.threads, 1 + self._settings.workers)
