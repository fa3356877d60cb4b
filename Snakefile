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
include: "workflow/rules/simulation.smk"
include: "workflow/rules/sufficiency.smk"
include: "workflow/rules/shards.smk"
include: "workflow/rules/captions.smk"
include: "workflow/rules/checkpoints.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/projection.smk"
include: "workflow/rules/purity.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/stepsize.smk"
include: "workflow/rules/pretraining.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/laclip.smk"
include: "workflow/rules/failures.smk"


rule all:
    default_target: True
    input:
        "reports/index.html",
        dag.exports(),


localrules:
    all,
    simulation,
    sufficiency,
    image_text,
    laclip,
    stepsize,
    pretraining,


# One target per study: its results without the report. The companion studies (sufficiency,
# stepsize) run by their target even if `studies` does not list them.
rule simulation:
    input:
        lambda wildcards: dag.refuse_unlisted("simulation"),
        dag.simulations(),


rule sufficiency:
    input:
        lambda wildcards: dag.sufficiency.results(),


rule image_text:
    input:
        lambda wildcards: dag.refuse_unlisted("image_text"),
        [dag.measured(what) for what in ("purity", "zeroshot", "probe", "pruning", "semantics")],
        dag.compared(),
        dag.exported(),


rule stepsize:
    input:
        lambda wildcards: dag.stepsize.results(),


rule pretraining:
    input:
        lambda wildcards: dag.refuse_unlisted("pretraining"),
        dag.pretraining.results(),
