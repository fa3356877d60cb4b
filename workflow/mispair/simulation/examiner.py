"""The zero-shot test sets, and all that is measured of a trial's encoders."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from mispair.simulation import metrics
from mispair.simulation.encoder import Encoders
from mispair.simulation.inputs import Dense
from mispair.simulation.pairs import Dictionaries, TrialDraws
from mispair.simulation.study import PRESETS, Study

# The zero-shot test: shifted images with class labels, and one prompt per class (Eq. 8).


_MOST_DRAWS = 1000


class NoSuchImages(ValueError):  # noqa: N818 (it reads as what happened)
    """Hardly any test image has the required margin."""


@dataclass(frozen=True)
class TestSet:
    """Images with class labels, and one prompt per class.

    Attributes
    ----------
    images : Tensor (n, d1)
        x = M P_1 z_x + noise, with z_x of zeros and ones.
    labels : Tensor (n,) of int64
        The class with the most active features.
    prompts, clean_prompts : Tensor (classes, d1)
        H times the indicator of the class's features, with and without noise.
    """

    __test__ = False  # pytest would take the class for a test by its name

    images: Tensor
    labels: Tensor
    prompts: Tensor
    clean_prompts: Tensor


def draw_test_set(
    draws: TrialDraws, dictionaries: Dictionaries, study: Study, density: float, margin: int
) -> TestSet:
    """Draw ``study.test_images`` test images, and the prompts of the classes.

    `density` is the probability that a feature is active. Only images whose best class leads by at
    least `margin` active features are kept; 1 leaves out ties only.

    Raises
    ------
    NoSuchImages
        If hardly any image that is drawn leads by the margin.
    """
    generator = draws.generator("test")
    codes = _test_codes(draws, generator, study, density, margin)
    labels = _class_sums(codes, study).argmax(dim=1)
    codes = codes.to(draws.dtype)
    images = codes @ _shifted(draws, dictionaries.image, study)
    images += study.std("test_image_noise") * draws.normal(generator, *images.shape)
    members = torch.eye(study.classes, dtype=draws.dtype)
    clean = members.repeat_interleave(study.d // study.classes, dim=1) @ dictionaries.text
    prompts = clean + study.std("prompt_noise") * draws.normal(generator, *clean.shape)
    return TestSet(images, labels, prompts, clean)


def _class_sums(codes: Tensor, study: Study) -> Tensor:
    """Count each class's active features, (n, classes)."""
    return codes.view(len(codes), study.classes, -1).sum(dim=2)


def _test_codes(
    draws: TrialDraws, generator: torch.Generator, study: Study, density: float, margin: int
) -> Tensor:
    accepted: list[Tensor] = []
    for _ in range(_MOST_DRAWS):
        codes = draws.bernoulli(generator, density, 4 * study.test_images, study.d)
        best = _class_sums(codes, study).topk(2).values
        accepted.append(codes[best[:, 0] >= best[:, 1] + margin])
        if sum(map(len, accepted)) >= study.test_images:
            return torch.cat(accepted)[: study.test_images]
    raise NoSuchImages(
        f"test_margin: of {_MOST_DRAWS * 4 * study.test_images} test images with density "
        f"{density:g} only {sum(map(len, accepted))} lead by {margin} active features, and "
        f"{study.test_images} are needed; lower the margin or change test_density"
    )


def _shifted(draws: TrialDraws, rows: Tensor, study: Study) -> Tensor:
    """Return (M P_1)ᵀ (d, d1), with entries of P_1 - I uniform around zero."""
    if study.test_shift == 0:
        return rows
    bound = study.test_shift / study.d**0.5
    identity = torch.eye(study.d, dtype=draws.dtype)
    uniform = draws.uniform(draws.generator("test", "shift"), study.d, study.d).to(draws.dtype)
    shift = identity + bound * (2 * uniform - 1)
    return shift.T @ rows


# Measures of one trial's encoders.

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
