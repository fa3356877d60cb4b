# The sparse-coding study: a job has some trials of one condition, at one C_s or at several.
import re


wildcard_constraints:
    first="[0-9]+",
    last="[0-9]+",
    probabilities="[0-9.e+-]+",


rule simulate:
    output:
        simulation=simulation.SIMULATION,
    log:
        "logs/simulate/{condition}/cs~{probabilities}/trials~{first}-{last}.log",
    benchmark:
        "benchmarks/simulate/{condition}/cs~{probabilities}/trials~{first}-{last}.tsv"
    wildcard_constraints:
        condition="|".join(map(re.escape, dag.conditions)),
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=lambda wildcards: dag.gpus("simulate", wildcards),
    params:
        *code_version("simulate"),
        flags=dag.condition_flags,
        arms=dag.simulated_arms,
        probabilities=dag.probabilities_of,
        trials=dag.trials_of,
        # The resume state of a killed job: no output, so that Snakemake does not remove it.
        checkpoint=lambda wildcards, output: f"{output.simulation[:-5]}.checkpoint",
    message:
        "Simulate {wildcards.condition} at C_s = {wildcards.probabilities},"
        " trials {wildcards.first} to {wildcards.last}, on {params.arms}"
    shell:
        "python -m mispair simulate --condition {wildcards.condition:q}"
        " --spurious-probabilities {params.probabilities} --trials {params.trials}"
        " --arms {params.arms} --checkpoint {params.checkpoint:q}"
        " --simulation {output.simulation:q} {params.flags} > {log:q} 2>&1"


# All results of the study, without the report.
rule simulation:
    input:
        alone(lambda wildcards: dag.refuse_unlisted("simulation")),
        dag.results("simulation"),
