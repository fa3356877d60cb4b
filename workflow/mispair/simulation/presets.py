"""The named sets of numbers of the simulation study.

``as-run`` is what the authors' public code of February 2025 does (repository sun-messi/VLM,
``synthetic_experiment.py``). Its noise scale is s = 8/d = 0.16: captions carry 1.5 s in training,
s / 10 in the decoder's training, and images and prompts s in the test.
"""

from __future__ import annotations

from typing import Any

_NOISE = 8 / 50

AS_RUN: dict[str, Any] = {
    "d1": 2500,
    "d": 50,
    "m": 80,
    "classes": 5,
    "latent_density": 0.1,
    "text_noise": round(1.5 * _NOISE, 6),
    "start_std": 1e-3,
    "batch_size": 500,
    "epochs": 30,
    "steps_per_epoch": 20,
    "lr": 3e-3,
    "lr_decay": 0.1,
    "lr_decay_every": 10,
    "temperature": 0.1,
    "weight_penalty": 1e-3,
    "decoder_epochs": 30,
    "decoder_lr": 1e-3,
    "decoder_text_noise": round(_NOISE / 10, 6),
    "purified_share_needed": 0.5,
    "filter_factor": 1.2,
    "filtered_pairs": 5000,
    "retrain_weights": "fresh",
    "retrain_epochs": 30,
    "retrain_epochs_filtered_only": 60,
    "test_images": 1000,
    "test_density": 0.1,
    "test_margin": 2,
    "test_image_noise": _NOISE,
    "prompt_noise": _NOISE,
    "threshold_low": 0.2,
    "threshold_high": 1.0,
    "threshold_step": 0.05,
}

PRESETS: dict[str, dict[str, Any]] = {"as-run": AS_RUN}
