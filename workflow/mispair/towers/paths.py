"""Paths of towers, their features and their projections; see `mispair.core.paths`."""

TOWER_CONFIG = "open_clip_config.json"
TOWER_WEIGHTS = "open_clip_model.safetensors"
TRAINING_RECORD = "results/towers/trained/training.json"
TRAINED_TOWERS = [
    *(f"results/towers/trained/{name}" for name in (TOWER_CONFIG, TOWER_WEIGHTS)),
    TRAINING_RECORD,
]
"""Files of `pretrain_towers`; those with its model's vocabulary are next to them."""
TOWERS_OF_SEED = [path.replace("trained/", "trained-{seed}/") for path in TRAINED_TOWERS]
"""The same of one seed of ``compare_towers.towers``."""
CONVERTED_RECORD = "results/checkpoints/{model}/config.json"
CONVERTED_TOWERS = [
    *(f"results/checkpoints/{{model}}/{name}" for name in (TOWER_CONFIG, TOWER_WEIGHTS)),
    CONVERTED_RECORD,
]
"""Files of `convert_checkpoint`; the configuration comes first."""

FEATURES_FOLDER = "results/features/{corpus}/{towers}"
IMAGE_FEATURES = f"{FEATURES_FOLDER}/{{group}}.safetensors"
IMAGE_ROWS = f"{FEATURES_FOLDER}/{{group}}.parquet"
IMAGE_RECORD = "logs/encode_features/{corpus}/{towers}/{group}.json"
TEXT_FEATURES = f"{FEATURES_FOLDER}/{{texts}}.safetensors"
TEXT_ROWS = f"{FEATURES_FOLDER}/{{texts}}.parquet"
TEXT_RECORD = "logs/encode_captions/{corpus}/{towers}/{texts}.json"
WRITTEN_FEATURES = f"{FEATURES_FOLDER}/{{scheme}}~{{rate}}.safetensors"
WRITTEN_ROWS = f"{FEATURES_FOLDER}/{{scheme}}~{{rate}}.parquet"
"""Of captions that a scheme of corruption wrote."""
FEATURES_LIST = f"{FEATURES_FOLDER}/safetensors.sha256"
ROWS_LIST = f"{FEATURES_FOLDER}/parquet.sha256"
COVARIANCE = f"{FEATURES_FOLDER}/covariance/features.safetensors"

ARM = "results/arms/{corpus}/{towers}/{arm}"
PROJECTION = f"{ARM}/projection.safetensors"
UNTOUCHED_PROJECTION = "results/arms/{corpus}/{towers}/untouched/projection.safetensors"
TUNED_PROJECTION = "results/arms/{corpus}/{towers}/{start}_{scheme}~{rate}/projection.safetensors"
