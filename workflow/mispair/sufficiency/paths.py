"""Paths of trees, trainings and what is measured of them; see `mispair.core.paths`."""

TREES = "results/sufficiency/{size}/tree~{tree}/trees.safetensors"
BAYES = "results/sufficiency/{size}/tree~{tree}/bayes.json"
TRAINING = "results/sufficiency/{size}/tree~{tree}/p~{flip}/seed~{seed}"
ENCODERS = f"{TRAINING}/encoders-{{variant}}.safetensors"
SUFFICIENCY = f"{TRAINING}/sufficiency.json"
HEAD = f"{TRAINING}/{{task}}-{{head}}.safetensors"
TRANSFER = f"{TRAINING}/transfer.json"
