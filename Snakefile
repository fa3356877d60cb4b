# mispair: how mismatched captions damage CLIP, and how recaptioning repairs it.
# `snakemake --cores N` runs the studies that config.yaml names and writes reports/index.html.
import logging
import sys

from snakemake.utils import min_version

min_version("9.0")
logging.raiseExceptions = False  # a full disk is one message, not one for each line of a log


configfile: workflow.source_path("config.yaml")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/pairs.smk"
include: "workflow/rules/towers.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/report.smk"


# Each study has its own rules, and a target that makes its results alone. The companion studies
# (sufficiency, stepsize) run by their target even if `studies` does not list them.
for study in STUDIES:

    include: f"workflow/rules/{study}.smk"


include: "workflow/rules/failures.smk"


rule all:
    default_target: True
    input:
        "reports/index.html",
        dag.exports(),


localrules:
    all,
