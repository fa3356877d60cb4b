"""Paths of towers trained from scratch on wrong captions; see `mispair.core.paths`."""

PICTURES = "results/pretraining/{corpus}/pictures.safetensors"
TRAINING = "results/pretraining/{corpus}/{scheme}~{rate}/draw~{draw}"
PAIRING = f"{TRAINING}/pairing.parquet"
CAPTIONS = f"{TRAINING}/captions.parquet"
TOWERS = f"{TRAINING}/towers.safetensors"
MIXING = f"{TRAINING}/mixing.json"
