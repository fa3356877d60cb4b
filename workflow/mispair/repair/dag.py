"""The jobs of the repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mispair.core.files import UserError
from mispair.core.settings import command_line
from mispair.repair import from_scratch
from mispair.repair.rules import NUMBERS, UNSCORED, WITHOUT_NEW
from mispair.towers.arms import REPAIR, UNTOUCHED, Arm, corruption

FOLDER = "results/repair/{corpus}/{towers}"
FEATURES = "results/features/{{corpus}}/{{towers}}/{kind}.sha256"
OF_RATE = f"{FOLDER}/{{scheme}}~{{rate}}"
SECOND = f"{OF_RATE}/second"
RAW, AGAIN = "raw", "second-round"
SECOND_SCORER = "second"
"""Name, in paths, of the model that is fine-tuned after the first round."""
TRUE_CAPTIONS = (RAW, "drop", "trusted-alone", "oracle", "random-dropped")
"""Rules that replace no caption."""

Files = Callable[[Any], list[str]]


def results(dag: Any) -> list[str]:
    """Return all files of results; none if the study does not run."""
    return files(dag) if dag.runs("repair") else []


def files(dag: Any) -> list[str]:
    """Return all files of results, of a corpus that is encoded."""
    dag.refuse_unencoded("repair")
    trains = dag.config.filter_captions.trains
    return [
        *(_of_projections(dag) if "projections" in trains else []),
        *(from_scratch.results(dag, rates(dag)) if "towers" in trains else []),
    ]


def _of_projections(dag: Any) -> list[str]:
    arms = arms_of(dag)
    if AGAIN in dag.config.filter_captions.rules:
        _refuse_no_second_captioner(dag)
    of_arms = f"results/arms/{dag.corpus}/{dag.towers}"
    folder = FOLDER.format(corpus=dag.corpus, towers=dag.towers)
    kinds = ["purity", "zeroshot"]
    kinds += ["probe"] if "probe" in dag.config.filter_captions.measures else []
    if "semantics" in dag.config.filter_captions.measures and dag.truth_of_all():
        kinds.append("semantics")
    return [
        *(f"{of_arms}/{arm}/{kind}.json" for arm in arms for kind in kinds),
        *(f"{folder}/{of_rate(arm)}/{rule_of(arm.start)}.json" for arm in arms),
        f"{folder}/comparison.json",
    ]


def _refuse_no_second_captioner(dag: Any) -> None:
    """Refuse a second round of a captioner that does not learn from the first."""
    if dag.config.recaption_pairs.captioner != "trained":
        raise UserError(
            "filter_captions.rules: second-round needs recaption_pairs.captioner: trained, as a "
            "captioner that does not learn from the first round writes the same captions again."
        )
    if "factor" not in dag.config.filter_captions.rules:
        raise UserError(
            "filter_captions.rules: second-round goes on from the rule factor. Add factor."
        )


def exports(dag: Any) -> list[str]:
    """Return the folders of repaired corpora for other tools."""
    if not dag.runs("repair") or "projections" not in dag.config.filter_captions.trains:
        return []
    folder = FOLDER.format(corpus=dag.corpus, towers=dag.towers)
    return [
        f"{folder}/{of_rate(arm)}/{rule_of(arm.start)}"
        for arm in arms_of(dag)
        if rule_of(arm.start) in dag.config.export_repaired.rules
    ]


def rates(dag: Any) -> list[float]:
    """Return the rates of corruption at which the study runs."""
    chosen = dag.config.filter_captions.rates
    return sorted(chosen if chosen is not None else [max(dag.config.corrupt_captions.rates)])


def arms_of(dag: Any) -> list[Arm]:
    """Return the arms of the study: every rule at every rate of the first scheme.

    The raw captions are always included, as all others are compared with them. At rate 0 they are
    the right ones, so there is no oracle.
    """
    scheme = dag.config.corrupt_captions.schemes[0]
    rules = list(dict.fromkeys([RAW, *dag.config.filter_captions.rules]))
    return [
        Arm(f"{REPAIR}{rule}", scheme, rate)
        for rate in rates(dag)
        for rule in rules
        if rate > 0 or rule != "oracle"
    ]


def of_rate(arm: Arm) -> str:
    """Return the corruption of an arm by its name in paths of results."""
    return str(arm).partition("_")[2]


def rule_of(start: str) -> str:
    """Return the rule of an arm by the name of its start."""
    return start.removeprefix(REPAIR)


def pairing(dag: Any) -> Files:
    """Return the function that names the pairing that a fine-tuning is trained on."""

    def files(wildcards: Any) -> list[str]:
        if not wildcards.start.startswith(REPAIR):
            pattern = "results/pairs/{corpus}/pairing/{scheme}~{rate}.parquet"
        else:
            pattern = f"{OF_RATE}/{rule_of(wildcards.start)}.parquet"
        return [pattern.format(**dict(wildcards.items()))]

    return files


def original(dag: Any) -> str:
    """Return the pairing without corruption."""
    name = corruption(dag.config.corrupt_captions.schemes[0], 0.0)
    return f"results/pairs/{{corpus}}/pairing/{name}.parquet"


def corpus_texts(dag: Any) -> list[str]:
    """Return the tables of the texts of the corpus."""
    return [f"results/pairs/{dag.corpus}/{part}.parquet" for part in dag.caption_parts]


def sees_pictures(dag: Any) -> bool:
    """Return whether the captioner reads pictures; the others read features or a table."""
    return dag.config.recaption_pairs.captioner not in ("trained", "given")


def recaption_parts(dag: Any) -> list[str]:
    """Return the captions of each group of shards, or of the whole corpus at once."""
    parts = [*dag.groups] if sees_pictures(dag) else ["all"]
    return [f"{FOLDER}/recaptions/{part}.parquet" for part in parts]


def of_trained(dag: Any, files: Callable[[], list[str]]) -> list[str]:
    """Return files that the captioner `trained` alone reads."""
    return files() if dag.config.recaption_pairs.captioner == "trained" else []


def index_of_part(dag: Any) -> Files:
    """Return the function that names the index of a group whose pictures are captioned."""

    def files(wildcards: Any) -> list[str]:
        if not sees_pictures(dag):
            return []
        return [f"results/pairs/{wildcards.corpus}/index/{wildcards.part}.parquet"]

    return files


def shards_of_part(dag: Any) -> Files:
    """Return the function that names the shards of a group whose pictures are captioned."""
    return lambda wildcards: dag.groups[wildcards.part] if sees_pictures(dag) else []


def sources_of_part(dag: Any) -> Files:
    """Return the function that names the sources of these shards; none if they have no names."""
    return lambda wildcards: dag.sources_of_shards(shards_of_part(dag)(wildcards))


def captioner_files(dag: Any) -> list[str]:
    """Return the files of the captioner's model or table; none if the study does not run."""
    return dag.config.recaption_pairs.captioner_files() if dag.runs("repair") else []


def new_captions(dag: Any) -> Files:
    """Return the function that names the new captions that a rule decides on."""

    def files(wildcards: Any) -> list[str]:
        if wildcards.repair in WITHOUT_NEW:
            return []
        if wildcards.repair == AGAIN:
            return captions_again(dag)(wildcards)
        return [f"{FOLDER}/recaptions.parquet".format(**dict(wildcards.items()))]

    return files


def captions_again(dag: Any, kind: str = "parquet") -> Files:
    """Return the function that names the captions of the second round, a file for each draw."""
    paths = [f"{SECOND}/{draw}.{kind}" for draw in range(dag.draws)]
    return lambda wildcards: [path.format(**dict(wildcards.items())) for path in paths]


def features_again(dag: Any, kind: str) -> Files:
    """Return the function that names features of new captions of both rounds, or their rows."""
    folder = "results/features/{corpus}/{towers}"
    again = [f"second~{{scheme}}~{{rate}}~{draw}" for draw in range(dag.draws)]
    paths = [f"{folder}/{name}.{kind}" for name in ("recaptions", *again)]
    return lambda wildcards: [path.format(**dict(wildcards.items())) for path in paths]


def texts_again(name: str, **wildcards: str) -> str:
    """Return the texts of the second round by their name in paths of features.

    Examples
    --------
    >>> texts_again("second~random~0.8~1", corpus="scenes", towers="small")
    'results/repair/scenes/small/random~0.8/second/1.texts.parquet'
    """
    _, scheme, rate, draw = name.split("~")
    return f"{SECOND}/{draw}.texts.parquet".format(scheme=scheme, rate=rate, **wildcards)


def first_round(dag: Any) -> Files:
    """Return the function that names the result of the first round, for the second one."""

    def files(wildcards: Any) -> list[str]:
        if wildcards.repair != AGAIN:
            return []
        return [f"{OF_RATE}/factor.parquet".format(**dict(wildcards.items()))]

    return files


def scores(dag: Any) -> Files:
    """Return the function that names the cosines that a rule decides by."""

    def files(wildcards: Any) -> list[str]:
        if wildcards.repair in (*UNSCORED, "posterior"):
            return []
        chosen = dag.models.scorer or dag.config.filter_captions.scorer
        scorer = {"factor-untouched": UNTOUCHED, AGAIN: SECOND_SCORER}.get(wildcards.repair, chosen)
        return [f"{OF_RATE}/scores~{scorer}.safetensors".format(**dict(wildcards.items()))]

    return files


def audits(dag: Any) -> Files:
    """Return the function that names the probabilities of the audit, where a rule needs them."""

    def files(wildcards: Any) -> list[str]:
        if wildcards.repair != "posterior":
            return []
        return [f"{OF_RATE}/weights.safetensors".format(**dict(wildcards.items()))]

    return files


def deciding(dag: Any) -> Callable[[Any], str]:
    """Return the function that gives a rule the flags it decides by, and no other setting.

    So a change of a number reruns only the rules that read it.
    """
    chosen = dag.config.filter_captions

    def flags(wildcards: Any) -> str:
        read = {name: getattr(chosen, name) for name in NUMBERS[wildcards.repair]}
        return command_line(type(chosen)(**read))

    return flags


def scoring_towers(dag: Any) -> str | None:
    """Return the towers of ``filter_captions.scorer`` if they are not the run's own."""
    chosen = dag.config.filter_captions.scorer
    return chosen if dag.runs("repair") and chosen not in (RAW, UNTOUCHED) else None


def scorer(dag: Any, pattern: str) -> Files:
    """Return the function that names files of a scoring model's towers.

    Parameters
    ----------
    dag : mispair.dag.Dag
        The checked configuration.
    pattern : str
        With ``{towers}``, and ``{arm}`` for the projections that score.
    """

    def files(wildcards: Any) -> list[str]:
        own_towers = wildcards.scorer in (RAW, UNTOUCHED)
        arm = UNTOUCHED
        if wildcards.scorer == RAW:
            arm = f"{REPAIR}{RAW}_{wildcards.scheme}~{wildcards.rate}"
        towers = wildcards.towers if own_towers else wildcards.scorer
        return [pattern.format(**{**dict(wildcards.items()), "towers": towers, "arm": arm})]

    return files


def written_for_scorer(dag: Any, kind: str) -> Files:
    """Return the function that names a scoring model's features of captions that a scheme wrote."""
    pattern = f"results/features/{{corpus}}/{{towers}}/{{scheme}}~{{rate}}.{kind}"
    return lambda wildcards: scorer(dag, pattern)(wildcards) if dag.written(kind)(wildcards) else []


def features(dag: Any, kind: str) -> Files:
    """Return the function that names features of new captions (``safetensors``), or their rows."""

    def files(wildcards: Any) -> list[str]:
        if not wildcards.start.startswith(REPAIR) or rule_of(wildcards.start) in TRUE_CAPTIONS:
            return []
        if rule_of(wildcards.start) == AGAIN:
            return features_again(dag, kind)(wildcards)
        return [f"results/features/{wildcards.corpus}/{wildcards.towers}/recaptions.{kind}"]

    return files


def texts(dag: Any) -> Files:
    """Return the function that names the texts of all captions that a rule may give."""

    def files(wildcards: Any) -> list[str]:
        names = corpus_texts(dag)
        written = "results/pairs/{corpus}/pairing/{scheme}~{rate}.captions.parquet"
        fresh = [] if not new_captions(dag)(wildcards) else [f"{FOLDER}/recaption_texts.parquet"]
        again = captions_again(dag, "texts.parquet")(wildcards) if wildcards.repair == AGAIN else []
        named = [path.format(**dict(wildcards.items())) for path in (written, *fresh)]
        return names + named + again

    return files


def judging(dag: Any) -> str:
    """Return the flags of weigh_pairs, which judges all pairs of each draw here."""
    training = dag.config.finetune_projection
    device = dag.device("finetune_projection")
    return f"--seeds {training.seeds} --seed {training.seed} --device {device}"


def answers(dag: Any) -> list[str]:
    """Return the answers of every arm of the study."""
    folder = f"results/arms/{dag.corpus}/{dag.towers}"
    arms = arms_of(dag) if dag.encodes else []
    return [f"{folder}/{arm}/answers.safetensors" for arm in arms]
