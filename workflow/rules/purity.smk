# Neurons: how much they overlap, and what is left when some are taken away.


rule measure_purity:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
    output:
        purity="results/arms/{corpus}/{towers}/{arm}/purity.json",
    log:
        "logs/measure_purity/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/measure_purity/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("measure_purity"),
        flags=dag.flags("measure_purity"),
    message:
        "Measure the purity of the neurons of {wildcards.arm}"
    shell:
        "python -m mispair measure-purity --projection {input.projection}"
        " --purity {output.purity} {params.flags} > {log} 2>&1"


rule prune_neurons:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        evaluation_features=dag.evaluation_features(),
    output:
        pruning="results/arms/{corpus}/{towers}/{arm}/pruning.json",
    log:
        "logs/prune_neurons/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/prune_neurons/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("prune_neurons"),
        flags=dag.flags("prune_neurons"),
    message:
        "Prune the neurons of {wildcards.arm} by purity and by chance"
    shell:
        "python -m mispair prune-neurons --projection {input.projection}"
        " --evaluation-features {input.evaluation_features:q} --pruning {output.pruning}"
        " {params.flags} > {log} 2>&1"
