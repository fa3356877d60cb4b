"""What the rules ask of the configuration: files, arms, flags and code versions.

The Snakefile and the rules hold no logic; this module holds it, so that it can be tested alone.
Paths are relative to the folder that Snakemake runs in, so a moved checkout reruns nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mispair import config as configuration
from mispair.evaluation.sets import CLASSNAMES, NUMBER_OF_SHARDS, TEMPLATES, files_of
from mispair.files import UserError, read_json
from mispair.pairs.evaluation_sets import EVALUATION_SETS
from mispair.pairs.sources import describe, resolve_shards
from mispair.provenance import PACKAGE
from mispair.reporting.catalogue import FIGURES, FORMS, TABLES
from mispair.settings import Settings, command_line
from mispair.simulation.conditions import conditions
from mispair.simulation.jobs import FIGURE_1, Job, jobs

SHIPPED_TOWERS = PACKAGE / "towers" / "shipped" / "scenes-small"
SCENES = "results/scenes/shards"
TOWER_CONFIG = "open_clip_config.json"
TOWER_FILES = (TOWER_CONFIG, "open_clip_model.safetensors", "bpe.txt.gz", "training.json")
TRAINED_TOWERS = [f"results/towers/trained/{name}" for name in TOWER_FILES]
GENERATED_SET_FILES = [
    f"results/scenes/evaluation/{{evaluation_set}}/{name}"
    for name in (CLASSNAMES, TEMPLATES, NUMBER_OF_SHARDS, "test/0.tar")
]
UNTOUCHED = "untouched"
GROUPS_PER_PART = 8
"""Groups of shards whose captions together make a part, roughly: texts are quicker than images."""
WRITING_SCHEMES = ("spurious", "missing", "drop")
"""Schemes of corrupt_captions that write captions anew."""
SIMULATION = "results/simulation/{condition}/cs~{probabilities}/trials~{first}-{last}.json"


def use_this_python() -> None:
    """Make ``python -m mispair`` in a rule mean this interpreter and this checkout.

    So neither an activated environment nor an installed package is needed, and
    ``snakemake --directory`` works.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    path = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in path if part)


def _corrupts(wildcards: Any, *schemes: str) -> bool:
    """Tell whether a pairing is by one of the schemes, and not the one of rate 0."""
    return wildcards.scheme in schemes and float(wildcards.rate) > 0


def has_gpu() -> bool:
    """Tell whether this machine has an NVIDIA GPU, without importing torch."""
    return Path("/dev/nvidia0").exists()


class Dag:
    """A checked configuration, and what follows from it.

    Parameters
    ----------
    content : dict
        ``config.yaml`` merged with what the command line says.
    source : str
        Its name, for messages.

    Raises
    ------
    UserError
        If a key is wrong or a file that it names is missing; nothing has run by then.
    """

    def __init__(self, content: dict[str, Any], source: str):
        self.config = configuration.validate(content, source)
        self.corpus: str = self.config.corpus
        self.towers: str = {"shipped": SHIPPED_TOWERS.name, "train": "trained"}.get(
            self.config.towers, Path(self.config.towers).name
        )
        # A study that is not run needs none of its files; one that is fails before any job.
        wanted = self.runs("image_text")
        self.groups = self._groups() if wanted else {}
        self.evaluation_sets = self._evaluation_sets() if wanted else {}
        self.tower_files = self._tower_files() if wanted else []
        simulated = self.runs("simulation")
        self.conditions = conditions(self.config.simulate) if simulated else {}
        self._simulations = self._jobs_of_the_simulation() if simulated else {}
        if wanted:
            self._refuse_too_many_neurons()

    def runs(self, study: str) -> bool:
        """Tell whether a study is among those that the configuration names."""
        return study in self.config.studies

    def flags(self, step: str) -> str:
        """Return a step's settings as one string of command-line flags."""
        # A step without settings is no section of the configuration.
        return command_line(getattr(self.config, step, Settings()))

    def gpus(self, step: str) -> int:
        """Return how many GPUs a step takes here: a CPU-only machine must not queue for one."""
        device = getattr(self.config, step).device
        return int(device == "cuda" or (device == "auto" and has_gpu()))

    # Inputs ---------------------------------------------------------------------------------

    @property
    def generated_shards(self) -> list[str]:
        """The shards that make_scenes writes."""
        return [f"{SCENES}/{name}.tar" for name in self.generated_shard_names]

    @property
    def generated_shard_names(self) -> list[str]:
        """Their names, as img2dataset numbers them."""
        return [f"{number:05d}" for number in range(self.config.make_scenes.shards)]

    def _groups(self) -> dict[str, list[str]]:
        if self.config.shards == configuration.GENERATED:
            shards = self.generated_shards
        else:
            shards = [str(shard) for shard in resolve_shards(self.config.shards)]
        size = self.config.index_shards.shards_per_job
        chunks = [shards[start : start + size] for start in range(0, len(shards), size)]
        return {f"{number:04d}": chunk for number, chunk in enumerate(chunks)}

    def echo(self) -> str:
        """Say which shards were matched, if they are the user's own."""
        if self._is_generated or not self.groups:
            return ""
        return f"shards: {describe([*map(Path, self._shards)], len(self.groups))}"

    def shards_of(self, wildcards: Any) -> list[str]:
        """Return the shards of a group."""
        return self.groups[wildcards.group]

    def downloads_of(self, wildcards: Any) -> list[str]:
        """Return what img2dataset says of its downloads, beside the shards of a group."""
        return self._beside(self.shards_of(wildcards), "_stats.json")

    def _beside(self, shards: list[str], ending: str) -> list[str]:
        """Return the files named after shards: of the user's own, those that there are."""
        found = [f"{shard.removesuffix('.tar')}{ending}" for shard in shards]
        return found if self._is_generated else [path for path in found if Path(path).is_file()]

    @property
    def _shards(self) -> list[str]:
        return [shard for group in self.groups.values() for shard in group]

    @property
    def _is_generated(self) -> bool:
        return bool(self.config.shards == configuration.GENERATED)

    @property
    def caption_table(self) -> list[str]:
        """The user's table of captions, if there is one."""
        return self._named_file("captions")

    @property
    def caption_keys(self) -> list[str]:
        """The keys of a list of captions without keys of its own."""
        return self._named_file("caption_keys")

    def _named_file(self, key: str) -> list[str]:
        path = getattr(self.config, key)
        if path is None:
            return []
        if not Path(path).is_file():
            raise UserError(f"{key}: there is no file {path} (looked from {Path.cwd()}).")
        return [path]

    @property
    def first_shards(self) -> list[str]:
        """The shards of the first group: the contact sheet shows samples of them."""
        return next(iter(self.groups.values()), [])

    def _evaluation_sets(self) -> dict[str, list[str]]:
        sets: dict[str, list[str]] = {}
        for source in self.config.evaluation_sets:
            if source in EVALUATION_SETS:
                found = [Path(path.format(evaluation_set=source)) for path in GENERATED_SET_FILES]
            elif Path(source).is_dir():
                found = files_of(Path(source))
            else:
                hint = configuration.nearest(source, EVALUATION_SETS)
                raise UserError(
                    f"evaluation_sets: {source!r} is neither a generated set "
                    f"({', '.join(EVALUATION_SETS)}) nor a folder.{hint}"
                )
            name = found[0].parent.name
            if name in sets:
                raise UserError(f"evaluation_sets: two sets are called {name!r}; rename a folder.")
            sets[name] = [str(path) for path in found]
        return sets

    def evaluation_files(self, wildcards: Any) -> list[str]:
        """Return the files of an evaluation set."""
        return self.evaluation_sets[wildcards.evaluation_set]

    def _tower_files(self) -> list[str]:
        """Return the files of the frozen towers; the configuration comes first."""
        if self.config.towers == "train":
            return TRAINED_TOWERS
        folder = SHIPPED_TOWERS if self.config.towers == "shipped" else Path(self.config.towers)
        if not (folder / TOWER_CONFIG).is_file():
            raise UserError(
                f"towers: {self.config.towers!r} is neither `shipped` nor `train` nor a folder "
                f"with an {TOWER_CONFIG} (a local open_clip model) in it."
            )
        others = sorted(p for p in folder.iterdir() if p.is_file() and p.name != TOWER_CONFIG)
        return [os.path.relpath(path) for path in [folder / TOWER_CONFIG, *others]]

    def _refuse_too_many_neurons(self) -> None:
        """Compare what pruning keeps with the width of the embedding that the towers name."""
        train = self.config.towers == "train"
        path = Path(self.tower_definition if train else self.tower_files[0])
        try:
            neurons = int(read_json(path)["model_cfg"]["embed_dim"])
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{path}: names no model_cfg.embed_dim; is it an open_clip model's configuration?"
            ) from error
        ks = self.config.prune_neurons.ks
        if max(ks) > neurons:
            raise UserError(
                f"prune_neurons.ks: {max(ks)} is more than the {neurons} neurons of the towers "
                f"({path}); allowed are 1 to {neurons}."
            )

    @property
    def tower_definition(self) -> str:
        """The model definition that pretrain_towers reads."""
        named = self.config.pretrain_towers.definition
        own = PACKAGE / "towers" / "definitions" / f"{named}.json"
        return os.path.relpath(own) if own.is_file() else named

    # Results --------------------------------------------------------------------------------

    @property
    def arms(self) -> list[str]:
        """The untouched projections, and every start fine-tuned at every rate."""
        return [UNTOUCHED] + [
            f"{start}_{corruption}"
            for start in self.config.finetune_projection.starts
            for corruption in self.corruptions
        ]

    @property
    def corruptions(self) -> list[str]:
        """Every scheme at every rate; at rate 0 they are all the same, so only the first is run."""
        schemes, rates = self.config.corrupt_captions.schemes, self.config.corrupt_captions.rates
        return [
            f"{scheme}~{rate:g}"
            for scheme in schemes
            for rate in rates
            if rate > 0 or scheme == schemes[0]
        ]

    @property
    def pruned_arms(self) -> list[str]:
        """The arms whose neurons are pruned."""
        return [arm for arm in self.arms if arm.split("_")[0] in self.config.prune_neurons.starts]

    def index(self, kind: str = "parquet") -> list[str]:
        """Return the index of every group, or what was ``rejected.parquet``."""
        return [f"results/pairs/{self.corpus}/index/{group}.{kind}" for group in self.groups]

    def features(self, kind: str) -> list[str]:
        """Return the feature files (``safetensors``) or their rows (``parquet``) of every group."""
        return [
            f"results/features/{self.corpus}/{self.towers}/{group}.{kind}" for group in self.groups
        ]

    def captions(self) -> list[str]:
        """Return the user's captions as read_captions writes them, if there are any."""
        return [f"results/pairs/{self.corpus}/captions.parquet"] if self.config.captions else []

    def gathered(self, name: str) -> list[str]:
        """Return a file of gather_index, when its study runs."""
        return [f"results/pairs/{self.corpus}/{name}"] if self.runs("image_text") else []

    @property
    def caption_parts(self) -> list[str]:
        """Names of the parts in which the captions of the corpus are encoded."""
        return [f"captions-{part}" for part in range(-(-len(self.groups) // GROUPS_PER_PART))]

    def distinct_captions(self) -> list[str]:
        """Return the captions of the corpus, each once, part by part."""
        return [f"results/pairs/{self.corpus}/{part}.parquet" for part in self.caption_parts]

    def texts(self, wildcards: Any) -> str:
        """Return the captions of a part of the corpus, or those that a scheme wrote anew."""
        folder, texts = f"results/pairs/{wildcards.corpus}", wildcards.texts
        if texts.startswith("captions-"):
            return f"{folder}/{texts}.parquet"
        return f"{folder}/pairing/{texts}.captions.parquet"

    def caption_features(self, kind: str) -> list[str]:
        """Return the features of the captions of the corpus, or their rows."""
        folder = f"results/features/{self.corpus}/{self.towers}"
        return [f"{folder}/{part}.{kind}" for part in self.caption_parts]

    def records(self) -> list[str]:
        """Return the record of every encoding of images, and of captions of the corpus."""
        of = {"encode_features": [*self.groups], "encode_captions": self.caption_parts}
        return [
            f"logs/{step}/{self.corpus}/{self.towers}/{name}.json"
            for step, names in of.items()
            for name in names
        ]

    def pairings(self, kind: str = "parquet") -> list[str]:
        """Return the pairing of every scheme and rate."""
        if not self.runs("image_text"):
            return []
        return [
            f"results/pairs/{self.corpus}/pairing/{corruption}.{kind}"
            for corruption in self.corruptions
        ]

    def written_captions(self) -> list[str]:
        """Return the captions that schemes wrote anew."""
        return self.pairings("captions.parquet")

    def compared_features(self, kind: str) -> list[str]:
        """Return the features by which captions are compared, if they are not by their words."""
        features = self.config.find_similar_captions.measure == "features"
        return self.caption_features(kind) if features else []

    def similar_captions(self, wildcards: Any) -> list[str]:
        """Return the captions most similar to each, for the scheme that asks for them."""
        if not _corrupts(wildcards, "similar"):
            return []
        return [f"results/pairs/{wildcards.corpus}/similar.parquet"]

    def truth(self, wildcards: Any) -> list[str]:
        """Return what is known of the pictures, for schemes that name features of them."""
        named = _corrupts(wildcards, "spurious", "missing")
        return self._beside(self._shards, ".parquet") if named else []

    def written(self, kind: str) -> Callable[[Any], list[str]]:
        """Return what names the features of the captions that a scheme wrote anew."""

        def files(wildcards: Any) -> list[str]:
            if not _corrupts(wildcards, *WRITING_SCHEMES):
                return []
            pattern = "results/features/{corpus}/{towers}/{scheme}~{rate}"
            return [f"{pattern.format(**dict(wildcards.items()))}.{kind}"]

        return files

    def evaluation_features(self) -> list[str]:
        """Return the features of every evaluation set."""
        return [
            f"results/evaluation/{self.towers}/{name}.safetensors" for name in self.evaluation_sets
        ]

    def measured(self, what: str) -> list[str]:
        """Return the metrics (``purity``, ``zeroshot``, ``pruning``) of every arm that has them."""
        if not self.runs("image_text"):
            return []
        arms = self.pruned_arms if what == "pruning" else self.arms
        return [f"results/arms/{self.corpus}/{self.towers}/{arm}/{what}.json" for arm in arms]

    def simulations(self) -> list[str]:
        """Return the results of every condition, some C_s and chunk of trials a file."""
        return list(self._simulations)

    def _jobs_of_the_simulation(self) -> dict[str, Job]:
        return {
            SIMULATION.format(
                condition=job.condition,
                probabilities="+".join(f"{p:g}" for p in job.spurious_probabilities),
                first=job.trials[0],
                last=job.trials[-1],
            ): job
            for job in jobs(self.config.simulate, self.conditions)
        }

    def condition_flags(self, wildcards: Any) -> str:
        """Return all settings of a condition as one string of command-line flags."""
        return command_line(self.conditions[wildcards.condition].study)

    def simulated_arms(self, wildcards: Any) -> str:
        """Return the arms of a job as one string; those of figure 1 for a file asked by hand.

        From the wildcards alone: Snakemake compares no params that are derived from the output.
        """
        job = self._simulations.get(SIMULATION.format(**dict(wildcards.items())))
        return " ".join(job.arms if job else FIGURE_1)

    @staticmethod
    def probabilities_of(wildcards: Any) -> list[str]:
        """Return every C_s of a job."""
        found: list[str] = wildcards.probabilities.split("+")
        return found

    @staticmethod
    def trials_of(wildcards: Any) -> list[int]:
        """Return the trials of a chunk."""
        return list(range(int(wildcards.first), int(wildcards.last) + 1))

    # Report ---------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Return the tidy tables of the report."""
        return [f"reports/tables/{name}" for name in TABLES]

    def figures(self, *forms: str) -> list[str]:
        """Return the figures of the studies that run, in the given forms or in every form."""
        return [
            f"reports/figures/{figure.name}.{form}"
            for form in forms or FORMS
            for study in self.config.studies
            for figure in FIGURES[study]
        ]

    @staticmethod
    def report_files(*patterns: str) -> list[str]:
        """Return data files of the report's package: code versions see Python modules only."""
        folder = PACKAGE / "reporting"
        found = sorted(path for pattern in patterns for path in folder.glob(pattern))
        return [os.path.relpath(path) for path in found]

    def contact_sheets(self) -> list[str]:
        """Return the contact sheet of the corpus, when its study runs."""
        return ["reports/figures/contact_sheet.html"] if self.runs("image_text") else []
