# The stepsize study: a job has all stepsizes, seeds and widths of one data set and activation.
wildcard_constraints:
    part="[a-z]+",
    activation="[a-z_]+",
    data_set="[a-z0-9_]+",


rule train_two_layer:
    input:
        cifar=steady(dag.stepsize.cifar),
    output:
        measurements=stepsize.TWO_LAYER,
    log:
        "logs/train_two_layer/{part}/{data_set}/{activation}.log",
    benchmark:
        "benchmarks/train_two_layer/{part}/{data_set}/{activation}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("train_two_layer"),
        flags=literal(dag.flags("train_two_layer")),
        plan=dag.stepsize.part_flags,
        cifar=dag.stamps(dag.stepsize.cifar),
        # The resume state of a killed job: no output, so that Snakemake does not remove it.
        checkpoint=lambda wildcards, output: f"{output.measurements[:-5]}.checkpoint",
    message:
        "Train two-layer networks with {wildcards.activation} on {wildcards.data_set}:"
        " {wildcards.part}"
    shell:
        "python -m mispair train-two-layer --part {wildcards.part:q} --data-set {wildcards.data_set:q}"
        " --activation {wildcards.activation:q} {params.plan} --cifar {input.cifar:q}"
        " --checkpoint {params.checkpoint:q} --measurements {output.measurements:q}"
        " {params.flags} > {log:q} 2>&1"


rule train_multilayer:
    input:
        cifar=steady(dag.stepsize.cifar),
    output:
        measurements=stepsize.MULTILAYER,
    log:
        "logs/train_multilayer/{data_set}.log",
    benchmark:
        "benchmarks/train_multilayer/{data_set}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("train_multilayer"),
        flags=literal(dag.flags("train_multilayer")),
        cifar=dag.stamps(dag.stepsize.cifar),
        checkpoint=lambda wildcards, output: f"{output.measurements[:-5]}.checkpoint",
    message:
        "Train perceptrons of four layers on {wildcards.data_set}"
    shell:
        "python -m mispair train-multilayer --data-set {wildcards.data_set:q}"
        " --cifar {input.cifar:q} --checkpoint {params.checkpoint:q}"
        " --measurements {output.measurements:q} {params.flags} > {log:q} 2>&1"


# All results of the study, without the report.
rule stepsize:
    input:
        alone(lambda wildcards: dag.results("stepsize")),
