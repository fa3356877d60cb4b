"""The two named sets of numbers of the simulation study.

``as-run`` is what the authors' public code of February 2025 does (repository sun-messi/VLM,
``synthetic_experiment.py``). Its noise scale is s = 8/d = 0.16: captions carry 1.5 s in training,
s / 10 where they are of high quality, and images and prompts s in the test.

``as-written`` is what the paper says: section 5.1 for the sizes, noise, optimiser and test, Eq. 1
for the loss, Eqs. 2 and 3 for the encoders, Eqs. 6 and 7 for the decoder, section 2.1 for the
stages. The text leaves open what `UNSTATED` lists; those numbers are ours.
"""

from __future__ import annotations

from typing import Any

_NOISE = 8 / 50

AS_RUN: dict[str, Any] = {
    "d1": 2500,
    "d": 50,
    "m": 80,
    "classes": 5,
    "dictionaries": "qr",
    "latent_values": "binary",
    "latent_density": 0.1,
    "misalignment": "caption",
    "spurious_group_size": 5,
    "noise_unit": "std",
    "image_noise": 0.0,
    "text_noise": round(1.5 * _NOISE, 6),
    "high_quality_noise": round(_NOISE / 10, 6),
    "data": "fresh",
    "low_quality_pairs": 5000,
    "high_quality_pairs": 1000,
    "pretrain_on_high_quality": False,
    "encoder": "relu",
    "unit_rows": True,
    "start_std": 1e-3,
    "bias_schedule": "practical",
    "bias_scale": 1.2,
    "phase2_steps": 500,
    "phase2_growth": 1.0,
    "loss": "infonce",
    "loss_reduction": "mean",
    "temperature": 0.1,
    "weight_penalty": 1e-3,
    "optimiser": "adam",
    "lr": 3e-3,
    "lr_decay": 0.1,
    "lr_decay_every": 10,
    "batch_size": 500,
    "epochs": 30,
    "steps_per_epoch": 20,
    "decoder": "relu",
    "decoder_start": "encoders-if-purified",
    "decoder_data": "one-hot",
    "decoder_trains": "both",
    "decoder_optimiser": "adam",
    "decoder_loss_reduction": "mean",
    "decoder_lr": 1e-3,
    "decoder_steps": 30,
    "purified_share_needed": 0.5,
    "filter_factor": 1.2,
    "retrain_weights": "fresh",
    "retrain_with_raw": True,
    "retrain_epochs": 30,
    "retrain_epochs_filtered_only": 60,
    "figure1_definition": "as-run",
    "test_images": 1000,
    "test_density": 0.1,
    "test_margin": 2,
    "test_image_noise": _NOISE,
    "prompt_noise": _NOISE,
    "test_shift": 0.0,
    "threshold_low": 0.2,
    "threshold_high": 1.0,
    "threshold_step": 0.05,
}

AS_WRITTEN: dict[str, Any] = {
    **AS_RUN,
    "latent_values": "signed",
    "misalignment": "groups",
    "spurious_group_size": 5,
    "noise_unit": "variance",
    "image_noise": 1 / 50,
    "text_noise": 1 / 50,
    "high_quality_noise": 1 / 50,
    "data": "fixed",
    "pretrain_on_high_quality": True,
    "encoder": "symmetric-relu",
    "unit_rows": False,
    "start_std": 1e-5,
    "loss": "spectral",
    "loss_reduction": "sum",
    "temperature": 100.0,
    "weight_penalty": 0.0,
    "optimiser": "sgd",
    "lr": 1e-3,
    "lr_decay": 1.0,
    "lr_decay_every": 10,
    "epochs": 63,
    "steps_per_epoch": 12,
    "decoder": "symmetric-relu",
    "decoder_start": "encoders",
    "decoder_data": "high-quality",
    "decoder_optimiser": "sgd",
    "decoder_loss_reduction": "sum",
    "decoder_lr": 1e-3,
    "decoder_steps": 150,
    "purified_share_needed": 0.0,
    "filter_factor": 1.0,
    "retrain_weights": "initial",
    "retrain_with_raw": False,
    "retrain_epochs": 63,
    "retrain_epochs_filtered_only": 63,
    "figure1_definition": "as-written",
    "test_density": 0.2,
    "test_margin": 1,
    "test_image_noise": 1 / 50,
    "prompt_noise": 1 / 50,
    "test_shift": 0.1,
}

PRESETS: dict[str, dict[str, Any]] = {"as-run": AS_RUN, "as-written": AS_WRITTEN}

UNSTATED = (
    "misalignment", "spurious_group_size", "start_std", "bias_schedule", "bias_scale",
    "phase2_steps", "phase2_growth", "loss_reduction", "temperature", "epochs", "decoder_steps",
    "test_margin", "test_shift",
)  # fmt: skip
"""Settings of ``as-written`` whose values the paper's text does not give."""
