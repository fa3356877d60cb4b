"""Paths of encoded evaluation sets and of what is measured of an arm; see `mispair.core.paths`."""

from mispair.towers.paths import ARM

SET_FEATURES = "results/evaluation/{towers}/{evaluation_set}/{split}.safetensors"
PROMPTS = "results/evaluation/{towers}/{evaluation_set}/prompts~{protocol}.safetensors"

PURITY = f"{ARM}/purity.json"
ZEROSHOT = f"{ARM}/zeroshot.json"
ANSWERS = f"{ARM}/answers.safetensors"
PROBE = f"{ARM}/probe.json"
PRUNING = f"{ARM}/pruning.json"
SEMANTICS = f"{ARM}/semantics.json"

NEURONS = "reports/figures/neurons.html"
