"""The jobs of the sufficiency study: trees, trainings and what is measured of them."""

from typing import Any

from mispair.core.files import UserError
from mispair.core.paths import every, fill, of_job
from mispair.sufficiency.paths import BAYES, ENCODERS, HEAD, SUFFICIENCY, TRANSFER
from mispair.sufficiency.settings import OF_ENCODERS, Size

STEPS_WITH_DEVICE = (
    "measure_bayes", "train_encoders", "measure_sufficiency", "train_head", "measure_transfer",
)  # fmt: skip
PUBLISHED = (Size(4, 3, 10), 42)
"""Size and seed of the published trees."""


class Sufficiency:
    """The jobs of a checked configuration."""

    def __init__(self, config: Any) -> None:
        self._trees, self._bayes = config.draw_trees, config.measure_bayes
        self._encoders, self._heads = config.train_encoders, config.train_head
        self.size = Size(self._trees.depth, self._trees.branching, self._trees.symbols)

    def _refuse_too_small(self) -> None:
        depth, symbols = self.size.depth, self.size.symbols
        encoders, heads = self._encoders, self._heads
        if "guided" in encoders.variants:
            if encoders.blocks < depth:
                raise UserError(
                    f"train_encoders.blocks: guided encoders need a block for each of the {depth} "
                    f"levels of draw_trees.depth, not {encoders.blocks}."
                )
            if encoders.width < symbols:
                raise UserError(
                    f"train_encoders.width: guided encoders need a channel for each of the "
                    f"{symbols} draw_trees.symbols, not {encoders.width}."
                )
        for key in ("width", "vlm_width"):
            width = getattr(heads, key)
            if heads.arms and width is not None and width < symbols:
                raise UserError(
                    f"train_head.{key}: a token needs a channel for each of the {symbols} "
                    f"draw_trees.symbols, not {width}."
                )

    def bayes(self) -> list[str]:
        """Return the least risks, of the study's trees and of the published ones."""
        trees = [(self.size, seed) for seed in self._trees.seeds]
        if self._bayes.published:
            trees = list(dict.fromkeys([*trees, PUBLISHED]))
        return every(BAYES, {"size tree": trees})

    def measured(self) -> list[str]:
        """Return what is measured of the encoders of every training."""
        return self._trainings(SUFFICIENCY, self._encoders.flips)

    def transferred(self) -> list[str]:
        """Return what is measured of the heads of every training."""
        return self._trainings(TRANSFER, self._heads.flips) if self._heads.arms else []

    def results(self) -> list[str]:
        """Return all files of results.

        Raises
        ------
        UserError
            If a model has too few blocks or channels for the messages or symbols that it gets.
        """
        self._refuse_too_small()
        return [*self.bayes(), *self.measured(), *self.transferred()]

    def _trainings(self, template: str, flips: list[float]) -> list[str]:
        return every(
            template,
            {
                "size": [self.size], "tree": self._trees.seeds,
                "flip": [f"{flip:g}" for flip in flips], "seed": self._encoders.seeds,
            },
        )  # fmt: skip

    def encoders_of(self, wildcards: Any) -> list[str]:
        """Return the encoders of every variant of a training, the standard ones first."""
        flips = self._encoders.variants_flips
        further = [variant for variant in self._encoders.variants if variant != "standard"]
        if flips is not None and float(wildcards.flip) not in flips:
            further = []
        return _encoders(wildcards, "standard", *further)

    def heads_of(self, wildcards: Any) -> list[str]:
        """Return the heads of every task and arm of a training."""
        (head,) = of_job(wildcards, HEAD)
        return every(head, {"task": self._heads.tasks, "head": self._heads.arms})

    def encoders_of_heads(self, wildcards: Any) -> list[str]:
        """Return the standard encoders of a training, if any of its heads reads them."""
        reads = set(self._heads.arms) & set(OF_ENCODERS)
        return _encoders(wildcards, "standard") if reads else []

    @staticmethod
    def encoders_of_head(wildcards: Any) -> list[str]:
        """Return the encoders that one head reads, if it reads any."""
        reads = wildcards.head in OF_ENCODERS
        return _encoders(wildcards, "standard") if reads else []


def _encoders(wildcards: Any, *variants: str) -> list[str]:
    return [
        path for variant in variants for path in of_job(wildcards, fill(ENCODERS, variant=variant))
    ]


def results(dag: Any) -> list[str]:
    """Return all files of results for the report, from the DAG of a checked configuration."""
    paths: list[str] = dag.sufficiency.results()
    return paths
