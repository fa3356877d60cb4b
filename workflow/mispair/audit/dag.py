"""The jobs of the audit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mispair.audit import paths
from mispair.audit.steps.audit_pairs import LEAST_PAIRS
from mispair.core.files import UserError
from mispair.core.paths import of_job
from mispair.pairs.captions.key_lists import TRUSTED, read_keys
from mispair.pairs.paths import CORPUS, SIMILAR, STATISTICS
from mispair.review import dag as review


def results(dag: Any) -> list[str]:
    """Return all files of results of a `mispair.dag.Dag`; none if the study does not run."""
    return [*files(dag), *dag.every(STATISTICS)] if dag.runs("audit") else []


def files(dag: Any) -> list[str]:
    """Return all files of results, of a corpus that is encoded."""
    dag.refuse_unencoded("audit")
    if dag.config.select_pairs.false_discovery_rate is not None and not dag.user_file("trusted"):
        from mispair.audit.selection import RATE_NEEDS_TRUSTED  # numpy, which not every plan needs

        raise UserError(RATE_NEEDS_TRUSTED)
    templates = (paths.RATES, paths.CALIBRATION, paths.SELECTION)
    own = [path for template in templates for path in dag.every(template)]
    labelled = dag.user_file("reviewed") or review.truth(dag)
    if labelled and not dag.user_file("trusted"):  # with such pairs the audit estimates this rate
        own += dag.every(paths.SIMILAR_RATE)
    return [*own, *review.files(dag)]


def corpus(dag: Any) -> Callable[[Any], str]:
    """Return a function of wildcards that returns the corpus, or refuses what is known to be few.

    It raises a UserError if there are too few pairs, as far as their number is known before any
    job, or too few trusted ones.
    """
    listed = dag.pairs.listed_pairs()

    def path(wildcards: Any) -> str:
        if listed is not None and listed < LEAST_PAIRS:
            raise UserError(
                f"pairs: {dag.corpus} has {listed} pairs, too few for a useful interval of the "
                f"share of wrong captions. Give at least {LEAST_PAIRS}."
            )
        from mispair.audit.rate import LEAST_TRUSTED  # numpy, which not every plan needs

        for named in dag.user_file("trusted"):
            trusted = len({*read_keys(Path(named), TRUSTED)})
            left = LEAST_TRUSTED if listed is None else listed - trusted
            if min(trusted, left) < LEAST_TRUSTED:
                of_all = "" if listed is None else f" of {listed}"
                raise UserError(
                    f"{TRUSTED}: {named} names {trusted} pairs{of_all}. The audit needs at least "
                    f"{LEAST_TRUSTED}, drawn at random, and {LEAST_TRUSTED} others to compare with "
                    "them; without the list it gives an upper limit."
                )
        (corpus,) = of_job(wildcards, CORPUS)
        return corpus

    return path


def weighing(dag: Any) -> str:
    """Return the flags of weigh_pairs: which pairs a fine-tuning is trained on, and where."""
    key = "finetune_projection.weights: audit"
    training = dag.config.finetune_projection
    pairs = "" if training.pairs is None else f" --pairs {training.pairs}"
    device = dag.device("finetune_projection")
    return f"--key '{key}' --seeds {training.seeds} --seed {training.seed} --device {device}{pairs}"


def similar(dag: Any) -> list[str]:
    """Return the most similar captions, which the audit uses only with trusted pairs."""
    return dag.every(SIMILAR) if dag.user_file("trusted") else []
