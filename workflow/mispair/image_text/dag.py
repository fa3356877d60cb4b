"""The arms of the study, and the files of results from which the report is made."""

from collections.abc import Iterable
from typing import Any

from mispair.evaluation import paths as evaluation
from mispair.image_text.paths import COMPARED_TOWERS, COMPARISON
from mispair.pairs import paths as pairs
from mispair.towers import paths as towers
from mispair.towers.arms import CONVERGED, PRETRAINED, STARTS, UNTOUCHED, WEIGHTED, Arm


def schemes_and_rates(config: Any) -> list[tuple[str, float]]:
    """Return the schemes of a configuration with their rates.

    At rate 0 all schemes are the same, so only the first is run.
    """
    schemes, rates = config.corrupt_captions.schemes, config.corrupt_captions.rates
    return [
        (scheme, rate) for scheme in schemes for rate in rates if rate > 0 or scheme == schemes[0]
    ]


def arms_of(config: Any) -> list[Arm]:
    """Return the untouched projections, and all fine-tuned starts; controls have fewer arms."""
    first = config.corrupt_captions.schemes[0]
    tuning = config.finetune_projection
    rates = sorted(config.corrupt_captions.rates)
    number = min(tuning.control_rates or len(rates), len(rates))
    step = (len(rates) - 1) / max(number - 1, 1)
    spread = [rates[round(position * step)] for position in range(number)]

    def trains(arm: Arm) -> bool:
        if arm.start == PRETRAINED or arm.start not in STARTS:
            return True
        return arm.scheme == first and arm.rate in (rates if arm.start == CONVERGED else spread)

    starts = [*tuning.starts, *([WEIGHTED] if tuning.weights == "audit" else [])]
    every = (
        Arm(start, scheme, rate) for start in starts for scheme, rate in schemes_and_rates(config)
    )
    return [Arm(UNTOUCHED), *filter(trains, every)]


def measured(dag: Any, template: str, **chosen: Iterable[Any]) -> list[str]:
    """Return the metrics (``evaluation.PURITY``, ...) of every arm that has them."""
    arms: list[Arm] = dag.arms
    if template == evaluation.PRUNING:
        arms = [arm for arm in arms if arm.start in dag.config.prune_neurons.starts]
    elif template == evaluation.PROBE:
        has_training = bool(dag.evaluation.images(dag.towers, "train"))
        starts = dag.config.fit_linear_probe.starts if has_training else []
        arms = [arm for arm in arms if arm.start in starts]
    elif template == evaluation.SEMANTICS:
        arms = _ends(dag) if dag.pairs.is_generated else []
    paths: list[str] = dag.every(template, arm=arms, **chosen)
    return paths


def _ends(dag: Any) -> list[Arm]:
    """Return the untouched arm, and the smallest and the largest rate of the pretrained ones."""
    rates, first = dag.config.corrupt_captions.rates, dag.config.corrupt_captions.schemes[0]
    ends = [Arm(UNTOUCHED), *(Arm(PRETRAINED, first, rate) for rate in (min(rates), max(rates)))]
    return [arm for arm in dag.arms if arm in ends]


def trained(dag: Any) -> list[str]:
    """Return the fine-tuned projections, and the record of towers that this run trained."""
    if not dag.runs("image_text"):
        return []
    arms = [arm for arm in dag.arms if arm.start != UNTOUCHED]
    record = [towers.TRAINING_RECORD] if dag.training.of_corpus else []
    return [*dag.every(towers.PROJECTION, arm=arms), *record]


def results(dag: Any) -> list[str]:
    """Return all files of results of a `mispair.dag.Dag`; none if the study does not run."""
    if not dag.runs("image_text"):
        return []
    of_arms = (
        evaluation.PURITY, evaluation.ZEROSHOT, evaluation.PROBE, evaluation.PRUNING,
        evaluation.SEMANTICS,
    )  # fmt: skip
    compared = [COMPARISON, *([COMPARED_TOWERS] if dag.models.replicates else [])]
    described = (
        pairs.STATISTICS, pairs.PAIRING, pairs.INDEX, pairs.REJECTED, pairs.EXCLUDED,
        towers.IMAGE_RECORD, towers.TEXT_RECORD,
    )  # fmt: skip
    return [
        *(path for template in of_arms for path in measured(dag, template)),
        *(path for template in compared for path in dag.every(template)),
        *(path for template in described for path in dag.every(template)),
    ]
