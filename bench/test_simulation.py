"""The bench's row for a GPU, tried small on what there is."""

import re

import pytest

from bench import simulation
from mispair.simulation.study import Study
from tests.simulation.test_simulation_run import DEVICES

SIZES = {
    "d1": 100, "d": 10, "m": 16, "classes": 5, "batch_size": 60, "epochs": 2, "steps_per_epoch": 3,
    "low_quality_pairs": 180, "high_quality_pairs": 60, "retrain_epochs": 2,
    "retrain_epochs_filtered_only": 2, "decoder_steps": 5, "latent_density": 0.2,
    "test_images": 100, "test_density": 0.2, "test_margin": 1,
}  # fmt: skip


@DEVICES
@pytest.mark.parametrize("preset", ["as-run", "as-written"])
def test_a_figure_is_timed_with_all_trials_of_all_probabilities(preset: str, device: str) -> None:
    study = Study.model_validate({"preset": preset, **SIZES})
    what, seconds, against, share = simulation.stacked_figure(study, device, [0.1, 0.3], range(2))
    assert "4 trials side by side" in what
    assert float(seconds.removesuffix(" s")) > 0
    assert re.search(r"[0-9.]+ TFLOP/s in float32", against)
    assert share.endswith("% of peak")
