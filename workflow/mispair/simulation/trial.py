"""One trial: its data, its stages S1 to S4, and the measurements that all its arms share.

All arms of a trial share dictionaries, pairs, their order and the test sets. S1 starts from the
same weights for any training data, and so does S4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from mispair.core.resume import Keeper
from mispair.simulation.measure import AnyEncoders, Examiner, Row, rows_of
from mispair.simulation.sampling.data import (
    FixedSample,
    Population,
    draw_dictionaries,
    draw_high_quality,
    draw_low_quality,
    first_axes,
    joined,
)
from mispair.simulation.sampling.draws import TrialDraws, cross_moment, draw_spurious_sets
from mispair.simulation.sampling.inputs import BatchSource
from mispair.simulation.sampling.sources import FixedSource, FreshSource, MixedSource
from mispair.simulation.study import Study
from mispair.simulation.theory import (
    alignments_after,
    alignments_as_printed,
    caption_statistics,
    decode,
    sample_captions,
    scale,
    trajectory_errors,
)
from mispair.simulation.training.decoder import (
    Decoder,
    fit_decoder,
    start_decoder,
    starts_from_encoders,
)
from mispair.simulation.training.encoder import Encoders, draw_encoders
from mispair.simulation.training.filtering import compare, only, replaced_sample, shares
from mispair.simulation.training.training import Trained, TrainingLength
from mispair.simulation.training.transformer import TransformerEncoders, draw_transformers

ROUND = "filtered-"
"""Prefix of the arms of later rounds: filtered-2, filtered-3, ..."""

WATCHED_EVERY, WATCHED_UNTIL = 8, 200
"""Steps between two records of the alignments of phase I, and the last step recorded."""

PAIRED_UP = ("partner", "independent")
"""Models of misalignment whose spurious sets are pairs, as in Eqs. 35 and 36."""


@dataclass(frozen=True)
class PreparedTraining:
    """A prepared training: its start, its pairs, and its plan."""

    start: AnyEncoders
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

    ``rows`` holds its measurements and ``trained`` its trainings, by arm. ``watched`` holds steps
    of S1's phase I with the alignments (m, d) of both encoders then.
    """

    study: Study
    spurious_probability: float
    draws: TrialDraws
    rows: dict[str, list[Row]] = field(default_factory=dict)
    trained: dict[str, Trained] = field(default_factory=dict)
    watched: list[tuple[int, Tensor, Tensor]] = field(default_factory=list)
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
        if study.retrain_weights == "continued":
            start: AnyEncoders = self.trained["raw"].encoders
            plan = replace(plan, holds_thresholds=True)
        else:
            start = self._start("filtered" if study.retrain_weights == "fresh" else "raw")
        return PreparedTraining(start, source, plan)

    def longer(self, training: PreparedTraining, trained: Trained) -> PreparedTraining:
        """Prepare to continue a training, to see how low its loss can get (Theorem 4.1)."""
        epochs = -(-self.study.longer_steps // self.study.steps_per_epoch)
        plan = replace(self._plan(epochs), holds_thresholds=True)
        return PreparedTraining(trained.encoders, training.source, plan)

    def loss(self, encoders: AnyEncoders, source: BatchSource) -> float:
        """Return the mean loss over the batches of the first epoch, without the penalty."""
        study = self.study
        loss, total = self._plan(1).loss, 0.0
        for step in range(study.steps_per_epoch):
            batch = source.batch(step)
            features = encoders.features(0, batch.image), encoders.features(1, batch.text)
            total += float(loss(*features)[0])
        return total / study.steps_per_epoch

    def _start(self, name: str) -> AnyEncoders:
        draw = draw_transformers if self.study.encoder == "transformer" else draw_encoders
        return draw(self.draws, name, self.study)

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
        name = arm if arm == "random-decoder" or arm.startswith(ROUND) else "filtered"
        if name not in self._captions:
            self._captions[name] = self._make_captions(name)
        return self._captions[name]

    def _make_captions(self, name: str) -> Captions:
        study, dictionaries = self.study, self.dictionaries
        trained = self.trained[before(name)] if name.startswith(ROUND) else self.trained["raw"]
        encoders = trained.encoders
        enough = self._purified_enough(encoders)
        from_encoders = name != "random-decoder" and starts_from_encoders(study, enough)
        one_layer = encoders if isinstance(encoders, Encoders) and from_encoders else None
        decoder = start_decoder(self.draws, one_layer, study, trained.phases)
        decoder, loss = fit_decoder(self.draws, decoder, dictionaries, self.high_quality, study)
        sample = self.low_quality
        replaced, hidden = compare(encoders, decoder, sample, study.filter_factor)
        values = {
            "decoder_from_encoders": float(one_layer is not None),
            "decoder_loss": loss,
            **shares(replaced, sample.pairs.misaligned),
        }
        rows = rows_of(values)
        codes = sample.pairs
        captions = decoder.captions(hidden)
        generated = decode(captions, dictionaries.text)
        filtered = torch.where(replaced[:, None], generated, codes.text)
        # A decoder whose captions are short keeps features that a threshold of 1/2 misses.
        length = scale(captions, dictionaries.text, codes.image)
        rows += rows_of({"caption_scale": length})
        sources = {"raw": codes.text, "generated": generated, "filtered": filtered}
        if length > 0:
            sources["rescaled"] = decode(captions, dictionaries.text, length / 2)
        if name == "filtered" and self.draws.trial == 0:
            shown = {"raw": codes.text, "filtered": filtered}
            rows += sample_captions(codes.image, shown, replaced)
        for source, texts in sources.items():
            statistics = caption_statistics(codes.image, texts, self.spurious.correlated)
            counted = {name: value for name, value in statistics.items() if not math.isnan(value)}
            rows += rows_of(counted, source=source)
        return Captions(hidden, decoder, replaced, enough, rows)

    def _purified_enough(self, encoders: AnyEncoders) -> bool:
        study = self.study
        if study.decoder_start != "encoders-if-purified" or isinstance(
            encoders, TransformerEncoders
        ):
            return True
        count = self.examiner.purified(encoders, study.figure1_definition)
        return count.features > study.purified_share_needed * study.d

    # The theory's phase I -----------------------------------------------------------------------

    @property
    def follows_theory(self) -> bool:
        """Whether Eqs. 34 to 36 hold for the training of S1."""
        study = self.study
        return (
            study.optimiser == "sgd"
            and study.loss == "spectral"
            and study.encoder in ("symmetric-relu", "linear")
            and not study.unit_rows
        )

    def watch(self, step: int, encoders: Encoders) -> None:
        """Record the alignments before a step of S1, as long as thresholds are zero."""
        if step % WATCHED_EVERY or step > WATCHED_UNTIL:
            return
        thresholds = encoders.biases.any()
        if thresholds.device.type == "cpu" and thresholds:
            return
        sides = (self.dictionaries.image, self.dictionaries.text)
        # Alignments under thresholds become NaN and are left out later: a check synchronises a GPU.
        image, text = (
            (w @ rows.T).masked_fill_(thresholds, torch.nan)
            for w, rows in zip(encoders.weights, sides, strict=True)
        )
        self.watched.append((step, image, text))

    def trajectories(self) -> list[Row]:
        """Compare recorded alignments with Eq. 34 and, where features are in pairs, Eqs. 35, 36."""
        if not self.watched:
            return []
        values = torch.stack([torch.stack(both) for _, *both in self.watched]).cpu()
        watched = [
            (step, *both.double().numpy())
            for (step, *_), both in zip(self.watched, values, strict=True)
            if bool(both.isfinite().all())
        ]
        if not watched:
            return []
        study = self.study
        moment = cross_moment(study, self.spurious_probability, self.spurious)
        if study.pretrain_on_high_quality:
            aligned = cross_moment(study, 0.0, self.spurious)
            share = study.high_quality_pairs / (study.high_quality_pairs + study.low_quality_pairs)
            moment = share * aligned + (1 - share) * moment
        expected = moment.double().cpu().numpy()
        eta = study.lr * (study.batch_size if study.loss_reduction == "sum" else 1)
        _, image, text = watched[0]
        predicted = {"eq34": partial(alignments_after, image, text, expected, eta)}
        if study.misalignment in PAIRED_UP:
            partners = self.spurious.partners.argmax(dim=1).cpu().numpy()
            predicted["eq35"] = partial(alignments_as_printed, image, text, expected, partners, eta)
        correlated = self.spurious.correlated.cpu().numpy()
        return trajectory_errors(watched, predicted, correlated)


class WatchingKeeper:
    """Keeps recorded alignments together with the state of the training that trials watch."""

    def __init__(self, keeper: Keeper[Tensor], trials: Sequence[Trial]) -> None:
        self.keeper, self.trials = keeper, trials
        self.due = keeper.due

    def load(self) -> dict[str, Tensor] | None:
        """Return the last state, and restore the alignments recorded by then."""
        saved = self.keeper.load()
        if saved is None:
            return None
        state = dict(saved)
        # Each trial stops watching at its own step: thresholds need not rise in all at once.
        for number, trial in enumerate(self.trials):
            steps = state.pop(f"watched_steps.{number}").tolist()
            watched = state.pop(f"watched.{number}")
            trial.watched = [(s, *both) for s, both in zip(steps, watched, strict=True)]
        return state

    def save(self, state: Mapping[str, Tensor]) -> None:
        """Save a state with the alignments recorded so far."""
        seen: dict[str, Tensor] = {}
        for number, trial in enumerate(self.trials):
            # In main memory, as alignments of a restored state are.
            pairs = [torch.stack(both).cpu() for _, *both in trial.watched]
            seen[f"watched.{number}"] = torch.stack(pairs)
            seen[f"watched_steps.{number}"] = torch.tensor([step for step, *_ in trial.watched])
        self.keeper.save({**state, **seen})


def before(arm: str) -> str:
    """Return the arm of the round before: filtered-3 comes after filtered-2, that after filtered.

    Examples
    --------
    >>> before("filtered-3"), before("filtered-2")
    ('filtered-2', 'filtered')
    """
    number = int(arm.removeprefix(ROUND)) - 1
    return f"{ROUND}{number}" if number > 1 else "filtered"
