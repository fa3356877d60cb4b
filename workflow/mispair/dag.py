"""Files, arms, flags and code versions that the rules get from the configuration.

What the rules decide is here and not in them, so that it can be tested alone.
Paths are relative to the folder that Snakemake runs in, so a moved checkout reruns nothing.
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from mispair import config as configuration
from mispair.audit import paths as audit
from mispair.audit import seen_pairs
from mispair.audit.seen_pairs import OWN_SHARDS_AT_START, SHIPPED_SEED
from mispair.config_paths import COMMAND_LINE, Layers
from mispair.core import run_record
from mispair.core.commands import call, title
from mispair.core.devices import Gpus, has_gpu
from mispair.core.files import UserError
from mispair.core.paths import every, fill, of_job
from mispair.core.provenance import code_version, step_module_name
from mispair.core.settings import NONE, Settings, command_line, option
from mispair.core.stamps import stamp
from mispair.evaluation import paths as evaluation
from mispair.evaluation.dag import Evaluation, generated_files, is_name, set_sources
from mispair.image_text import dag as image_text
from mispair.pairs import paths as pairs
from mispair.pairs.corruption.scheme import Scheme, schemes
from mispair.pairs.dag import PairFiles
from mispair.pairs.index.faults import ImageLimits
from mispair.pairs.sources.source import refuse_address
from mispair.pretraining.dag import Pretraining
from mispair.repair import dag as repair
from mispair.repair.dag import trains_towers
from mispair.repair.paths import RECAPTION_TEXTS
from mispair.report import paths as reports
from mispair.report import studies
from mispair.review import dag as review
from mispair.simulation.dag import Simulation
from mispair.stepsize.dag import Stepsize
from mispair.sufficiency.dag import PUBLISHED, STEPS_WITH_DEVICE, Sufficiency
from mispair.towers import paths as towers
from mispair.towers.arms import WEIGHTED
from mispair.towers.dag import SHIPPED, Models, TowerTrainings

SHOWN_GROUPS = 4
"""Largest number of groups of shards from which the gallery of neurons takes pictures."""
GROUPS_PER_PART = 8
"""Approximate groups of shards per part of captions: texts are encoded faster than images."""


def _literal(value: Any) -> Any:
    """Return a parameter of a rule in which Snakemake takes no brace for a wildcard."""
    return (lambda wildcards: value) if isinstance(value, str) else value


def _scheme(wildcards: Any) -> Scheme | None:
    """Return the scheme of a pairing; that of rate 0 is by none."""
    return schemes().get(wildcards.scheme) if float(wildcards.rate) > 0 else None


class Dag:
    """A checked configuration, and the files, arms and flags that follow from it.

    Parameters
    ----------
    content : dict
        ``config.yaml`` merged with the command line.
    source : str or mapping
        Its name, or all of its sources by name, for messages.
    nodes_have_gpus : bool
        Whether jobs run elsewhere, on nodes with GPUs.
    in_a_job : bool
        Whether one job of a run that has begun reads the configuration.

    Attributes
    ----------
    config : pydantic.BaseModel
        The settings.
    record : dict or None
        The record of the run that is made again.
    corpus, towers : str
        Names of the corpus and of the towers that are fine-tuned, in paths.
    arms : list of towers.arms.Arm
        Fine-tunings of the image-text study.
    pairs, models, training, repair, evaluation, pretraining, simulation, sufficiency, stepsize
        What the package of that name asks of its jobs; for `training`, `towers.pretraining`.

    Raises
    ------
    UserError
        If a key is wrong or a file that it names is missing; nothing has run by then.
    """

    def __init__(
        self,
        content: dict[str, Any],
        source: str | Layers,
        nodes_have_gpus: bool = False,
        in_a_job: bool = False,
    ):
        self._nodes_have_gpus = nodes_have_gpus
        self.config = configuration.validate(content, source)
        self.record = content.get(run_record.RECORD)
        if self.record in (NONE, "null"):  # on Snakemake's command line every null is a word
            self.record = None
        if self.record is not None:
            run_record.refuse_other_version(self.record)
        self.corpus: str = self.config.corpus
        if self.runs("laclip") and not self.config.models:
            raise UserError(
                "models: the list is empty, and the study laclip compares models. Copy those of "
                "config/laclip.yaml that you have."
            )
        # Files of a study that is not run may be missing; other missing files stop all jobs.
        of_image_text, compared = self.runs("image_text"), self.runs("laclip")
        self.arms = image_text.arms_of(self.config) if of_image_text else []
        has_file = isinstance(source, str) or any(name != COMMAND_LINE for name in source)
        uses_pairs = self.encodes or self.runs("pretraining")
        self.pairs = PairFiles(self.config, uses_pairs, has_file, in_a_job)
        self.repair = repair.Repair(self)
        self.training = TowerTrainings(self)
        self.models = Models(
            self.config.towers if self.encodes else None,
            self.config.models if compared else [],
            self.training.start(),
            self.repair.scoring_towers(),
            self.config.compare_towers.towers if of_image_text else (),
        )
        self.towers = self.models.main
        evaluates = of_image_text or compared or self.runs("repair")
        asked = (self.config.evaluation_sets, self.config.protocols) if evaluates else ([], [])
        self.evaluation = Evaluation(*asked)
        self.sufficiency, self.stepsize = Sufficiency(self.config), Stepsize(self.config)
        trains_small = self.runs("pretraining") or trains_towers(self.config)
        self.pretraining = Pretraining(self.config, trains_small, self.pairs.is_generated)
        self.simulation = Simulation(self)
        self._refuse()

    # What runs ------------------------------------------------------------------------------

    def runs(self, study: str) -> bool:
        """Return whether a study is among those that the configuration names."""
        return study in self.config.studies

    @property
    def encodes(self) -> bool:
        """Whether images and captions of the corpus are encoded."""
        return any(self.runs(study) for study in ("image_text", "audit", "repair"))

    def refuse_unencoded(self, study: str) -> None:
        """Raise an error for the results of a study if no study encodes the corpus.

        Raises
        ------
        UserError
            If the configuration lists no study that encodes the corpus.
        """
        if not self.encodes:
            raise UserError(
                f"studies: no study in the list encodes a corpus. Add {study} to `studies`."
            )

    def refuse_unlisted(self, study: str) -> list[str]:
        """Return no files, as an input of a target that needs its study in the configuration.

        Raises
        ------
        UserError
            If the configuration does not list the study.
        """
        if self.runs(study):
            return []
        raise UserError(
            f"studies: {study} is not in the list, so this target has no files. Add {study}, or "
            "name a configuration that has it (config, such as "
            "pretraining-captions.yaml) with --configfile."
        )

    @cached_property
    def _tables(self) -> dict[str, Iterable[Any]]:
        """The values of the wildcards of paths in this configuration, for `every`.

        There are no towers if no study encodes the corpus.
        """
        return {
            "corpus": [self.corpus],
            "towers": [self.towers] if self.encodes else [],
            "group": self.pairs.groups,
            "texts": self.caption_parts,
            "arm": self.arms,
            "scheme rate": [
                (name, f"{rate:g}") for name, rate in image_text.schemes_and_rates(self.config)
            ],
            "study": self.config.studies,
        }

    def every(self, template: str, **chosen: Iterable[Any]) -> list[str]:
        """Return the paths of a template for every group, part of the captions, arm and so on.

        `chosen` are other values of a wildcard than those of the configuration.
        """
        return every(template, self._tables | chosen)

    @property
    def caption_parts(self) -> list[str]:
        """Names of the parts in which the captions of the corpus are encoded."""
        return [f"captions-{part}" for part in range(-(-len(self.pairs.groups) // GROUPS_PER_PART))]

    # Checks ---------------------------------------------------------------------------------

    def _refuse(self) -> None:
        """Raise an error for what a job would refuse, and for files that are missing."""
        for study in ("sufficiency", "stepsize"):
            if self.runs(study):
                self.results(study)  # raises if its settings do not fit
        if self.runs("image_text"):
            self._refuse_more_neurons_than_there_are()
        self.training.refuse()
        self._refuse_seen_pairs()
        if self.encodes:
            for key in ("trusted", "reviewed", "reviewed_repairs", "caption_keys", "groups"):
                self.user_file(key)  # raises if the file is missing
            review.kept(self)
            self.pairs.caption_tables()

    def _refuse_more_neurons_than_there_are(self) -> None:
        most = max(self.config.prune_neurons.ks or [0])
        neurons = self.models.neurons(self.training.definition_file)
        if neurons is not None and most > neurons:
            raise UserError(
                f"prune_neurons.ks: {most} is more than the {neurons} neurons of the towers "
                f"{self.towers}; allowed are 1 to {neurons}."
            )

    @property
    def _judges(self) -> bool:
        """Whether the towers judge which captions are wrong."""
        weighs = self.runs("image_text") and self.config.finetune_projection.weights == "audit"
        return self.runs("audit") or weighs or self.repair.audits_draws

    def _refuse_seen_pairs(self) -> None:
        """Refuse towers that judge pairs that they were trained on, as far as is known by now."""
        if not self._judges:
            return
        if self.training.of_corpus:
            seen_pairs.refuse("towers: `train`")
        seed = self.config.make_scenes.seed
        if self.pairs.is_generated and self.config.towers in SHIPPED and seed == SHIPPED_SEED:
            seen_pairs.refuse(f"towers: {self.config.towers}, with make_scenes.seed {seed},")
        shards = [Path(shard) for shard in self.shards_to_compare()]
        sizes = [shard.stat().st_size for shard in shards if shard.is_file()]
        if len(sizes) == len(shards) and sum(sizes) <= OWN_SHARDS_AT_START:
            seen_pairs.refuse_seen([*map(Path, self.training_record())], shards)

    def training_record(self) -> list[str]:
        """Return the record of the training of towers that may have seen the pairs they judge.

        Towers that were trained on shards of other names have not. The shipped towers have their
        own seed of make_scenes.
        """
        if not self._judges or (self.pairs.is_generated and self.config.towers in SHIPPED):
            return []
        files = self.models.files(self.towers)
        records = [path for path in files if Path(path).name == seen_pairs.RECORD]
        return [path for path in records if seen_pairs.may_have_seen(path, self.pairs.shards())]

    def shards_to_compare(self) -> list[str]:
        """Return the shards of the corpus, if `training_record` is to be compared with them."""
        return self.pairs.shards() if self.training_record() else []

    # Inputs ---------------------------------------------------------------------------------

    def user_file(self, key: str) -> list[str]:
        """Return the user's file under a key of the configuration, if there is one.

        Raises
        ------
        UserError
            If it does not exist.
        """
        path = getattr(self.config, key)
        if path is None:
            return []
        refuse_address(key, path)
        if not Path(path).is_file():
            what = "is a folder. Name the file" if Path(path).is_dir() else "is no file. Correct it"
            if re.search(r"[*?\[{]", path) and not Path(path).exists():
                what = "is no file, and a glob is not read here. Name the one file that has all"
            raise UserError(f"{key}: {Path(path).absolute()} {what}, or take the key out.")
        return [path]

    def tower_files(self, wildcards: Any) -> list[str]:
        """Return the files of the frozen towers; the configuration comes first."""
        return self.models.files(wildcards.towers)

    def main_towers(self, wildcards: Any) -> list[str]:
        """Return the files of the towers that are fine-tuned; the configuration comes first."""
        return self.models.files(self.towers)

    @property
    def encoded_apart(self) -> str:
        """A pattern of the towers that a job of their own runs over the images of a group."""
        return f"(?!{re.escape(self.towers)}/)[^/]+" if self.pairs.streams else "[^/]+"

    def test_images(self, wildcards: Any) -> list[str]:
        """Return the image features of every evaluation set."""
        return self.evaluation.images(wildcards.towers)

    def evaluation_sets(self) -> list[str]:
        """Return the files of all evaluation sets that mispair generates for this run."""
        named = [name for name in set_sources(self.config.evaluation_sets) if is_name(name)]
        names = dict.fromkeys([*self.evaluation.generated_names(), *named])
        return [file for name in names for file in generated_files(name)]

    def prompts(self, wildcards: Any) -> list[str]:
        """Return the prompt features of every evaluation set and protocol."""
        return self.evaluation.prompts(wildcards.towers)

    def weights(self, wildcards: Any) -> list[str]:
        """Return the weights of the pairs that an arm is trained on, if it has any."""
        return of_job(wildcards, audit.WEIGHTS) if wildcards.start == WEIGHTED else []

    def corpus_of_draws(self, wildcards: Any) -> list[str]:
        """Return the corpus if the fine-tuning draws captions at each step."""
        draws = self.config.finetune_projection.draw_captions != "once"
        return of_job(wildcards, pairs.CORPUS) if draws else []

    @property
    def draws(self) -> int:
        """Draws of swaps in a pairing: one for each seed of the fine-tuning."""
        return int(self.config.finetune_projection.seeds)

    def of_towers(self, *templates: str) -> Callable[[Any], list[str]]:
        """Return a function that returns all paths of templates for the towers of a job."""
        return lambda wildcards: [
            path for each in templates for path in self.every(each, towers=[wildcards.towers])
        ]

    def captions(self) -> list[str]:
        """Return the user's captions as read_captions writes them, if there are any."""
        return self.every(pairs.CAPTION_TABLE) if self.config.captions is not None else []

    def texts(self, wildcards: Any) -> str:
        """Return the captions of a part of the corpus, or those that a scheme wrote."""
        corpus, texts = wildcards.corpus, wildcards.texts
        if texts.startswith("captions-"):
            return fill(pairs.CAPTIONS, corpus=corpus, texts=texts)
        if texts == "recaptions":
            # Other towers, which only score, encode the captions that are scored.
            return fill(RECAPTION_TEXTS, corpus=corpus, towers=self.towers)
        scheme, rate = texts.split("~")
        return fill(pairs.WRITTEN, corpus=corpus, scheme=scheme, rate=rate)

    def compared_features(self, template: str) -> list[str]:
        """Return the features by which captions are compared, if they are not by their words."""
        features = self.config.find_similar_captions.measure == "features"
        return self.every(template) if features else []

    def similar_captions(self, wildcards: Any) -> list[str]:
        """Return the captions most similar to each, for the scheme that needs them."""
        scheme = _scheme(wildcards)
        needed = scheme is not None and "similar" in scheme.reads
        return of_job(wildcards, pairs.SIMILAR) if needed else []

    def truth(self, wildcards: Any) -> list[str]:
        """Return the known features of the pictures, which schemes name and are measured by."""
        scheme = _scheme(wildcards)
        named = scheme is not None and "truth" in scheme.reads
        if not (self.pairs.is_generated or named):
            return []
        return self.pairs.beside(self.pairs.shards(), ".parquet")

    @staticmethod
    def written(template: str) -> Callable[[Any], list[str]]:
        """Return a function that names the features of the captions that a scheme wrote."""

        def files(wildcards: Any) -> list[str]:
            scheme = _scheme(wildcards)
            return of_job(wildcards, template) if scheme is not None and scheme.writes else []

        return files

    def covariance(self, wildcards: Any) -> list[str]:
        """Return the covariance of the features of the corpus, if the model encodes it."""
        measures = self.runs("image_text") or self.runs("repair")
        if wildcards.corpus != self.corpus or not measures:
            return []
        return of_job(wildcards, towers.COVARIANCE)

    def truth_of_all(self) -> list[str]:
        """Return the known features of the pictures of the generated corpus."""
        return self.pairs.beside(self.pairs.shards(), ".parquet") if self.pairs.is_generated else []

    # Results --------------------------------------------------------------------------------

    def ends(self) -> list[str]:
        """Return the final results of a run; all others are intermediate."""
        measured = [path for path in self.results() if path.startswith("results/")]
        kept = [path for path in measured if studies.is_measurement(path)]
        statistics = {*self.every(pairs.STATISTICS)} & {*measured}
        return [*kept, *sorted(statistics), *self.repair.exports()]

    def results(self, *names: str) -> list[str]:
        """Return the results of studies, by default of those that run, for the report's tables."""
        return [*dict.fromkeys(
            path
            for name in names or self.config.studies
            for path in import_module(f"mispair.{name}.dag").results(self)
        )]  # fmt: skip

    def curves(self) -> list[str]:
        """Return the folder for TensorBoard, if anything is trained."""
        trains = image_text.trained(self) or self.runs("simulation")
        return [reports.TENSORBOARD] if trains else []

    def pieces(self) -> list[str]:
        """Return the contact sheet and the galleries, if their studies run."""
        galleries = [pairs.CONTACT_SHEET, evaluation.NEURONS] if self.runs("image_text") else []
        suspects = [audit.SUSPECTS] if self.runs("audit") else []
        return [*galleries, *suspects, *self.repair.pieces()]

    # Parameters of rules --------------------------------------------------------------------

    def flags(self, step: str) -> str:
        """Return a step's settings as one string of command-line flags."""
        if step == "list_images":
            return self.image_limits()
        # A step without settings is no section of the configuration.
        section = getattr(self.config, step, Settings())
        update: dict[str, Any] = {}
        if hasattr(section, "device"):
            update["device"] = self.device(step)
        if step == "index_shards":
            fields = self.config.index_shards.json_fields
            update["json_fields"] = self.repair.recorded_fields(fields)
            update["caption_from"] = self.pairs.captions_in
        return command_line(section.model_copy(update=update))

    def image_limits(self) -> str:
        """Return the settings that decide which images are listed, as command-line flags."""
        reading = self.config.index_shards
        names = sorted(ImageLimits.model_fields)
        return " ".join(f"{option(name)} {getattr(reading, name)}" for name in names)

    def device(self, step: str) -> str:
        """Return the device of a step; under ``auto`` it is the CPU if its jobs are small.

        Such a job takes longer to start CUDA than to compute, and jobs queue for the GPUs.
        """
        config: Any = self.config
        section = getattr(config, step)
        if step == "find_similar_captions" and section.measure == "tfidf":
            return "cpu"  # it compares words
        if step in STEPS_WITH_DEVICE:
            small = self.sufficiency.size.leaves < PUBLISHED[0].leaves
        else:
            small = config.towers in [*SHIPPED] and not config.models and step != "pretrain_towers"
        device: str = section.device
        return "cpu" if small and device == "auto" else device

    def gpus(self, step: str) -> Gpus:
        """Return how many GPUs a step takes: a CPU-only machine must not queue for one."""
        device = self.device(step)
        takes_one = device == "cuda" or (device == "auto" and (self._nodes_have_gpus or has_gpu()))
        gpus = Gpus(takes_one)
        gpus.section = step
        return gpus

    def stamps(self, *inputs: Callable[[Any], list[str] | str] | list[str]) -> Callable[[Any], str]:
        """Return a function that stamps the user's files among the inputs of a job."""

        def stamps(wildcards: Any) -> str:
            files = [given(wildcards) if callable(given) else given for given in inputs]
            names = [
                path for paths in files for path in ([paths] if isinstance(paths, str) else paths)
            ]
            return stamp(names) + self.pairs.marks(names)

        return stamps

    def step(self, *names: str, **given: Any) -> dict[str, Any]:
        """Return the ``params`` of a rule that runs steps, one after the other, in one process.

        Snakemake reruns a job if these change: the ``code`` of the steps, their settings, which are
        ``flags`` of the last step and ``flags_STEP`` of those before it, and what is given besides.
        ``call`` is the command without the last flags, from what the job has; see
        `mispair.core.commands.call`. ``title`` is what Snakemake prints.
        """
        code = given.pop("code", None) or code_version(names[0], *map(step_module_name, names[1:]))
        flags = {name: self.flags(name) for name in names[:-1]}
        params = {"title": title(names[0]), "call": call(names, given, flags), **given}
        params |= {f"flags_{name}": text for name, text in flags.items()}
        # One parameter for each module: Snakemake's reason of a rerun has those that differ.
        lines = [code] if callable(code) else code
        params |= {f"code{number}": line for number, line in enumerate(lines)}
        if "flags" not in given:
            params["flags"] = self.flags(names[-1])
        return {name: _literal(value) for name, value in params.items()}
