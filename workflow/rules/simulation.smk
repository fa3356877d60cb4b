# The sparse-coding study: one job per spurious probability C_s and chunk of trials.


rule simulate:
    output:
        simulation="results/simulation/cs~{probability}/trials~{first}-{last}.json",
    log:
        "logs/simulate/cs~{probability}/trials~{first}-{last}.log",
    benchmark:
        "benchmarks/simulate/cs~{probability}/trials~{first}-{last}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("simulate"),
    params:
        *code_version("simulate"),
        flags=dag.flags("simulate"),
        trials=dag.trials_of,
    message:
        "Simulate the four stages S1-S4 at C_s = {wildcards.probability}"
    shell:
        "python -m mispair simulate --spurious-probability {wildcards.probability}"
        " --trials {params.trials} --simulation {output.simulation} {params.flags} > {log} 2>&1"
