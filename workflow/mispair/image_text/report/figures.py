"""Functions that draw the figures of the study."""

from __future__ import annotations

from mispair.evaluation.report import figures_basis, figures_pruning, figures_semantics
from mispair.image_text.report import (
    figures_neurons,
    figures_overlap,
    figures_schemes,
    figures_shuffling,
)
from mispair.pairs.report import figures_corpus
from mispair.report.drawings import by_name

DRAWINGS = by_name(
    figures_shuffling.purity_by_shuffling,
    figures_overlap.overlap_by_scale,
    figures_overlap.correlation_by_shuffling,
    figures_overlap.participation_by_shuffling,
    figures_neurons.cosine_histogram,
    figures_neurons.cosine_ladder,
    figures_neurons.overlap_map,
    figures_shuffling.accuracy_by_shuffling,
    figures_shuffling.silhouette_by_shuffling,
    figures_shuffling.compositional_by_shuffling,
    figures_pruning.pruning,
    figures_pruning.pruning_by_set,
    figures_pruning.pruning_silhouette_by_set,
    figures_pruning.pruning_renormalised,
    figures_pruning.pruning_controls,
    figures_overlap.shape_ratio,
    figures_semantics.semantics_by_shuffling,
    figures_semantics.semantic_purity,
    figures_basis.identified_basis,
    figures_shuffling.realised_swaps,
    figures_schemes.purity_by_scheme,
    figures_corpus.caption_lengths,
    figures_corpus.image_sizes,
)

SMALL = by_name(
    figures_schemes.small_overlap,
    figures_schemes.small_accuracy,
    figures_semantics.small_semantics,
    figures_pruning.small_pruning,
    figures_schemes.small_composition,
    figures_schemes.small_weights,
)
