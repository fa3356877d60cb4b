"""The jobs of the repair."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from mispair.core.files import UserError
from mispair.core.paths import every, fill, of_job
from mispair.core.settings import command_line
from mispair.evaluation import paths as evaluation
from mispair.pairs import paths as pairs
from mispair.pairs.captions.table_files import KEY
from mispair.pairs.corruption.scheme import audited, can_exchange
from mispair.pretraining.paths import CAPTIONS, PAIRING
from mispair.repair import paths
from mispair.repair.captioners.functions import refuse_missing_function
from mispair.repair.captioners.recaption_settings import FUNCTION, GIVEN, TRAINED
from mispair.repair.rules import RULES
from mispair.review.paths import REPLACED
from mispair.towers.arms import REPAIR, UNTOUCHED, Arm
from mispair.towers.finetuning.finetuning_settings import refuse, resolve

RAW = "raw"

Files = Callable[[Any], list[str]]


class Repair:
    """The jobs of a checked configuration.

    Methods that take wildcards return the files or flags of one job.
    """

    def __init__(self, dag: Any) -> None:
        self._dag, self._config = dag, dag.config
        self._captioner, self._filter = dag.config.recaption_pairs, dag.config.filter_captions

    def files(self) -> list[str]:
        """Return all files of results, of a corpus that is encoded."""
        self._dag.refuse_unencoded("repair")
        files = self._of_projections() if "projections" in self._filter.trains else []
        if self._dag.user_file("reviewed_repairs"):
            files += self._dag.every(REPLACED)
        if "towers" in self._filter.trains:
            files += results_of_draws(self._dag, self._rates)
        return files

    def _of_projections(self) -> list[str]:
        templates = [evaluation.PURITY, evaluation.ZEROSHOT]
        templates += [evaluation.PROBE] if "probe" in self._filter.measures else []
        if "semantics" in self._filter.measures and self._dag.truth_of_all():
            templates.append(evaluation.SEMANTICS)
        return [
            *(path for arm in self._arms for each in templates for path in self._of_arm(each, arm)),
            *self.ledgers(),
            *self._dag.every(paths.COMPARISON),
        ]

    def _of_arm(self, template: str, arm: Arm) -> list[str]:
        files: list[str] = self._dag.every(template, arm=[arm])
        return files

    def exports(self) -> list[str]:
        """Return the folders of repaired corpora for other tools."""
        if not self._dag.runs("repair") or "projections" not in self._filter.trains:
            return []
        rules = self._config.export_repaired.rules
        exported = [arm for arm in self._arms if rule_of(arm.start) in rules]
        return self._repaired(paths.EXPORT, exported)

    def ledgers(self) -> list[str]:
        """Return what became of the captions by each rule."""
        return self._repaired(paths.LEDGER, self._arms)

    def pieces(self) -> list[str]:
        """Return the gallery of old and new captions, if projections learn from new ones."""
        runs = self._dag.runs("repair") and "projections" in self._filter.trains
        return [paths.EXAMPLES] if runs else []

    def _repaired(self, template: str, arms: list[Arm]) -> list[str]:
        """Return files of the repaired corpora of arms."""
        folder = fill(template, corpus=self._dag.corpus, towers=self._dag.towers)
        rules = [(arm.scheme, f"{arm.rate:g}", rule_of(arm.start)) for arm in arms]
        return every(folder, {"scheme rate repair": rules})

    @property
    def _rates(self) -> list[float]:
        """Rates of corruption at which the study runs."""
        chosen = self._filter.rates
        return sorted(chosen if chosen is not None else [max(self._config.corrupt_captions.rates)])

    @property
    def _arms(self) -> list[Arm]:
        """Arms of the study: every rule at every rate of the first scheme.

        The raw captions are always included, as all others are compared with them. At rate 0 they
        are the right ones, so there is no oracle.
        """
        scheme = self._config.corrupt_captions.schemes[0]
        return [
            Arm(f"{REPAIR}{rule}", scheme, rate)
            for rate in self._rates
            for rule in dict.fromkeys([RAW, *self._filter.rules])
            if rate > 0 or not RULES[rule].own_captions
        ]

    def pairing(self, wildcards: Any) -> list[str]:
        """Return the pairing that a fine-tuning is trained on.

        Raises
        ------
        UserError
            If its pairs make no batch, or fewer than two would exchange their captions, as far
            as their number is known before any job.
        """
        rate, listed = float(wildcards.rate), self._listed_pairs
        exchanges = audited().get(wildcards.scheme) == "random"
        if exchanges and listed is not None and not can_exchange(rate, listed):
            raise UserError(
                f"corrupt_captions.rates: {rate:g} of {listed} pairs is fewer than two, and "
                f"captions are exchanged between pairs. Take 0 or at least {2 / listed:.2g}."
            )
        try:
            refuse(resolve(self._config.finetune_projection, listed), listed)
        except ValueError as error:
            raise UserError(
                f"finetune_projection: {error}. Set batch_size to a half of them or less."
            ) from error
        if wildcards.start.startswith(REPAIR):
            return of_job(wildcards, fill(paths.REPAIRED, repair=rule_of(wildcards.start)))
        return of_job(wildcards, pairs.PAIRING)

    @cached_property
    def _listed_pairs(self) -> int | None:
        listed: int | None = self._dag.pairs.listed_pairs()
        return listed

    def original(self) -> str:
        """Return the pairing without corruption."""
        return fill(pairs.PAIRING, scheme=self._config.corrupt_captions.schemes[0], rate=0)

    @property
    def compared(self) -> dict[str, str]:
        """Wildcards of the repaired pairs that a person compares with the captions before.

        They are of the first rule that replaces captions, at the smallest rate.

        Raises
        ------
        UserError
            If there is none.
        """
        arms = self._arms if "projections" in self._filter.trains else []
        for arm in arms:
            if (rule := RULES[rule_of(arm.start)]).replaces and rule.changes:
                rate = str(arm).rpartition("~")[2]
                return {"repair": rule_of(arm.start), "scheme": str(arm.scheme), "rate": rate}
        raise UserError(
            "reviewed_repairs: no rule of filter_captions.rules replaces captions at the rates of "
            "this run. Add factor, or leave the key out."
        )

    @property
    def _sees_pictures(self) -> bool:
        """Whether the captioner reads pictures; the others read features or a table."""
        return bool(self._captioner.kind.load)

    def recaption_parts(self) -> list[str]:
        """Return the captions of each group of shards, or of the whole corpus at once."""
        parts = [*self._dag.pairs.groups] if self._sees_pictures else ["all"]
        return every(paths.RECAPTIONS_OF_PART, {"part": parts})

    def of_trained(self, *files: str) -> list[str]:
        """Return files that the captioner `trained` alone reads."""
        return [*files] if self._captioner.captioner == TRAINED else []

    def index_of_part(self, wildcards: Any) -> list[str]:
        """Return the index of a group whose pictures are captioned, or of all pairs to join."""
        if self._joins:
            return [*self._dag.every(pairs.INDEX)]
        if not self._sees_pictures:
            return []
        return of_job(wildcards, fill(pairs.INDEX, group=wildcards.part))

    @property
    def _joins(self) -> bool:
        """Whether a given table is joined by a text of the pairs' JSON."""
        return self._captioner.captioner == GIVEN and self._captioner.join != KEY

    def recorded_fields(self, fields: list[str]) -> list[str]:
        """Return fields of the pairs' JSON, with the one by which the captioner's table joins."""
        column = self._captioner.join_column
        needed = self._joins and self._dag.runs("repair") and column.startswith("json:")
        return [*dict.fromkeys([*fields, column])] if needed else fields

    def shards_of_part(self, wildcards: Any) -> list[str]:
        """Return the shards of a group whose pictures are captioned."""
        return self._dag.pairs.groups[wildcards.part] if self._sees_pictures else []

    def sources_of_part(self, wildcards: Any) -> list[str]:
        """Return the sources of these shards; none if they have no names."""
        return self._dag.pairs.sources_of_shards(self.shards_of_part(wildcards))

    def captioner_files(self) -> list[str]:
        """Return the files of the captioner's model or table; none if the study does not run.

        A captioner of the user's own is refused here if its module has no such function.
        """
        if not self._dag.runs("repair"):
            return []
        if self._captioner.kind is FUNCTION:
            refuse_missing_function(self._captioner.captioner)
        files: list[str] = self._captioner.captioner_files()
        return files

    def new_captions(self, wildcards: Any) -> list[str]:
        """Return the new captions that a rule decides on."""
        if "new" not in RULES[wildcards.repair].reads:
            return []
        return of_job(wildcards, paths.RECAPTIONS)

    @property
    def audits_draws(self) -> bool:
        """Whether a rule decides by the probabilities of the audit."""
        audited = any("audit" in RULES[rule].reads for rule in self._filter.rules)
        needed = audited and "projections" in self._filter.trains
        return needed and bool(self._dag.runs("repair"))

    def scores(self, wildcards: Any) -> list[str]:
        """Return the cosines that a rule decides by."""
        rule = RULES[wildcards.repair]
        if "cosines" not in rule.reads:
            return []
        scorer = rule.scorer or self._dag.models.scorer or self._filter.scorer
        return of_job(wildcards, fill(paths.SCORES, scorer=scorer))

    def audits(self, wildcards: Any) -> list[str]:
        """Return the probabilities of the audit, where a rule needs them.

        Where the truth is not known, the ledgers of other rules read those that the rule posterior
        needs anyway: they expect from them how many wrong and right captions a rule changes.
        """
        expects = self.audits_draws and not self._dag.truth_of_all()
        rule = RULES[wildcards.repair]
        needs = "audit" in rule.reads or (expects and rule.changes)
        return of_job(wildcards, paths.WEIGHTS) if needs else []

    def deciding(self, wildcards: Any) -> str:
        """Return the flags that a rule decides by, and no other setting.

        So a change of a number reruns only the rules that read it.
        """
        read = {name: getattr(self._filter, name) for name in RULES[wildcards.repair].numbers}
        return command_line(type(self._filter)(**read))

    def scoring_towers(self) -> str | None:
        """Return the towers of ``filter_captions.scorer`` if they are not the run's own."""
        chosen: str = self._filter.scorer
        return chosen if self._dag.runs("repair") and chosen not in (RAW, UNTOUCHED) else None

    @staticmethod
    def scorer(pattern: str) -> Files:
        """Return the function that names files of a scoring model's towers.

        `pattern` has ``{towers}``, and ``{arm}`` for the projections that score.
        """

        def files(wildcards: Any) -> list[str]:
            own_towers = wildcards.scorer in (RAW, UNTOUCHED)
            arm = UNTOUCHED
            if wildcards.scorer == RAW:
                arm = f"{REPAIR}{RAW}_{wildcards.scheme}~{wildcards.rate}"
            towers = wildcards.towers if own_towers else wildcards.scorer
            return [fill(pattern, **{**dict(wildcards.items()), "towers": towers, "arm": arm})]

        return files

    def written_for_scorer(self, template: str) -> Files:
        """Return the function that names a scoring model's features of captions of a scheme."""
        named, written = self.scorer(template), self._dag.written(template)
        return lambda wildcards: named(wildcards) if written(wildcards) else []

    @staticmethod
    def features(template: str) -> Files:
        """Return the function that names features, or rows, of new captions."""

        def files(wildcards: Any) -> list[str]:
            rule = rule_of(wildcards.start)
            if not wildcards.start.startswith(REPAIR) or not RULES[rule].replaces:
                return []
            return of_job(wildcards, template)

        return files

    def texts(self, wildcards: Any) -> list[str]:
        """Return the texts of all captions that a rule may give."""
        templates = [pairs.WRITTEN]
        if "new" in RULES[wildcards.repair].reads:
            templates.append(paths.RECAPTION_TEXTS)
        return [*self._dag.every(pairs.CAPTIONS), *of_job(wildcards, *templates)]

    def judging(self) -> str:
        """Return the flags of weigh_pairs, which judges all pairs of each draw here."""
        training = self._config.finetune_projection
        device = self._dag.device("finetune_projection")
        key = "filter_captions.rules: posterior"
        return f"--key '{key}' --seeds {training.seeds} --seed {training.seed} --device {device}"

    def answers(self) -> list[str]:
        """Return the answers of every arm of the study."""
        files: list[str] = self._dag.every(evaluation.ANSWERS, arm=self._arms)
        return files


def results(dag: Any) -> list[str]:
    """Return all files of results; none if the study does not run."""
    if not dag.runs("repair"):
        return []
    return [*dag.repair.files(), *dag.every(pairs.STATISTICS)]


def rule_of(start: str) -> str:
    """Return the rule of an arm by the name of its start."""
    return start.removeprefix(REPAIR)


# Jobs of towers that are trained from scratch on the captions of each rule.
#
# Each draw of the corruption is a loop of its own. Towers are trained from scratch on its raw
# captions. A captioner learns from trusted pairs on features of these towers, and their cosines
# score old and new captions. Each rule decides, and towers are trained from scratch on its
# captions. No model in the loop has seen captions before the corruption, except those of trusted
# pairs.


def trains_towers(config: Any) -> bool:
    """Return whether a configuration trains towers from scratch on repaired captions."""
    return "repair" in config.studies and "towers" in config.filter_captions.trains


def results_of_draws(dag: Any, rates: list[float]) -> list[str]:
    """Return the ledger and the measures of every rule, rate and draw.

    At rate 0 the raw captions are the right ones, so there is no oracle.

    Raises
    ------
    UserError
        If the captioner does not learn on features of the towers.
    """
    if dag.config.recaption_pairs.captioner != TRAINED:
        raise UserError(
            "filter_captions.trains: towers needs recaption_pairs.captioner: trained, which learns "
            "on features of towers that were trained from scratch."
        )
    scheme = dag.config.corrupt_captions.schemes[0]
    chosen_rules = ("raw", *dag.config.filter_captions.rules)
    jobs = [
        (f"{rate:g}", draw, name)
        for rate in rates
        for draw in range(dag.config.train_small_towers.seeds)
        for name, rule in RULES.items()
        if rule.from_scratch and name in chosen_rules and (rate > 0 or not rule.own_captions)
    ]
    tables = {"corpus": [dag.corpus], "scheme": [scheme], "rate draw repair": jobs}
    return [*every(paths.LEDGER_OF_DRAW, tables), *every(paths.MIXING_OF_DRAW, tables)]


def if_read(what: str, *templates: str) -> Files:
    """Return the function that names files if the rule of a job reads `what` (`Rule.reads`)."""
    return lambda job: of_job(job, *templates) if what in RULES[job.repair].reads else []


def written_of_draw(wildcards: Any) -> list[str]:
    """Return the texts that a rule may give and the corpus does not have."""
    fresh = if_read("new", paths.RAW_RECAPTION_TEXTS)(wildcards)
    return [*of_job(wildcards, CAPTIONS), *fresh]


def original_of_draw(dag: Any) -> str:
    """Return the pairing of a draw without corruption."""
    return fill(PAIRING, scheme=dag.config.corrupt_captions.schemes[0], rate=0)
