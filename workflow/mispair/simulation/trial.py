"""One trial: its data, its stages S1 to S4, and the measurements that all its arms share.

All arms of a trial share dictionaries, pairs, their order and the test sets. S1 starts from the
same weights for any training data, and so does S4.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from mispair.simulation import metrics
from mispair.simulation.sampling.data import (
    Dictionaries,
    FixedSample,
    Population,
    TestSet,
    draw_dictionaries,
    draw_high_quality,
    draw_low_quality,
    draw_test_set,
    first_axes,
    joined,
)
from mispair.simulation.sampling.draws import TrialDraws, draw_spurious_sets
from mispair.simulation.sampling.inputs import BatchSource, Dense
from mispair.simulation.sampling.sources import FixedSource, FreshSource, MixedSource
from mispair.simulation.study import PRESETS, Study
from mispair.simulation.training.decoder import (
    Decoder,
    compare,
    fit_decoder,
    only,
    replaced_sample,
    shares,
    start_decoder,
    starts_from_encoders,
)
from mispair.simulation.training.encoder import Encoders, draw_encoders
from mispair.simulation.training.training import Trained, TrainingLength

Row = dict[str, Any]


def rows_of(values: Mapping[str, float], **keys: Any) -> list[Row]:
    """Return a row for each metric, with its value and the given keys."""
    return [{"metric": name, "value": value, **keys} for name, value in values.items()]


MARGINS = (1, 2)
"""Margins of the test sets of ``accuracy_by_protocol``."""

SIMILARITY: dict[str, Literal["cosine", "inner"]] = {"as-run": "cosine", "as-written": "inner"}
"""Similarity that chooses an image's class: the public code's cosine, or section 2.2's product."""


@dataclass(frozen=True)
class Examiner:
    """Measures the encoders of one trial, always on the same test sets.

    ``spurious`` (d, d) is true where feature j' (column) is spuriously correlated with j.
    """

    study: Study
    draws: TrialDraws
    dictionaries: Dictionaries
    spurious: Tensor

    @cached_property
    def tests(self) -> dict[tuple[float, int], TestSet]:
        """Test sets by density and margin: of both definitions and of all protocols."""
        study = self.study
        needed = {self.protocol(definition) for definition in PRESETS}
        needed |= {(study.test_density, min(margin, self.widest_margin)) for margin in MARGINS}
        return {
            (density, margin): draw_test_set(self.draws, self.dictionaries, study, density, margin)
            for density, margin in sorted(needed)
        }

    @property
    def widest_margin(self) -> int:
        """Features of a class: the largest margin there can be."""
        return self.study.d // self.study.classes

    def protocol(self, definition: str) -> tuple[float, int]:
        """Return density and margin of the test set of a definition of figure 1."""
        if definition == self.study.figure1_definition:
            return self.study.test_density, self.study.test_margin
        preset = PRESETS[definition]
        return preset["test_density"], min(preset["test_margin"], self.widest_margin)

    def purified(self, encoders: Encoders, definition: str) -> metrics.Purified:
        """Count the image encoder's purified features by one of the two definitions."""
        cosines = metrics.alignments(encoders.weights[0], self.dictionaries.image)
        if definition == "as-written":
            return metrics.purified_as_written(cosines)
        return metrics.purified(cosines)

    def figure1(self, encoders: Encoders) -> list[Row]:
        """Measure figure 1's four numbers in both definitions."""
        rows: list[Row] = []
        for definition in PRESETS:
            count = self.purified(encoders, definition)
            values = {
                "purified_features": float(count.features),
                "purified_magnitude": count.magnitude,
                "purified_threshold": count.threshold,
            }
            test = self.tests[self.protocol(definition)]
            features = encoders.features(0, Dense(test.images))
            prompts = encoders.features(1, Dense(test.prompts))
            values["accuracy"] = metrics.zero_shot_accuracy(
                features, prompts, test.labels, SIMILARITY[definition]
            )
            values["silhouette"] = metrics.cosine_silhouette(features, test.labels)
            rows += rows_of(values, definition=definition)
        return rows

    def protocols(self, encoders: Encoders) -> list[Row]:
        """Measure accuracy with every choice of prompts, margin and bias that the text permits."""
        rows: list[Row] = []
        similarity = SIMILARITY[self.study.figure1_definition]
        for bias, variant in (("trained", encoders), ("zero", encoders.without_bias())):
            for margin in MARGINS:
                test = self.tests[self.study.test_density, min(margin, self.widest_margin)]
                features = variant.features(0, Dense(test.images))
                for prompts, texts in (("noisy", test.prompts), ("noiseless", test.clean_prompts)):
                    accuracy = metrics.zero_shot_accuracy(
                        features, variant.features(1, Dense(texts)), test.labels, similarity
                    )
                    rows += rows_of(
                        {"accuracy_by_protocol": accuracy},
                        prompts=prompts, margin=margin, bias=bias,
                    )  # fmt: skip
        return rows

    def neurons(self, encoders: Encoders, detailed: bool) -> list[Row]:
        """Measure cosines of neurons with features, and what neuron pairs mix (Theorem 4.2)."""
        rows: list[Row] = []
        dictionaries = self.dictionaries
        towers = (("image", dictionaries.image), ("text", dictionaries.text))
        for (tower, features), weights in zip(towers, encoders.weights, strict=True):
            cosines = metrics.alignments(weights, features)
            top = metrics.top_two(cosines)
            first, second = (float(column.mean()) for column in top.T)
            rows += rows_of({"top_alignment": first, "second_alignment": second}, tower=tower)
            if detailed:
                rows += [
                    {"metric": "neuron_alignment", "tower": tower, "neuron": neuron,
                     "x": float(first), "y": float(second)}
                    for neuron, (first, second) in enumerate(top)
                ]  # fmt: skip
            counts = metrics.histogram(cosines).tolist()
            edges = np.linspace(0, 1, len(counts) + 1).round(6).tolist()
            for value, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
                limits = {"from": low, "to": high}
                rows += rows_of({"cosine_histogram": value}, tower=tower, **limits)
        image, text = encoders.weights
        mixed = metrics.mixing(image, text, dictionaries.image, dictionaries.text, self.spurious)
        return rows + rows_of({k: v for k, v in mixed.items() if not np.isnan(v)})


# A trial.


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
        from_encoders = name != "random-decoder" and starts_from_encoders(study, enough)
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
