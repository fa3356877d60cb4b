# The joint generative hierarchical model: contrastive pre-training as approximate sufficiency.
wildcard_constraints:
    flip="[0-9.e-]+",
    head="frozen|shallow|untrained|oracle|joint|guided",
    seed="[0-9]+",
    size="[0-9]+x[0-9]+x[0-9]+",
    task="cdm|vlm",
    tree="[0-9]+",
    variant="standard|guided|shallow",


rule draw_trees:
    output:
        trees=sufficiency.TREES,
    log:
        "logs/draw_trees/{size}/tree~{tree}.log",
    benchmark:
        "benchmarks/draw_trees/{size}/tree~{tree}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_trees"),
        flags=literal(dag.flags("draw_trees")),
    message:
        "Draw the trees {wildcards.tree} of size {wildcards.size}"
    shell:
        "python -m mispair draw-trees --size {wildcards.size:q} --tree {wildcards.tree:q}"
        " --trees {output.trees:q} {params.flags} > {log:q} 2>&1"


rule measure_bayes:
    input:
        trees=sufficiency.TREES,
    output:
        bayes=sufficiency.BAYES,
    log:
        "logs/measure_bayes/{size}/tree~{tree}.log",
    benchmark:
        "benchmarks/measure_bayes/{size}/tree~{tree}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("measure_bayes"),
    params:
        *code_version("measure_bayes"),
        flags=literal(dag.flags("measure_bayes")),
    message:
        "Measure the least risks in the trees {wildcards.tree} of size {wildcards.size}"
    shell:
        "python -m mispair measure-bayes --trees {input.trees:q} --bayes {output.bayes:q}"
        " {params.flags} > {log:q} 2>&1"


rule train_encoders:
    input:
        trees=sufficiency.TREES,
    output:
        encoders=sufficiency.ENCODERS,
    log:
        "logs/train_encoders/{size}/tree~{tree}/p~{flip}/seed~{seed}/{variant}.log",
    benchmark:
        "benchmarks/train_encoders/{size}/tree~{tree}/p~{flip}/seed~{seed}/{variant}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("train_encoders"),
    params:
        *code_version("train_encoders"),
        flags=literal(dag.flags("train_encoders")),
        # The resume state of a killed job: no output, so that Snakemake does not remove it.
        checkpoint=lambda wildcards, output: f"{output.encoders[:-12]}.checkpoint",
    message:
        "Train {wildcards.variant} encoders at p = {wildcards.flip}, seed {wildcards.seed}"
    shell:
        "python -m mispair train-encoders --trees {input.trees:q} --flip {wildcards.flip:q}"
        " --variant {wildcards.variant:q} --seed {wildcards.seed:q} --checkpoint {params.checkpoint:q}"
        " --encoders {output.encoders:q} {params.flags} > {log:q} 2>&1"


rule measure_sufficiency:
    input:
        trees=sufficiency.TREES,
        encoders=dag.sufficiency.encoders_of,
    output:
        sufficiency=sufficiency.SUFFICIENCY,
    log:
        "logs/measure_sufficiency/{size}/tree~{tree}/p~{flip}/seed~{seed}.log",
    benchmark:
        "benchmarks/measure_sufficiency/{size}/tree~{tree}/p~{flip}/seed~{seed}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("measure_sufficiency"),
    params:
        *code_version("measure_sufficiency"),
        flags=literal(dag.flags("measure_sufficiency")),
    message:
        "Measure the sufficiency of encoders at p = {wildcards.flip}, seed {wildcards.seed}"
    shell:
        "python -m mispair measure-sufficiency --trees {input.trees:q} --flip {wildcards.flip:q}"
        " --seed {wildcards.seed:q} --encoders {input.encoders:q}"
        " --sufficiency {output.sufficiency:q} {params.flags} > {log:q} 2>&1"


rule train_head:
    input:
        trees=sufficiency.TREES,
        encoders=dag.sufficiency.encoders_of_head,
    output:
        head=sufficiency.HEAD,
    log:
        "logs/train_head/{size}/tree~{tree}/p~{flip}/seed~{seed}/{task}-{head}.log",
    benchmark:
        "benchmarks/train_head/{size}/tree~{tree}/p~{flip}/seed~{seed}/{task}-{head}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("train_head"),
    params:
        *code_version("train_head"),
        flags=literal(dag.flags("train_head")),
        checkpoint=lambda wildcards, output: f"{output.head[:-12]}.checkpoint",
    message:
        "Train the {wildcards.head} head of {wildcards.task} at p = {wildcards.flip},"
        " seed {wildcards.seed}"
    shell:
        "python -m mispair train-head --trees {input.trees:q} --flip {wildcards.flip:q}"
        " --task {wildcards.task:q} --arm {wildcards.head:q} --seed {wildcards.seed:q}"
        " --encoders {input.encoders:q} --checkpoint {params.checkpoint:q} --head {output.head:q}"
        " {params.flags} > {log:q} 2>&1"


rule measure_transfer:
    input:
        trees=sufficiency.TREES,
        encoders=dag.sufficiency.encoders_of_heads,
        heads=dag.sufficiency.heads_of,
    output:
        transfer=sufficiency.TRANSFER,
    log:
        "logs/measure_transfer/{size}/tree~{tree}/p~{flip}/seed~{seed}.log",
    benchmark:
        "benchmarks/measure_transfer/{size}/tree~{tree}/p~{flip}/seed~{seed}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("measure_transfer"),
    params:
        *code_version("measure_transfer"),
        flags=literal(dag.flags("measure_transfer")),
    message:
        "Measure the heads at p = {wildcards.flip}, seed {wildcards.seed}"
    shell:
        "python -m mispair measure-transfer --trees {input.trees:q} --flip {wildcards.flip:q}"
        " --seed {wildcards.seed:q} --encoders {input.encoders:q} --heads {input.heads:q}"
        " --transfer {output.transfer:q} {params.flags} > {log:q} 2>&1"


# All results of the study, without the report.
rule sufficiency:
    input:
        alone(lambda wildcards: dag.results("sufficiency")),
