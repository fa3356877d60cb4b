"""One trial: its data, its stages S1 to S4, and the measurements that all its arms share.

All arms of a trial share dictionaries, pairs, their order and the test sets. S1 starts from the
same weights for any training data, and so does S4.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from mispair.core.progress import Progress
from mispair.core.resume import Keeper
from mispair.simulation import metrics
from mispair.simulation.decoder import (
    Decoder,
    compare,
    fit_decoder,
    only,
    replaced_sample,
    shares,
    start_decoder,
)
from mispair.simulation.encoder import Diverged, Encoders, Silenced, draw_encoders
from mispair.simulation.examiner import Examiner, Row, rows_of
from mispair.simulation.inputs import BatchSource
from mispair.simulation.pairs import (
    Population,
    TrialDraws,
    draw_dictionaries,
    draw_spurious_sets,
    first_axes,
)
from mispair.simulation.samples import (
    FixedSample,
    FixedSource,
    FreshSource,
    MixedSource,
    draw_high_quality,
    draw_low_quality,
    joined,
)
from mispair.simulation.study import Study
from mispair.simulation.training import Trained, TrainingLength, train

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedTraining:
    """A prepared training: its start, its pairs, and its plan."""

    start: Encoders
    source: BatchSource
    plan: TrainingLength


@dataclass(frozen=True)
class Captions:
    """Results of S2 and S3 on the pairs of S_w.

    Attributes
    ----------
    hidden : Tensor (n, m)
        The decoder's hidden activations on the images.
    decoder : Decoder
        Turns the hidden activations into captions.
    replaced : Tensor (n,) of bool
        Whether the generated caption is the better one.
    enough : bool
        Whether S1 purified enough features for the decoder to start from the encoders.
    rows : list of dict
        Measurements.
    """

    hidden: Tensor
    decoder: Decoder
    replaced: Tensor
    enough: bool
    rows: list[Row]


@dataclass(eq=False)
class Trial:
    """One trial of one condition at one C_s.

    ``rows`` holds its measurements and ``trained`` its trainings, by arm.
    """

    study: Study
    spurious_probability: float
    draws: TrialDraws
    rows: dict[str, list[Row]] = field(default_factory=dict)
    trained: dict[str, Trained] = field(default_factory=dict)
    _captions: dict[str, Captions] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Draw the dictionaries and the spurious sets."""
        draw = first_axes if self.study.dictionaries == "axes" else draw_dictionaries
        self.dictionaries = draw(self.draws, self.study.d1, self.study.d)
        self.spurious = draw_spurious_sets(self.draws, self.study)
        self.population = Population(
            self.draws, self.study, self.dictionaries, self.spurious, self.spurious_probability
        )
        self.examiner = Examiner(
            self.study, self.draws, self.dictionaries, self.spurious.correlated
        )

    @cached_property
    def high_quality(self) -> FixedSample:
        """S_h."""
        return draw_high_quality(self.population)

    @cached_property
    def low_quality(self) -> FixedSample:
        """S_w; with fresh data, the pairs that S3 filters."""
        return draw_low_quality(self.population)

    # S1 and S4 ----------------------------------------------------------------------------------

    def pretraining(self) -> PreparedTraining:
        """Prepare S1 on raw pairs."""
        study = self.study
        source: BatchSource
        if study.data == "fixed":
            source = self._fixed(self._with_high_quality(self.low_quality), "raw")
        elif study.pretrain_on_high_quality:
            source = self._mixed(self.high_quality, "raw", with_raw=True)
        else:
            source = FreshSource(self.population, "raw")
        return PreparedTraining(self._start("raw"), source, self._plan(study.epochs))

    def pretraining_on_high_quality(self) -> PreparedTraining:
        """Prepare S1 on S_h alone, for as many steps as on raw pairs."""
        source = self._fixed([self.high_quality], "raw")
        return PreparedTraining(self._start("raw"), source, self._plan(self.study.epochs))

    def retraining(self, arm: str) -> PreparedTraining:
        """Prepare S4 on the pairs that S2 and S3 make for an arm."""
        study, captions = self.study, self.captions(arm)
        everything = torch.ones_like(captions.replaced)
        replaced = everything if arm == "replace-all" else captions.replaced
        sample = replaced_sample(self.low_quality, captions.hidden, captions.decoder, replaced)
        plan = self._plan(study.retrain_epochs)
        source: BatchSource
        if arm == "generated-only":
            source = self._fixed([self.high_quality, only(sample, replaced)], "filtered")
        elif study.data == "fixed":
            raw = [self.low_quality] if study.retrain_with_raw and captions.enough else []
            source = self._fixed([*self._with_high_quality(sample), *raw], "filtered")
        else:
            fixed = joined(self._with_high_quality(sample))
            with_raw = study.retrain_with_raw and captions.enough
            source = self._mixed(fixed, "filtered", with_raw)
        if not captions.enough and arm != "generated-only":
            plan = TrainingLength(study, study.retrain_epochs_filtered_only, source.steps_per_epoch)
        start = self._start("filtered" if study.retrain_weights == "fresh" else "raw")
        return PreparedTraining(start, source, plan)

    def _start(self, name: str) -> Encoders:
        return draw_encoders(self.draws, name, self.study)

    def _plan(self, epochs: int) -> TrainingLength:
        return TrainingLength(self.study, epochs, self.study.steps_per_epoch)

    def _with_high_quality(self, sample: FixedSample) -> list[FixedSample]:
        return [self.high_quality, sample] if self.study.pretrain_on_high_quality else [sample]

    def _fixed(self, samples: list[FixedSample], name: str) -> FixedSource:
        return FixedSource(self.draws, name, samples, self.study)

    def _mixed(self, fixed: FixedSample, name: str, with_raw: bool) -> MixedSource:
        capacity = self.study.steps_per_epoch * self.study.batch_size
        raw = max(0, capacity - len(fixed)) if with_raw else 0
        return MixedSource(self.population, name, fixed, raw)

    # S2 and S3 ----------------------------------------------------------------------------------

    def captions(self, arm: str) -> Captions:
        """Fit the decoder that an arm uses (S2) and compare its captions with the raw ones (S3)."""
        name = arm if arm == "random-decoder" else "filtered"
        if name not in self._captions:
            self._captions[name] = self._make_captions(name)
        return self._captions[name]

    def _make_captions(self, name: str) -> Captions:
        study, dictionaries = self.study, self.dictionaries
        trained = self.trained["raw"]
        encoders = trained.encoders
        enough = self._purified_enough(encoders)
        from_encoders = name != "random-decoder" and enough
        start = encoders if from_encoders else None
        decoder = start_decoder(self.draws, start, study, trained.phases)
        decoder, loss = fit_decoder(self.draws, decoder, dictionaries, self.high_quality, study)
        sample = self.low_quality
        replaced, hidden = compare(encoders, decoder, sample, study.filter_factor)
        values = {
            "decoder_from_encoders": float(from_encoders),
            "decoder_loss": loss,
            **shares(replaced, sample.pairs.misaligned),
        }
        rows = rows_of(values)
        codes = sample.pairs
        captions = decoder.captions(hidden)
        generated = metrics.decode(captions, dictionaries.text)
        filtered = torch.where(replaced[:, None], generated, codes.text)
        # A decoder whose captions are short keeps features that a threshold of 1/2 misses.
        length = metrics.scale(captions, dictionaries.text, codes.image)
        rows += rows_of({"caption_scale": length})
        sources = {"raw": codes.text, "generated": generated, "filtered": filtered}
        if length > 0:
            sources["rescaled"] = metrics.decode(captions, dictionaries.text, length / 2)
        for source, texts in sources.items():
            statistics = metrics.caption_statistics(codes.image, texts, self.spurious.correlated)
            counted = {name: value for name, value in statistics.items() if not math.isnan(value)}
            rows += rows_of(counted, source=source)
        return Captions(hidden, decoder, replaced, enough, rows)

    def _purified_enough(self, encoders: Encoders) -> bool:
        study = self.study
        if study.decoder_start != "encoders-if-purified":
            return True
        count = self.examiner.purified(encoders, study.figure1_definition)
        return count.features > study.purified_share_needed * study.d


# The arms of a trial, one after the other on one thread.

RETRAINED = ("filtered", "replace-all", "generated-only", "random-decoder")
"""Arms that S4 trains."""

Keepers = Callable[[str], Keeper[Tensor] | None]
"""Returns the keeper of a training by its name."""


def run_trials(
    study: Study,
    spurious_probability: float,
    trials: Sequence[int],
    arms: Sequence[str] = ("raw", "filtered"),
    keepers: Keepers = lambda name: None,
) -> dict[int, dict[str, list[Row]]]:
    """Run trials of one condition at one C_s.

    Parameters
    ----------
    study : Study
        All settings.
    spurious_probability : float
        C_s, within the range of the study's model of misalignment.
    trials : sequence of int
        With the seed, the number of a trial determines every draw of it.
    arms : sequence of str
        Training data, of `mispair.simulation.study.ARMS`; ``raw`` is always run. With any but
        ``raw`` and ``filtered``, the run is detailed: alignments of single neurons are recorded.
    keepers : callable, optional
        Returns the keeper of each training.

    Returns
    -------
    dict of int to dict of str to list of dict
        By trial and arm, rows of ``metric``, ``value`` and distinguishing keys. An arm
        whose training diverged or fell silent has only the row ``diverged_at_step`` or
        ``silenced_at_step``; arms that depend on it have none.
    """
    dtype = torch.float64 if study.precision == "float64" else torch.float32
    outcomes = {}
    for number in trials:
        trial = Trial(study, spurious_probability, TrialDraws(study.seed, number, dtype))
        run_arms(trial, arms, keepers)
        outcomes[number] = trial.rows
    return outcomes


def run_arms(
    trial: Trial, arms: Sequence[str] = ("raw",), keepers: Keepers = lambda name: None
) -> None:
    """Take a trial through its arms; the trial holds its rows. See `run_trials`."""
    detailed = bool(set(arms) - {"raw", "filtered"})
    # No name holds the samples of S1, so that they are freed before S4.
    _train(trial, "raw", trial.pretraining(), detailed, keepers)
    if "high-quality-only" in arms:
        of_high_quality = trial.pretraining_on_high_quality
        _train(trial, "high-quality-only", of_high_quality(), detailed, keepers)
    for arm in arms:
        if arm in RETRAINED and "raw" in trial.trained:
            _retrain(trial, arm, detailed, keepers)


def _retrain(trial: Trial, arm: str, detailed: bool, keepers: Keepers) -> None:
    try:
        training = trial.retraining(arm)
    except Diverged as failure:
        _mark(trial, arm, failure, "the decoder")
        return
    _train(trial, arm, training, detailed, keepers)
    # Captions of the two other arms are those of the filtered arm, which reports them.
    if arm in trial.trained and arm not in ("replace-all", "generated-only"):
        trial.rows[arm] += trial.captions(arm).rows


def _train(
    trial: Trial, arm: str, training: PreparedTraining, detailed: bool, keepers: Keepers
) -> None:
    plan, number = training.plan, trial.draws.trial
    c_s = f"{trial.spurious_probability:g}"
    began = time.perf_counter()
    try:
        with Progress(f"{arm}, C_s {c_s}, trial {number}", plan.steps, "steps") as progress:
            keeper = keepers(f"{c_s}-{number}-{arm}")
            trained = train(training.start, training.source.batch, plan, keeper, progress.reach)
    except (Diverged, Silenced) as failure:
        _mark(trial, arm, failure, "training")
        return
    seconds = time.perf_counter() - began
    log.info(
        "%s: %d steps in %.1f s (%.2f ms a step)",
        arm, plan.steps, seconds, 1000 * seconds / plan.steps,
    )  # fmt: skip
    trial.trained[arm] = trained
    trial.rows[arm] = _measure(trial, arm, trained, detailed)


def _measure(trial: Trial, arm: str, trained: Trained, detailed: bool) -> list[Row]:
    examiner, study, encoders = trial.examiner, trial.study, trained.encoders
    rows = [*examiner.figure1(encoders), *examiner.protocols(encoders)]
    rows += examiner.neurons(encoders, detailed)
    steps = {"phase2_step": trained.phases.second, "phase3_step": trained.phases.third}
    rows += rows_of({name: step for name, step in steps.items() if step is not None})
    for epoch, losses in enumerate(trained.losses, start=1):
        rows += rows_of({"loss": float(losses.mean())}, epoch=epoch)
    if arm == "raw":
        for tower in ("image", "text"):
            ratio = study.noise_to_signal(f"{tower}_noise")
            rows += rows_of({"noise_to_signal": ratio}, tower=tower)
    return rows


def _mark(trial: Trial, arm: str, failure: Diverged | Silenced, what: str) -> None:
    log.warning(
        "C_s = %g, trial %d, %s arm: %s: %s; the other trials continue",
        trial.spurious_probability, trial.draws.trial, arm, what, failure,
    )  # fmt: skip
    metric = "silenced_at_step" if isinstance(failure, Silenced) else "diverged_at_step"
    trial.rows[arm] = rows_of({metric: failure.step})
