# Zero-shot evaluation: sets are encoded once, every arm after that is a matrix product.


rule make_evaluation_set:
    output:
        GENERATED_SET_FILES,
    log:
        "logs/make_evaluation_set/{evaluation_set}.log",
    benchmark:
        "benchmarks/make_evaluation_set/{evaluation_set}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("make_evaluation_set"),
        flags=dag.flags("make_evaluation_set"),
    message:
        "Write the evaluation set {wildcards.evaluation_set}"
    shell:
        "python -m mispair make-evaluation-set --name {wildcards.evaluation_set}"
        " --evaluation-set results/scenes/evaluation/{wildcards.evaluation_set} {params.flags} > {log} 2>&1"


rule encode_evaluation:
    input:
        evaluation_set=dag.evaluation_files,
        towers=dag.tower_files,
    output:
        evaluation_features="results/evaluation/{towers}/{evaluation_set}.safetensors",
    log:
        "logs/encode_evaluation/{towers}/{evaluation_set}.log",
    benchmark:
        "benchmarks/encode_evaluation/{towers}/{evaluation_set}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("encode_evaluation"),
    params:
        *code_version("encode_evaluation"),
        flags=dag.flags("encode_evaluation"),
    message:
        "Encode images and prompts of {wildcards.evaluation_set}"
    shell:
        "python -m mispair encode-evaluation --evaluation-set {input.evaluation_set:q}"
        " --towers {input.towers:q} --evaluation-features {output.evaluation_features}"
        " {params.flags} > {log} 2>&1"


rule evaluate_zeroshot:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        evaluation_features=dag.evaluation_features(),
    output:
        zeroshot="results/arms/{corpus}/{towers}/{arm}/zeroshot.json",
    log:
        "logs/evaluate_zeroshot/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/evaluate_zeroshot/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("evaluate_zeroshot"),
        flags=dag.flags("evaluate_zeroshot"),
    message:
        "Evaluate {wildcards.arm} zero-shot on every evaluation set"
    shell:
        "python -m mispair evaluate-zeroshot --projection {input.projection}"
        " --evaluation-features {input.evaluation_features:q} --zeroshot {output.zeroshot}"
        " {params.flags} > {log} 2>&1"
