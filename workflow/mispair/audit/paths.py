"""Paths of the audit; see `mispair.core.paths`."""

FOLDER = "results/audit/{corpus}/{towers}"
AUDIT = f"{FOLDER}/audit.parquet"
RATES = f"{FOLDER}/audit.json"
CALIBRATION = f"{FOLDER}/calibration.json"
LISTS = f"{FOLDER}/lists"
SIMILAR_RATE = f"{FOLDER}/similar_by_labels.json"
SELECTION = f"{FOLDER}/selection.json"
WEIGHTS = f"{FOLDER}/weights/{{scheme}}~{{rate}}.safetensors"

SUSPECTS = "reports/figures/suspects.html"
